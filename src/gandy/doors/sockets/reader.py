"""Reads a ZeroMQ socket on the running loop.

zmq.asyncio makes futures for each message; this reads hundreds of messages in one turn of the loop.
"""

import asyncio
from collections.abc import Callable

import zmq

Socket = zmq.Socket[bytes]


class SocketReader:
    """Calls `read` as long as there may be something to read. `read` returns True if it left something.

    A socket's FD wakes us once, and again only after everything was read. So call `wake` after each read, and after
    every other use of the socket.
    """

    def __init__(self, socket: Socket, read: Callable[[], bool]) -> None:
        self.is_drained = False  # the last read left nothing
        self._loop = asyncio.get_running_loop()
        self._read = read
        self._is_awake = False
        self._fd = int(socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._on_readable)
        self.wake()

    def wake(self) -> None:
        """Read in the next turn of the loop."""
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._on_turn)

    def close(self) -> None:
        """To be called before the socket is closed."""
        self._loop.remove_reader(self._fd)
        self._fd = -1

    def read_now(self) -> None:
        if self._fd < 0:
            return
        has_more = True  # even if `read` raises: the next message must still be read
        try:
            has_more = self._read()
        finally:
            self.is_drained = not has_more
            if has_more and self._fd >= 0:
                self.wake()

    def _on_readable(self) -> None:
        if not self._is_awake:
            self.read_now()

    def _on_turn(self) -> None:
        self._is_awake = False
        self.read_now()
