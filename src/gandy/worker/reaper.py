"""Tells when child processes end, through one descriptor in the loop. Leaves the waiting to its user.

It looks at the children it was given and no others, needs no thread and takes no signal from the host program.
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
        loop.add_reader(self._epoll.fileno(), self._on_ready)

    def watch(self, pid: int, on_exit: Callable[[], None]) -> None:
        """Raises: OSError where no descriptor is left."""
        descriptor = os.pidfd_open(pid)
        # Once and never again: a child that is just being spawned may hold a copy of the descriptor for a moment after
        # we closed it, and without this the epoll would call whoever gets its number next dead.
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)
        self._watched[descriptor] = on_exit

    def close(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        for descriptor in self._watched:
            os.close(descriptor)
        self._watched.clear()

    def _on_ready(self) -> None:
        for descriptor, _events in self._epoll.poll(0):
            on_exit = self._watched.pop(descriptor)
            os.close(descriptor)
            on_exit()
