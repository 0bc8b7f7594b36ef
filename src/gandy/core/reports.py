"""How an attempt ended, as values of the core and as a worker reports it.

A report is the number of the attempt, the fields of its ending in the same order, the identity of the job,
and the shard that it belongs to.
"""

from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import astuple, replace

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.shards import NO_SHARD
from gandy.limits import MAX_TEXT
from gandy.wire.messages import Report, TaskResult

CAUSES: Final = {int(cause): cause for cause in Cause}


def make_result(attempt: AttemptKey, ending: Ending, identity: int = 0, shard: int = NO_SHARD) -> TaskResult:
    """What a gandy worker reports. `identity`: of the job, if it is known."""
    is_success = ending.is_success
    if len(ending.note) > MAX_TEXT:  # an exception may have a message of any length
        ending = replace(ending, note=ending.note[:MAX_TEXT])
    status = "done" if is_success else ending.note or f"exit status {ending.exit_code}"
    fields: tuple[Any, ...] = (attempt.attempt, *astuple(ending), identity, shard)
    return TaskResult(attempt.job, attempt.task, is_success, status, None, Report(*fields))


def read_attempt(result: TaskResult) -> AttemptKey:
    """The attempt that a result is about; number 0 if a plain peer does not say which."""
    return AttemptKey(result.job_id, result.task, 0 if result.report is UNSET else result.report.attempt)


def read_identity(result: TaskResult) -> int:
    """The identity of the job that a result is for; 0 if the worker does not say."""
    return 0 if result.report is UNSET else result.report.identity


def read_shard(result: TaskResult) -> int:
    """The shard that the task came from."""
    return NO_SHARD if result.report is UNSET else result.report.shard


def read_ending(result: TaskResult) -> Ending:
    report = result.report
    if report is UNSET:
        return Ending(cause=Cause.EXIT, exit_code=0 if result.success else 1, note=result.status[:MAX_TEXT])
    cause = CAUSES.get(report.cause, Cause.EXIT)  # a newer worker may know more causes
    return Ending(cause, *astuple(report)[2:-2])
