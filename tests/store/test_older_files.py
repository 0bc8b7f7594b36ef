"""Files that an earlier gandy wrote open, and their jobs go on.

`jobs-version-5.sql` is what the gandy before ASSIGNED had on disk when it was killed, as a dump without the reserve.
Job 1 has tasks that finished (1), wait for a retry (2), failed twice (3), run (4, 5), were cancelled (6) and are as
submitted (7, 8). Job 2 finished. Job 3 is open, and one of its functions runs. Job 4 is forgotten.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.builders import attempt_key, blocking, claimed, ended, forgotten

from gandy.core.effects import Effect
from gandy.core.foreman import Batch
from gandy.core.model import Cause, Counts, Ending, JobState, TaskState
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.snapshot import restore
from gandy.core.workers import WorkerInfo
from gandy.errors import StoreError
from gandy.ids import JobId
from gandy.store.sqlite import SqliteStore
from gandy.store.sqlite_schema import MIGRATIONS

DUMP = Path(__file__).with_name("jobs-version-5.sql")
OK = Ending(cause=Cause.EXIT, exit_code=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "jobs.db"
    with closing(sqlite3.connect(found)) as db:
        db.executescript(DUMP.read_text())
    return found


def test_what_ran_by_the_old_count_is_assigned(path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        assert store.get_counts(1) == Counts(waiting=3, assigned=2, finished=1, failed=1, cancelled=1)
        waiting, given = TaskState.WAITING, TaskState.ASSIGNED
        assert store.list_states(1)[1:5] == [waiting, TaskState.FAILED, given, given]
        assert [row.task for row in store.list_tasks(1, [given])] == [4, 5]
        assert store.list_attempts(4, 1)[0].state is given
        assert [row.state for row in store.list_attempts(3, 1)] == [waiting, TaskState.FAILED]
        assert (store.get_job(2).state, store.get_counts(2)) == (JobState.FINISHED, Counts(finished=2))
        assert store.get_counts(3) == Counts(waiting=1, assigned=1, finished=1)
        assert (store.get_job(3).spec.tasks, store.get_job(3).spec.is_open) == (3, True)
        assert store.read_lines(1, 3, job=3) == [b"one", b"two", b"three"]
        (row,) = store.list_results(3)
        assert row.ending is not None
        assert row.ending.result == b"1"
        recovered = store.reopen()
        assert [found.row.job for found in recovered.jobs] == [1, 3]
        assert recovered.next_job == 5  # a forgotten job's number is not given again


def test_the_file_is_as_a_new_one_afterwards(path: Path, tmp_path: Path) -> None:
    with blocking(SqliteStore(path)), blocking(SqliteStore(tmp_path / "new.db")):
        pass
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        assert old.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert old.execute("PRAGMA foreign_key_check").fetchall() == []
        assert old.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        layouts = [
            db.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall() for db in (old, new)
        ]
        assert layouts[0] == layouts[1]


def test_what_belongs_to_a_job_is_still_forgotten_with_it(path: Path) -> None:
    """Foreign keys were off while the tables were made anew."""
    with blocking(SqliteStore(path)) as store:
        store.commit(ended(task=2, job=3), forgotten(3))
    with closing(sqlite3.connect(path)) as db:
        for table in ("specs", "lines", "tasks", "results"):
            assert db.execute(f"SELECT count(*) FROM {table} WHERE job = 3").fetchone() == (0,)


def test_a_file_that_cannot_be_brought_up_to_date_is_left_as_it_was(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE tasks_anew (a)")  # in the way
    with pytest.raises(StoreError), blocking(SqliteStore(path)):
        pass
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (5,)
        assert db.execute("SELECT running FROM jobs WHERE job = 1").fetchone() == (2,)
        assert db.execute("SELECT count(*) FROM tasks").fetchone() == (10,)


def test_the_jobs_go_on_to_their_end(path: Path) -> None:
    """With one of the workers that they had, which has ended one task, begun another and never got the third."""
    with blocking(SqliteStore(path)) as store:
        recovered = store.reopen()
        reactor = Reactor(Policy(grace=10.0), recovered.next_job)
        restore(reactor, recovered, 100.0)
        reactor.check()
        held = [attempt_key(4), attempt_key(5)]

        def commit(effects: list[Effect]) -> None:
            batch = Batch()
            batch.add([*effects, *reactor.dispatch(200.0)])
            assert store.commit(*batch.records) == frozenset()
            reactor.check()

        commit(reactor.on_hello(WorkerInfo("w-1", "w", 2, ahead=9, reports_begun=True), held, 101.0))
        assert store.get_task(2, job=3).state is TaskState.WAITING  # again: the worker never had it
        commit(reactor.on_begun("w-1", [attempt_key(5)], 102.0))
        assert store.get_counts(1).running == 1
        commit(reactor.control.close(JobId(3), 103.0))
        for _ in range(20):
            worker = reactor.workers.find("w-1")
            assert worker is not None
            reactor.on_given("w-1", list(worker.held), 200.0)
            commit(reactor.on_results("w-1", [(attempt, OK) for attempt in list(worker.held)], 200.0))
        assert (store.get_job(1).state, store.get_counts(1)) == (
            JobState.FAILED,
            Counts(finished=6, failed=1, cancelled=1),
        )
        assert (store.get_job(3).state, store.get_counts(3)) == (JobState.FINISHED, Counts(finished=3))
        assert [row.state for row in store.list_attempts(2, 1)] == [TaskState.WAITING, TaskState.FINISHED]


def test_a_claim_of_a_task_that_is_assigned_is_lost(path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        assert store.commit(claimed(4, 2)) == frozenset({attempt_key(4, 2)})
        assert store.commit(ended(task=4)) == frozenset()
        assert store.get_task(4).state is TaskState.FINISHED
