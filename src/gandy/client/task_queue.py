"""The function tasks of one open job: those that are not sent yet, and the futures of those that have not ended.

Any thread may use it. It sends nothing and opens no pickle.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from threading import Lock
from typing import Final, Protocol

from gandy.core.requests import ResultRow
from gandy.errors import GandyError
from gandy.ids import TaskNumber
from gandy.limits import MAX_INPUT_BYTES, MAX_RETRACTED

# Tasks in one request, and bytes of them, unless a single one has more: the next are pickled while these are recorded.
BATCH_TASKS: Final = 1_000
BATCH_BYTES: Final = 4_000_000


class TaskFuture(Protocol):
    """What waits for one task. Its `on_` methods are called on the loop."""

    number: int  # of the task in its job; the queue sets it

    def on_start(self) -> None: ...

    def on_end(self, row: ResultRow) -> None: ...

    def on_failure(self, error: GandyError) -> None:
        """No result will come: the foreman refuses the job, or the client is closed."""

    def abandon(self) -> None:
        """Cancel or kill the task, without waiting for an answer. A blocking client calls this in any thread."""


class ThreadsafeEvent:
    """An event that one coroutine waits for and any thread may set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()
        self._is_scheduled = False

    def set(self) -> None:
        if not self._is_scheduled:  # waking a loop costs more than adding a task
            self._is_scheduled = True
            with suppress(RuntimeError):  # the loop is closed, and every future has been notified
                self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._is_scheduled = False
        self._event.clear()

    async def wait(self) -> None:
        await self._event.wait()


class TaskQueue:
    """Numbers tasks, keeps those that the foreman has not confirmed, and the futures of those that have not ended."""

    def __init__(self, wake_sender: Callable[[], None]) -> None:
        self._wake_sender = wake_sender
        self._lock = Lock()
        self._unsent: deque[bytes] = deque()  # tasks that the foreman has not confirmed, oldest first
        self.first_unsent = 1  # the number of the first of these
        self._futures: dict[int, TaskFuture] = {}
        self._cancelled: list[TaskNumber] = []  # not confirmed by the foreman yet
        self._error: Exception | None = None  # why no more tasks are accepted
        self.is_closed = False

    def add(self, task: bytes, future: TaskFuture) -> None:
        """Queue a task.

        Raises: RuntimeError after `close`; the error that was passed to `refuse` or `clear`.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            if self.is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future.number = self.first_unsent + len(self._unsent)
            self._unsent.append(task)
            self._futures[future.number] = future
        self._wake_sender()

    def cancel(self, number: int) -> bool:
        """Cancel or kill a task, and drop its future. False: its future has its result already."""
        with self._lock:
            if self._futures.pop(number, None) is None:
                return False
            self._cancelled.append(TaskNumber(number))
        self._wake_sender()
        return True

    def kill(self, number: int) -> None:
        """Cancel or kill a task. Its future is told how it ended, which may be before this."""
        with self._lock:
            if number in self._futures:
                self._cancelled.append(TaskNumber(number))
        self._wake_sender()

    def abandon_all(self) -> int:
        """Cancel or kill every task that has not ended. Returns how many."""
        with self._lock:
            futures = list(self._futures.values())
        for future in futures:
            future.abandon()
        return len(futures)

    def close(self) -> None:
        """Accept no more tasks. The job ends with its last one."""
        with self._lock:
            self.is_closed = True
        self._wake_sender()

    def refuse(self, error: Exception) -> None:
        """Accept no more tasks. Those that the job has may still end in any way."""
        with self._lock:
            self._error = self._error or error

    def clear(self, error: Exception) -> dict[int, TaskFuture]:
        """Accept no more tasks and forget all. Returns the futures that are left."""
        with self._lock:
            self._error = error
            futures, self._futures = self._futures, {}
            self._unsent.clear()
        return futures

    @property
    def takes_tasks(self) -> bool:
        return self._error is None and not self.is_closed

    @property
    def unsent(self) -> int:
        """How many tasks the foreman may not have."""
        return len(self._unsent)

    def list_waiting(self) -> list[int]:
        """List the numbers of tasks that have not ended."""
        with self._lock:
            return list(self._futures)

    def find(self, number: int) -> TaskFuture | None:
        return self._futures.get(number)

    def pop(self, number: int) -> TaskFuture | None:
        """Remove and return the future of a task that has ended."""
        with self._lock:
            return self._futures.pop(number, None)

    # What the sender needs

    def get_batch(self) -> tuple[bytes, ...]:
        """Return the next tasks, as many as fit one request."""
        size = 0
        batch: list[bytes] = []
        with self._lock:
            for task in islice(self._unsent, BATCH_TASKS):
                size += len(task)
                if batch and (size > BATCH_BYTES or len(task) > MAX_INPUT_BYTES):
                    break
                batch.append(task)
        return tuple(batch)

    def confirm_batch(self, batch: tuple[bytes, ...]) -> None:
        """The foreman has these tasks."""
        with self._lock:
            for _ in batch:
                self._unsent.popleft()
            self.first_unsent += len(batch)

    def find_large(self) -> bytes | None:
        """Return the next task, if it is too large for a request."""
        with self._lock:
            return self._unsent[0] if self._unsent and len(self._unsent[0]) > MAX_INPUT_BYTES else None

    def replace_next(self, reference: bytes) -> None:
        """Replace the next task, whose arguments were uploaded, by a reference."""
        with self._lock:
            if self._unsent:  # `clear` may have been called meanwhile
                self._unsent[0] = reference

    def fail_next(self, error: GandyError) -> None:
        """Fail the next task only. It keeps its number, so that the other tasks keep theirs."""
        with self._lock:
            future = self._futures.pop(self.first_unsent, None)
            if self._unsent:
                self._unsent[0] = b""
                self._cancelled.append(TaskNumber(self.first_unsent))
        if future is not None:
            future.on_failure(error)

    def get_cancelled(self) -> tuple[TaskNumber, ...]:
        """Return cancelled tasks, as many as fit one request."""
        return tuple(self._cancelled[:MAX_RETRACTED])

    def confirm_cancelled(self, tasks: tuple[TaskNumber, ...]) -> None:
        """The foreman has cancelled these tasks."""
        with self._lock:
            del self._cancelled[: len(tasks)]
