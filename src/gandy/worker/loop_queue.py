"""Functions that threads queue to run on the loop. Several that are queued together wake the loop once."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger("gandy.worker")


class LoopQueue:
    """Belongs to the current loop. `on_emptied` is called after each batch."""

    def __init__(self, on_emptied: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_emptied = on_emptied
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_woken = False

    def put(self, act: Callable[..., None], *args: Any) -> None:
        """Run `act` on the loop soon. Any thread may call this."""
        self._waiting.append(lambda: act(*args))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._run_all)
            except RuntimeError:  # the loop is closed: the worker has stopped
                self._waiting.clear()

    def _run_all(self) -> None:
        self._is_woken = False  # before the first function runs: a later `put` must wake the loop again
        while self._waiting:
            try:
                self._waiting.popleft()()
            except Exception:  # a function that fails must not stop the others
                log.exception("a call could not be ended: this is a bug in gandy")
        self._on_emptied()
