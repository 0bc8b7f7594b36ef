"""Python functions for programs on asyncio: `run` returns a future that is also a coroutine."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from gandy.client.functions import Functions
from gandy.client.open_job import OpenJob
from gandy.client.results import make_error, open_value
from gandy.client.shown import Shown, list_future_renderings, render_task
from gandy.client.signatures import typed_async_map, typed_async_run
from gandy.core.model import TaskState
from gandy.core.requests import ResultRow
from gandy.errors import GandyError
from gandy.functions.tasks import name_function
from gandy.ids import JobId
from gandy.progress import showing

if TYPE_CHECKING:
    from gandy.client.connection import Connection
    from gandy.notebook.display import Renderings
    from gandy.notebook.rendering import Rendering

P = ParamSpec("P")
T = TypeVar("T")


class AsyncFunctionFuture(Shown, asyncio.Future[T], Coroutine[Any, Any, T]):
    """A function task that is already queued. Cancelling the future, or what awaits it, cancels even a running task."""

    def __init__(self, job: OpenJob, task: bytes, size: int = 1) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.size = size  # items of a map in it
        self.number = 0
        self._job = job
        self._steps: Generator[Any, None, T] | None = None  # for an asyncio.Task, which uses this as a coroutine
        job.queue.add(task, self)

    def _render_now(self) -> "Rendering":
        return render_task(self, self._job.name_task(self.number))

    def _list_renderings(self) -> "Renderings":
        return list_future_renderings(self._render_now)

    def _find_connection(self) -> "Connection":
        return self._job.connection

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        return self.get_loop()

    async def find_job(self) -> JobId:
        """Return the job that the task belongs to, once the foreman has it. Raises: GandyError."""
        return await asyncio.shield(asyncio.wrap_future(self._job.id))

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self._job.queue.cancel(self.number)
        return True

    def abandon(self) -> None:
        self.cancel()

    # What the job calls

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
            self.exception()  # marks it as retrieved: asyncio would log futures that are not awaited before `close`

    def _set_error(self, error: BaseException) -> None:
        if isinstance(error, StopIteration):  # a future cannot raise this
            raised = RuntimeError(f"the function raised {error!r}")
            raised.__cause__ = error
            error = raised
        self.set_exception(error)

    # What an asyncio.Task does with a coroutine

    def send(self, value: None) -> Any:
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Handle an exception. An asyncio.Task that is cancelled before its first step must cancel this future too."""
        if isinstance(error[0], asyncio.CancelledError) or error[0] is asyncio.CancelledError:
            self.cancel()
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """Cancel the task: no asyncio.Task will run this coroutine."""
        self.cancel()


class AsyncFunctions:
    """Runs functions with the same options, for programs on asyncio."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    @typed_async_run
    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncFunctionFuture[T]:
        """Run a function on a worker. Raises: NotPicklable, ConfigError, RuntimeError after `close`."""
        return self._functions.queue(AsyncFunctionFuture[T], function, args, kwargs)

    @typed_async_map
    async def map(
        self,
        function: Callable[..., T],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]:
        """Iterate over the return values for all items, in order or as they come. Stopping early cancels the rest."""
        items = zip(*iterables, strict=False)
        futures = self._functions.queue_items(AsyncFunctionFuture[list[T]], function, items, chunksize)
        try:
            with showing(name_function(function), futures) if progress else nullcontext():
                for future in futures if ordered else asyncio.as_completed(futures):
                    for value in await future:
                        yield value
        finally:
            for future in futures:
                future.cancel()

    def close(self, cancel: bool = False) -> None:
        """Accept no more functions. Those that wait are cancelled if `cancel` is set; the others go on."""
        self._functions.close(cancel)

    async def wait_closed(self) -> None:
        """Wait until all tasks have ended."""
        await self._functions.wait_closed()
