"""What a store tells about jobs and tasks: rows, for people and for a foreman that starts again."""

from collections.abc import Iterable

from msgspec import Struct

from gandy.core.model import Counts, Ending, JobSpec, JobState, TaskState
from gandy.ids import JobId, TaskNumber

Run = tuple[TaskNumber, TaskNumber]  # the first and the last of tasks whose numbers follow one another


class TaskRow(Struct, frozen=True):
    """A task that is no longer as it was submitted: its last attempt, and where it stands."""

    task: TaskNumber
    state: TaskState
    attempt: int  # 0: never started
    worker: str = ""
    claimed: float | None = None
    ended: float | None = None
    due: float = 0.0
    failures: int = 0
    crashes: int = 0
    ending: Ending | None = None


class JobRow(Struct, frozen=True):
    """A job as it is listed."""

    job: JobId
    spec: JobSpec
    state: JobState
    held: bool
    submitted: float
    changed: float
    counts: Counts


class RecoveredJob(Struct, frozen=True):
    """A job that is not final, with all of its tasks that are no longer as submitted.

    Most of a large job's tasks are like one another, and take no room here: some have no row, some are in a run.
    """

    row: JobRow
    tasks: tuple[TaskRow, ...]
    fresh: TaskState = TaskState.WAITING  # of the tasks that have no row
    finished: tuple[Run, ...] = ()  # tasks that did so at the first attempt


def is_plain(row: TaskRow) -> bool:
    """Whether the task finished at the first attempt."""
    return row.state is TaskState.FINISHED and row.attempt == 1 and not row.failures and not row.crashes


def find_runs(tasks: Iterable[TaskNumber]) -> tuple[Run, ...]:
    """Numbers in order, where most follow one another."""
    firsts: list[TaskNumber] = []
    lasts: list[TaskNumber] = []
    last = TaskNumber(-1)  # nobody follows this one
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
