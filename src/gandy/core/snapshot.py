"""What a store tells about jobs and tasks, and how a foreman that starts again takes it up."""

from msgspec import Struct

from gandy.core.jobs import Job
from gandy.core.model import AttemptKey, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.reactor import Reactor
from gandy.core.tasks import Strikes, TaskTable
from gandy.ids import JobId, TaskNumber


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
    """A job that is not final, with all of its tasks that are no longer as submitted."""

    row: JobRow
    tasks: tuple[TaskRow, ...]
    fresh: TaskState = TaskState.WAITING  # of the tasks that have no row


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
    for task in found.tasks:
        tasks.restore(task.task, task.state, task.attempt, Strikes(task.failures, task.crashes), task.due)
    awaited = set(row.spec.after) & others
    job = Job(row.job, row.spec, tasks, row.submitted, row.held, row.state, awaited, is_open=row.spec.is_open)
    reactor.restore_job(job)
    for task in found.tasks:
        if task.state is TaskState.RUNNING:
            reactor.restore_attempt(AttemptKey(row.job, task.task, task.attempt), task.worker, now)
    return job
