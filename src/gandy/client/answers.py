"""The requests of one link that wait for answers. Passes each answer to the request with the same number.

It sends nothing and does not look into requests.
"""

import asyncio
from collections import deque

from gandy.client.conversation import make_error
from gandy.core.requests import Answer, RequestFailure
from gandy.errors import GandyError


class AnswerFeed:
    """The answer to one request and the events that follow it: all of them in order, or only the latest."""

    def __init__(self, latest_only: bool = False) -> None:
        self._answers: deque[Answer] = deque(maxlen=1 if latest_only else None)
        self._error: GandyError | None = None
        self._wake = asyncio.Event()

    def put(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._wake.set()

    def fail(self, error: GandyError) -> None:
        self._error = error
        self._wake.set()

    async def take(self) -> Answer:
        """Return the next answer.

        Raises: the error that was passed to `fail`, after all answers before it.
        """
        while not self._answers:
            if self._error is not None:
                raise self._error
            self._wake.clear()
            await self._wake.wait()
        return self._answers.popleft()


class OpenRequests:
    """The requests of one link, by number."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._futures: dict[int, asyncio.Future[Answer]] = {}
        self._feeds: dict[int, AnswerFeed] = {}

    def add(self, number: int) -> "asyncio.Future[Answer]":
        """Add a request with one answer."""
        future = self._futures[number] = self._loop.create_future()
        return future

    def follow(self, number: int, latest_only: bool) -> AnswerFeed:
        """Add a request whose answer is followed by events."""
        feed = self._feeds[number] = AnswerFeed(latest_only)
        return feed

    def unfollow(self, feed: AnswerFeed) -> None:
        """Drop all later events of this request."""
        self._feeds = {number: other for number, other in self._feeds.items() if other is not feed}

    def on_reply(self, number: int, answer: Answer) -> None:
        future = self._futures.pop(number, None)
        if future is None:
            self.on_event(number, answer)
        elif future.done():
            return
        elif isinstance(answer, RequestFailure):
            future.set_exception(make_error(answer))
        else:
            future.set_result(answer)

    def on_event(self, number: int, answer: Answer) -> None:
        feed = self._feeds.get(number)
        if feed is None:
            return
        if isinstance(answer, RequestFailure):
            feed.fail(make_error(answer))
        else:
            feed.put(answer)

    def fail(self, error: GandyError) -> None:
        """The link is closed: no more answers will come."""
        for future in self._futures.values():
            if not future.done():
                future.set_exception(error)
        for feed in self._feeds.values():
            feed.fail(error)
