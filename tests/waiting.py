"""Waiting until a condition holds, in tests of real processes and sockets that send no event for it."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

PATIENCE: Final = 60.0  # seconds; far more than anything takes on a busy machine
PERIOD: Final = 0.01  # seconds between two checks


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never really waits, such as those of a store in memory."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise RuntimeError("this coroutine waits for something")


def until(is_so: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Raises: AssertionError, if it does not become true in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(PERIOD)


async def until_async(is_so: Callable[[], bool], seconds: float = PATIENCE, period: float = PERIOD) -> None:
    """`until`, for tests that share a loop. `period`: 0 to check at every turn of the loop."""
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(period)
