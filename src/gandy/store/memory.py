"""A store in memory, for tests and for crews that may forget. It survives its foreman, but not its process."""

from collections.abc import Iterable, Sequence

from gandy.core.model import FINAL_STATES, AttemptKey, Input, JobState, TaskState
from gandy.core.records import (
    Began,
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    LinesAdded,
    LinesDropped,
    OpenJobClosed,
    Record,
    ResultsDropped,
    TasksAdded,
    TasksSet,
)
from gandy.core.rows import (
    JobRow,
    Recovered,
    RecoveredJob,
    TaskRow,
    take_page,
    weigh_job,
    weigh_task,
)
from gandy.core.shards import NO_SHARD
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE
from gandy.store.law import check
from gandy.store.memory_history import MemoryHistory
from gandy.store.memory_job import MemoryJob
from gandy.store.submissions import KeyTaken, explain_taken


class MemoryStore:
    """A foreman that starts again with the same object finds everything that was committed, closed or not."""

    def __init__(self) -> None:
        self.history = MemoryHistory()
        self._jobs: dict[JobId, MemoryJob] = {}
        self._last_job = 0
        self._uploads: dict[int, list[str]] = {}
        self._submissions: dict[int, JobId] = {}  # jobs by the key of their request

    async def open(self) -> Recovered:
        self._uploads.clear()
        jobs = (job.recover() for _, job in sorted(self._jobs.items()) if job.is_unfinished)
        return Recovered(tuple(jobs), JobId(self._last_job + 1))

    async def close(self) -> None:
        pass

    async def prepare(self) -> None:
        pass

    async def draw_number(self) -> JobId | None:
        return None

    # Writing

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        # All records are checked before the first is applied, so that a batch is never half done.
        check(records)
        try:
            self._check_numbers(records)
        except KeyTaken as taken:
            raise await explain_taken(records, self.find_submission, taken) from None
        return frozenset(lost for record in records for lost in self._apply(record))

    def _check_numbers(self, records: Iterable[Record]) -> None:
        known, keys = set(self._jobs), {job: key for key, job in self._submissions.items()}
        for record in records:
            if isinstance(record, JobAdded):
                if record.job in known:
                    raise StoreError(f"there is a job {record.job} already")
                if record.key and record.key in keys.values():
                    raise KeyTaken
                known.add(record.job)
                keys[record.job] = record.key
            elif isinstance(record, JobForgotten):
                known.discard(record.job)
                keys.pop(record.job, None)

    def _apply(self, record: Record) -> list[AttemptKey]:
        """Returns the attempts that another foreman claimed first."""
        match record:
            case Claimed():
                return [attempt for attempt in record.attempts if not self._claim(attempt, record)]
            case Began():
                self._begin(record)
            case Ended() | TasksAdded() | OpenJobClosed() | TasksSet() | JobSet():
                number = record.attempt.job if isinstance(record, Ended) else record.job
                if (job := self._jobs.get(number)) is not None:
                    job.apply(record)
            case JobAdded():
                self._add(record)
            case LinesAdded():
                self._uploads.setdefault(record.upload, []).extend(record.lines)
            case LinesDropped():
                self._uploads.pop(record.upload, None)
            case ResultsDropped(before):
                for job in self._jobs.values():
                    job.drop_results(before)
            case JobForgotten(number):
                self._jobs.pop(number, None)
                self._submissions = {key: job for key, job in self._submissions.items() if job != number}
        return []

    def _claim(self, attempt: AttemptKey, record: Claimed) -> bool:
        job = self._jobs.get(attempt.job)
        return job is not None and job.claim(attempt, record)

    def _begin(self, record: Began) -> None:
        for attempt in record.attempts:
            if (job := self._jobs.get(attempt.job)) is not None:
                job.begin(attempt, record.at)

    def _add(self, record: JobAdded) -> None:
        lines: list[Input] = [*record.lines, *self._uploads.pop(record.upload, ())]
        self._jobs[record.job] = MemoryJob(record.job, record.spec, lines, record.at)
        self._last_job = max(self._last_job, record.job)
        if record.key:
            self._submissions[record.key] = record.job

    # Reading

    async def find_job(self, job: JobId) -> JobRow | None:
        found = self._jobs.get(job)
        return None if found is None else found.as_row()

    async def find_submission(self, key: int) -> JobId | None:
        return self._submissions.get(key)

    async def get_submission(self, job: JobId) -> int:
        return next((key for key, number in self._submissions.items() if number == job), 0)

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        return {job: self._jobs[job].state for job in jobs if job in self._jobs}

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        found = self._jobs.get(job)
        return None if found is None else found.recover()

    async def find_shard(self, job: JobId) -> int | None:
        return NO_SHARD if job in self._jobs else None

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        newest_first = (number for number in sorted(self._jobs, reverse=True) if before is None or number < before)
        rows = (self._jobs[number].as_row() for number in newest_first)
        return take_page((row for row in rows if states is None or row.state in states), limit, weigh_job)

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        found = self._jobs.get(job)
        if found is None:
            return []
        if states is None or found.fresh in states:
            rows = (found.get_row(TaskNumber(task)) for task in range(after + 1, found.spec.tasks + 1))
        else:
            rows = (row for row in found.list_kept() if row.task > after)
        return take_page((row for row in rows if states is None or row.state in states), limit, weigh_task)

    async def find_tasks(self, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        found = self._jobs.get(job)
        if found is None:
            return []
        rows = (found.get_row(task) for task in tasks if 1 <= task <= found.spec.tasks)
        return take_page(rows, len(tasks), weigh_task)

    async def read_states(self, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
        found = self._jobs.get(job)
        return None if found is None else (found.spec.tasks, found.copy_states(first, most))

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        rows = await self.list_tasks(job, FINAL_STATES, limit, after)
        return take_page((self._jobs[job].add_result(row) for row in rows), limit, weigh_task)

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        found = self._jobs.get(job)
        return [] if found is None else take_page(found.list_attempts(task, after), MAX_PAGE, weigh_task)

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        found = self._jobs.get(job)
        return found.lines[first - 1 : first - 1 + count] if found else []
