"""Buffers what a client writes to its link: everything from one turn of the event loop is sent in one write."""

import asyncio
from typing import Final

from gandy.clocks import read_monotonic

# Frames that may wait to be written together. With more, the foreman would be idle meanwhile.
FLUSH_PARTS: Final = 128

POLL_PAUSE: Final = 0.005  # seconds between two checks that everything is written


class WriteBuffer:
    """Bytes for one transport. They wait until `open`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._flush_is_due = False

    def open(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(0)  # write to the socket at once, and not at the end of the turn
        self._transport = transport

    def write_soon(self, data: bytes) -> None:
        """Write together with everything else from this turn of the loop."""
        self._parts.append(data)
        if len(self._parts) >= FLUSH_PARTS:
            self.flush()
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self.flush)

    def write(self, data: bytes) -> None:
        """Write now, after everything that waits."""
        self._parts.append(data)
        self.flush()

    def flush(self) -> None:
        self._flush_is_due = False
        data = b"".join(self._parts)
        self._parts.clear()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def wait_written(self, patience: float) -> None:
        """Wait until the kernel has everything, for at most `patience` seconds: a cast has no answer to wait for."""
        self.flush()
        deadline = read_monotonic() + patience
        while self._transport is not None and not self._transport.is_closing():
            if not self._transport.get_write_buffer_size() or read_monotonic() > deadline:
                return
            await asyncio.sleep(POLL_PAUSE)
