"""Restores a reactor from what is in the store."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gandy.core.effects import Effect
from gandy.core.jobs import ActiveJob
from gandy.core.linking import UNKNOWN
from gandy.core.model import FINAL_JOB_STATES, GIVEN_STATES, AttemptKey, JobState, TaskState
from gandy.core.progress import LONGEST_RETRY_PAUSE
from gandy.core.reactor import Reactor
from gandy.core.rows import Recovered, RecoveredJob, TaskRow
from gandy.core.strikes import Strikes
from gandy.core.tasks import TaskTable
from gandy.ids import JobId
from gandy.moments import Monotonic

NO_STATES: Final[Mapping[JobId, JobState]] = MappingProxyType({})


def restore(
    reactor: Reactor, recovered: Recovered, now: Monotonic, elsewhere: Mapping[JobId, JobState] = NO_STATES
) -> list[Effect]:
    """Restore all jobs and attempts. Workers have the grace period to come back with theirs.

    `elsewhere`: the states of jobs that are not final or of other shards, and that jobs here were to run after. Returns
    what is to be done about tasks that cannot start any more.
    """
    # Jobs that wait for a job that cannot be read go on waiting: it is not known whether that one finished.
    numbers = {found.row.job for found in recovered.jobs} | set(recovered.unreadable)
    numbers |= {job for job, state in elsewhere.items() if state not in FINAL_JOB_STATES}
    failed = {job for job, state in elsewhere.items() if state in FINAL_JOB_STATES - {JobState.FINISHED}}
    # Jobs of which it is not known here how each task ended. Those of other shards are looked at again soon.
    unclear = {*recovered.unreadable, *elsewhere} - {
        job for job, state in elsewhere.items() if state is JobState.FINISHED
    }
    for found in recovered.jobs:
        # Nothing here has heard yet that these failed, unless a user had the job tried again all the same.
        unfinished = numbers | failed if _is_untouched(found) else numbers
        reactor.control.restore(make_job(found, unfinished, now))
        for task in found.tasks:
            if task.state in GIVEN_STATES:
                reactor.restore_attempt(AttemptKey(found.row.job, task.task, task.attempt), task.worker, now)
    return reactor.control.relink(dict.fromkeys(unclear, UNKNOWN), now)


def _is_untouched(found: RecoveredJob) -> bool:
    """True if none of its tasks has started or was cancelled."""
    return not found.tasks and not found.finished and found.fresh is TaskState.WAITING


def make_job(found: RecoveredJob, unfinished: set[JobId], now: Monotonic) -> ActiveJob:
    """The job as it is kept in memory. It waits for those of its jobs that are unfinished."""
    row = found.row
    tasks = TaskTable(row.spec.tasks)
    if found.fresh is TaskState.CANCELLED:
        tasks.cancel_waiting()
    for first, last in found.finished:
        tasks.restore_finished(first, last)
    for task in found.tasks:
        tasks.restore(task.task, task.state, task.attempt, Strikes(task.failures, task.crashes), _find_due(task, now))
    awaited = {*row.spec.after, *row.spec.after_any} & unfinished
    return ActiveJob(row.job, row.spec, tasks, row.submitted, row.held, row.state, awaited, is_open=row.spec.is_open)


def _find_due(task: TaskRow, now: Monotonic) -> Monotonic:
    """When a task that waits may start. Its pause begins again.

    Only the wall clock, which may have been stepped meanwhile, could say how much of the pause has passed.
    """
    if task.ended is None or not task.due:  # it never ran, or a user let it wait again
        return now
    return now + max(0.0, min(task.due - task.ended, LONGEST_RETRY_PAUSE))
