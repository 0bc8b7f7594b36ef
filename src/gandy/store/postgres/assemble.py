"""Makes rows of tasks out of what was appended about them: claims and begins in runs, and ends. It knows no SQL."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from gandy.bounds import BROKEN, describe
from gandy.core.model import Cause, Ending, TaskState
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.moments import Wall

_decode_ending = msgspec.msgpack.Decoder(Ending).decode
_STATES = tuple(TaskState)


class Claim(NamedTuple):
    """A run of tasks whose attempt of a number was given to a worker."""

    first: int
    last: int
    attempt: int
    state: int
    at: Wall
    worker: bytes


class TaskEnd(NamedTuple):
    """A step of a task: the end of an attempt, or what a user did then."""

    task: int
    attempt: int
    step: int
    state: int
    at: Wall
    due: Wall | None
    failures: int | None
    crashes: int | None
    ending: bytes | None


class Runs:
    """Runs of tasks by their attempt. Those of one attempt do not overlap."""

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        """Rows begin with the first and the last task and the attempt, and are ordered by attempt, then by task."""
        self._rows: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
        for row in rows:
            self._rows[row[2]].append(row)
        self._lasts = {attempt: [row[1] for row in rows] for attempt, rows in self._rows.items()}
        self._attempts = sorted(self._rows, reverse=True)

    def find(self, task: int, attempt: int) -> Sequence[Any] | None:
        """The run with this attempt at a task."""
        rows = self._rows.get(attempt)
        if rows is None:
            return None
        place = bisect_left(self._lasts[attempt], task)
        return rows[place] if place < len(rows) and rows[place][0] <= task else None

    def find_last(self, task: int) -> Sequence[Any] | None:
        """The run with the last attempt at a task."""
        return next((row for row in (self.find(task, attempt) for attempt in self._attempts) if row is not None), None)

    def mark(self, marks: bytearray, after: int, value: bytes) -> None:
        """Mark all tasks of all runs; place 0 is the task behind `after`."""
        size = len(marks)
        for rows in self._rows.values():
            for row in rows:
                first, end = max(row[0] - after - 1, 0), min(row[1] - after, size)
                marks[first:end] = value * (end - first)


class Assembler:
    """The rows of tasks in a range of which these are all claims and begins."""

    def __init__(self, claims: Iterable[Sequence[Any]], begins: Iterable[Sequence[Any]]) -> None:
        self.claims = Runs(claims)
        self._begins = Runs(begins)

    def make_rows(self, ends: Iterable[TaskEnd]) -> Iterator[tuple[TaskRow, int]]:
        """The row of each task about which ends exist, and its last step."""
        for _, steps in groupby(ends, itemgetter(0)):
            found = list(steps)
            yield self.make_row(found), found[-1].step

    def make_row(self, ends: Sequence[TaskEnd]) -> TaskRow:
        """The row of a task with these ends, in order."""
        last = ends[-1]
        claim = self.claims.find_last(last.task)
        if claim is not None and claim[2] > last.attempt:
            return self.make_given(last.task, claim, last)
        first = next(end for end in ends if end.attempt == last.attempt)
        return self._make_ended(first, last, last.state)

    def make_given(self, task: int, claim: Sequence[Any], before: TaskEnd | None) -> TaskRow:
        """The row of a task that a worker has; `before` is its last end."""
        attempt, state, at, worker = claim[2:]
        is_begun = self._begins.find(task, attempt) is not None
        account = (0, 0) if before is None else (before.failures or 0, before.crashes or 0)
        return TaskRow(
            TaskNumber(task),
            TaskState.RUNNING if is_begun else _STATES[state],
            attempt,
            _decode_worker(worker),
            at,
            None,
            Wall(0.0),
            *account,
        )

    def make_attempts(self, task: int, ends: Sequence[TaskEnd], after: int) -> Iterator[TaskRow]:
        """The attempts at one task above a number, each with the state that its end led to."""
        by_attempt = {attempt: list(group) for attempt, group in groupby(ends, itemgetter(1))}
        before = by_attempt.get(0, [None])[-1]
        attempt = 1
        while (claim := self.claims.find(task, attempt)) is not None:
            found = by_attempt.get(attempt)
            if attempt > after:
                yield (
                    self._make_ended(found[0], found[-1], found[0].state)
                    if found
                    else self.make_given(task, claim, before)
                )
            before = found[-1] if found else before
            attempt += 1

    def _make_ended(self, first: TaskEnd, last: TaskEnd, state: int) -> TaskRow:
        claim = self.claims.find(last.task, last.attempt) if last.attempt else None
        return TaskRow(
            TaskNumber(last.task),
            _STATES[state],
            last.attempt,
            "" if claim is None else _decode_worker(claim[5]),
            None if claim is None else claim[4],
            first.at if last.attempt else None,
            last.due or Wall(0.0),
            last.failures or 0,
            last.crashes or 0,
            None if first.ending is None else read_ending(first.ending),
        )


def _decode_worker(worker: bytes) -> str:
    return bytes(worker).decode(errors="surrogatepass")


def read_ending(packed: bytes) -> Ending:
    try:
        return _decode_ending(packed)
    except BROKEN as error:  # the task's state is known all the same
        return Ending(cause=Cause.EXIT, note=f"how it ended cannot be read: {describe(error)}")
