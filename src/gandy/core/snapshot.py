"""What a store tells about jobs and tasks, and how a foreman that starts again takes it up."""

from collections.abc import Iterable

from msgspec import Struct

from gandy.core.jobs import Job
from gandy.core.model import AttemptKey, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.reactor import Reactor
from gandy.core.tasks import Strikes, TaskTable
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


def restore(reactor: Reactor, recovered: Recovered, now: float) -> None:
    """Take up everything; what ran has the grace period to show itself."""
    numbers = {found.row.job for found in recovered.jobs}
    for found in recovered.jobs:
        restore_job(reactor, found, numbers, now)


def restore_job(reactor: Reactor, found: RecoveredJob, others: set[JobId], now: float) -> Job:
    """Take up one job. `others` are jobs that are not final either, for those it waits for."""
    row = found.row
    tasks = TaskTable(row.spec.tasks)
    if found.fresh is TaskState.CANCELLED:
        tasks.cancel_waiting()
    for first, last in found.finished:
        tasks.restore_finished(first, last)
    for task in found.tasks:
        tasks.restore(task.task, task.state, task.attempt, Strikes(task.failures, task.crashes), task.due)
    awaited = set(row.spec.after) & others
    job = Job(row.job, row.spec, tasks, row.submitted, row.held, row.state, awaited, is_open=row.spec.is_open)
    reactor.restore_job(job)
    for task in found.tasks:
        if task.state is TaskState.RUNNING:
            reactor.restore_attempt(AttemptKey(row.job, task.task, task.attempt), task.worker, now)
    return job
