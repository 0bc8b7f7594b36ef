"""Conversations without I/O: what each side may send in which state, and what follows from what it receives."""
