"""The requests of one link: a bounded number is under way at a time, the others wait, and all end with the link."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from gandy.limits import MAX_REQUESTS, MAX_WAITING_BYTES, MAX_WAITING_REQUESTS
from gandy.net.links import SocketLink
from gandy.talk.events import ExtensionReceived

Serve = Callable[[ExtensionReceived], Coroutine[Any, Any, None]]


class RequestQueue:
    """`serve` begins what an answer ends, perhaps long after `serve` itself: say so with `on_answered`."""

    def __init__(self, link: SocketLink, serve: Serve) -> None:
        self._link = link
        self._serve = serve
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[ExtensionReceived] = deque()
        self._waiting_bytes = 0
        self._is_paused = False

    def add(self, request: ExtensionReceived) -> None:
        if self._under_way < MAX_REQUESTS:
            self._start(request)
            return
        self._waiting.append(request)
        self._waiting_bytes += len(request.payload)
        if len(self._waiting) >= MAX_WAITING_REQUESTS or self._waiting_bytes >= MAX_WAITING_BYTES:
            self._is_paused = True
            self._link.pause_reading()

    def on_answered(self) -> None:
        """A request is over: the next one begins."""
        self._under_way -= 1
        if self._waiting:
            request = self._waiting.popleft()
            self._waiting_bytes -= len(request.payload)
            self._start(request)
        if self._is_paused and not self._waiting:
            self._is_paused = False
            self._link.resume_reading()

    def cancel(self) -> None:
        """The link is gone, and no answer is waited for."""
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def _start(self, request: ExtensionReceived) -> None:
        self._under_way += 1
        task = asyncio.create_task(self._serve(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
