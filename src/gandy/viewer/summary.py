"""How the tasks of a job went: durations, memory, failures that are alike, and what ran where and when.

It looks at a sample of a large job, and says of how many tasks. `read_sample` asks; everything below it is pure.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gandy.client.aio import AsyncClient
from gandy.client.connection import check_progress
from gandy.core.model import TaskState
from gandy.core.requests import FindTasks, ListTasks, TaskList
from gandy.core.rows import JobRow, TaskRow
from gandy.ids import JobId, TaskNumber
from gandy.viewer.failures import FailureGroup, group_failures
from gandy.viewer.histograms import count_values, find_percentile, list_bars
from gandy.viewer.sampling import choose_tasks
from gandy.viewer.timeline import Attempt, measure_duration, place_attempts

SAMPLED_TASKS: Final = 1_000  # and as many that failed: an answer or two, unless tasks wrote much to standard error
KEPT_TAIL_BYTES: Final = 4_096  # of each task's standard error

Bar = tuple[int, int, int]  # lower bound, upper bound, and how many values are between


class Durations(Struct, frozen=True):
    """Of attempts that ended, by their workers' clocks."""

    bars: tuple[Bar, ...] = ()
    p50_us: float | None = None  # half took no longer
    p99_us: float | None = None
    max_us: int | None = None


class Memory(Struct, frozen=True):
    """The peaks of attempts whose workers measured them."""

    bars: tuple[Bar, ...] = ()
    p50_bytes: float | None = None
    p99_bytes: float | None = None
    max_bytes: int | None = None


class JobSummary(Struct, frozen=True):
    """The last attempts of `sampled` tasks out of `of`, and `failures_sampled` failed ones out of `failures_of`."""

    sampled: int
    of: int
    failures_sampled: int
    failures_of: int
    durations: Durations
    memory: Memory
    failures: tuple[FailureGroup, ...]
    failures_left_out: int  # those of the failures that are in no group that is listed
    timeline: tuple[Attempt, ...]  # of all tasks that were looked at


class JobSample(Struct, frozen=True):
    """A job, some of its tasks, evenly spread, and the first that failed. Tails are cut."""

    job: JobRow
    tasks: tuple[TaskRow, ...]
    failed: tuple[TaskRow, ...]

    def list_all(self) -> list[TaskRow]:
        """The tasks of both kinds, each once, by number."""
        return [row for _, row in sorted({row.task: row for row in (*self.tasks, *self.failed)}.items())]


async def summarise(client: AsyncClient, job: JobId) -> JobSummary:
    """Raises: JobNotFound, LinkError."""
    return make_summary(await read_sample(client, job))


async def read_sample(client: AsyncClient, job: JobId) -> JobSample:
    """Raises: JobNotFound, LinkError."""
    row = await client.job(job).status()
    tasks = await _find_tasks(client, job, choose_tasks(row.counts.total, SAMPLED_TASKS))
    failed = await _list_failed(client, job) if row.counts.failed else []
    return JobSample(row, tuple(tasks), tuple(failed))


async def _find_tasks(client: AsyncClient, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
    found: list[TaskRow] = []
    while tasks and (rows := (await client.connection.ask(FindTasks(job, tuple(tasks)), TaskList)).rows):
        last = rows[-1].task
        check_progress(last >= tasks[0])
        tasks = [task for task in tasks if task > last]
        found += map(_cut_tail, rows)
    return found


async def _list_failed(client: AsyncClient, job: JobId) -> list[TaskRow]:
    found: list[TaskRow] = []
    after = TaskNumber(0)
    while (room := SAMPLED_TASKS - len(found)) > 0:
        rows = (await client.connection.ask(ListTasks(job, (TaskState.FAILED,), room, after), TaskList)).rows
        if not rows:
            break
        check_progress(rows[-1].task > after)
        after = rows[-1].task
        found += map(_cut_tail, rows)
    return found


def _cut_tail(row: TaskRow) -> TaskRow:
    if row.ending is None or len(row.ending.tail) <= KEPT_TAIL_BYTES:
        return row
    return replace(row, ending=replace(row.ending, tail=row.ending.tail[-KEPT_TAIL_BYTES:]))


def make_summary(sample: JobSample) -> JobSummary:
    counts = sample.job.counts
    failures = group_failures(sample.failed)
    return JobSummary(
        len(sample.tasks),
        max(counts.total, len(sample.tasks)),  # more may have been added meanwhile
        len(sample.failed),
        max(counts.failed, len(sample.failed)),
        summarise_durations(sample.tasks),
        summarise_memory(sample.tasks),
        failures.groups,
        failures.left_out,
        place_attempts(sample.list_all()),
    )


def summarise_durations(rows: Iterable[TaskRow]) -> Durations:
    values = [int(seconds * 1e6) for row in rows if (seconds := measure_duration(row)) is not None]
    return Durations(*_summarise(values))


def summarise_memory(rows: Iterable[TaskRow]) -> Memory:
    endings = (row.ending for row in rows if row.ending is not None)
    return Memory(*_summarise([peak for ending in endings if (peak := ending.peak_memory_bytes) is not None]))


def _summarise(values: list[int]) -> tuple[tuple[Bar, ...], float | None, float | None, int | None]:
    buckets, most = count_values(values), max(values, default=None)
    half, nearly_all = (find_percentile(buckets, percent) for percent in (50.0, 99.0))
    return tuple(list_bars(buckets)), _limit(half, most), _limit(nearly_all, most), most


def _limit(percentile: float | None, most: int | None) -> float | None:
    """The middle of a bucket may be more than the largest value in it."""
    return None if percentile is None or most is None else min(percentile, float(most))
