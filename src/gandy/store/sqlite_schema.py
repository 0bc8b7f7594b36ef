"""The schema of a file of jobs, and the migrations that bring an older file up to date.

In SQL, states are the numbers of TaskState and JobState: a task of state 0 waits, one of state 1 runs, and one of
state 5 is assigned.
"""

import sqlite3
from typing import Final

# "GAND": tells our files from other SQLite files.
APPLICATION_ID: Final = 0x47414E44

# Jobs, their tasks and all attempts.
_JOBS_AND_TASKS: Final = """
-- One row for a job, however many tasks it has. AUTOINCREMENT: the number of a forgotten job is never given again.
CREATE TABLE jobs (
    job INTEGER PRIMARY KEY AUTOINCREMENT,
    tasks INTEGER NOT NULL,
    fresh INTEGER NOT NULL DEFAULT 0 CHECK (fresh <> 1),  -- the state of every task that has no row in `tasks`
    state INTEGER NOT NULL,
    held INTEGER NOT NULL,
    submitted REAL NOT NULL,
    changed REAL NOT NULL,
    waiting INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    CHECK (min(waiting, running, finished, failed, cancelled) >= 0),
    CHECK (waiting + running + finished + failed + cancelled = tasks)
);

-- What was asked for, as JSON. Apart from `jobs`, because those rows change often and should stay small.
CREATE TABLE specs (
    job INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    spec TEXT NOT NULL
);

-- The lines of a job's tasks, many to a row: see sqlite_lines.
CREATE TABLE lines (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
    chunk INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (job, chunk)
);

-- Tasks that are no longer as submitted, each with its last attempt. Attempt 0 was never started.
-- `outcome` is the state that the attempt led to; people may have changed the task's state since.
CREATE TABLE tasks (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
    task INTEGER NOT NULL CHECK (task > 0),
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4),
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    outcome INTEGER NOT NULL,
    worker TEXT NOT NULL DEFAULT '',
    claimed REAL,
    ended REAL,
    due REAL NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    ending BLOB,
    PRIMARY KEY (job, task),
    CHECK (state <> 1 OR (attempt > 0 AND ended IS NULL))
) WITHOUT ROWID;

-- "Which tasks failed?" must not read a million that finished.
CREATE INDEX tasks_by_state ON tasks (job, state);

-- Attempts before the last one. None of them runs.
CREATE TABLE attempts (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
    task INTEGER NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    outcome INTEGER NOT NULL CHECK (outcome <> 1),
    worker TEXT NOT NULL,
    claimed REAL,
    ended REAL,
    due REAL NOT NULL,
    failures INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    ending BLOB,
    PRIMARY KEY (job, task, attempt)
) WITHOUT ROWID;
"""

# Lines that come in parts: chunks of any size, and a place for the lines of a job that is not submitted yet.
_LINES_IN_PARTS: Final = """
CREATE TABLE lines_in_parts (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
    first INTEGER NOT NULL,  -- the number of the first line's task
    packed BLOB NOT NULL,
    PRIMARY KEY (job, first)
);

INSERT INTO lines_in_parts SELECT job, chunk * 1000 + 1, packed FROM lines;

DROP TABLE lines;

ALTER TABLE lines_in_parts RENAME TO lines;

-- Emptied when a foreman starts: the links over which these lines came are gone then.
CREATE TABLE uploads (
    upload INTEGER NOT NULL,
    first INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (upload, first)
);
"""

# Jobs to which tasks may be added.
_OPEN_JOBS: Final = "ALTER TABLE jobs ADD COLUMN open INTEGER NOT NULL DEFAULT 0;"

# What functions returned, apart from the tasks: it may be large, and is not kept as long.
_RESULTS: Final = """
CREATE TABLE results (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
    task INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at REAL NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (job, task)
);

CREATE INDEX results_by_age ON results (at);
"""

# A blob of zeros, whose pages are freed when the disk is full; and the number of the last commit.
_RESERVE: Final = """
CREATE TABLE reserve (room BLOB NOT NULL);

CREATE TABLE last_commit (number INTEGER NOT NULL);

INSERT INTO last_commit VALUES (0);
"""

# A state for tasks that a worker has and has not begun. Older files do not say which tasks had begun: none is RUNNING.
_ASSIGNED: Final = """
CREATE TABLE jobs_anew (
    job INTEGER PRIMARY KEY AUTOINCREMENT,
    tasks INTEGER NOT NULL,
    fresh INTEGER NOT NULL DEFAULT 0 CHECK (fresh NOT IN (1, 5)),  -- the state of every task without a row in `tasks`
    state INTEGER NOT NULL,
    held INTEGER NOT NULL,
    submitted REAL NOT NULL,
    changed REAL NOT NULL,
    waiting INTEGER NOT NULL,
    running INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    assigned INTEGER NOT NULL DEFAULT 0,
    open INTEGER NOT NULL DEFAULT 0,
    CHECK (min(waiting, running, finished, failed, cancelled, assigned) >= 0),
    CHECK (waiting + running + finished + failed + cancelled + assigned = tasks)
);

INSERT INTO jobs_anew
SELECT job, tasks, fresh, state, held, submitted, changed, waiting, 0, finished, failed, cancelled, running, open
FROM jobs;

-- The last number that was ever given, which a forgotten job may have had.
DELETE FROM sqlite_sequence WHERE name = 'jobs_anew';

INSERT INTO sqlite_sequence (name, seq) SELECT 'jobs_anew', seq FROM sqlite_sequence WHERE name = 'jobs';

DROP TABLE jobs;

ALTER TABLE jobs_anew RENAME TO jobs;

CREATE TABLE tasks_anew (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
    task INTEGER NOT NULL CHECK (task > 0),
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    outcome INTEGER NOT NULL,
    worker TEXT NOT NULL DEFAULT '',
    claimed REAL,
    ended REAL,
    due REAL NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    ending BLOB,
    PRIMARY KEY (job, task),
    CHECK (state NOT IN (1, 5) OR (attempt > 0 AND ended IS NULL))
) WITHOUT ROWID;

INSERT INTO tasks_anew
SELECT job, task, CASE state WHEN 1 THEN 5 ELSE state END, attempt, CASE outcome WHEN 1 THEN 5 ELSE outcome END,
    worker, claimed, ended, due, failures, crashes, ending
FROM tasks;

DROP TABLE tasks;

ALTER TABLE tasks_anew RENAME TO tasks;

CREATE INDEX tasks_by_state ON tasks (job, state);

CREATE TABLE attempts_anew (
    job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
    task INTEGER NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    outcome INTEGER NOT NULL CHECK (outcome NOT IN (1, 5)),
    worker TEXT NOT NULL,
    claimed REAL,
    ended REAL,
    due REAL NOT NULL,
    failures INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    ending BLOB,
    PRIMARY KEY (job, task, attempt)
) WITHOUT ROWID;

INSERT INTO attempts_anew SELECT * FROM attempts;

DROP TABLE attempts;

ALTER TABLE attempts_anew RENAME TO attempts;
"""

# The key of the request that submitted a job, so that a client that asks again does not submit it twice. 0: none.
_SUBMISSIONS: Final = """
ALTER TABLE jobs ADD COLUMN submission INTEGER NOT NULL DEFAULT 0;

CREATE UNIQUE INDEX jobs_by_submission ON jobs (submission) WHERE submission <> 0;
"""

# In order: each makes the next version from the one before. Users have such files: never change one, only append.
MIGRATIONS: Final = (_JOBS_AND_TASKS, _LINES_IN_PARTS, _OPEN_JOBS, _RESULTS, _RESERVE, _ASSIGNED, _SUBMISSIONS)


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a file from this version to the newest.

    The caller began the transaction, and switched foreign keys off: dropping a table must not delete the rows that
    refer to it.
    """
    for script in MIGRATIONS[version:]:
        for statement in _split(script):
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _split(script: str) -> list[str]:
    # Not executescript: it would commit the caller's transaction.
    statements = [""]
    for line in script.splitlines(keepends=True):
        statements[-1] += line
        if sqlite3.complete_statement(statements[-1]):
            statements.append("")
    return [statement for statement in statements if statement.strip()]
