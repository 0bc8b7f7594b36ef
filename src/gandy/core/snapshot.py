"""How a foreman that starts again takes up what its store tells."""

from gandy.core.jobs import Job
from gandy.core.model import AttemptKey, TaskState
from gandy.core.reactor import Reactor
from gandy.core.rows import Recovered, RecoveredJob
from gandy.core.tasks import Strikes, TaskTable
from gandy.ids import JobId


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
