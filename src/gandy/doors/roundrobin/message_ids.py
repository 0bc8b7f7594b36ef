"""Ids of messages of the round-robin queue: one counter for ids of 4 bytes, one for ids of 8 bytes."""

from itertools import count
from typing import Final

LAST_NUMBER: Final = 1_000_000_000  # at which the original's counter begins again


class MessageIds:
    """Counts ids. All connections of a process may share one counter."""

    def __init__(self, first: int = 0) -> None:
        """`first`: random for a server, so that a late response does not answer a request of the next server."""
        self._short = count(first)
        self._long = count(first)

    def take_short(self) -> bytes:
        return (next(self._short) % LAST_NUMBER).to_bytes(4, "little")

    def take_long(self) -> bytes:
        """For PINGs, including requests for the command `ping`."""
        return (next(self._long) % LAST_NUMBER).to_bytes(8, "little")
