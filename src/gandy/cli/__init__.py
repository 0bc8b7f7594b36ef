"""The command `gandy`: arguments in, text out. All else is in the bands below."""
