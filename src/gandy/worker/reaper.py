"""Notices when child processes end, through one descriptor in the loop. It leaves `wait` to its user.

It watches only the children it was given, needs no thread, and handles no signals of the host program.
"""

import asyncio
import os
import select
from collections.abc import Callable


class Reaper:
    """Calls back once for each watched child that has ended and can be waited for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[int, Callable[[], None]] = {}
        # An epoll of our own costs less per child than add_reader, and behaves alike in every loop.
        self._epoll = select.epoll()
        self._spare = -1  # a descriptor that is held for the next child, so that no child runs unwatched
        loop.add_reader(self._epoll.fileno(), self.look)

    def prepare(self) -> None:
        """Make sure that the next child can be watched. Raises: OSError, if no descriptor is left."""
        if self._spare < 0:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def watch(self, pid: int, on_exit: Callable[[], None]) -> None:
        """Raises: OSError."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            self._drop_spare()
            descriptor = os.pidfd_open(pid)
        # One shot: a child that is being spawned may hold a copy of the descriptor for a moment after we close it. With
        # level triggering, the epoll would then report the next child with the same descriptor as dead.
        try:
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)
        except OSError:
            os.close(descriptor)
            raise
        self._watched[descriptor] = on_exit

    def _drop_spare(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        for descriptor in self._watched:
            os.close(descriptor)
        self._watched.clear()
        self._drop_spare()

    def look(self) -> None:
        """Call back for the children that have ended by now."""
        for descriptor, _events in self._epoll.poll(0):
            on_exit = self._watched.pop(descriptor)
            os.close(descriptor)
            on_exit()
