"""The types of `run` and `map` for type checkers, which find wrong arguments of the function. It runs nothing.

A coroutine function counts as one that returns what its coroutine does. A map of more than three iterables takes any.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast, overload

from gandy.client.checks import Duration

if TYPE_CHECKING:
    from gandy.client.aio_functions import AsyncFunctionFuture
    from gandy.client.futures import FunctionFuture

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")
M_co = TypeVar("M_co", covariant=True)


class Method(Protocol[M_co]):
    """A method that has the type `M_co` once it is bound to an object."""

    def __get__(self, instance: object, owner: type | None = None) -> M_co: ...


class Run(Protocol):
    """Of `Client` and what its `functions` returns."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> "FunctionFuture[T]": ...
    @overload
    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "FunctionFuture[T]": ...


class AsyncRun(Protocol):
    """Of `AsyncClient` and what its `functions` returns."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> "AsyncFunctionFuture[T]": ...
    @overload
    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "AsyncFunctionFuture[T]": ...


class AsyncMapOptions(TypedDict, total=False):
    chunksize: int
    ordered: bool
    progress: bool


class MapOptions(AsyncMapOptions, total=False):
    timeout: Duration | None


class Map(Protocol):
    """Of `Client` and what its `functions` returns."""

    @overload
    def __call__(
        self, function: Callable[[A], Coroutine[Any, Any, T]], a: Iterable[A], /, **options: Unpack[MapOptions]
    ) -> Iterator[T]: ...
    @overload
    def __call__(self, function: Callable[[A], T], a: Iterable[A], /, **options: Unpack[MapOptions]) -> Iterator[T]: ...
    @overload
    def __call__(
        self,
        function: Callable[[A, B], Coroutine[Any, Any, T]],
        a: Iterable[A],
        b: Iterable[B],
        /,
        **options: Unpack[MapOptions],
    ) -> Iterator[T]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B], T], a: Iterable[A], b: Iterable[B], /, **options: Unpack[MapOptions]
    ) -> Iterator[T]: ...
    @overload
    def __call__(
        self,
        function: Callable[[A, B, C], T],
        a: Iterable[A],
        b: Iterable[B],
        c: Iterable[C],
        /,
        **options: Unpack[MapOptions],
    ) -> Iterator[T]: ...
    @overload
    def __call__(
        self,
        function: Callable[..., T],
        a: Iterable[Any],
        b: Iterable[Any],
        c: Iterable[Any],
        d: Iterable[Any],
        /,
        *more: Iterable[Any],
        **options: Unpack[MapOptions],
    ) -> Iterator[T]: ...


class AsyncMap(Protocol):
    """Of `AsyncClient` and what its `functions` returns."""

    @overload
    def __call__(
        self, function: Callable[[A], Coroutine[Any, Any, T]], a: Iterable[A], /, **options: Unpack[AsyncMapOptions]
    ) -> AsyncGenerator[T, None]: ...
    @overload
    def __call__(
        self, function: Callable[[A], T], a: Iterable[A], /, **options: Unpack[AsyncMapOptions]
    ) -> AsyncGenerator[T, None]: ...
    @overload
    def __call__(
        self,
        function: Callable[[A, B], Coroutine[Any, Any, T]],
        a: Iterable[A],
        b: Iterable[B],
        /,
        **options: Unpack[AsyncMapOptions],
    ) -> AsyncGenerator[T, None]: ...
    @overload
    def __call__(
        self, function: Callable[[A, B], T], a: Iterable[A], b: Iterable[B], /, **options: Unpack[AsyncMapOptions]
    ) -> AsyncGenerator[T, None]: ...
    @overload
    def __call__(
        self,
        function: Callable[[A, B, C], T],
        a: Iterable[A],
        b: Iterable[B],
        c: Iterable[C],
        /,
        **options: Unpack[AsyncMapOptions],
    ) -> AsyncGenerator[T, None]: ...
    @overload
    def __call__(
        self,
        function: Callable[..., T],
        a: Iterable[Any],
        b: Iterable[Any],
        c: Iterable[Any],
        d: Iterable[Any],
        /,
        *more: Iterable[Any],
        **options: Unpack[AsyncMapOptions],
    ) -> AsyncGenerator[T, None]: ...


def typed_run(method: Callable[..., "FunctionFuture[Any]"]) -> Method[Run]:
    """Give a method the type `Run`, and leave it as it is."""
    return cast("Method[Run]", method)


def typed_async_run(method: Callable[..., "AsyncFunctionFuture[Any]"]) -> Method[AsyncRun]:
    """Give a method the type `AsyncRun`, and leave it as it is."""
    return cast("Method[AsyncRun]", method)


def typed_map(method: Callable[..., Iterator[Any]]) -> Method[Map]:
    """Give a method the type `Map`, and leave it as it is."""
    return cast("Method[Map]", method)


def typed_async_map(method: Callable[..., AsyncGenerator[Any, None]]) -> Method[AsyncMap]:
    """Give a method the type `AsyncMap`, and leave it as it is."""
    return cast("Method[AsyncMap]", method)
