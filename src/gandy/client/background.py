"""An event loop in a background thread, and wrappers that make asynchronous methods block."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import aclosing
from functools import wraps
from inspect import signature
from threading import Lock, Thread
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class BackgroundLoop:
    """An event loop in a thread of its own, from its first use until `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._starting = Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self.get_loop())
        try:
            return future.result()
        except asyncio.CancelledError as error:  # not an Exception, unlike the class that users of threads expect
            raise CancelledError(*error.args) from None
        except BaseException:
            future.cancel()  # Ctrl-C in this thread must end the work on the loop
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        try:
            while (item := self.run(_step(items))) is not _END:
                yield cast("T", item)
        except GeneratorExit:  # the caller stopped half way
            if self._loop is not None:
                self.run(items.aclose())
            raise

    def iterate_pages(self, pages: AsyncGenerator[Sequence[T], None]) -> Iterator[T]:
        """Iterate item by item. Switching threads costs more than a row, so the next page is fetched in advance."""
        for page in self.iterate(_read_ahead(pages)):
            yield from page

    def close(self) -> None:
        if self._loop is None or self._thread is None:
            return
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon, so that a program that forgets to close its client can end.
                self._thread = Thread(target=self._loop.run_forever, name="gandy-client", daemon=True)
                self._thread.start()
            return self._loop


_END: Final = object()


async def _step(items: AsyncGenerator[T, None]) -> object:
    return await anext(items, _END)


async def _read_ahead(pages: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    coming = asyncio.ensure_future(_step(pages))
    try:
        while (page := await coming) is not _END:
            coming = asyncio.ensure_future(_step(pages))
            yield cast("T", page)
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await pages.aclose()


class Blocking(Protocol[A]):
    """A blocking wrapper around an object with asynchronous methods, and the loop that they run on."""

    _wrapped: A
    _loop: BackgroundLoop


class ClosableIterator(Protocol[T_co]):
    """An asynchronous generator, or the stream of a call."""

    def __aiter__(self) -> AsyncIterator[T_co]: ...

    def aclose(self) -> Awaitable[Any]: ...


def waiting(method: Callable[Concatenate[A, P], Awaitable[T]]) -> Callable[Concatenate[Blocking[A], P], T]:
    """Wrap an asynchronous method: the new one blocks, and returns the same value."""

    @wraps(method)
    def run(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def start() -> T:
            return await method(self._wrapped, *args, **kwargs)

        return self._loop.run(start())

    return run


def iterating(
    method: Callable[Concatenate[A, P], ClosableIterator[T]],
) -> Callable[Concatenate[Blocking[A], P], Iterator[T]]:
    """Wrap a method that returns an asynchronous iterator. Stopping early closes that iterator."""

    @wraps(method)
    def run(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        async def start() -> AsyncGenerator[T, None]:
            async with aclosing(method(self._wrapped, *args, **kwargs)) as values:
                async for value in values:
                    yield value

        return self._loop.iterate(start())

    return returning(run, "Iterator")


def paging(
    pages: Callable[Concatenate[A, P], AsyncGenerator[Sequence[T], None]], method: Callable[..., Any]
) -> Callable[Concatenate[Blocking[A], P], Iterator[T]]:
    """Wrap `method` by way of `pages`, which has its items in pages: switching threads costs more than an item."""

    @wraps(method)
    def run(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._loop.iterate_pages(pages(self._wrapped, *args, **kwargs))

    return returning(run, "Iterator")


def returning(run: Callable[P, T], name: str) -> Callable[P, T]:
    """Set the return type that `help` shows: the wrapped method has another one."""
    run.__signature__ = signature(run).replace(return_annotation=name)  # type: ignore[attr-defined]
    return run
