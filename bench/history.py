"""A store as it is after a long time. One job is real; all others are copies of its rows under other numbers."""

import sqlite3
from pathlib import Path
from typing import Final

STORE: Final = "jobs.sqlite"

# Copies all rows of a job in one table, n times, under the numbers that follow.
COPY_JOB: Final = """
WITH RECURSIVE copies (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?)
INSERT INTO {table} (job{columns}) SELECT job + n{columns} FROM copies JOIN {table} ORDER BY n
"""

# Copies the rows of one job's tasks, n times, as tasks of another job.
COPY_TASKS: Final = """
WITH RECURSIVE copies (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM copies WHERE n < ?3 - 1)
INSERT INTO tasks (job, task{columns}) SELECT ?1, task + n * (SELECT tasks FROM jobs WHERE job = ?2){columns}
FROM copies JOIN tasks WHERE job = ?2 ORDER BY n
"""

# The copied tasks have finished; the rest wait.
COUNT_TASKS: Final = """
UPDATE jobs SET finished = done, waiting = tasks - done
FROM (SELECT count(*) AS done FROM tasks WHERE job = ?1) WHERE job = ?1
"""

# Otherwise the first foreman would have to do this.
TIDY: Final = "PRAGMA wal_checkpoint(TRUNCATE)"


def copy_job(home: Path, copies: int) -> None:
    """Copy the only job in the store, which has ended, this many times. No foreman may be running."""
    with sqlite3.connect(home / STORE) as db:
        for table in _list_tables(db):
            columns = _list_columns(db, table)
            if "job" in columns:
                # No two jobs have the same key of a submission: the copies have none.
                db.execute(COPY_JOB.format(table=table, columns=_join(columns, "job", "submission")), (copies,))
    db.execute(TIDY)
    db.close()


def finish_tasks(home: Path, job: int, model: int, copies: int) -> None:
    """Mark tasks of a waiting job as done, with this many copies of the rows of another job."""
    with sqlite3.connect(home / STORE) as db:
        columns = _join(_list_columns(db, "tasks"), "job", "task")
        db.execute(COPY_TASKS.format(columns=columns), (job, model, copies))
        db.execute(COUNT_TASKS, (job,))
    db.execute(TIDY)
    db.close()


def _list_tables(db: sqlite3.Connection) -> list[str]:
    rows = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid")
    return [name for (name,) in rows]


def _list_columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _join(columns: list[str], *without: str) -> str:
    return "".join(f", {name}" for name in columns if name not in without)
