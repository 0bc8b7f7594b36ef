"""Copies all jobs of one store to another of any kind: reads rows, and commits records that lead to the same rows.

The history comes last. If it cannot be copied, the jobs are.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from gandy.clocks import read_wall
from gandy.core.model import AttemptKey, Input, JobSpec, TaskState
from gandy.core.records import (
    Began,
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    LinesAdded,
    OpenJobClosed,
    Record,
    TasksAdded,
    TasksSet,
)
from gandy.core.rows import JobRow, RecoveredJob, TaskRow, is_plain
from gandy.core.shards import NO_SHARD
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE
from gandy.moments import Wall
from gandy.store.base import Store
from gandy.store.copying_history import copy_history

BATCH_RECORDS: Final = 2_000  # in one commit
BATCH_BYTES: Final = 4_000_000
LINES: Final = 10_000  # read at once
UPLOAD: Final = 1  # under which lines are sent before their job


class Progress(NamedTuple):
    """How far it is. Jobs that cannot be read are not copied."""

    jobs: int = 0
    tasks: int = 0
    all_jobs: int = 0
    all_tasks: int = 0
    unreadable: tuple[JobId, ...] = ()
    samples: int = 0  # of the history
    history_problem: str = ""  # why not all of it was copied


async def copy_store(
    source: Store, target: Store, tell: Callable[[Progress], None], read_clock: Callable[[], Wall] = read_wall
) -> Progress:
    """Copy all jobs and the history. Both are closed, and are closed afterwards. If it fails, the target has no jobs.

    Raises: StoreError: the target has jobs, or one of them has a problem.
    """
    recovered = await source.open()
    try:
        await target.open()
        try:
            if await target.list_jobs(None, 1, None):
                raise StoreError("the target has jobs already: name one without any")
            return await _Copying(source, target, tell).run(recovered.next_job, read_clock())
        finally:
            await target.close()
    finally:
        await source.close()


class _Copying:
    def __init__(self, source: Store, target: Store, tell: Callable[[Progress], None]) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._records: list[Record] = []
        self._bytes = 0
        self._progress = Progress()

    async def run(self, next_job: JobId, now: Wall) -> Progress:
        rows = [row async for row in self._list_jobs()]
        readable = [row for row in rows if not row.problem]
        unreadable = tuple(row.job for row in rows if row.problem)
        tasks = sum(row.spec.tasks for row in readable)
        self._progress = Progress(0, 0, len(readable), tasks, unreadable)
        try:
            for row in readable:
                await self._copy(row)
            await self._skip_numbers(next_job, rows[-1].job if rows else JobId(0))
            await self._flush()
            await self._copy_history([row.job for row in readable], now)
        except BaseException:
            self._records = [JobForgotten(row.job) for row in readable]
            await self._flush()
            raise
        return self._progress

    async def _copy_history(self, jobs: Sequence[JobId], now: Wall) -> None:
        shard = await self._target.find_shard(jobs[-1]) if jobs else None
        try:
            samples = await copy_history(self._source.history, self._target.history, shard or NO_SHARD, now)
            self._progress = self._progress._replace(samples=samples)
        except StoreError as error:
            self._progress = self._progress._replace(history_problem=str(error))

    async def _list_jobs(self) -> AsyncIterator[JobRow]:
        """All jobs, the oldest first."""
        found: list[JobRow] = []
        while page := await self._source.list_jobs(None, MAX_PAGE, found[-1].job if found else None):
            found += page
        for row in reversed(found):
            yield row

    async def _skip_numbers(self, next_job: JobId, newest: JobId) -> None:
        """The numbers of jobs that were forgotten are not given again."""
        last = JobId(next_job - 1)
        if last > newest:
            await self._add(JobAdded(last, JobSpec(command="true"), Wall(0.0)))
            await self._add(JobForgotten(last))

    async def _copy(self, row: JobRow) -> None:
        job = await self._source.load_job(row.job)
        if job is None:
            return
        await self._copy_inputs(row)
        for late in (False, True):
            # Tasks that wait after an attempt come last, so that what is set for all others does not mean them.
            if late and job.fresh is not TaskState.WAITING:
                await self._add(TasksSet(row.job, job.fresh, None, row.changed))
            async for task in self._list_changed(job):
                await self._copy_task(row.job, task, late, job.fresh)
        await self._add(JobSet(row.job, row.state, row.held, row.changed))
        done = self._progress
        self._progress = done._replace(jobs=done.jobs + 1, tasks=done.tasks + row.spec.tasks)
        self._tell(self._progress)

    async def _copy_inputs(self, row: JobRow) -> None:
        """Add the job, with the inputs of its tasks."""
        job, spec, at = row.job, row.spec, row.submitted
        key = await self._source.get_submission(job)
        first = await self._source.read_lines(job, TaskNumber(1), 1) if spec.has_lines else []
        if not spec.is_open and not (first and isinstance(first[0], bytes)):
            async for start, lines in self._read_inputs(row):
                texts = tuple(line for line in lines if isinstance(line, str))
                await self._add(LinesAdded(UPLOAD, start, texts), sum(map(len, texts)))
            await self._add(JobAdded(job, spec, at, upload=UPLOAD if first else 0, key=key))
            return
        await self._add(JobAdded(job, replace(spec, tasks=0, is_open=True), at, key=key))
        async for start, inputs in self._read_inputs(row):
            await self._add(TasksAdded(job, start, tuple(inputs), at), sum(map(len, inputs)))
        if not spec.is_open:
            await self._add(OpenJobClosed(job, at))

    async def _read_inputs(self, row: JobRow) -> AsyncIterator[tuple[TaskNumber, list[Input]]]:
        start = TaskNumber(1)
        while row.spec.has_lines and start <= row.spec.tasks:
            inputs = await self._source.read_lines(row.job, start, LINES)
            if not inputs:
                return
            yield start, inputs
            start = TaskNumber(start + len(inputs))

    async def _list_changed(self, job: RecoveredJob) -> AsyncIterator[TaskRow]:
        """Tasks that are no longer as submitted, with their results."""
        number, after = job.row.job, TaskNumber(0)
        while page := await self._source.list_tasks(number, None, MAX_PAGE, after):
            changed = [task for task in page if task.attempt or task.state is not job.fresh]
            results = await self._read_results(number, changed) if job.row.spec.python is not None else {}
            for task in changed:
                result = results.get(task.task)
                yield (
                    task
                    if result is None or task.ending is None
                    else replace(task, ending=replace(task.ending, result=result))
                )
            after = page[-1].task

    async def _read_results(self, job: JobId, tasks: list[TaskRow]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        after, last = (tasks[0].task - 1, tasks[-1].task) if tasks else (0, 0)
        while after < last:
            page = await self._source.list_results(job, min(MAX_PAGE, last - after), TaskNumber(after))
            if not page:
                break
            found |= {row.task: row.ending.result for row in page if row.ending and row.ending.result}
            after = page[-1].task
        return found

    async def _copy_task(self, job: JobId, row: TaskRow, late: bool, fresh: TaskState) -> None:
        waits = row.state is TaskState.WAITING or not row.attempt
        if waits is not late:
            return
        # Most tasks succeeded at once: their row is their only attempt.
        attempts = [row] if is_plain(row) and row.ending and row.ending.is_success else []
        while len(attempts) < row.attempt:
            attempts += await self._source.list_attempts(job, row.task, len(attempts))
        for record in _replay(job, row, attempts, fresh if late else TaskState.WAITING):
            size = len(record.ending.result) + len(record.ending.tail) if isinstance(record, Ended) else 0
            await self._add(record, size)

    async def _add(self, record: Record, size: int = 0) -> None:
        self._records.append(record)
        self._bytes += size
        if len(self._records) >= BATCH_RECORDS or self._bytes > BATCH_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        if self._records:
            lost = await self._target.commit(self._records)
            if lost:
                raise StoreError(f"job {next(iter(lost)).job} cannot be copied: its attempts do not follow one another")
        self._records, self._bytes = [], 0


def _replay(job: JobId, row: TaskRow, attempts: list[TaskRow], state: TaskState) -> Iterator[Record]:
    """Records that lead to this row and these attempts, from a state without any."""
    for attempt in attempts:
        at = attempt.claimed or Wall(0.0)
        if state is not TaskState.WAITING:
            yield TasksSet(job, TaskState.WAITING, (row.task,), at)
        key = AttemptKey(job, row.task, attempt.attempt)
        yield Claimed(attempt.worker, (key,), at)
        state = attempt.state
        if state is TaskState.RUNNING:
            yield Began(attempt.worker, (key,), at)
        elif attempt.ended is not None and attempt.ending is not None:
            ending = row.ending if attempt.attempt == row.attempt and row.ending else attempt.ending
            account = attempt.due, attempt.failures, attempt.crashes
            yield Ended(key, ending, state, attempt.ended, *account)
        elif attempt.ended is not None:
            yield TasksSet(job, state, (row.task,), attempt.ended)
    if row.state is not state or not attempts:
        yield TasksSet(job, row.state, (row.task,), row.ended or Wall(0.0))
