"""Reads rows, and converts them to what a store returns. It writes nothing, and reads no more than was asked for."""

import heapq
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace

from gandy.bounds import BROKEN, describe
from gandy.core.model import FINAL_JOB_STATES, FINAL_STATES, Cause, Counts, Ending, Input, JobState, TaskState
from gandy.core.rows import ROW_BYTES, JobRow, RecoveredJob, TaskRow, find_runs, take_page, weigh_task
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE
from gandy.store.specs import read_spec, unreadable_spec
from gandy.store.sqlite_lines import unpack_lines
from gandy.store.sqlite_write import roll_back

# One job as it is listed.
FIND_JOB: Final = """
SELECT job, spec, tasks, open, state, held, submitted, changed, waiting, running, finished, failed, cancelled,
    assigned
FROM jobs JOIN specs USING (job) WHERE job = ?
"""

# The states of some jobs.
FIND_STATES: Final = "SELECT job, state FROM jobs WHERE job IN (SELECT value FROM json_each(?))"

# The job that was submitted with a key.
FIND_SUBMISSION: Final = "SELECT job FROM jobs WHERE submission = ? AND submission <> 0"

# The key with which a job was submitted.
GET_SUBMISSION: Final = "SELECT submission FROM jobs WHERE job = ?"

# Jobs below a number and in some states, the newest first. NULL stands for any number, and for any state.
LIST_JOBS: Final = """
SELECT job, spec, tasks, open, state, held, submitted, changed, waiting, running, finished, failed, cancelled,
    assigned
FROM jobs JOIN specs USING (job)
WHERE (?1 IS NULL OR job < ?1) AND (?2 IS NULL OR state IN (SELECT value FROM json_each(?2)))
ORDER BY job DESC LIMIT ?3
"""

# Jobs that a foreman must know when it starts, with the state of their tasks that have no row.
LIST_OPEN_JOBS: Final = """
SELECT job, fresh FROM jobs WHERE running + assigned > 0 OR state NOT IN (SELECT value FROM json_each(?)) ORDER BY job
"""

# How many tasks a job has, and the state of those without a row.
GET_FRESH: Final = "SELECT tasks, fresh FROM jobs WHERE job = ?"

# The rows of a range of tasks.
LIST_ROWS: Final = """
SELECT task, state, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ? AND task > ? AND task <= ? ORDER BY task
"""

# The rows of some tasks.
FIND_ROWS: Final = """
SELECT task, state, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ? AND task IN (SELECT value FROM json_each(?)) ORDER BY task
"""

# Tasks that finished at the first attempt. The plus keeps SQLite from using an index, which would be slower here.
LIST_FINISHED: Final = """
SELECT task FROM tasks WHERE job = ? AND +state = 2 AND attempt = 1 AND failures = 0 AND crashes = 0 ORDER BY task
"""

# The rows of all other tasks.
LIST_OTHER_ROWS: Final = """
SELECT task, state, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ? AND NOT (state = 2 AND attempt = 1 AND failures = 0 AND crashes = 0) ORDER BY task
"""

# The rows of tasks in one state.
LIST_ROWS_IN_STATE: Final = """
SELECT task, state, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ? AND state = ? AND task > ? ORDER BY task LIMIT ?
"""

# The last task that has a row, if all before it have one too: they mostly do, as tasks start in order.
FIND_FULL_END: Final = """
SELECT last FROM (SELECT max(task) AS last FROM tasks WHERE job = ?1)
WHERE last = (SELECT count(*) FROM tasks WHERE job = ?1)
"""

# The first task with a row, from a number on.
FIND_ROW: Final = "SELECT min(task) FROM tasks WHERE job = ? AND task >= ?"

# The end of an unbroken run of rows. The search ends at the last task that matters.
FIND_RUN_END: Final = """
SELECT task FROM tasks AS this WHERE job = ?1 AND task >= ?2
    AND (task >= ?3 OR NOT EXISTS (SELECT 1 FROM tasks WHERE job = ?1 AND task = this.task + 1))
ORDER BY task LIMIT 1
"""

# Results of some tasks, if their last attempt gave them.
LIST_RESULTS: Final = """
SELECT task, result FROM results JOIN tasks USING (job, task, attempt) WHERE job = ? AND task BETWEEN ? AND ?
ORDER BY task
"""

# Attempts at a task after a number, with the state to which each led.
LIST_ATTEMPTS: Final = """
SELECT task, outcome, attempt, worker, claimed, ended, due, failures, crashes, ending FROM attempts
WHERE job = ?1 AND task = ?2 AND attempt > ?3
UNION ALL
SELECT task, outcome, attempt, worker, claimed, ended, due, failures, crashes, ending FROM tasks
WHERE job = ?1 AND task = ?2 AND attempt > ?3
ORDER BY attempt
"""

# Chunks of lines, beginning with the one that holds the first line.
READ_CHUNKS: Final = """
SELECT first, packed FROM lines
WHERE job = ?1 AND first >= (SELECT max(first) FROM lines WHERE job = ?1 AND first <= ?2) AND first < ?2 + ?3
ORDER BY first
"""

_decode_ending = msgspec.msgpack.Decoder(Ending).decode
_STATES: Final = tuple(TaskState)
_NO_RESULT: Final = (sys.maxsize, b"")  # after the last task


@contextmanager
def snapshot(db: sqlite3.Connection) -> Iterator[None]:
    """Several reads that see one state of the store."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(db)


def recover(db: sqlite3.Connection) -> tuple[list[RecoveredJob], list[JobId]]:
    """Jobs that are not final, and the numbers of those that cannot be read.

    Raises: ValueError: a job does not fit its tasks.
    """
    with snapshot(db):
        found = db.execute(LIST_OPEN_JOBS, (json.dumps(sorted(FINAL_JOB_STATES)),)).fetchall()
        jobs = [_recover_job(db, job, TaskState(fresh)) for job, fresh in found]
    readable = [job for job in jobs if not job.row.problem]
    for job in readable:
        _check(job)
    return readable, [job.row.job for job in jobs if job.row.problem]


def _check(found: RecoveredJob) -> None:
    """Raises: ValueError: the states of the tasks do not add up to the job's counts."""
    total, counts = found.row.spec.tasks, Counter(row.state for row in found.tasks)
    counts[TaskState.FINISHED] += sum(last - first + 1 for first, last in found.finished)
    counts[found.fresh] += total - sum(counts.values())
    numbers = [row.task for row in found.tasks] + [number for run in found.finished for number in run]
    stored = astuple(found.row.counts)
    if tuple(counts[state] for state in TaskState) != stored or not all(1 <= n <= total for n in numbers):
        raise ValueError(f"job {found.row.job} does not fit its tasks")


def find_job(db: sqlite3.Connection, job: JobId) -> JobRow | None:
    row = db.execute(FIND_JOB, (job,)).fetchone()
    return None if row is None else _to_job(row)


def find_states(db: sqlite3.Connection, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
    return {job: JobState(state) for job, state in db.execute(FIND_STATES, (json.dumps(jobs),))}


def find_submission(db: sqlite3.Connection, key: int) -> JobId | None:
    row = db.execute(FIND_SUBMISSION, (key,)).fetchone()
    return None if row is None else row[0]


def get_submission(db: sqlite3.Connection, job: JobId) -> int:
    row = db.execute(GET_SUBMISSION, (job,)).fetchone()
    return 0 if row is None else row[0]


def load_job(db: sqlite3.Connection, job: JobId) -> RecoveredJob | None:
    with snapshot(db):
        found = db.execute(GET_FRESH, (job,)).fetchone()
        return None if found is None else _recover_job(db, job, TaskState(found[1]))


def list_jobs(
    db: sqlite3.Connection, states: frozenset[JobState] | None, limit: int, before: JobId | None
) -> list[JobRow]:
    wanted = None if states is None else json.dumps(sorted(states))
    found = take_page(db.execute(LIST_JOBS, (before, wanted, limit)), limit, _weigh_job)
    return [_to_job(row) for row in found]


def _weigh_job(row: tuple[Any, ...]) -> int:
    return ROW_BYTES + len(row[1])


def list_tasks(
    db: sqlite3.Connection, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
) -> list[TaskRow]:
    with snapshot(db):
        return _list_tasks(db, job, states, limit, after)


def find_tasks(db: sqlite3.Connection, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
    with snapshot(db):
        found = db.execute(GET_FRESH, (job,)).fetchone()
        if found is None:
            return []
        count, fresh = found
        rows = {row[0]: row for row in db.execute(FIND_ROWS, (job, json.dumps(tasks)))}
        named = (task for task in tasks if 1 <= task <= count)
        return take_page(
            (_to_task(rows[task]) if task in rows else TaskRow(task, TaskState(fresh), 0) for task in named),
            len(tasks),
            weigh_task,
        )


def list_results(db: sqlite3.Connection, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
    with snapshot(db):
        rows = _list_tasks(db, job, FINAL_STATES, limit, after)
        if not rows:
            return []
        results = db.execute(LIST_RESULTS, (job, rows[0].task, rows[-1].task))
        return take_page(_add_results(rows, results), limit, weigh_task)


def _add_results(rows: list[TaskRow], results: Iterator[tuple[int, bytes]]) -> Iterator[TaskRow]:
    """Both are in the order of tasks. Results are read as they are needed: each may be large."""
    task, result = next(results, _NO_RESULT)
    for row in rows:
        while task < row.task:  # a task that is not final: it failed and is tried again
            task, result = next(results, _NO_RESULT)
        if row.task == task and row.ending is not None:
            yield replace(row, ending=replace(row.ending, result=result))
        else:
            yield row


def list_attempts(db: sqlite3.Connection, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
    rows = map(_to_task, db.execute(LIST_ATTEMPTS, (job, task, after)))
    return take_page(rows, MAX_PAGE, weigh_task)


def read_lines(db: sqlite3.Connection, job: JobId, first: TaskNumber, count: int) -> list[Input]:
    return unpack_lines(db.execute(READ_CHUNKS, (job, first, count)), first, count)


def _recover_job(db: sqlite3.Connection, job: JobId, fresh: TaskState) -> RecoveredJob:
    row = _to_job(db.execute(FIND_JOB, (job,)).fetchone())
    tasks = tuple(map(_to_task, db.execute(LIST_OTHER_ROWS, (job,))))
    finished = find_runs(task for (task,) in db.execute(LIST_FINISHED, (job,)))
    return RecoveredJob(row, tasks, fresh, finished)


def _list_tasks(
    db: sqlite3.Connection, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
) -> list[TaskRow]:
    """The caller has begun a snapshot."""
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
    return take_page(heapq.merge(*sources, key=lambda row: row.task), limit, weigh_task)


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
    problem = ""
    try:
        spec = read_spec(text)
    except BROKEN as error:
        spec, problem = unreadable_spec(tasks), describe(error)
    if spec.is_open:
        spec = replace(spec, tasks=tasks, is_open=bool(is_open))
    return JobRow(job, spec, JobState(state), bool(held), submitted, changed, Counts(*counts), problem)


def _read_ending(packed: bytes) -> Ending:
    try:
        return _decode_ending(packed)
    except BROKEN as error:  # the task's state is known all the same
        return Ending(cause=Cause.EXIT, note=f"how it ended cannot be read: {describe(error)}")


def _to_task(row: tuple[Any, ...]) -> TaskRow:
    task, state, attempt, worker, claimed, ended, due, failures, crashes, ending = row
    decoded = None if ending is None else _read_ending(ending)
    return TaskRow(task, _STATES[state], attempt, worker, claimed, ended, due, failures, crashes, decoded)
