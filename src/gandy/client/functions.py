"""Python functions on the crew: calls become futures. It pickles and opens, and leaves the sending to `stream`."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError, as_completed
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Final, Unpack

from gandy.client.aio import AsyncClient
from gandy.client.options import FunctionOptions
from gandy.client.results import make_error
from gandy.client.stream import CallStream
from gandy.core.model import JobSpec, PythonSpec, TaskState
from gandy.core.requests import ResultRow
from gandy.errors import ConfigError, GandyError
from gandy.functions import open_result, pack_call, pack_function, pack_items
from gandy.functions.calls import name_function
from gandy.ids import JobId

PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"  # the tag of workers that fit
MAX_CALL_BYTES: Final = 262_144  # of one pickled call; the foreman takes no more


class CallFuture(Future[Any]):
    """The value of a call that runs elsewhere. `cancel` reaches the call as long as it has not begun."""

    def __init__(self, stream: CallStream, call: bytes) -> None:
        super().__init__()
        self._stream = stream
        self._number = stream.add(call, self)

    @property
    def job(self) -> JobId:
        """The job that the call is a task of, once the foreman has it. Raises: GandyError."""
        return self._stream.job.result()

    def cancel(self) -> bool:
        was_cancelled = self.cancelled()
        if not super().cancel():
            return False
        if not was_cancelled:
            self._stream.cancel(self._number)
        return True

    # What the stream tells

    def on_start(self) -> None:
        with suppress(InvalidStateError, RuntimeError):  # a second attempt, or nobody wants it any more
            if not self.running():
                self.set_running_or_notify_cancel()

    def on_end(self, row: ResultRow) -> None:
        with suppress(InvalidStateError):  # cancelled just now
            if row.state is TaskState.FINISHED:
                self._open(row.result)
            elif row.state is TaskState.CANCELLED:
                self.set_exception(CancelledError())
            else:
                self.set_exception(make_error(row))

    def on_failure(self, error: GandyError) -> None:
        with suppress(InvalidStateError):
            self.set_exception(error)

    def _open(self, result: bytes) -> None:
        try:
            value = open_result(result)
        except Exception as error:  # noqa: BLE001 - opening runs what the value wants to run
            self.set_exception(error)
        else:
            self.set_result(value)


class Functions:
    """Calls with the same options. Any thread may use it; the loop must run in another one, or be awaited on."""

    def __init__(
        self, client: AsyncClient, loop: asyncio.AbstractEventLoop, **options: Unpack[FunctionOptions]
    ) -> None:
        self._client = client
        self._loop = loop
        self._options = options
        self._lock = Lock()
        self._single: CallStream | None = None  # calls that are queued one by one
        self._streams: list[CallStream] = []
        self._is_closed = False

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CallFuture:
        """Call it somewhere. Raises: NotPicklable, ConfigError, RuntimeError after `close`."""
        call = _check_size(pack_call(function, args, kwargs))
        with self._lock:
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._single is None:
                self._single = self._open("functions")
        return CallFuture(self._single, call)

    def map(
        self,
        function: Callable[..., Any],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        timeout: float | None = None,
    ) -> Iterator[Any]:
        """The values for all items, in order or as they come. All calls are queued now, `chunksize` items to a task.

        Whoever stops half way, or sees an error, cancels the rest. Raises: TimeoutError, and what the function raises.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        futures = self.run_chunks(function, *iterables, chunksize=chunksize)
        return _iterate(futures, deadline) if ordered else _iterate_as_they_come(futures, timeout)

    def run_chunks(
        self, function: Callable[..., Any], *iterables: Iterable[Any], chunksize: int = 1
    ) -> list[CallFuture]:
        """Each future gives the list of values of a chunk."""
        return self.run_items(function, zip(*iterables, strict=False), chunksize)

    def run_items(
        self, function: Callable[..., Any], items: Iterable[tuple[Any, ...]], chunksize: int = 1
    ) -> list[CallFuture]:
        """The same, with all arguments of a call in one tuple."""
        if chunksize < 1:
            raise ValueError("chunksize must be at least 1")
        shared = pack_function(function)
        with self._lock:
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            stream = self._open(name_function(function), shared)
        left = iter(items)
        chunks = iter(lambda: list(islice(left, chunksize)), [])
        try:
            return [CallFuture(stream, _check_size(pack_items(chunk))) for chunk in chunks]
        finally:
            stream.close()

    def close(self, cancel: bool = False) -> None:
        """Take no more calls; those that wait are cancelled if so wanted, the others go on."""
        with self._lock:
            self._is_closed = True
            streams = list(self._streams)
        for stream in streams:
            if cancel:
                stream.cancel_waiting()
            stream.close()

    async def wait_sent(self) -> None:
        for stream in self._streams:
            await stream.wait_sent()

    async def wait_closed(self) -> None:
        for stream in self._streams:
            await stream.wait_closed()

    async def end(self, patience: float) -> None:
        """Take no more calls, see that the foreman has those that were queued, and forget them here."""
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.wait_sent()
        for stream in self._streams:
            stream.abort()

    def _open(self, label: str, shared: bytes = b"") -> CallStream:
        stream = CallStream(self._client, self._loop, make_spec(label, shared, **self._options))
        self._streams = [known for known in self._streams if not known.is_over] + [stream]
        return stream


class AsyncFunctions:
    """Calls with the same options, for programs that run on asyncio."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Call it somewhere. Raises: NotPicklable, ConfigError, RuntimeError after `close`."""
        return asyncio.wrap_future(self._functions.run(function, *args, **kwargs))

    async def map(
        self, function: Callable[..., Any], *iterables: Iterable[Any], chunksize: int = 1, ordered: bool = True
    ) -> AsyncGenerator[Any, None]:
        """The values for all items, in order or as they come. Whoever stops half way cancels the rest."""
        chunks = self._functions.run_chunks(function, *iterables, chunksize=chunksize)
        futures = [asyncio.wrap_future(chunk) for chunk in chunks]
        try:
            for future in futures if ordered else asyncio.as_completed(futures):
                for value in await future:
                    yield value
        finally:
            for future in futures:
                future.cancel()

    def close(self, cancel: bool = False) -> None:
        """Take no more calls; those that wait are cancelled if so wanted, the others go on."""
        self._functions.close(cancel)

    async def wait_closed(self) -> None:
        """Until all calls have ended."""
        await self._functions.wait_closed()


def make_spec(label: str, shared: bytes, **options: Unpack[FunctionOptions]) -> JobSpec:
    """Raises: ConfigError."""
    timeout = options.get("timeout")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"a timeout of {timeout} seconds leaves no time for anything")
    return JobSpec(
        command=("python", label),
        name=options.get("name", ""),
        tasks=0,
        has_lines=True,
        is_open=True,
        cwd=str(Path(options.get("cwd") or ".").absolute()),
        env={**_tell_path(), **options.get("env", {})},
        retries=options.get("retries", 0),
        timeout=timeout,
        priority=options.get("priority", 0),
        slots=options.get("slots", 1),
        tags=(*options.get("tags", ()), PYTHON),
        limit=options.get("limit"),
        python=PythonSpec(shared=shared, fresh=options.get("fresh", False)),
    )


def _tell_path() -> dict[str, str]:
    """Where this program finds modules beside its own: a worker on this machine finds them there too."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return {"GANDY_PATH": os.path.dirname(os.path.abspath(main))} if main else {}  # noqa: PTH100, PTH120


def _check_size(call: bytes) -> bytes:
    if len(call) > MAX_CALL_BYTES:
        raise ConfigError(
            f"the pickled call has {len(call):,} bytes, and {MAX_CALL_BYTES:,} is the limit for now: pass a file's name"
        )
    return call


def _iterate(futures: list[CallFuture], deadline: float | None) -> Iterator[Any]:
    futures.reverse()
    try:
        while futures:
            left = None if deadline is None else deadline - time.monotonic()
            yield from futures.pop().result(left)
    finally:
        for future in futures:
            future.cancel()


def _iterate_as_they_come(futures: list[CallFuture], timeout: float | None) -> Iterator[Any]:
    try:
        for future in as_completed(futures, timeout):
            yield from future.result()
    finally:
        for future in futures:
            future.cancel()
