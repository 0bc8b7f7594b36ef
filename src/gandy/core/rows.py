"""What a store knows about jobs and tasks: rows, for users and for a foreman that starts again."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from gandy.bounds import AttemptNumber, Count, JobNumber, TaskIndex, Text, WallMoment
from gandy.core.model import Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.samples import StoredHistory
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE_BYTES
from gandy.moments import Wall

T = TypeVar("T")

ROW_BYTES: Final = 300  # of a row, besides its texts
CHARACTER_BYTES: Final = 4  # of one character in UTF-8, at most

Run = tuple[TaskNumber, TaskNumber]  # the first and the last of tasks whose numbers follow one another


class TaskRow(Struct, frozen=True):
    """A task that is no longer as it was submitted: its last attempt, and its state."""

    task: TaskIndex
    state: TaskState
    attempt: AttemptNumber  # 0: never started
    worker: Text = ""
    claimed: WallMoment | None = None
    ended: WallMoment | None = None
    due: WallMoment = Wall(0.0)  # when it may start again, if it waits; what counts is how long after its end
    failures: Count = 0
    crashes: Count = 0
    ending: Ending | None = None


class JobRow(Struct, frozen=True):
    """A job as it is listed."""

    job: JobNumber
    spec: JobSpec
    state: JobState
    held: bool
    submitted: WallMoment
    changed: WallMoment
    counts: Counts
    problem: Text = ""  # why the job cannot be read; then it is as it was, and its spec is none


class RecoveredJob(Struct, frozen=True):
    """A job that is not final, with all of its tasks that are no longer as submitted.

    Most of a large job's tasks are like one another, and take no room here: some have no row, some are in a run.
    """

    row: JobRow
    tasks: tuple[TaskRow, ...]
    fresh: TaskState = TaskState.WAITING  # of the tasks that have no row
    finished: tuple[Run, ...] = ()  # tasks that finished at the first attempt


def is_plain(row: TaskRow) -> bool:
    """True if the task finished at the first attempt."""
    return row.state is TaskState.FINISHED and row.attempt == 1 and not row.failures and not row.crashes


def find_runs(tasks: Iterable[TaskNumber]) -> tuple[Run, ...]:
    """The runs in numbers that ascend."""
    firsts: list[TaskNumber] = []
    lasts: list[TaskNumber] = []
    last = TaskNumber(-1)  # no task follows this one
    for task in tasks:
        if task != last + 1:
            firsts.append(task)
            lasts.append(last)
        last = task
    return tuple(zip(firsts, [*lasts[1:], last], strict=False))  # without tasks there is no first


class Recovered(Struct, frozen=True):
    """All that a foreman must know when it starts again."""

    jobs: tuple[RecoveredJob, ...]
    next_job: JobId
    unreadable: tuple[JobId, ...] = ()  # jobs that are not final and cannot be read: they are set aside
    problems: tuple[str, ...] = ()  # what the store has lost, as far as it can tell


class StoredJobs(Protocol):
    """What can be read of a store. Every method may raise StoreError."""

    @property
    def history(self) -> StoredHistory: ...

    async def find_job(self, job: JobId) -> JobRow | None: ...

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        """The states of those of the jobs that exist."""

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        """A job with all its tasks, final or not."""

    async def find_submission(self, key: int) -> JobId | None:
        """The job that was submitted with this key, if there is one."""

    async def get_submission(self, job: JobId) -> int:
        """The key with which a job was submitted; 0 if it has none."""

    async def draw_number(self) -> JobId | None:
        """The number of the next job, if foremen share the store. None: the foreman numbers its jobs itself."""

    async def find_shard(self, job: JobId) -> int | None:
        """The shard that a job belongs to; NO_SHARD if any foreman may change it. None: there is no such job."""

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        """The newest first; `before` continues below a job's number. A page that gets too large ends early: see
        `take_page`. The same goes for the next three."""

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        """Tasks above `after` in the order of their numbers, those without a row of their own included."""

    async def find_tasks(self, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        """Those of the tasks that exist. Their numbers ascend."""

    async def read_states(self, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
        """How many tasks a job has, and the states of up to so many from one on, a byte each. None: no such job."""

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        """Tasks above `after` that have ended for good, with their results, which all other lists leave out."""

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        """Attempts at a task above a number, the first one first; each with the state its end led to."""


def take_page(rows: Iterable[T], limit: int, weigh: Callable[[T], int]) -> list[T]:
    """The first rows, as many as fit an answer; always one, even if it is too large by itself."""
    page: list[T] = []
    size = 0
    for row in islice(rows, limit):
        size += weigh(row)
        if page and size > MAX_PAGE_BYTES:
            break
        page.append(row)
    return page


def weigh_task(row: TaskRow) -> int:
    """Bytes that a row takes at most in an answer."""
    ending = row.ending
    if ending is None:
        return ROW_BYTES
    return ROW_BYTES + len(ending.tail) + len(ending.result) + CHARACTER_BYTES * len(ending.note)


def weigh_job(row: JobRow) -> int:
    """The same for a job."""
    spec = row.spec
    words = (spec.command,) if isinstance(spec.command, str) else spec.command
    texts = (*words, *spec.env, *spec.env.values(), *spec.tags, spec.cwd, spec.name)
    return (
        ROW_BYTES
        + CHARACTER_BYTES * sum(map(len, texts))
        + 9 * (len(spec.after) + len(spec.after_any) + len(spec.after_each))
    )
