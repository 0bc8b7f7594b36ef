"""Attempts that race: the next one begins when one fails or takes long, and the first that succeeds wins."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from gandy.errors import GandyError

T = TypeVar("T")


class AllFailed(Exception):
    """No attempt succeeded. `errors` has the reason of each, in the order in which they failed."""

    def __init__(self, errors: list[GandyError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


async def race(attempts: Iterable[Callable[[], Awaitable[T]]], pause: float | None, drop: Callable[[T], None]) -> T:
    """Return what the first attempt that succeeds returns. The others are cancelled, or dropped if they succeed too.

    The next attempt begins as soon as one fails, or after `pause` seconds. Raises: AllFailed; errors that are bugs.
    """
    left, errors = iter(attempts), list[GandyError]()
    running: list[asyncio.Future[T]] = []
    try:
        while True:
            attempt = next(left, None)
            if attempt is not None:
                running.append(asyncio.ensure_future(attempt()))
            elif not running:
                raise AllFailed(errors)
            seconds = None if attempt is None else pause
            await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for each in [each for each in running if each.done()]:
                running.remove(each)
                error = each.exception()
                if error is None:
                    return each.result()
                if not isinstance(error, GandyError):
                    raise error
                errors.append(error)
    finally:
        for each in running:
            each.add_done_callback(partial(_on_late, drop))
            each.cancel()


def _on_late(drop: Callable[[T], None], attempt: "asyncio.Future[T]") -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        drop(attempt.result())
