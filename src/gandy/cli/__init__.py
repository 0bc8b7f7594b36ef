"""The command `gandy`: arguments in, text out. Everything else is in the bands below."""
