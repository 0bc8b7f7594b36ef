"""Calls of Python functions for programs that run on asyncio: what `run` gives is a future and a coroutine."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import nullcontext
from typing import Any, TypeVar

from gandy.client.functions import Functions, open_value
from gandy.client.progress import showing
from gandy.client.results import make_error
from gandy.client.stream import CallStream
from gandy.core.model import TaskState
from gandy.core.requests import ResultRow
from gandy.errors import GandyError
from gandy.functions.tasks import name_function
from gandy.ids import JobId

T = TypeVar("T")


class AsyncCall(asyncio.Future[T], Coroutine[Any, Any, T]):
    """A call that is queued already. Cancelling it, or the task that awaits it, ends the call, also one that runs."""

    def __init__(self, stream: CallStream, call: bytes, size: int = 1) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.size = size  # items of a map in it
        self.number = 0
        self._stream = stream
        self._steps: Generator[Any, None, T] | None = None  # for a task that takes it for a coroutine
        stream.add(call, self)

    async def find_job(self) -> JobId:
        """The job that the call is a task of, once the foreman has it. Raises: GandyError."""
        return await asyncio.shield(asyncio.wrap_future(self._stream.job))

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self._stream.cancel(self.number)
        return True

    # What the stream tells

    def on_start(self) -> None:
        pass

    def on_end(self, row: ResultRow) -> None:
        if self.done():
            return
        if row.state is TaskState.FINISHED:
            value, error = open_value(row.result)
            if error is None:
                self.set_result(value)
            else:
                self._set_error(error)
        elif row.state is TaskState.CANCELLED:
            super().cancel(f"task {row.task} was cancelled")
        else:
            self._set_error(make_error(row))

    def on_failure(self, error: GandyError) -> None:
        if not self.done():
            self.set_exception(error)
            self.exception()  # asyncio does not complain about calls that nobody awaits when a client is closed

    def _set_error(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):  # which no future can raise
            raised = RuntimeError(f"the function raised {error!r}")
            raised.__cause__ = error
            error = raised
        self.set_exception(error)

    # What a task does with a coroutine

    def send(self, value: None) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """A task that is cancelled before its first step has awaited nothing, and still ends the call."""
        if isinstance(error[0], asyncio.CancelledError) or error[0] is asyncio.CancelledError:
            self.cancel()
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """No task will run it."""
        self.cancel()


class AsyncFunctions:
    """Calls with the same options, for programs that run on asyncio."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> AsyncCall[T]:
        """Call it somewhere. Raises: NotPicklable, ConfigError, RuntimeError after `close`."""
        return self._functions.queue(AsyncCall[T], function, args, kwargs)

    async def map(
        self,
        function: Callable[..., Any],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        progress: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """The values for all items, in order or as they come. A caller that stops half way cancels the rest."""
        items = zip(*iterables, strict=False)
        calls = self._functions.queue_items(AsyncCall[list[Any]], function, items, chunksize)
        try:
            with showing(name_function(function), calls) if progress else nullcontext():
                for call in calls if ordered else asyncio.as_completed(calls):
                    for value in await call:
                        yield value
        finally:
            for call in calls:
                call.cancel()

    def close(self, cancel: bool = False) -> None:
        """Take no more calls; those that wait are cancelled if so wanted, the others go on."""
        self._functions.close(cancel)

    async def wait_closed(self) -> None:
        """Until all calls have ended."""
        await self._functions.wait_closed()
