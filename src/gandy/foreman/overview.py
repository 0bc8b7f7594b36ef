"""Jobs and tasks as people are shown them: what the store has, but a task that waits on its worker for a slot waits.

The store calls it running from the moment it is given to a worker, as it must not be given to another one.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from gandy.core.model import AttemptKey, JobState, TaskState
from gandy.core.reactor import Reactor
from gandy.core.rows import JobRow, TaskRow
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
        # What the store calls running may be wanted or not, whichever was asked for: look at all, and a page further.
        row = await self._store.find_job(job)
        spare = 0 if row is None else row.counts.running
        rows = await self._store.list_tasks(job, states | {TaskState.RUNNING}, limit + spare, after)
        return [row for row in self._correct_tasks(job, rows) if row.state in states][:limit]

    async def list_attempts(self, job: JobId, task: TaskNumber) -> list[TaskRow]:
        return self._correct_tasks(job, await self._store.list_attempts(job, task))

    def _correct_jobs(self, rows: Iterable[JobRow]) -> list[JobRow]:
        counts = Counter(attempt.job for attempt in self._reactor.list_unbegun())
        return [_correct(row, counts[row.job]) if row.job in counts else row for row in rows]

    def _correct_tasks(self, job: JobId, rows: Iterable[TaskRow]) -> list[TaskRow]:
        unbegun = set(self._reactor.list_unbegun())
        return [
            replace(row, state=TaskState.WAITING)
            if row.state is TaskState.RUNNING and AttemptKey(job, row.task, row.attempt) in unbegun
            else row
            for row in rows
        ]


def _correct(row: JobRow, unbegun: int) -> JobRow:
    counts = row.counts
    moved = min(unbegun, counts.running)  # the store may know of a commit that we do not, or the other way round
    return replace(row, counts=replace(counts, waiting=counts.waiting + moved, running=counts.running - moved))
