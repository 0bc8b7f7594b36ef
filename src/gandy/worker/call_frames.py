"""Collects the frames of calls for the foreman, and writes them together at the end of the loop's turn."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER

_pack: Final = HEADER.pack


class CallFrames:
    """Drops frames while it is closed. It starts closed: no foreman has agreed to calls yet."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.parts: list[bytes] = []  # public so that the hot path appends without a call; `flush_soon` must follow
        self.is_open = False
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._is_flush_due = False

    def send(self, kind: int, subtype: int, number: int, argument: int = 0, payload: bytes = b"") -> None:
        """Queue a frame. `argument`: the number in its header, such as credit in bytes."""
        if self.is_open:
            self.parts.append(_pack(MAGIC, kind, subtype, number, argument, len(payload)))
            self.parts.append(payload)
            self.flush_soon()

    def flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        self._is_flush_due = False
        if self.parts:
            data = b"".join(self.parts)
            self.parts.clear()
            self._write(data)

    def close(self) -> None:
        self.is_open = False
        self.parts.clear()
