"""Threads for commands that are plain functions. They do not keep a program from ending, as those of a pool would."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

Work = tuple[Callable[..., None], tuple[Any, ...]]

END: Final = None  # for one thread


class Threads:
    """At most so many, started when there is work that none of them is free for."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = Lock()
        self._count = 0
        self._busy = 0  # with work, or with some that is queued

    def submit(self, act: Callable[..., None], *args: Any) -> None:
        """It must not raise."""
        with self._lock:
            self._busy += 1
            is_new = self._count < min(self._busy, self._limit)
            self._count += is_new
        self._work.put((act, args))
        if is_new:
            Thread(target=self._run, name="gandy-command", daemon=True).start()

    def close(self) -> None:
        """Let them end when they have nothing to do."""
        for _ in range(self._count):
            self._work.put(END)

    def _run(self) -> None:
        while (work := self._work.get()) is not END:
            act, args = work
            act(*args)
            with self._lock:
                self._busy -= 1
