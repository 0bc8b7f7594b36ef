"""Runs a member of an ensemble: sockets, threads, encryption."""
