"""A response that goes on: bytes for one browser, and how many of them it has not read yet."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.clocks import read_monotonic
from gandy.dashboard.limits import MAX_UNSENT_BYTES
from gandy.dashboard.messages import encode_json

HEARTBEAT: Final = b":\n\n"  # a comment, which browsers skip


class Stream:
    """`write` never waits; a writer that makes much at once awaits `wait_for_room` in between."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport: asyncio.Transport | None = transport  # until the browser is gone
        self._room = asyncio.Event()
        self._room.set()
        self.written_at = read_monotonic()
        self.on_room: Callable[[], None] = lambda: None  # the browser has read what it had not

    @property
    def is_full(self) -> bool:
        """True if the browser does not read what it was sent."""
        return self._transport is not None and self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._transport.write(data)
        self.written_at = read_monotonic()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    # What the connection calls

    def close(self) -> None:
        """The browser is gone: uvloop lets no closed transport be touched, and the writer learns it a moment later."""
        self._transport = None
        self._room.set()

    def pause(self) -> None:
        self._room.clear()

    def resume(self) -> None:
        self._room.set()
        self.on_room()


def make_event(name: str, value: object, number: int | None = None) -> bytes:
    """An event with a value as JSON, which has no newlines."""
    head = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (head, name.encode(), encode_json(value))
