"""Calls by coroutines, as an asyncio client makes them: one at a time, or many in flight."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib import import_module
from typing import Any, Final, TypeAlias, TypeVar

from bench.contract import Work

IN_FLIGHT: Final = 1_000
BODY: Final = bytes(64)

C = TypeVar("C")
Ask: TypeAlias = Callable[[], Awaitable[Any]]
Way: TypeAlias = Callable[[Ask, int], Awaitable[int | list[float]]]


async def one_by_one(ask: Ask, count: int) -> list[float]:
    """Returns the seconds of each call."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        await ask()
        times.append(time.perf_counter() - begin)
    return times


async def many_in_flight(ask: Ask, count: int) -> int:
    """IN_FLIGHT callers, each of which sends its next call as soon as the last is answered."""
    callers = min(count, IN_FLIGHT)

    async def call() -> None:
        for _ in range(count // callers):
            await ask()

    await asyncio.gather(*(call() for _ in range(callers)))
    return count // callers * callers


@contextmanager
def asking(
    connected: AbstractAsyncContextManager[C], way: Callable[[C, int], Awaitable[int | list[float]]]
) -> Iterator[Work]:
    """Work on uvloop, by a client that stays connected."""
    with staying_connected(connected) as (runner, link):

        async def work(count: int) -> int | list[float]:
            return await way(link, count)

        yield lambda count: runner.run(work(count))


@contextmanager
def staying_connected(connected: AbstractAsyncContextManager[C]) -> Iterator[tuple[asyncio.Runner, C]]:
    """A client, and the uvloop that it is connected on."""
    with asyncio.Runner(loop_factory=import_module("uvloop").new_event_loop) as runner:
        link = runner.run(_enter(connected))
        try:
            yield runner, link
        finally:
            runner.run(_leave(connected))


async def _enter(connected: AbstractAsyncContextManager[C]) -> C:
    return await connected.__aenter__()


async def _leave(connected: AbstractAsyncContextManager[C]) -> None:
    await connected.__aexit__(None, None, None)
