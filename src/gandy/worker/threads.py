"""Threads for commands that are plain functions. Unlike a ThreadPoolExecutor's, they do not keep a program alive."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

Work = tuple[Callable[..., None], tuple[Any, ...]]

END: Final = None  # a thread that takes it from the queue ends


class Threads:
    """At most `limit` threads; each is started when there is work and no thread is free."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = Lock()
        self._count = 0
        self._busy = 0  # functions that run or wait

    def submit(self, act: Callable[..., None], *args: Any) -> None:
        """Call `act` in a thread; it must not raise."""
        with self._lock:
            self._busy += 1
            is_new = self._count < min(self._busy, self._limit)
            self._count += is_new
        self._work.put((act, args))
        if is_new:
            Thread(target=self._run, name="gandy-command", daemon=True).start()

    def close(self) -> None:
        """Let each thread end when it has nothing left to do."""
        for _ in range(self._count):
            self._work.put(END)

    def _run(self) -> None:
        while (work := self._work.get()) is not END:
            act, args = work
            act(*args)
            with self._lock:
                self._busy -= 1
