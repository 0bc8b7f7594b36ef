"""Places the last attempts of tasks on one axis of time, in lanes of their workers. Pure.

How long an attempt took is known by its worker's clock, which may differ from the foreman's by any amount.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from msgspec import Struct

from gandy.core.model import TaskState
from gandy.core.rows import TaskRow
from gandy.core.views import Span
from gandy.ids import JobId, TaskNumber
from gandy.moments import Wall
from gandy.viewer.lanes import OVERLAP

_NO_JOB: Final = JobId(0)  # all attempts are of one job


class Attempt(Struct, frozen=True):
    """An attempt in a lane of its worker, by the foreman's clock."""

    worker: str
    lane: int
    task: TaskNumber
    attempt: int
    state: str  # of its task
    began: Wall
    ended: Wall | None  # None: it has not ended


def measure_duration(row: TaskRow) -> float | None:
    """The seconds that the last attempt took; None if it did not begin, has not ended, or was lost."""
    ending = row.ending
    if ending is None or ending.started is None or ending.ended is None:
        return None
    return max(0.0, ending.ended - ending.started)


def place_attempts(rows: Iterable[TaskRow]) -> tuple[Attempt, ...]:
    """The attempts that began, in the order in which they did. Attempts of one lane do not overlap."""
    known = list(rows)
    ahead = _compare_clocks(known)
    spans = [span for row in known if (span := _find_span(row, ahead)) is not None]
    ends: dict[str, list[float]] = {}  # by worker: until when each of its lanes is taken
    return tuple(_place(span, ends.setdefault(span.worker, [])) for span in sorted(spans, key=lambda span: span.began))


def _place(span: Span, ends: list[float]) -> Attempt:
    """Place a span in the first lane that is free when it begins."""
    free = (lane for lane, end in enumerate(ends) if end <= float(span.began) + OVERLAP)
    lane = next(free, len(ends))
    ends[lane : lane + 1] = [inf if span.ended is None else float(span.ended)]
    return Attempt(span.worker, lane, span.task, span.attempt, span.state.name.lower(), span.began, span.ended)


def _compare_clocks(rows: Iterable[TaskRow]) -> Mapping[str, float]:
    """How far the foreman's clock seems to be ahead of each worker's. What took the shortest way says it best."""
    ahead: dict[str, float] = {}
    for row in rows:
        if row.ended is not None and row.ending is not None and row.ending.ended is not None:
            seconds = row.ended - row.ending.ended
            ahead[row.worker] = min(seconds, ahead.get(row.worker, seconds))
    return ahead


def _find_span(row: TaskRow, ahead: Mapping[str, float]) -> Span | None:
    duration = measure_duration(row)
    if duration is None:
        return _find_unmeasured(row)
    assert row.ending is not None and row.ending.ended is not None, "it has a duration"  # noqa: PT018
    if row.ended is None:
        return None
    ended = row.ending.ended + ahead[row.worker]
    if row.claimed is not None and ended - duration < row.claimed:
        ended = row.ended  # the worker's clock has stepped
    return _make_span(row, ended - duration, ended)


def _find_unmeasured(row: TaskRow) -> Span | None:
    """An attempt that runs, or that was lost with its worker."""
    has_run = row.state is TaskState.RUNNING or (row.ending is not None and row.ended is not None)
    return _make_span(row, row.claimed, row.ended) if has_run and row.claimed is not None else None


def _make_span(row: TaskRow, began: Wall, ended: Wall | None) -> Span:
    return Span(row.worker, _NO_JOB, row.task, row.attempt, row.state, began, ended)
