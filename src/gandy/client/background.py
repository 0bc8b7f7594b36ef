"""An event loop in a background thread, and asynchronous verbs wrapped for programs without asyncio."""

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
        except asyncio.CancelledError as error:  # made of the other one on the way here, and no Exception
            raise CancelledError(*error.args) from None
        except BaseException:
            future.cancel()  # Ctrl-C here must end the work there
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
        """Item by item. A switch of threads costs more than a row, so the next page is fetched while one is used."""
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
                # A daemon: a program that forgets to close its client can still end.
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
    """An object with asynchronous verbs, wrapped for programs without asyncio, and the loop that they run on."""

    _wrapped: A
    _loop: BackgroundLoop


class ClosableIterator(Protocol[T_co]):
    """An asynchronous generator, or a stream of calls."""

    def __aiter__(self) -> AsyncIterator[T_co]: ...

    def aclose(self) -> Awaitable[Any]: ...


def waiting(verb: Callable[Concatenate[A, P], Awaitable[T]]) -> Callable[Concatenate[Blocking[A], P], T]:
    """The verb for programs without asyncio: it returns what awaiting the other one gives."""

    @wraps(verb)
    def run(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def start() -> T:
            return await verb(self._wrapped, *args, **kwargs)

        return self._loop.run(start())

    return run


def iterating(
    verb: Callable[Concatenate[A, P], ClosableIterator[T]],
) -> Callable[Concatenate[Blocking[A], P], Iterator[T]]:
    """The same for a verb with many values. Stopping early closes the other one."""

    @wraps(verb)
    def run(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        async def start() -> AsyncGenerator[T, None]:
            async with aclosing(verb(self._wrapped, *args, **kwargs)) as values:
                async for value in values:
                    yield value

        return self._loop.iterate(start())

    return returning(run, "Iterator")


def paging(
    pages: Callable[Concatenate[A, P], AsyncGenerator[Sequence[T], None]], verb: Callable[..., Any]
) -> Callable[Concatenate[Blocking[A], P], Iterator[T]]:
    """The same for a verb whose values come in pages: a switch of threads costs more than a value."""

    @wraps(verb)
    def run(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._loop.iterate_pages(pages(self._wrapped, *args, **kwargs))

    return returning(run, "Iterator")


def returning(run: Callable[P, T], name: str) -> Callable[P, T]:
    """What `help` shows must not be the type that the other verb returns."""
    run.__signature__ = signature(run).replace(return_annotation=name)  # type: ignore[attr-defined]
    return run
