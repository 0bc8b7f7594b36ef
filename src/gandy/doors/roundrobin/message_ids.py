"""Ids of messages of the round-robin queue: one counter for those of 4 bytes, one for those of 8."""

from itertools import count
from typing import Final

LAST_NUMBER: Final = 1_000_000_000  # of the original's counter; then it begins again


class MessageIds:
    """All connections of a process may share one."""

    def __init__(self, first: int = 0) -> None:
        """`first`: of a server, a random number. A late response must not answer a request of the next server."""
        self._short = count(first)
        self._long = count(first)

    def take_short(self) -> bytes:
        return (next(self._short) % LAST_NUMBER).to_bytes(4, "little")

    def take_long(self) -> bytes:
        """For PINGs, those that run the command `ping` too."""
        return (next(self._long) % LAST_NUMBER).to_bytes(8, "little")
