"""Writes records as rows: each is a statement or two, and the number of rows that it changed shows whether it applied.

It owns the batch: which claims were lost, and how the counts of jobs change. It knows no threads, files or clocks.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from gandy.core.model import AttemptKey, TaskState
from gandy.core.records import (
    Began,
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    LinesAdded,
    LinesDropped,
    OpenJobClosed,
    Record,
    ResultsDropped,
    TasksAdded,
    TasksSet,
)
from gandy.ids import JobId, TaskNumber
from gandy.moments import Wall
from gandy.store.law import MEANT_BY_ALL, check, first_state
from gandy.store.sqlite_lines import pack_lines

# A job with all its tasks, none of which has a row.
ADD_JOB: Final = """
INSERT INTO jobs (job, tasks, state, held, submitted, changed, waiting, open, submission)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?2, ?6, ?7)
"""

# The spec of a job.
ADD_SPEC: Final = "INSERT INTO specs (job, spec) VALUES (?, ?)"

# Some lines of a job.
ADD_LINES: Final = "INSERT INTO lines (job, first, packed) VALUES (?, ?, ?)"

# Lines that were sent before their job.
UPLOAD_LINES: Final = "INSERT INTO uploads (upload, first, packed) VALUES (?, ?, ?)"

# Uploaded lines become lines of a job.
TAKE_UPLOAD: Final = "INSERT INTO lines (job, first, packed) SELECT ?, first, packed FROM uploads WHERE upload = ?"

# Uploaded lines are no longer needed.
DROP_UPLOAD: Final = "DELETE FROM uploads WHERE upload = ?"
DROP_UPLOADS: Final = "DELETE FROM uploads"

# An open job grows. If it is gone, or does not expect these tasks, nothing happens.
ADD_TASKS: Final = """
UPDATE jobs SET tasks = tasks + ?3, waiting = waiting + ?3
WHERE job = ?1 AND tasks = ?2 - 1 AND open = 1 AND fresh = 0
"""

# An open job gets no more tasks.
CLOSE_JOB: Final = "UPDATE jobs SET open = 0 WHERE job = ?"

# The first claims of a range of tasks that are still as submitted.
CLAIM_FRESH: Final = """
INSERT INTO tasks (job, task, state, attempt, outcome, worker, claimed)
WITH RECURSIVE range (number) AS (VALUES (?2) UNION ALL SELECT number + 1 FROM range WHERE number < ?3)
SELECT job, number, ?6, 1, ?6, ?4, ?5 FROM jobs, range WHERE job = ?1 AND number BETWEEN 1 AND tasks AND fresh = 0
ON CONFLICT DO NOTHING
"""

# The last attempt becomes an earlier one, if the claim of the next will succeed.
KEEP_ATTEMPT: Final = """
INSERT INTO attempts (job, task, attempt, outcome, worker, claimed, ended, due, failures, crashes, ending)
SELECT job, task, attempt, outcome, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ?1 AND task = ?2 AND attempt = ?3 - 1 AND state = 0 AND attempt > 0
"""

# The claim of a task that has a row. It succeeds only for the next attempt at a waiting task.
CLAIM_AGAIN: Final = """
UPDATE tasks SET state = ?6, attempt = ?3, outcome = ?6, worker = ?4, claimed = ?5, ended = NULL, due = 0, ending = NULL
WHERE job = ?1 AND task = ?2 AND attempt = ?3 - 1 AND state = 0
"""

# An attempt begins. Only the last attempt can, and only while it is assigned.
BEGIN: Final = """
UPDATE tasks SET state = 1, outcome = 1 WHERE job = ? AND task = ? AND attempt = ? AND state = 5
"""

# An attempt ends. Only the last attempt can, and only while it is in the given state.
END: Final = """
UPDATE tasks SET state = ?4, outcome = ?4, ended = ?5, due = ?6, failures = ?7, crashes = ?8, ending = ?9
WHERE job = ?1 AND task = ?2 AND attempt = ?3 AND state = ?10
"""

# What a function returned. Only the last attempt's is kept.
KEEP_RESULT: Final = "INSERT OR REPLACE INTO results (job, task, attempt, at, result) VALUES (?, ?, ?, ?, ?)"

# Results before a time.
DROP_RESULTS: Final = "DELETE FROM results WHERE at < ?"

# The state of a task, with or without a row.
GET_STATE: Final = """
SELECT coalesce(tasks.state, fresh) FROM jobs LEFT JOIN tasks ON tasks.job = jobs.job AND task = ?2
WHERE jobs.job = ?1 AND ?2 BETWEEN 1 AND jobs.tasks
"""

# A user changes one task. If a worker has it, this ends its attempt. Failures are counted from 0 again.
SET_TASK: Final = """
INSERT INTO tasks (job, task, state, attempt, outcome) VALUES (?1, ?2, ?3, 0, ?3)
ON CONFLICT (job, task) DO UPDATE SET
    outcome = CASE WHEN state IN (1, 5) THEN ?3 ELSE outcome END,
    ended = CASE WHEN state IN (1, 5) THEN ?4 ELSE ended END,
    state = ?3, due = 0, failures = 0, crashes = 0
"""

# A user changes all tasks of a state that have a row.
SET_ROWS: Final = """
UPDATE tasks SET state = ?, due = 0, failures = 0, crashes = 0 WHERE job = ? AND state = ?
"""

# The state of tasks without a row, and how many there are.
COUNT_FRESH: Final = """
SELECT fresh, tasks - (SELECT count(*) FROM tasks WHERE tasks.job = jobs.job) FROM jobs WHERE job = ?
"""

# A user changes all tasks that have no row.
SET_FRESH: Final = "UPDATE jobs SET fresh = ? WHERE job = ?"

# The job as a whole changes.
SET_JOB: Final = "UPDATE jobs SET state = ?, held = ? WHERE job = ?"

# A job and, by the foreign keys, everything that belongs to it.
FORGET_JOB: Final = "DELETE FROM jobs WHERE job = ?"

# How a batch changed the counts of a job.
MOVE_COUNTS: Final = """
UPDATE jobs SET waiting = waiting + ?, running = running + ?, finished = finished + ?, failed = failed + ?,
    cancelled = cancelled + ?, assigned = assigned + ?, changed = coalesce(?, changed)
WHERE job = ?
"""


def apply(db: sqlite3.Connection, records: Sequence[Record]) -> frozenset[AttemptKey]:
    """Apply records in the caller's transaction. Returns the claims that were lost."""
    check(records)
    batch = _Batch(db)
    for kind, group in groupby(records, type):
        # Many of one kind are faster in one statement.
        if kind is Ended:
            batch.end([record for record in group if isinstance(record, Ended)])
        elif kind is Claimed:
            batch.claim([record for record in group if isinstance(record, Claimed)])
        else:
            for record in group:
                batch.apply(record)
    batch.move_counts()
    return frozenset(batch.lost)


def drop_uploads(db: sqlite3.Connection) -> None:
    """When a foreman starts: clients that sent lines to the last one send them again."""
    with transaction(db):
        db.execute(DROP_UPLOADS)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    # IMMEDIATE: fails at once if another process holds a lock.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        roll_back(db)
        raise


def roll_back(db: sqlite3.Connection) -> None:
    """End the transaction, if SQLite did not do so itself, as it may on a full disk."""
    with suppress(sqlite3.Error):
        db.execute("ROLLBACK")


class _Moved:
    """How a batch changed one job: how many tasks more or fewer are in each state, and when it last changed."""

    __slots__ = ("at", "counts")

    def __init__(self) -> None:
        self.counts = [0] * len(TaskState)
        self.at: Wall | None = None


class _Batch:
    """The records of one transaction. Counts are written once per job, at the end."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.lost: set[AttemptKey] = set()
        self._execute = db.execute
        self._executemany = db.executemany
        self._encode_ending = msgspec.msgpack.Encoder().encode
        self._moved: defaultdict[JobId, _Moved] = defaultdict(_Moved)

    def apply(self, record: Record) -> None:
        match record:
            case Ended() | Claimed():
                raise AssertionError("many of these are written at once")
            case Began():
                self._begin(record)
            case JobAdded():
                self._add(record)
            case TasksAdded():
                self._add_tasks(record)
            case OpenJobClosed(job, at):
                self._execute(CLOSE_JOB, (job,))
                self._moved[job].at = at
            case LinesAdded(upload, first, lines):
                self._executemany(UPLOAD_LINES, ((upload, *chunk) for chunk in pack_lines(lines, first)))
            case LinesDropped(upload):
                self._execute(DROP_UPLOAD, (upload,))
            case TasksSet():
                self._set_tasks(record)
            case JobSet():
                self._execute(SET_JOB, (record.state, record.held, record.job))
                self._moved[record.job].at = record.at
            case ResultsDropped(before):
                self._execute(DROP_RESULTS, (before,))
            case JobForgotten():
                self._execute(FORGET_JOB, (record.job,))
                self._moved.pop(record.job, None)

    def move_counts(self) -> None:
        self._executemany(MOVE_COUNTS, [(*moved.counts, moved.at, job) for job, moved in self._moved.items()])

    def _move(self, job: JobId, before: int, after: int, count: int = 1) -> _Moved:
        moved = self._moved[job]
        moved.counts[before] -= count
        moved.counts[after] += count
        return moved

    def _add(self, record: JobAdded) -> None:
        job, spec = record.job, record.spec
        self._moved.pop(job, None)  # earlier records with this number were about another job
        fields = job, spec.tasks, first_state(spec), spec.held, record.at, spec.is_open, record.key
        self._execute(ADD_JOB, fields)
        self._execute(ADD_SPEC, (job, msgspec.json.encode(spec).decode()))
        self._executemany(ADD_LINES, ((job, *chunk) for chunk in pack_lines(record.lines)))
        if record.upload:
            self._execute(TAKE_UPLOAD, (job, record.upload))
            self._execute(DROP_UPLOAD, (record.upload,))

    def _add_tasks(self, record: TasksAdded) -> None:
        job, first, inputs = record.job, record.first, record.inputs
        if self._execute(ADD_TASKS, (job, first, len(inputs))).rowcount:
            self._moved[job].at = record.at
            self._executemany(ADD_LINES, ((job, *chunk) for chunk in pack_lines(inputs, first)))

    def claim(self, records: list[Claimed]) -> None:
        """Claim first attempts in one statement, if none of them is lost, and all others one by one."""
        ranges = [(attempts, record) for record in records for attempts in _find_ranges(record.attempts)]
        fresh = [(attempts, record) for attempts, record in ranges if attempts[0].attempt == 1]
        rows, count = sorted(_make_claim(*one) for one in fresh), sum(len(attempts) for attempts, _ in fresh)
        is_done = count > 0 and self._change(CLAIM_FRESH, rows, count)
        for attempts, record in ranges:
            if is_done and attempts[0].attempt == 1:
                self._move(attempts[0].job, TaskState.WAITING, record.state, len(attempts)).at = record.at
            else:
                for attempt in attempts:
                    self._claim_one(attempt, record)

    def _claim_one(self, attempt: AttemptKey, record: Claimed) -> None:
        is_first = attempt.attempt == 1
        is_ours = is_first and self._execute(CLAIM_FRESH, _make_claim((attempt,), record)).rowcount > 0
        if not is_ours:
            self._execute(KEEP_ATTEMPT, attempt)
            is_ours = self._execute(CLAIM_AGAIN, (*attempt, record.worker, record.at, record.state)).rowcount > 0
        if is_ours:
            self._move(attempt.job, TaskState.WAITING, record.state).at = record.at
        else:
            self.lost.add(attempt)

    def _begin(self, record: Began) -> None:
        for attempt in record.attempts:
            if self._execute(BEGIN, attempt).rowcount:
                self._move(attempt.job, TaskState.ASSIGNED, TaskState.RUNNING).at = record.at

    def end(self, records: list[Ended]) -> None:
        """End attempts in one statement, or one by one if some no longer count."""
        if self._change(END, sorted(map(self._make_end, records)), len(records)):
            self._on_ended(records)
        else:
            self._on_ended([record for record in records if self._execute(END, self._make_end(record)).rowcount])

    def _make_end(self, record: Ended) -> tuple[object, ...]:
        ending = record.ending
        packed = self._encode_ending(replace(ending, result=b"") if ending.result else ending)
        state, at, due = record.state, record.at, record.due
        return *record.attempt, state, at, due, record.failures, record.crashes, packed, record.before

    def _on_ended(self, records: list[Ended]) -> None:
        for record in records:
            self._move(record.attempt.job, record.before, record.state).at = record.at
        results = [(*record.attempt, record.at, record.ending.result) for record in records if record.ending.result]
        self._executemany(KEEP_RESULT, results)

    def _change(self, statement: str, values: Sequence[tuple[object, ...]], count: int) -> bool:
        """Change exactly `count` rows, or none. It is fastest if `values` are in the order of the table."""
        self._execute("SAVEPOINT change")
        is_done: bool = self._executemany(statement, values).rowcount == count
        if not is_done:
            self._execute("ROLLBACK TO change")
        self._execute("RELEASE change")
        return is_done

    def _set_tasks(self, record: TasksSet) -> None:
        self._moved[record.job].at = record.at
        if record.tasks is None:
            self._set_all(record.job, record.state)
            return
        for task in record.tasks:
            self._set_task(record, task)

    def _set_task(self, record: TasksSet, task: TaskNumber) -> None:
        found = self._execute(GET_STATE, (record.job, task)).fetchone()
        if found is not None:
            self._execute(SET_TASK, (record.job, task, record.state, record.at))
            self._move(record.job, found[0], record.state)

    def _set_all(self, job: JobId, state: TaskState) -> None:
        meant = MEANT_BY_ALL[state]
        for before in meant:
            changed = self._execute(SET_ROWS, (state, job, before)).rowcount
            self._move(job, before, state, changed)
        for fresh, count in self._execute(COUNT_FRESH, (job,)).fetchall():
            if fresh in meant:
                self._execute(SET_FRESH, (state, job))
                self._move(job, fresh, state, count)


def _make_claim(
    attempts: tuple[AttemptKey, ...], record: Claimed
) -> tuple[JobId, TaskNumber, TaskNumber, str, Wall, TaskState]:
    return attempts[0].job, attempts[0].task, attempts[-1].task, record.worker, record.at, record.state


def _find_ranges(attempts: tuple[AttemptKey, ...]) -> Iterator[tuple[AttemptKey, ...]]:
    """Ranges of attempts at consecutive tasks of a job, all with the same number of attempt."""
    begin = 0
    for end in range(1, len(attempts) + 1):
        job, task, number = attempts[end - 1]
        if end == len(attempts) or attempts[end] != (job, task + 1, number):
            yield attempts[begin:end]
            begin = end
