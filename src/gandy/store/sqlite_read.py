"""Rows into what the interface speaks of. It only reads, and never more than was asked for."""

import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from gandy.core.model import FINAL_STATES, Counts, Ending, Input, JobSpec, JobState, TaskState
from gandy.core.rows import find_runs
from gandy.ids import JobId, TaskNumber
from gandy.store.base import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.store.law import FINAL_JOB_STATES
from gandy.store.sqlite_lines import unpack_lines
from gandy.store.sqlite_write import roll_back

# One job as it is listed.
FIND_JOB: Final = """
SELECT job, spec, tasks, open, state, held, submitted, changed, waiting, running, finished, failed, cancelled
FROM jobs JOIN specs USING (job) WHERE job = ?
"""

# Jobs below a number and in some states, the newest first. NULL stands for any number, and for any state.
LIST_JOBS: Final = """
SELECT job, spec, tasks, open, state, held, submitted, changed, waiting, running, finished, failed, cancelled
FROM jobs JOIN specs USING (job)
WHERE (?1 IS NULL OR job < ?1) AND (?2 IS NULL OR state IN (SELECT value FROM json_each(?2)))
ORDER BY job DESC LIMIT ?3
"""

# Jobs that a foreman must know when it starts, with the state of their tasks that have no row.
LIST_OPEN_JOBS: Final = """
SELECT job, fresh FROM jobs WHERE running > 0 OR state NOT IN (SELECT value FROM json_each(?)) ORDER BY job
"""

# The highest number that a job ever had.
GET_LAST_JOB: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"

# How many tasks a job has, and the state of those without a row.
GET_FRESH: Final = "SELECT tasks, fresh FROM jobs WHERE job = ?"

# The rows of a range of tasks.
LIST_ROWS: Final = """
SELECT task, state, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ? AND task > ? AND task <= ? ORDER BY task
"""

# Tasks that finished at the first attempt. The plus keeps SQLite from an index that would lead it here and there.
LIST_FINISHED: Final = """
SELECT task FROM tasks WHERE job = ? AND +state = 2 AND attempt = 1 AND failures = 0 AND crashes = 0 ORDER BY task
"""

# The rows of all others.
LIST_OTHER_ROWS: Final = """
SELECT task, state, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ? AND NOT (state = 2 AND attempt = 1 AND failures = 0 AND crashes = 0) ORDER BY task
"""

# The rows of tasks in one state.
LIST_ROWS_IN_STATE: Final = """
SELECT task, state, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ? AND state = ? AND task > ? ORDER BY task LIMIT ?
"""

# The last task that has a row, if all before it have one too: mostly so, as tasks start in the order of their numbers.
FIND_FULL_END: Final = """
SELECT last FROM (SELECT max(task) AS last FROM tasks WHERE job = ?1)
WHERE last = (SELECT count(*) FROM tasks WHERE job = ?1)
"""

# The first task from a number on that has a row.
FIND_ROW: Final = "SELECT min(task) FROM tasks WHERE job = ? AND task >= ?"

# The end of an unbroken run of rows. Where it reaches the last task that matters, nobody needs to know how it goes on.
FIND_RUN_END: Final = """
SELECT task FROM tasks AS this WHERE job = ?1 AND task >= ?2
    AND (task >= ?3 OR NOT EXISTS (SELECT 1 FROM tasks WHERE job = ?1 AND task = this.task + 1))
ORDER BY task LIMIT 1
"""

# Results of some tasks, where the last attempt is the one that gave it.
LIST_RESULTS: Final = """
SELECT task, result FROM results JOIN tasks USING (job, task, attempt) WHERE job = ? AND task BETWEEN ? AND ?
"""

# Every attempt at a task, with the state it led to.
LIST_ATTEMPTS: Final = """
SELECT task, outcome, attempt, worker, claimed, ended, due, failures, crashes, ending FROM attempts
WHERE job = ?1 AND task = ?2
UNION ALL
SELECT task, outcome, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ?1 AND task = ?2 AND attempt > 0
ORDER BY attempt
"""

# Chunks of lines, from the one that holds a line on.
READ_CHUNKS: Final = """
SELECT first, packed FROM lines
WHERE job = ?1 AND first >= (SELECT max(first) FROM lines WHERE job = ?1 AND first <= ?2) AND first < ?2 + ?3
ORDER BY first
"""

_decode_spec = msgspec.json.Decoder(JobSpec).decode
_decode_ending = msgspec.msgpack.Decoder(Ending).decode
_STATES: Final = tuple(TaskState)


def recover(db: sqlite3.Connection) -> Recovered:
    with _snapshot(db):
        found = db.execute(LIST_OPEN_JOBS, (json.dumps(sorted(FINAL_JOB_STATES)),)).fetchall()
        last = db.execute(GET_LAST_JOB).fetchone()
        jobs = tuple(_recover_job(db, job, TaskState(fresh)) for job, fresh in found)
    return Recovered(jobs, JobId(last[0] + 1 if last else 1))


def find_job(db: sqlite3.Connection, job: JobId) -> JobRow | None:
    row = db.execute(FIND_JOB, (job,)).fetchone()
    return None if row is None else _to_job(row)


def load_job(db: sqlite3.Connection, job: JobId) -> RecoveredJob | None:
    with _snapshot(db):
        found = db.execute(GET_FRESH, (job,)).fetchone()
        return None if found is None else _recover_job(db, job, TaskState(found[1]))


def list_jobs(
    db: sqlite3.Connection, states: frozenset[JobState] | None, limit: int, before: JobId | None
) -> list[JobRow]:
    wanted = None if states is None else json.dumps(sorted(states))
    return [_to_job(row) for row in db.execute(LIST_JOBS, (before, wanted, limit))]


def list_tasks(
    db: sqlite3.Connection, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
) -> list[TaskRow]:
    with _snapshot(db):
        found = db.execute(GET_FRESH, (job,)).fetchone()
        if found is None:
            return []
        tasks, fresh = found[0], TaskState(found[1])
        # Without a filter every task counts, so that the last one to look at is known.
        last = tasks if states is not None else min(tasks, after + limit)
        sources = _list_rows(db, job, states, limit, after, last)
        if states is None or fresh in states:
            skipped = after if states is None else max(after, _find_full_end(db, job))
            sources.append(_list_fresh(db, job, fresh, skipped, last))
        return list(islice(heapq.merge(*sources, key=lambda row: row.task), limit))


def list_results(db: sqlite3.Connection, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
    rows = list_tasks(db, job, FINAL_STATES, limit, after)
    if not rows:
        return []
    results = dict(db.execute(LIST_RESULTS, (job, rows[0].task, rows[-1].task)))
    return [_with_result(row, results.get(row.task)) for row in rows]


def _with_result(row: TaskRow, result: bytes | None) -> TaskRow:
    if result is None or row.ending is None:
        return row
    return replace(row, ending=replace(row.ending, result=result))


def list_attempts(db: sqlite3.Connection, job: JobId, task: TaskNumber) -> list[TaskRow]:
    return list(map(_to_task, db.execute(LIST_ATTEMPTS, (job, task))))


def read_lines(db: sqlite3.Connection, job: JobId, first: TaskNumber, count: int) -> list[Input]:
    return unpack_lines(db.execute(READ_CHUNKS, (job, first, count)), first, count)


@contextmanager
def _snapshot(db: sqlite3.Connection) -> Iterator[None]:
    """Several reads that see one state of the store."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(db)


def _recover_job(db: sqlite3.Connection, job: JobId, fresh: TaskState) -> RecoveredJob:
    row = _to_job(db.execute(FIND_JOB, (job,)).fetchone())
    tasks = tuple(map(_to_task, db.execute(LIST_OTHER_ROWS, (job,))))
    finished = find_runs(task for (task,) in db.execute(LIST_FINISHED, (job,)))
    return RecoveredJob(row, tasks, fresh, finished)


def _list_rows(
    db: sqlite3.Connection, job: JobId, states: Iterable[TaskState] | None, limit: int, after: int, last: int
) -> list[Iterator[TaskRow]]:
    if states is None:
        return [map(_to_task, db.execute(LIST_ROWS, (job, after, last)))]
    return [map(_to_task, db.execute(LIST_ROWS_IN_STATE, (job, state, after, limit))) for state in states]


def _find_full_end(db: sqlite3.Connection, job: JobId) -> int:
    found = db.execute(FIND_FULL_END, (job,)).fetchone()
    return found[0] if found else 0


def _list_fresh(db: sqlite3.Connection, job: JobId, fresh: TaskState, after: int, last: int) -> Iterator[TaskRow]:
    """Tasks without a row: the gaps between unbroken runs of rows."""
    start = after + 1
    while start <= last:
        (row,) = db.execute(FIND_ROW, (job, start)).fetchone()
        end = last + 1 if row is None else min(row, last + 1)
        yield from (TaskRow(TaskNumber(task), fresh, 0) for task in range(start, end))
        if end > last:
            return
        (run_end,) = db.execute(FIND_RUN_END, (job, end, last)).fetchone()
        start = run_end + 1


def _to_job(row: tuple[Any, ...]) -> JobRow:
    job, text, tasks, is_open, state, held, submitted, changed, *counts = row
    spec = _decode_spec(text)
    if spec.is_open:
        spec = replace(spec, tasks=tasks, is_open=bool(is_open))
    return JobRow(job, spec, JobState(state), bool(held), submitted, changed, Counts(*counts))


def _to_task(row: tuple[Any, ...]) -> TaskRow:
    task, state, attempt, worker, claimed, ended, due, failures, crashes, ending = row
    how = None if ending is None else _decode_ending(ending)
    return TaskRow(task, _STATES[state], attempt, worker, claimed, ended, due, failures, crashes, how)
