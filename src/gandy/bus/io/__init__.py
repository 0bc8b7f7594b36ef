"""Runs a member of an ensemble: its sockets, its thread and its encryption."""
