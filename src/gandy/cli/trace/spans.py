"""Jobs and attempts as spans. Attributes have the names of OpenTelemetry's conventions, or begin with `gandy.`. Pure.

A command is in a span only if the user asked for it, as the conventions want: it may have secrets in it.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from gandy.bounds import escape_controls
from gandy.cli.trace.ids import JOB, find_span_id, find_trace_id
from gandy.core.explain import describe_ending
from gandy.core.model import FINAL_JOB_STATES, FINAL_STATES, Cause, Ending, JobState, TaskState
from gandy.core.rows import JobRow, TaskRow
from gandy.ids import JobId
from gandy.limits import MAX_TRACED_COMMAND, MAX_TRACED_TAGS, MAX_TRACED_TEXT

Value = str | int | tuple[str, ...]

# The class of an exception, at the beginning of what a worker notes about it.
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?=:|$)")


class SpanStatus(Enum):
    """What OpenTelemetry calls the status of a span. Unset is for what was cancelled."""

    UNSET = 0
    OK = 1
    ERROR = 2


class TraceSpan(Struct, frozen=True):
    """A job, or an attempt, as it is sent. Times are in seconds since 1970."""

    trace: int
    span: int
    parent: int | None
    name: str
    began: float
    ended: float
    status: SpanStatus
    problem: str  # for people; only with an error
    attributes: Mapping[str, Value]


class TracedJob(Struct, frozen=True):
    """A job that has ended, and what is needed to make spans of its attempts."""

    job: JobId
    changed: float  # when it ended; it ends again if failed tasks are retried
    tasks: int
    failed: int
    name: str
    span: TraceSpan


def has_ended(row: JobRow) -> bool:
    """True if no attempt of the job runs, or will run unless a user retries it."""
    return row.state in FINAL_JOB_STATES and not row.counts.running + row.counts.assigned


def trace_job(row: JobRow, with_command: bool = False) -> TracedJob:
    """`with_command`: send what it runs, and where."""
    trace, name = find_trace_id(row), _name_job(row)
    began, ended = float(row.submitted), float(row.changed)
    attributes = _describe_job(row) | (_describe_command(row) if with_command else {})
    counts = row.counts
    problem = f"{counts.failed:,} of {counts.total:,} tasks failed" if row.state is JobState.FAILED else ""
    span = TraceSpan(
        trace,
        find_span_id(trace, *JOB),
        None,
        f"job {name}",
        min(began, ended),
        ended,
        _JOB_STATUS[row.state],
        problem,
        attributes,
    )
    return TracedJob(row.job, float(row.changed), counts.total, counts.failed, name, span)


_JOB_STATUS: Final = {
    JobState.FINISHED: SpanStatus.OK,
    JobState.FAILED: SpanStatus.ERROR,
    JobState.CANCELLED: SpanStatus.UNSET,
}


def _name_job(row: JobRow) -> str:
    """Its name, or its program's: a backend groups spans by their names, so there must not be one for each line."""
    spec = row.spec
    if spec.name:
        return _cut(spec.name)
    if isinstance(spec.command, str):
        return _cut(spec.command) if spec.python is not None else "sh"
    return _cut(spec.command[0].rstrip("/").rpartition("/")[2]) or "program"


def _describe_job(row: JobRow) -> dict[str, Value]:
    spec, counts = row.spec, row.counts
    attributes: dict[str, Value] = {
        "gandy.job.id": row.job,
        "gandy.job.state": row.state.name.lower(),
        "gandy.job.priority": spec.priority,
        "gandy.job.slots": spec.slots,
        "gandy.job.retries": spec.retries,
        "gandy.job.tasks.total": counts.total,
        "gandy.job.tasks.finished": counts.finished,
        "gandy.job.tasks.failed": counts.failed,
        "gandy.job.tasks.cancelled": counts.cancelled,
    }
    if spec.name:
        attributes["gandy.job.name"] = _cut(spec.name)
    if spec.tags:
        attributes["gandy.job.tags"] = tuple(map(_cut, sorted(spec.tags)[:MAX_TRACED_TAGS]))
    if spec.python is not None and isinstance(spec.command, str):
        attributes["code.function.name"] = _cut(spec.command)
    return attributes


def _describe_command(row: JobRow) -> dict[str, Value]:
    spec = row.spec
    found: dict[str, Value] = {"process.working_directory": _cut(spec.cwd)} if spec.cwd else {}
    if isinstance(spec.command, str):
        return found | {"process.command_line": _cut(spec.command, MAX_TRACED_COMMAND)}
    words, room = [], MAX_TRACED_COMMAND
    for word in spec.command:
        if room <= 0:
            break
        words.append(_cut(word, room))
        room -= len(words[-1]) + 1
    return found | {"process.command_args": tuple(words)}


# Attempts


def trace_attempt(job: TracedJob, row: TaskRow) -> TraceSpan | None:
    """None: the task never began, or the attempt has not ended."""
    if not row.attempt or row.ended is None or row.claimed is None:
        return None
    ending = row.ending
    if ending is not None and ending.cause is Cause.RETURNED:
        return None  # it did not begin
    state = _find_state(row)
    began, ended = _find_times(float(row.claimed), float(row.ended), ending)
    trace = job.span.trace
    return TraceSpan(
        trace,
        find_span_id(trace, row.task, row.attempt),
        job.span.span,
        f"attempt {job.name}",
        began,
        ended,
        _ATTEMPT_STATUS[state],
        _cut(describe_ending(ending)) if state is TaskState.FAILED and ending is not None else "",
        _describe_attempt(job, row, state),
    )


_ATTEMPT_STATUS: Final = {
    TaskState.FINISHED: SpanStatus.OK,
    TaskState.FAILED: SpanStatus.ERROR,
    TaskState.CANCELLED: SpanStatus.UNSET,
}


def _find_state(row: TaskRow) -> TaskState:
    """How the attempt itself ended: its task may wait for another one since, or have been cancelled."""
    ending = row.ending
    if ending is None:  # a user ended it
        return row.state if row.state in FINAL_STATES else TaskState.CANCELLED
    if ending.is_success:
        return TaskState.FINISHED
    return TaskState.CANCELLED if ending.cause is Cause.CANCELLED else TaskState.FAILED


def _find_times(claimed: float, ended: float, ending: Ending | None) -> tuple[float, float]:
    """By the foreman's clock. How long it took is known by the worker's, which may be wrong by any amount."""
    if ending is None or ending.started is None or ending.ended is None:
        return min(claimed, ended), ended
    began = ended - max(0.0, ending.ended - ending.started)
    return (claimed, ended) if began < claimed <= ended else (began, ended)  # otherwise, a clock was set meanwhile


def _describe_attempt(job: TracedJob, row: TaskRow, state: TaskState) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        "gandy.job.id": job.job,
        "gandy.task.number": row.task,
        "gandy.attempt.number": row.attempt,
        "gandy.attempt.state": state.name.lower(),
        "gandy.worker.id": _cut(row.worker),
    }
    ending = row.ending
    if ending is None:
        return attributes
    attributes["gandy.attempt.cause"] = ending.cause.name.lower()
    if ending.exit_code is not None:
        attributes["process.exit.code"] = ending.exit_code
    if ending.signal is not None:
        attributes["gandy.attempt.signal"] = ending.signal
    if ending.peak_memory_bytes is not None:
        attributes["gandy.attempt.peak_memory_bytes"] = ending.peak_memory_bytes
    if state is TaskState.FAILED:
        attributes["error.type"] = _find_error_type(ending)
    return attributes


def _find_error_type(ending: Ending) -> str:
    found = _EXCEPTION.match(ending.note) if ending.cause is Cause.RAISED else None
    return ending.cause.name.lower() if found is None else _cut(found[0])


def _cut(text: str, most: int = MAX_TRACED_TEXT) -> str:
    """UTF-8 has no lone surrogates, which a file's name in a command may have."""
    short = escape_controls(text[:most].encode(errors="replace").decode())
    return short if len(text) <= most else f"{short}…"
