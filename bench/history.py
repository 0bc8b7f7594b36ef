"""A store as after a long time. One job is real; the others are its rows once more, under other numbers."""

import sqlite3
from pathlib import Path
from typing import Final

STORE: Final = "jobs.sqlite"

# Everything that a table knows about one job, so many times, under the numbers that follow.
COPY_JOB: Final = """
WITH RECURSIVE copies (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?)
INSERT INTO {table} (job{columns}) SELECT job + n{columns} FROM copies JOIN {table} ORDER BY n
"""

# The rows of one job's tasks, so many times, as those of another job.
COPY_TASKS: Final = """
WITH RECURSIVE copies (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM copies WHERE n < ?3 - 1)
INSERT INTO tasks (job, task{columns}) SELECT ?1, task + n * (SELECT tasks FROM jobs WHERE job = ?2){columns}
FROM copies JOIN tasks WHERE job = ?2 ORDER BY n
"""

# Those have finished; the others wait.
COUNT_TASKS: Final = """
UPDATE jobs SET finished = done, waiting = tasks - done
FROM (SELECT count(*) AS done FROM tasks WHERE job = ?1) WHERE job = ?1
"""

# Nobody has to do this later.
TIDY: Final = "PRAGMA wal_checkpoint(TRUNCATE)"


def copy_job(home: Path, copies: int) -> None:
    """The only job in the store, which has ended, was done so many times more. No foreman may be here."""
    with sqlite3.connect(home / STORE) as db:
        for table in _list_tables(db):
            columns = _list_columns(db, table)
            if "job" in columns:
                db.execute(COPY_JOB.format(table=table, columns=_join(columns, "job")), (copies,))
    db.execute(TIDY)
    db.close()


def finish_tasks(home: Path, job: int, model: int, copies: int) -> None:
    """Tasks of a job that waits are done, as those of another job were, and that so many times."""
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
