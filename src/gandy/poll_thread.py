"""A thread that polls sockets and that other threads can wake.

It owns the thread, the socket pair that wakes it, and the shutdown. Its user owns the poller: it registers the
`PollThread` there for reading, and calls `clear` when it becomes readable.
"""

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread, current_thread
from typing import Final

log = logging.getLogger("gandy")

BUG_PAUSE: Final = 0.1  # seconds; an error that repeats at once must not fill the disk with tracebacks


class PollThread:
    """Calls `turn` again and again until it is stopped, then `end` once."""

    def __init__(self, name: str, turn: Callable[[], None], end: Callable[[], None]) -> None:
        self.is_stopping = False
        self._turn = turn
        self._end = end
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._is_woken = False
        self._thread = Thread(target=self._run, name=name, daemon=True)

    @property
    def is_current(self) -> bool:
        """True in the thread itself."""
        return self._thread is current_thread()

    def fileno(self) -> int:
        """Readable after `wake`."""
        return self._reading.fileno()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            with suppress(OSError):  # the thread has ended
                self._writing.send(b"!")

    def clear(self) -> None:
        """Call this before looking for work: between the two, a `wake` would send nothing and be missed."""
        with suppress(BlockingIOError):
            self._reading.recv(4096)
        self._is_woken = False

    def stop(self, timeout: float | None = None) -> None:
        """End the thread, and wait for it unless this is the thread itself. If it never started, call `end` here."""
        self.is_stopping = True
        self.wake()
        if self._thread.ident is None:
            self._finish()
        elif not self.is_current:
            self._thread.join(timeout)

    def close(self) -> None:
        """Close the sockets. Only if the thread does not exist: it never started, or this is the child of a fork."""
        self._reading.close()
        self._writing.close()

    def _run(self) -> None:
        try:
            while not self.is_stopping:
                try:
                    self._turn()
                except Exception:  # a single message must not end the thread
                    log.exception("%s has a bug and continues", self._thread.name)
                    time.sleep(BUG_PAUSE)
        finally:
            self._finish()

    def _finish(self) -> None:
        try:
            self._end()
        finally:
            self.close()
