"""Conversations without I/O: what each side may say, in which state, and what follows from what it hears."""
