"""A crew as a `concurrent.futures.Executor`: what runs on a process pool runs here, with one changed line."""

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar, Unpack

from gandy.client.blocking import Client
from gandy.client.options import FunctionOptions

T = TypeVar("T")


class Executor(concurrent.futures.Executor):
    """Runs functions on the crew of a foreman: at `foreman`, else at GANDY_FOREMAN, else on this machine.

    The options hold for every call: `retries`, `timeout`, `slots`, `tags`, `priority`, `name`, `fresh`, `limit`.
    """

    def __init__(self, foreman: str | None = None, **options: Unpack[FunctionOptions]) -> None:
        self._client = Client(foreman)
        self._functions = self._client.functions(**options)
        self._is_shut = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call `fn` on some worker. Raises: NotPicklable, RuntimeError after `shutdown`."""
        return self._functions.run(fn, *args, **kwargs)

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """The values of `fn` for all items, in order. All calls are queued now, `chunksize` items to a task."""
        return self._functions.map(fn, *iterables, chunksize=chunksize, timeout=timeout)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. Those that are queued go on, unless they are cancelled, and are waited for or not."""
        self._functions.close(cancel=cancel_futures)
        if self._is_shut:
            return
        self._is_shut = True
        if wait:
            self._client.wait_functions(self._functions)
            self._client.close()
