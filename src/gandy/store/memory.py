"""A store in memory, for tests and for crews that may forget. It survives its foreman, but not its process.

Tasks that are as submitted cost nothing here either: only those that changed are kept one by one.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gandy.core.model import (
    FINAL_JOB_STATES,
    FINAL_STATES,
    GIVEN_STATES,
    AttemptKey,
    Counts,
    Input,
    JobSpec,
    JobState,
    TaskState,
)
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
from gandy.core.rows import find_runs, is_plain, take_page, weigh_job, weigh_task
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE
from gandy.moments import Wall
from gandy.store.base import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.store.law import MEANT_BY_ALL, check, first_state


class _Kept(Struct):
    """The last attempt at a task, and a chain to those before it. Attempt 0 is a task that only people touched."""

    row: TaskRow
    outcome: TaskState  # what the attempt led to; people may have changed the task's state since
    before: "_Kept | None" = None


class _Result(Struct, frozen=True):
    """What a function gave back, in which attempt and when."""

    attempt: int
    at: Wall
    value: bytes


class _Job(Struct):
    spec: JobSpec
    lines: list[Input]
    state: JobState
    held: bool
    submitted: Wall
    changed: Wall
    counts: list[int]  # by state
    fresh: TaskState = TaskState.WAITING  # the state of every task that is not kept below
    kept: dict[TaskNumber, _Kept] = field(default_factory=dict)
    results: dict[TaskNumber, _Result] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return self.state not in FINAL_JOB_STATES or any(self.counts[state] for state in GIVEN_STATES)

    def grows_by(self, first: TaskNumber) -> bool:
        is_next = first == self.spec.tasks + 1
        return self.spec.is_open and is_next and self.fresh is TaskState.WAITING

    def has(self, task: TaskNumber) -> bool:
        return 1 <= task <= self.spec.tasks

    def get_row(self, task: TaskNumber) -> TaskRow:
        kept = self.kept.get(task)
        return TaskRow(task, self.fresh, 0) if kept is None else kept.row

    def move(self, before: TaskState, after: TaskState, count: int = 1) -> None:
        self.counts[before] -= count
        self.counts[after] += count

    def sorted_rows(self) -> Iterator[TaskRow]:
        return (kept.row for _, kept in sorted(self.kept.items()))

    def as_row(self, job: JobId) -> JobRow:
        return JobRow(job, self.spec, self.state, self.held, self.submitted, self.changed, Counts(*self.counts))

    def recover(self, job: JobId) -> RecoveredJob:
        rows = [row for row in self.sorted_rows() if not is_plain(row)]
        finished = find_runs(row.task for row in self.sorted_rows() if is_plain(row))
        return RecoveredJob(self.as_row(job), tuple(rows), self.fresh, finished)


class MemoryStore:
    """A foreman that starts again with the same object finds everything that was committed, closed or not."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, _Job] = {}
        self._last_job = 0
        self._uploads: dict[int, list[str]] = {}

    async def open(self) -> Recovered:
        self._uploads.clear()
        jobs = (job.recover(number) for number, job in sorted(self._jobs.items()) if job.is_open)
        return Recovered(tuple(jobs), JobId(self._last_job + 1))

    async def close(self) -> None:
        pass

    async def prepare(self) -> None:
        pass

    # Writing

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        # Whatever may be wrong is found before the first record is applied, so that a batch is never half done.
        check(records)
        self._check_numbers(records)
        return frozenset(lost for record in records for lost in self._apply(record))

    def _check_numbers(self, records: Iterable[Record]) -> None:
        known = set(self._jobs)
        for record in records:
            if isinstance(record, JobAdded):
                if record.job in known:
                    raise StoreError(f"there is a job {record.job} already")
                known.add(record.job)
            elif isinstance(record, JobForgotten):
                known.discard(record.job)

    def _apply(self, record: Record) -> list[AttemptKey]:
        """Gives the attempts that another foreman claimed first."""
        match record:
            case Claimed():
                return self._claim(record)
            case Began():
                self._begin(record)
            case Ended():
                self._end(record)
            case JobAdded():
                self._add(record)
            case TasksAdded():
                self._add_tasks(record)
            case OpenJobClosed(number, at):
                self._close(number, at)
            case LinesAdded() | LinesDropped():
                self._set_upload(record)
            case TasksSet():
                self._set_tasks(record)
            case JobSet():
                self._set_job(record)
            case ResultsDropped(before):
                self._drop_results(before)
            case JobForgotten():
                self._jobs.pop(record.job, None)
        return []

    def _set_upload(self, record: LinesAdded | LinesDropped) -> None:
        if isinstance(record, LinesAdded):
            self._uploads.setdefault(record.upload, []).extend(record.lines)
        else:
            self._uploads.pop(record.upload, None)

    def _add(self, record: JobAdded) -> None:
        spec, at = record.spec, record.at
        counts = [spec.tasks, 0, 0, 0, 0, 0]
        lines: list[Input] = [*record.lines, *self._uploads.pop(record.upload, ())]
        self._jobs[record.job] = _Job(spec, lines, first_state(spec), spec.held, at, at, counts)
        self._last_job = max(self._last_job, record.job)

    def _add_tasks(self, record: TasksAdded) -> None:
        job = self._jobs.get(record.job)
        if job is not None and job.grows_by(record.first):
            count = len(record.inputs)
            job.spec = replace(job.spec, tasks=job.spec.tasks + count)
            job.lines.extend(record.inputs)
            job.counts[TaskState.WAITING] += count
            job.changed = record.at

    def _close(self, number: JobId, at: Wall) -> None:
        job = self._jobs.get(number)
        if job is not None:
            job.spec = replace(job.spec, is_open=False)
            job.changed = at

    def _claim(self, record: Claimed) -> list[AttemptKey]:
        return [attempt for attempt in record.attempts if not self._claim_one(attempt, record)]

    def _claim_one(self, claimed: AttemptKey, record: Claimed) -> bool:
        number, task, attempt = claimed
        job = self._jobs.get(number)
        if job is None or not job.has(task):
            return False
        last = job.get_row(task)
        if last.state is not TaskState.WAITING or last.attempt != attempt - 1:
            return False
        state, worker, at = record.state, record.worker, record.at
        row = TaskRow(task, state, attempt, worker, at, failures=last.failures, crashes=last.crashes)
        job.kept[task] = _Kept(row, state, job.kept.get(task))
        job.move(TaskState.WAITING, state)
        job.changed = at
        return True

    def _find_given(self, attempt: AttemptKey, state: TaskState) -> tuple[_Job, _Kept] | None:
        """The fence: only the last attempt counts, and only while it is assigned or runs, whichever is said."""
        job = self._jobs.get(attempt.job)
        kept = job and job.kept.get(attempt.task)
        if job and kept and kept.row.attempt == attempt.attempt and kept.row.state is state:
            return job, kept
        return None

    def _begin(self, record: Began) -> None:
        found = (self._find_given(attempt, TaskState.ASSIGNED) for attempt in record.attempts)
        for job, kept in filter(None, found):
            kept.outcome = TaskState.RUNNING
            kept.row = replace(kept.row, state=TaskState.RUNNING)
            job.move(TaskState.ASSIGNED, TaskState.RUNNING)
            job.changed = record.at

    def _end(self, record: Ended) -> None:
        found = self._find_given(record.attempt, record.before)
        if found is None:
            return
        job, kept = found
        kept.outcome = record.state
        kept.row = replace(
            kept.row,
            state=record.state,
            ended=record.at,
            due=record.due,
            failures=record.failures,
            crashes=record.crashes,
            ending=replace(record.ending, result=b""),
        )
        if record.ending.result:
            job.results[record.attempt.task] = _Result(record.attempt.attempt, record.at, record.ending.result)
        job.move(record.before, record.state)
        job.changed = record.at

    def _set_tasks(self, record: TasksSet) -> None:
        job = self._jobs.get(record.job)
        if job is None:
            return
        job.changed = record.at
        if record.tasks is None:
            _set_all(job, record.state)
            return
        for task in filter(job.has, record.tasks):
            _set_one(job, task, record)

    def _set_job(self, record: JobSet) -> None:
        job = self._jobs.get(record.job)
        if job is not None:
            job.state, job.held, job.changed = record.state, record.held, record.at

    def _drop_results(self, before: Wall) -> None:
        for job in self._jobs.values():
            job.results = {task: result for task, result in job.results.items() if result.at >= before}

    # Reading

    async def find_job(self, job: JobId) -> JobRow | None:
        found = self._jobs.get(job)
        return None if found is None else found.as_row(job)

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        return {job: self._jobs[job].state for job in jobs if job in self._jobs}

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        found = self._jobs.get(job)
        return None if found is None else found.recover(job)

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        newest_first = (number for number in sorted(self._jobs, reverse=True) if before is None or number < before)
        rows = (self._jobs[number].as_row(number) for number in newest_first)
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
            rows = (row for row in found.sorted_rows() if row.task > after)
        return take_page((row for row in rows if states is None or row.state in states), limit, weigh_task)

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        rows = await self.list_tasks(job, FINAL_STATES, limit, after)
        whole = (_with_result(row, self._jobs[job].results.get(row.task)) for row in rows)
        return take_page(whole, limit, weigh_task)

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        found = self._jobs.get(job)
        kept = found and found.kept.get(task)
        attempts = []
        while kept and kept.row.attempt > after:
            attempts.append(replace(kept.row, state=kept.outcome))
            kept = kept.before
        return take_page(attempts[::-1], MAX_PAGE, weigh_task)

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        found = self._jobs.get(job)
        return found.lines[first - 1 : first - 1 + count] if found else []


def _with_result(row: TaskRow, result: _Result | None) -> TaskRow:
    if result is None or row.ending is None or result.attempt != row.attempt:
        return row
    return replace(row, ending=replace(row.ending, result=result.value))


def _untried(task: TaskNumber, state: TaskState) -> _Kept:
    return _Kept(TaskRow(task, state, 0), state)


def _set_all(job: _Job, state: TaskState) -> None:
    meant = MEANT_BY_ALL[state]
    for kept in job.kept.values():
        if kept.row.state in meant:
            job.move(kept.row.state, state)
            kept.row = _decided(kept.row, state)
    if job.fresh in meant:
        job.move(job.fresh, state, job.spec.tasks - len(job.kept))
        job.fresh = state


def _set_one(job: _Job, task: TaskNumber, record: TasksSet) -> None:
    before = job.get_row(task).state
    job.move(before, record.state)
    kept = job.kept.setdefault(task, _untried(task, record.state))
    kept.row = _decided(kept.row, record.state)
    if before in GIVEN_STATES:  # whatever its worker still says, this attempt is over
        kept.outcome = record.state
        kept.row = replace(kept.row, ended=record.at)


def _decided(row: TaskRow, state: TaskState) -> TaskRow:
    """What people decide opens a new account of failures."""
    return replace(row, state=state, due=Wall(0.0), failures=0, crashes=0)
