"""Forgets jobs in steps of a few thousand rows, for full disks, which have no room to do it in one commit.

A job without a spec is forgotten: no listing shows it. The rest of it is deleted step by step, or at the next start if
the foreman dies half way.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

from gandy.ids import JobId
from gandy.store.sqlite_write import transaction

# Rows in one step: a few hundred pages, of which the log has two thousand.
STEP_ROWS: Final = 2_000

# The tables with rows of a job, and the column by which those are ordered.
TABLES: Final = (("results", "task"), ("lines", "first"), ("attempts", "task"), ("tasks", "task"))

# After this, no listing shows the job.
DROP_SPEC: Final = "DELETE FROM specs WHERE job = ?"

# Jobs that were being forgotten when the foreman died.
LIST_HALF_FORGOTTEN: Final = "SELECT job FROM jobs WHERE job NOT IN (SELECT job FROM specs)"

# The first rows of a job in a table.
DROP_STEP: Final = """
DELETE FROM {table} WHERE job = ?1 AND {column} <= (
    SELECT max({column}) FROM (SELECT {column} FROM {table} WHERE job = ?1 ORDER BY {column} LIMIT ?2))
"""

DROP_JOB: Final = "DELETE FROM jobs WHERE job = ?"


def forget_in_steps(db: sqlite3.Connection, jobs: Iterable[JobId]) -> None:
    (before,) = db.execute("PRAGMA secure_delete").fetchone()
    db.execute("PRAGMA secure_delete = FAST")  # overwriting deleted rows would need room
    try:
        for job in jobs:
            _drop(db, DROP_SPEC, (job,))
            for table, column in TABLES:
                step = DROP_STEP.format(table=table, column=column)
                while _drop(db, step, (job, STEP_ROWS)):
                    pass
            _drop(db, DROP_JOB, (job,))
    finally:
        db.execute(f"PRAGMA secure_delete = {before}")


def list_half_forgotten(db: sqlite3.Connection) -> list[JobId]:
    return [job for (job,) in db.execute(LIST_HALF_FORGOTTEN)]


def _drop(db: sqlite3.Connection, statement: str, values: tuple[int, ...]) -> int:
    with transaction(db):
        return db.execute(statement, values).rowcount
