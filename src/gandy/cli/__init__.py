"""The command `gandy`: arguments in, text out. What there is to know or to do, other bands know and do."""
