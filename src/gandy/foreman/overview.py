"""Jobs and tasks as people are shown them: what the store has, but only a task that has a slot runs.

The store calls a task running from the moment it is given to a worker, as it must not be given to another one, until
its end is recorded. The reactor knows which of them have begun, and is ahead of the store: so no more tasks are shown
as running than have slots now.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from gandy.core.model import AttemptKey, JobState, TaskState
from gandy.core.reactor import Reactor
from gandy.core.rows import JobRow, TaskRow, take_page, weigh_task
from gandy.ids import JobId, TaskNumber
from gandy.store.base import Store


class Overview:
    """Of one store, and of what the foreman knows now."""

    def __init__(self, store: Store, reactor: Reactor) -> None:
        self._store = store
        self._reactor = reactor

    async def find_job(self, job: JobId) -> JobRow | None:
        row = await self._store.find_job(job)
        return None if row is None else self._correct_jobs([row])[0]

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        return self._correct_jobs(await self._store.list_jobs(states, limit, before))

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        if states is None or not states & {TaskState.WAITING, TaskState.RUNNING}:
            return self._correct_tasks(job, await self._store.list_tasks(job, states, limit, after))
        # What the store calls running may be wanted or not, whichever was asked for: look until there are enough.
        wanted: list[TaskRow] = []
        while len(wanted) < limit and (
            rows := await self._store.list_tasks(job, states | {TaskState.RUNNING}, limit, after)
        ):
            wanted += [row for row in self._correct_tasks(job, rows) if row.state in states]
            after = rows[-1].task
        return take_page(wanted, limit, weigh_task)

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        return self._correct_tasks(job, await self._store.list_attempts(job, task, after))

    def _correct_jobs(self, rows: Iterable[JobRow]) -> list[JobRow]:
        begun = Counter(attempt.job for attempt in self._reactor.list_begun())
        return [_correct(row, begun[row.job]) if row.counts.running else row for row in rows]

    def _correct_tasks(self, job: JobId, rows: Iterable[TaskRow]) -> list[TaskRow]:
        begun = set(self._reactor.list_begun())
        return [
            replace(row, state=TaskState.WAITING)
            if row.state is TaskState.RUNNING and AttemptKey(job, row.task, row.attempt) not in begun
            else row
            for row in rows
        ]


def _correct(row: JobRow, begun: int) -> JobRow:
    counts = row.counts
    running = min(begun, counts.running)
    return replace(row, counts=replace(counts, waiting=counts.waiting + counts.running - running, running=running))
