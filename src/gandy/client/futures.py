"""Futures of function tasks for `concurrent.futures`: any thread can wait for the return value or cancel."""

import asyncio
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from concurrent.futures._base import CANCELLED, PENDING, RUNNING
from contextlib import suppress
from threading import Condition, RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gandy.client.open_job import OpenJob
from gandy.client.results import make_error, open_value
from gandy.client.shown import Shown, list_future_renderings, render_task
from gandy.core.model import TaskState
from gandy.core.requests import ResultRow
from gandy.errors import GandyError
from gandy.ids import JobId

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from gandy.client.connection import Connection
    from gandy.notebook.display import Renderings
    from gandy.notebook.rendering import Rendering

CANCEL_PATIENCE: Final = 10.0  # seconds for the foreman and the worker to answer if a task has begun

T = TypeVar("T")


class LightCondition:
    """A `threading.Condition` for futures that takes a tenth of the memory as long as no thread waits.

    The futures of one job share a lock, which each holds only briefly.
    """

    __slots__ = ("_full", "_lock")

    def __init__(self, lock: "RLock") -> None:
        self._lock = lock
        self._full: Condition | None = None

    def acquire(self) -> bool:
        return self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        if self._full is None:
            self._full = Condition(self._lock)
        return self._full.wait(timeout)

    def notify_all(self) -> None:
        if self._full is not None:
            self._full.notify_all()


class FunctionFuture(Shown, Future[T]):
    """The return value of a function that a worker runs. Making one queues the task."""

    def __init__(self, job: OpenJob, task: bytes, size: int = 1) -> None:
        super().__init__()
        self._condition = LightCondition(job.futures_lock)  # type: ignore[assignment]
        self.size = size  # items of a map in it
        self.number = 0
        self.open_job = job
        job.queue.add(task, self)

    def _render_now(self) -> "Rendering":
        return render_task(self, self.open_job.name_task(self.number))

    def _list_renderings(self) -> "Renderings":
        return list_future_renderings(self._render_now)

    def _find_connection(self) -> "Connection":
        return self.open_job.connection

    def _find_loop(self) -> "AbstractEventLoop":
        return self.open_job.loop

    @property
    def job(self) -> JobId:
        """The job that the task belongs to. Waits until the foreman has it. Raises: GandyError."""
        return self.open_job.id.result()

    def cancel(self) -> bool:
        """Cancel the task, and kill it if it runs. False if it has ended before. May wait for the foreman's answer.

        It cannot wait in a thread that runs an event loop: there, what a task returns just now is dropped.
        """
        if self.done():
            return self.cancelled()
        if _runs_loop():
            self.abandon()
        else:
            self.open_job.queue.kill(self.number)
            wait([self], CANCEL_PATIENCE)
        return self.cancelled()

    def _cancel_at_once(self) -> bool:
        if not super().cancel():
            return False
        if self.open_job.queue.cancel(self.number):
            self._start_or_notify()
        return True

    def _start_or_notify(self) -> None:
        """Mark the future as running; or, if it was cancelled, wake the threads that wait for several futures."""
        with self._condition:  # called again for a second attempt, or by two threads that cancel
            if self._state in (PENDING, CANCELLED):
                self.set_running_or_notify_cancel()

    def abandon(self) -> None:
        """Cancel the task, or kill it if it has begun, without waiting for an answer."""
        if not self._cancel_at_once() and self.open_job.queue.cancel(self.number):
            self._set_cancelled("the task was cancelled")

    # What the job calls

    def on_start(self) -> None:
        self._start_or_notify()

    def on_end(self, row: ResultRow) -> None:
        if row.state is TaskState.FINISHED:
            self._settle(*open_value(row.result))
        elif row.state is not TaskState.CANCELLED:
            self._settle(None, make_error(row))
        else:
            self._set_cancelled(f"task {row.task} was cancelled")

    def on_failure(self, error: GandyError) -> None:
        self._settle(None, error)

    def _set_cancelled(self, text: str) -> None:
        with self._condition:
            if self._state == RUNNING:  # the standard library cancels no future that runs
                self._state = PENDING
        if super().cancel():
            self._start_or_notify()
        else:  # it began again meanwhile
            self._settle(None, CancelledError(text))

    def _settle(self, value: Any, error: BaseException | None) -> None:
        try:
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
        except InvalidStateError:  # cancelled just now
            self._start_or_notify()


class ExecutorFuture(FunctionFuture[T]):
    """A future that obeys the laws of a process pool: a function that has begun goes on."""

    def cancel(self) -> bool:
        """Cancel the task, unless it has begun. True if the function never runs. May wait for the answer of a worker.

        In the client's own thread, where callbacks run, it cannot wait: there, a task that has just begun is killed.
        """
        if self.done() or self.running():
            return self.cancelled()
        if self.open_job.is_on_loop:
            return self._cancel_at_once()
        answer = self.open_job.retractor.retract([self.number])
        with suppress(TimeoutError):
            answer.result(CANCEL_PATIENCE)
        return self.cancelled() or (answer.done() and self.number in answer.result())


def _runs_loop() -> bool:
    """True if this thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def retract(futures: "list[FunctionFuture[Any]] | set[FunctionFuture[Any]]") -> None:
    """Cancel the tasks of one job that have not begun, without waiting for the answer."""
    if futures:
        next(iter(futures)).open_job.retractor.retract(future.number for future in futures)
