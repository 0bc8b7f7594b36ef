"""Waits for many futures: `gather` for their values, `as_completed` as they come, `wait` for all or the first of them.

The futures may be of different clients, and of any executor. On asyncio, use what that has.
"""

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Future
from concurrent.futures import wait as wait_plainly
from queue import Empty, SimpleQueue
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from gandy.client.checks import Duration, to_seconds
from gandy.clocks import read_monotonic
from gandy.errors import ConfigError

T = TypeVar("T")

When = Literal["ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION"]


class Waited(NamedTuple):
    """Futures that have ended, and those that have not."""

    done: set[Future[Any]]
    not_done: set[Future[Any]]


@overload
def gather(futures: Future[T], /, *, timeout: Duration | None = None) -> T: ...
@overload
def gather(futures: list[Future[T]], /, *, timeout: Duration | None = None) -> list[T]: ...
@overload
def gather(futures: Any, /, *more: Any, timeout: Duration | None = None) -> Any: ...
def gather(futures: Any, /, *more: Any, timeout: Duration | None = None) -> Any:
    """Wait for futures, and return their values in their places: in lists, tuples, sets and dicts, also within others.

    What is not a future stays as it is. With several arguments, a list is returned. If a function fails or is
    cancelled, its error is raised at once; the others go on. Raises: TimeoutError, ConfigError.
    """
    everything = [futures, *more] if more else futures
    found = list(_list_futures(everything))
    done, left = wait_plainly(found, to_seconds("timeout", timeout), FIRST_EXCEPTION)
    for future in found:
        if future in done:
            future.result()  # the first error, in their order
    if left:
        raise TimeoutError(f"{len(left)} of {len(set(found))} futures have not ended")
    return _replace(everything)


def wait(futures: Any, timeout: Duration | None = None, return_when: When = ALL_COMPLETED) -> Waited:
    """Wait for futures, in whatever collections they are. Raises: ConfigError, ValueError."""
    done, left = wait_plainly(_list_futures(futures), to_seconds("timeout", timeout), return_when)
    return Waited(done, left)


def as_completed(
    futures: Iterable[Future[T]] = (), *, with_results: bool = False, timeout: Duration | None = None
) -> "AsCompleted[T]":
    """Iterate over futures as they end; more may be added meanwhile. With `with_results`, over pairs with their values.

    Raises: TimeoutError, so long after this call; ConfigError.
    """
    return AsCompleted(futures, with_results, to_seconds("timeout", timeout))


class AsCompleted(Iterator[Any], Generic[T]):
    """Iterates over futures as they end, and ends when all have. A future that was added twice comes twice."""

    def __init__(self, futures: Iterable[Future[T]], with_results: bool, seconds: float | None) -> None:
        self._ended: SimpleQueue[Future[T]] = SimpleQueue()
        self._count = 0  # futures that have not been returned
        self._with_results = with_results
        self._deadline = None if seconds is None else read_monotonic() + seconds
        self.update(futures)

    def __len__(self) -> int:
        """How many are still to come."""
        return self._count

    def add(self, future: Future[T]) -> None:
        """Wait for one more. Raises: ConfigError."""
        _check(future)
        self._count += 1
        future.add_done_callback(self._ended.put)

    def update(self, futures: Iterable[Future[T]]) -> None:
        """Wait for more. Raises: ConfigError."""
        for future in futures:
            self.add(future)

    def __next__(self) -> Any:
        """Raises: TimeoutError; with results, what the function raised."""
        if not self._count:
            raise StopIteration
        left = None if self._deadline is None else max(0.0, self._deadline - read_monotonic())
        try:
            future = self._ended.get(timeout=left)
        except Empty:
            raise TimeoutError(f"{self._count} futures have not ended") from None
        self._count -= 1
        return (future, future.result()) if self._with_results else future


def _list_futures(value: Any) -> Iterator[Future[Any]]:
    if isinstance(value, Future | asyncio.Future):
        yield _check(value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _list_futures(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _list_futures(each)


def _check(value: Any) -> Future[Any]:
    if isinstance(value, asyncio.Future):
        raise ConfigError("this future is one of asyncio: use asyncio.gather, asyncio.as_completed or asyncio.wait")
    if not isinstance(value, Future):
        raise ConfigError(f"{value!r:.100} is not a future")
    return value


def _replace(value: Any) -> Any:
    """The same with values in place of futures."""
    if isinstance(value, Future):
        return value.result()
    if isinstance(value, dict):
        return {key: _replace(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_replace, value))
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(map(_replace, value))
    return value
