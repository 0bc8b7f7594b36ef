"""Ranges of tasks of a job, as far as they are no longer as submitted. It knows no SQL."""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from gandy.core.model import GIVEN_STATES, TaskState
from gandy.core.rows import Run, TaskRow, is_plain
from gandy.ids import TaskNumber
from gandy.store.postgres.assemble import Assembler, TaskEnd

_FRESH, _PLAIN, _GIVEN, _OTHER = b"\0", b"\1", b"\2", b"\3"  # marks of tasks in a range
_GIVEN_TASKS: Final = re.compile(_GIVEN)
_PLAIN_RUNS: Final = re.compile(_PLAIN + b"+")


class TaskRange(NamedTuple):
    """Some tasks of a job. `last` is the last task that it is about."""

    rows: list[TaskRow]  # of tasks that are no longer as submitted, in order; plain ones may be left out
    finished: tuple[Run, ...]  # the plain ones, if so
    steps: dict[int, int]  # the last step of tasks with more than one
    marks: bytearray
    last: int


def make_range(
    assembler: Assembler, ends: list[TaskEnd], runs: Iterable[Any] | None, after: int, last: int
) -> TaskRange:
    """Without runs, the ends of plain tasks are among the ends."""
    marks = bytearray(max(0, last - after))
    assembler.claims.mark(marks, after, _GIVEN)
    for first, end in runs or ():
        marks[first - after - 1 : end - after] = _PLAIN * (end - first + 1)
    rows: dict[int, TaskRow] = {}
    steps: dict[int, int] = {}
    for row, step in assembler.make_rows(ends):
        marks[row.task - after - 1 : row.task - after] = _OTHER
        rows[row.task] = row
        if step and row.state not in GIVEN_STATES:
            steps[row.task] = step
    for given in _GIVEN_TASKS.finditer(marks):
        task = given.start() + after + 1
        if task not in rows:
            claim = assembler.claims.find_last(task)
            assert claim is not None
            rows[task] = assembler.make_given(task, claim, None)
    finished: tuple[Run, ...] = ()
    if runs is not None:
        finished = _take_plain(rows, marks, after)
    return TaskRange([row for _, row in sorted(rows.items())], finished, steps, marks, last)


def _take_plain(rows: dict[int, TaskRow], marks: bytearray, after: int) -> tuple[Run, ...]:
    """Move tasks that are plain, whatever their rows were, out of the rows."""
    for task in [task for task, row in rows.items() if is_plain(row)]:
        del rows[task]
        marks[task - after - 1 : task - after] = _PLAIN
    return tuple(
        (TaskNumber(found.start() + after + 1), TaskNumber(found.end() + after))
        for found in _PLAIN_RUNS.finditer(marks)
    )


def pick(found: TaskRange, fresh: TaskState, wanted: frozenset[TaskState], after: int, limit: int) -> list[TaskRow]:
    """The rows of a range in some states, those of tasks as submitted included."""
    rows = [row for row in found.rows if row.state in wanted]
    if fresh not in wanted:
        return rows[:limit]
    new: list[TaskRow] = []
    place = found.marks.find(_FRESH)
    while place >= 0 and len(new) < limit:
        new.append(TaskRow(TaskNumber(place + after + 1), fresh, 0))
        place = found.marks.find(_FRESH, place + 1)
    return sorted([*rows, *new], key=lambda row: row.task)[:limit]
