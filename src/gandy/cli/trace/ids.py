"""Ids of traces and spans. They follow from the job, the task and the attempt alone, so every exporter finds the same.

A job has a random identity besides its number, so no two jobs of any crews share a trace. Pure.
"""

from hashlib import blake2b
from typing import Final

from gandy.core.rows import JobRow

TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8

JOB: Final = (0, 0)  # in place of a task and an attempt: the span is the job's own


def find_trace_id(row: JobRow) -> int:
    """The trace of a job. Jobs of old foremen have no identity: of these, the time of the submission counts."""
    source = f"{row.spec.identity}" if row.spec.identity else f"at {float(row.submitted)!r}"
    return _digest(f"gandy job {row.job} {source}", TRACE_BYTES)


def find_span_id(trace: int, task: int, attempt: int) -> int:
    """The span of an attempt, or with `JOB` that of the job."""
    return _digest(f"gandy span {trace:032x} {task} {attempt}", SPAN_BYTES)


def _digest(text: str, size: int) -> int:
    """Never 0, which OpenTelemetry takes for no id."""
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest()) or 1
