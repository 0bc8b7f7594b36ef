"""How an attempt ended, as values of the core and as a worker reports it."""

from typing import Final

from msgspec import UNSET

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.limits import MAX_TEXT
from gandy.wire.messages import Report, TaskResult

CAUSES: Final = {int(cause): cause for cause in Cause}


def make_result(attempt: AttemptKey, ending: Ending, identity: int = 0) -> TaskResult:
    """What a gandy worker reports. `identity`: of the job, where it is known."""
    is_success = ending.is_success
    note = ending.note[:MAX_TEXT]  # an exception may have a message of any length
    status = "done" if is_success else note or f"exit status {ending.exit_code}"
    report = Report(
        attempt.attempt,
        int(ending.cause),
        ending.exit_code,
        ending.signal,
        ending.started,
        ending.ended,
        ending.peak_memory_bytes,
        ending.tail,
        note,
        ending.result,
        ending.result_bytes,
        ending.out_bytes,
        ending.err_bytes,
        identity,
    )
    return TaskResult(attempt.job, attempt.task, is_success, status, None, report)


def read_attempt(result: TaskResult) -> AttemptKey:
    """The attempt that a result is about; 0, where a plain peer does not say which."""
    return AttemptKey(result.job_id, result.task, 0 if result.report is UNSET else result.report.attempt)


def read_identity(result: TaskResult) -> int:
    """The identity of the job that a result is for; 0 where the worker does not say."""
    return 0 if result.report is UNSET else result.report.identity


def read_ending(result: TaskResult) -> Ending:
    report = result.report
    if report is UNSET:
        return Ending(cause=Cause.EXIT, exit_code=0 if result.success else 1, note=result.status[:MAX_TEXT])
    cause = CAUSES.get(report.cause, Cause.EXIT)  # a younger worker may know more
    return Ending(
        cause=cause,
        exit_code=report.exit_code,
        signal=report.signal,
        started=report.started,
        ended=report.ended,
        peak_memory_bytes=report.peak_memory_bytes,
        tail=report.tail,
        note=report.note,
        result=report.result,
        result_bytes=report.result_bytes,
        out_bytes=report.out_bytes,
        err_bytes=report.err_bytes,
    )
