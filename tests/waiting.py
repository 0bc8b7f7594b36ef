"""Waiting for what makes no event: look until it is so."""

import asyncio
import time
from collections.abc import Callable

DEADLINE = 60.0  # seconds; far more than anything takes on a busy machine
PAUSE = 0.01  # seconds between two looks


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(PAUSE)


async def until_async(is_so: Callable[[], bool]) -> None:
    """The same, while the loop goes on."""
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < deadline, "did not come true"
        await asyncio.sleep(PAUSE)
