"""The requests of one link that wait for answers. Passes each answer to the request with the same number.

It sends nothing and does not look into requests.
"""

import asyncio
from collections import deque

from gandy.client.conversation import make_error
from gandy.core.requests import Answer, RequestFailure
from gandy.errors import GandyError, LinkError


class AnswerFeed:
    """The answer to one request and the events that follow it: all of them in order, or only the latest."""

    def __init__(self, latest_only: bool = False, limit: int | None = None) -> None:
        """`limit`: of events that wait to be taken. With more, the feed breaks."""
        self._limit = limit
        self._answers: deque[Answer] = deque(maxlen=1 if latest_only else None)
        self._error: GandyError | None = None
        self._wake = asyncio.Event()

    def put(self, answer: Answer) -> None:
        if self._error is not None:
            return
        self._answers.append(answer)
        if self._limit is not None and len(self._answers) > self._limit:
            self._answers.clear()
            self.fail(LinkError("more events came than were taken"))
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

    def follow(self, number: int, feed: AnswerFeed) -> AnswerFeed:
        """Add a request whose answer is followed by events."""
        self._feeds[number] = feed
        return feed

    def unfollow(self, feed: AnswerFeed) -> list[int]:
        """Drop all later events of this request. Returns its number, unless the link is closed."""
        numbers = [number for number, other in self._feeds.items() if other is feed]
        for number in numbers:
            del self._feeds[number]
        return numbers

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
