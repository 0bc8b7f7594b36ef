"""The requests of one link: a bounded number is under way at a time, the rest wait, and all end with the link."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from gandy.core.links import Link
from gandy.core.refusal import name_kind
from gandy.core.requests import Answer, make_failure
from gandy.errors import StoreError
from gandy.foreman.messenger import Messenger
from gandy.limits import MAX_REQUESTS, MAX_WAITING_BYTES, MAX_WAITING_REQUESTS
from gandy.net.links import get_port
from gandy.talk.events import ExtensionReceived


class OpenRequest:
    """A request that has no answer yet. It must get one, and only one."""

    def __init__(self, queue: "RequestQueue", message: ExtensionReceived) -> None:
        self.link = queue.link
        self.message = message
        self.is_unwanted = False  # the client has said that it wants no events for it
        self._queue = queue

    def answer(self, value: Answer) -> None:
        """Answer a client, if it is still there."""
        if self._queue.messenger.send_answer(self.link, self.message.seq, value):
            self._queue.on_answered(self)

    def refuse(self, error: StoreError) -> None:
        self.answer(make_failure(name_kind(error), str(error), error.retryable))

    def send(self, kind: int, payload: bytes) -> None:
        """Answer a worker, by a message of this kind."""
        if self._queue.messenger.send(self.link, kind, payload, self.message.seq):
            self._queue.on_answered(self)


Serve = Callable[[OpenRequest], Coroutine[Any, Any, None]]


class RequestQueue:
    """A request is under way until it is answered, perhaps long after `serve` has ended."""

    def __init__(self, link: Link, messenger: Messenger, serve: Serve) -> None:
        self.link = link
        self.messenger = messenger
        self._serve = serve
        self._under_way: set[OpenRequest] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[ExtensionReceived] = deque()
        self._waiting_bytes = 0
        self._is_paused = False

    def add(self, message: ExtensionReceived) -> None:
        if len(self._under_way) < MAX_REQUESTS:
            self._start(message)
            return
        self._waiting.append(message)
        self._waiting_bytes += len(message.payload)
        if len(self._waiting) >= MAX_WAITING_REQUESTS or self._waiting_bytes >= MAX_WAITING_BYTES:
            self._is_paused = True
            get_port(self.link).pause_reading()

    def on_answered(self, request: OpenRequest) -> None:
        """A request is over: the next one begins."""
        self._under_way.discard(request)
        if self._waiting:
            message = self._waiting.popleft()
            self._waiting_bytes -= len(message.payload)
            self._start(message)
        if self._is_paused and not self._waiting:
            self._is_paused = False
            get_port(self.link).resume_reading()

    def note_unwanted(self, number: int) -> None:
        """The client wants no events for its request with this number, which may have no answer yet."""
        for request in self._under_way:
            if request.message.seq == number:
                request.is_unwanted = True

    def cancel(self) -> None:
        """The link is gone, and no answer is wanted."""
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def _start(self, message: ExtensionReceived) -> None:
        request = OpenRequest(self, message)
        self._under_way.add(request)
        task = asyncio.create_task(self._serve(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
