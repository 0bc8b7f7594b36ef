"""Ports for servers of tests."""

import socket


def find_port() -> int:
    """One that no program uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
