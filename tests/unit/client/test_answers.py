"""Answers reach the requests that they belong to."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gandy.client.answers import AnswerFeed, OpenRequests
from gandy.core.requests import Done, RequestFailure, Submitted
from gandy.errors import JobNotFound, LinkError
from gandy.ids import JobId

FIRST, SECOND = Submitted(JobId(1)), Submitted(JobId(2))


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await test()

    asyncio.run(go())


def test_feed_gives_all_answers_before_its_error() -> None:
    async def test() -> None:
        feed = AnswerFeed()
        for answer in (FIRST, SECOND):
            feed.put(answer)
        feed.fail(LinkError("gone"))
        assert [await feed.take(), await feed.take()] == [FIRST, SECOND]
        with pytest.raises(LinkError):
            await feed.take()

    run(test)


def test_feed_of_the_latest_skips_what_is_out_of_date() -> None:
    async def test() -> None:
        feed = AnswerFeed(latest_only=True)
        taking = asyncio.ensure_future(feed.take())
        await asyncio.sleep(0)
        feed.put(FIRST)
        assert await taking == FIRST
        feed.put(FIRST)
        feed.put(SECOND)
        assert await feed.take() == SECOND

    run(test)


def test_reply_settles_its_request_and_no_other() -> None:
    async def test() -> None:
        requests = OpenRequests()
        one, two = requests.add(1), requests.add(2)
        requests.on_reply(2, RequestFailure("not_found", "no job 7"))
        requests.on_reply(3, Done())  # to a request that was given up
        with pytest.raises(JobNotFound, match="no job 7"):
            await two
        assert not one.done()
        requests.on_reply(1, Done())
        assert await one == Done()

    run(test)


def test_events_come_after_the_reply_until_unfollow() -> None:
    async def test() -> None:
        requests = OpenRequests()
        feed = requests.follow(1, AnswerFeed())
        requests.on_reply(1, FIRST)
        requests.on_event(1, SECOND)
        assert [await feed.take(), await feed.take()] == [FIRST, SECOND]
        requests.unfollow(feed)
        requests.on_event(1, SECOND)
        requests.fail(LinkError("gone"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(feed.take(), 0.01)

    run(test)


def test_break_fails_everything_that_waits() -> None:
    async def test() -> None:
        requests = OpenRequests()
        future, feed = requests.add(1), requests.follow(2, AnswerFeed(latest_only=True))
        requests.fail(LinkError("gone"))
        with pytest.raises(LinkError):
            await future
        with pytest.raises(LinkError):
            await feed.take()

    run(test)


def test_feed_breaks_when_more_comes_than_is_taken() -> None:
    async def test() -> None:
        feed = AnswerFeed(limit=2)
        for answer in (FIRST, FIRST, SECOND, SECOND):
            feed.put(answer)
        with pytest.raises(LinkError, match="more events came"):
            await feed.take()

    run(test)


def test_unfollow_gives_the_number_of_the_request_once() -> None:
    async def test() -> None:
        requests = OpenRequests()
        feed = requests.follow(7, AnswerFeed())
        assert requests.unfollow(feed) == [7]
        assert requests.unfollow(feed) == []

    run(test)
