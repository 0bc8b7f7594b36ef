"""Takes back function tasks that have not begun. The foreman and the workers decide which those are."""

import asyncio
import logging
from collections.abc import Iterable, Set
from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple

from gandy.client.connection import check
from gandy.client.link import ClientLink
from gandy.client.task_queue import TaskQueue, ThreadsafeEvent
from gandy.core.model import TaskState
from gandy.core.requests import ResultRow, Retracted, RetractTasks
from gandy.errors import GandyError, JobMoved, LinkError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_RETRACTED

log = logging.getLogger("gandy.client")


class PendingRetraction(NamedTuple):
    """Tasks to take back, and the future for those of them that never began."""

    tasks: tuple[TaskNumber, ...]
    answer: Future[frozenset[int]]
    again: bool = False  # it was sent before, over a link that broke


class TaskRetractor:
    """The retractions of one open job. Any thread may ask for one."""

    def __init__(self, queue: TaskQueue, wake: ThreadsafeEvent) -> None:
        self._queue = queue
        self._wake = wake
        self._lock = Lock()
        self._waiting: list[PendingRetraction] = []  # not sent to the foreman yet
        self._asking: set[asyncio.Future[None]] = set()  # requests that are not answered yet
        self._is_over = False

    def retract(self, numbers: Iterable[int]) -> Future[frozenset[int]]:
        """Cancel those of the tasks that have not begun. Their futures are cancelled before the answer is set."""
        retraction = PendingRetraction(tuple(map(TaskNumber, numbers)), Future())
        with self._lock:
            if not self._is_over:
                self._waiting.append(retraction)
            else:
                retraction.answer.set_result(frozenset())
        self._wake.set()
        return retraction.answer

    def retract_all(self) -> Future[frozenset[int]]:
        """Cancel every task that has not begun."""
        return self.retract(self._queue.list_waiting())

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def send(self, link: ClientLink, job: JobId) -> None:
        """Request the retractions of tasks that the foreman has. A slow answer does not delay the next tasks."""
        with self._lock:
            ready = [each for each in self._waiting if max(each.tasks, default=0) < self._queue.first_unsent]
            self._waiting = [each for each in self._waiting if max(each.tasks, default=0) >= self._queue.first_unsent]
        for retraction in ready:
            asking = asyncio.ensure_future(self._retract(link, job, retraction))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)

    async def stop(self) -> None:
        """The link is gone. Requests without an answer are sent again over the next one."""
        asking = list(self._asking)
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def end(self, cancelled: Set[int] = frozenset()) -> None:
        """Answer everything that is left: only the tasks in `cancelled` never began."""
        with self._lock:
            self._is_over = True
            waiting, self._waiting = self._waiting, []
        for retraction in waiting:
            retraction.answer.set_result(frozenset(retraction.tasks) & cancelled)

    async def _retract(self, link: ClientLink, job: JobId, retraction: PendingRetraction) -> None:
        try:
            retracted = await self._ask(link, job, retraction)
        except (
            LinkError,
            JobMoved,
            asyncio.CancelledError,
        ):  # it is sent again over the next link, or answered by `end`
            with self._lock:
                self._waiting.append(retraction._replace(again=True))
            return
        for number in retraction.tasks:
            if number in retracted:
                if (future := self._queue.pop(number)) is not None:
                    future.on_end(ResultRow(number, TaskState.CANCELLED))
            elif (future := self._queue.find(number)) is not None:
                future.on_start()
        retraction.answer.set_result(retracted)

    async def _ask(self, link: ClientLink, job: JobId, retraction: PendingRetraction) -> frozenset[int]:
        """Return the tasks that never began. Raises: LinkError, JobMoved."""
        retracted: set[int] = set()
        for first in range(0, len(retraction.tasks), MAX_RETRACTED):
            request = RetractTasks(job, retraction.tasks[first : first + MAX_RETRACTED], again=retraction.again)
            try:
                retracted.update(check(await link.ask(request), Retracted).tasks)
            except (LinkError, JobMoved):
                raise
            except GandyError:  # refused: none of these is retracted
                log.debug("tasks are not retracted", exc_info=True)
        return frozenset(retracted)
