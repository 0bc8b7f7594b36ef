"""What only a file can do: be locked, full, damaged, too new, or torn out of a killed process."""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.disks import SmallDisk, small_disk
from tests.store.builders import Blocking, a_spec, added, blocking, claimed, ended, forgotten, tasks_set

from gandy.core.model import Counts, TaskState
from gandy.errors import StoreError
from gandy.store.base import Store
from gandy.store.sqlite import SqliteStore
from gandy.store.sqlite_schema import APPLICATION_ID, MIGRATIONS, migrate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[Blocking]:
    with blocking(SqliteStore(path)) as face:
        yield face


def open_refused(path: Path) -> StoreError:
    """What a store says that must not open."""

    async def attempt() -> None:
        await SqliteStore(path).open()

    with pytest.raises(StoreError) as caught:
        asyncio.run(attempt())
    assert str(path.resolve()) in str(caught.value)
    return caught.value


def pragma(store: Store, text: str) -> None:
    """Change the connection that commits."""
    assert isinstance(store, SqliteStore)
    asyncio.run(store._writer.run(lambda db: db.execute(f"PRAGMA {text}").fetchall()))


def long_lines(count: int = 8_000) -> tuple[str, ...]:
    """A few megabytes when packed: more than the file has grown ahead."""
    return tuple(os.urandom(400).hex() for _ in range(count))


# One foreman


def test_a_second_foreman_is_told_who_has_the_file(store: Blocking, path: Path) -> None:
    error = open_refused(path)
    assert f"process {os.getpid()}" in str(error)
    assert not error.retryable
    store.commit(added())


def test_another_name_of_the_file_is_the_same_file(store: Blocking, path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with pytest.raises(StoreError, match="another foreman"):
        asyncio.run(SqliteStore(link).open())


def test_the_file_is_free_after_close_and_after_a_refusal(path: Path) -> None:
    path.write_bytes(b"no database, but long enough to be looked at" * 10)
    open_refused(path)
    path.unlink()
    for _ in range(2):
        with blocking(SqliteStore(path)):
            pass


def test_the_file_is_for_its_owner_only(store: Blocking, path: Path) -> None:
    store.commit(added())
    modes = {file.name: file.stat().st_mode & 0o077 for file in path.parent.iterdir()}
    assert set(modes.values()) == {0}, modes


def test_a_closed_store_says_so(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="not open"):
        asyncio.run(store.commit([added()]))
    asyncio.run(store.close())


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    open_refused(tmp_path / "nowhere" / "jobs.db")


# Files that are refused, and stay as they were


def refuse_untouched(path: Path, *words: str) -> None:
    before = path.read_bytes()
    error = open_refused(path)
    assert not error.retryable
    for word in words:
        assert word in str(error)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"a letter to my mother\n" * 100)
    refuse_untouched(path, "not a file of jobs", "name another file")


def test_a_database_of_something_else_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE recipes (name)")
    refuse_untouched(path, "not one of jobs")


def test_a_newer_version_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        db.execute("CREATE TABLE jobs (wonder)")
    refuse_untouched(path, f"version {len(MIGRATIONS) + 1}", "newer gandy")


def test_a_damaged_file_is_refused(path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        store.commit(*(added(job) for job in range(1, 500)))
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    refuse_untouched(path, "damaged", "backup")


def test_a_damaged_row_is_told(store: Blocking, path: Path) -> None:
    store.commit(added(lines=("a",)), claimed(), ended())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE specs SET spec = '{'")
        db.execute("UPDATE lines SET packed = x'00'")
        db.execute("UPDATE tasks SET ending = x'00'")
    assert "truncated" in store.get_job().problem
    ending = store.list_tasks(limit=1)[0].ending
    assert ending is not None
    assert "cannot be read" in ending.note
    with pytest.raises(StoreError, match="damaged"):
        store.read_lines(1, 1)


def test_a_job_that_cannot_be_read_is_set_aside_and_kept(store: Blocking, path: Path) -> None:
    store.commit(added(1), added(2), added(3))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE specs SET spec = '{}' WHERE job = 2")
    recovered = store.reopen()
    assert recovered.unreadable == (2,)
    assert [found.row.job for found in recovered.jobs] == [1, 3]
    assert recovered.next_job == 4
    assert [bool(row.problem) for row in store.list_jobs()] == [False, True, False]
    assert store.get_job(2).counts == Counts(waiting=3)
    store.commit(forgotten(2))
    assert store.reopen().unreadable == ()


def test_what_an_earlier_gandy_took_can_be_read(store: Blocking, path: Path) -> None:
    """It took names with line ends, and NaN for a pause, which JSON turns into null."""
    store.commit(added())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("""UPDATE specs SET spec = '{"command":"true","name":"a\\nb","tasks":3,"retry_pause":null}'""")
    assert store.reopen().unreadable == ()
    assert store.get_job().spec == a_spec(3, name="a\\nb")


# Versions


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with blocking(SqliteStore(path)) as store:
        store.commit(added())
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_migrations_are_applied_once_and_in_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blocking(SqliteStore(path)) as store:
        store.commit(added())
    more = (*MIGRATIONS, "CREATE TABLE extra (a);\nINSERT INTO extra VALUES (1);", "ALTER TABLE extra ADD b;")
    set_migrations(monkeypatch, more)
    for _ in range(2):
        with blocking(SqliteStore(path)) as store:
            assert store.get_counts() == Counts(waiting=3)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT a, b FROM extra").fetchall() == [(1, None)]
        assert db.execute("PRAGMA user_version").fetchone() == (len(more),)


def test_lines_of_the_first_version_are_taken_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db, monkeypatch.context() as patch:
        set_migrations(patch, MIGRATIONS[:1])
        migrate(db, 0)
        lines = [str(number) for number in range(1, 2_501)]
        db.execute("INSERT INTO jobs VALUES (1, 2500, 0, 0, 0, 1, 1, 2500, 0, 0, 0, 0)")
        db.execute("INSERT INTO specs VALUES (1, ?)", (msgspec.json.encode(a_spec(2_500, has_lines=True)).decode(),))
        for chunk in range(3):
            packed = zlib.compress(msgspec.msgpack.encode(lines[chunk * 1_000 : (chunk + 1) * 1_000]))
            db.execute("INSERT INTO lines VALUES (1, ?, ?)", (chunk, packed))
    with blocking(SqliteStore(path)) as store:
        assert store.get_counts() == Counts(waiting=2_500)
        assert store.read_lines(1, 2_500) == lines
        assert store.read_lines(2_001, 1) == ["2001"]


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blocking(SqliteStore(path)) as store:
        store.commit(added())
    with monkeypatch.context() as patch:
        set_migrations(patch, (*MIGRATIONS, "CREATE TABLE extra (a);\nDROP TABLE nothing;"))
        open_refused(path)
    with blocking(SqliteStore(path)) as store:
        assert store.get_counts() == Counts(waiting=3)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)


def set_migrations(patch: pytest.MonkeyPatch, migrations: tuple[str, ...]) -> None:
    patch.setattr("gandy.store.sqlite_schema.MIGRATIONS", migrations)
    patch.setattr("gandy.store.sqlite_open.MIGRATIONS", migrations)


# Troubles that pass


def fail_retryably(store: Blocking, *words: str) -> None:
    """A commit fails as a whole, and reads go on."""
    with pytest.raises(StoreError) as caught:
        store.commit(claimed(), added(2, lines=long_lines()))
    assert caught.value.retryable
    for word in (*words, str(store.store.path)):  # type: ignore[attr-defined]  # it is a SqliteStore
        assert word in str(caught.value)
    assert store.get_counts() == Counts(waiting=3)
    assert store.find_job(2) is None


def succeed(store: Blocking) -> None:
    """The commit that failed before, and what it wrote is still there after a restart."""
    assert store.commit(claimed(), added(2, lines=long_lines())) == frozenset()
    assert [job.row.job for job in store.reopen().jobs] == [1, 2]
    assert store.get_counts() == Counts(waiting=2, assigned=1)


def test_a_full_file_takes_the_commit_once_it_may_grow(store: Blocking) -> None:
    store.commit(added())
    pragma(store.store, "max_page_count = 1")  # which means: as many as there are
    fail_retryably(store, "full", "make room")
    fail_retryably(store, "full", "make room")
    pragma(store.store, "max_page_count = 1000000")
    succeed(store)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 24) as disk:
        if disk.prefix:
            pytest.skip(
                "only root can mount a small disk for this process: tests/e2e/test_foreman_disk.py does without"
            )
        yield disk


def test_a_full_disk_takes_the_commit_once_there_is_room(disk: SmallDisk) -> None:
    with blocking(SqliteStore(disk.path / "jobs.db")) as store:
        store.commit(added())
        disk.fill()
        fail_retryably(store, "full", "make room")
        disk.empty()
        store.prepare()
        succeed(store)


def test_a_failing_disk_takes_the_commit_once_it_writes(store: Blocking) -> None:
    store.commit(added())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        fail_retryably(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    succeed(store)


def test_a_file_that_cannot_be_written_takes_the_commit_once_it_can(store: Blocking) -> None:
    store.commit(added())
    pragma(store.store, "query_only = ON")
    fail_retryably(store, "permissions")
    pragma(store.store, "query_only = OFF")
    succeed(store)


def test_a_file_that_a_person_locked_takes_the_commit_once_it_is_free(store: Blocking, path: Path) -> None:
    store.commit(added())
    with closing(sqlite3.connect(path, isolation_level=None)) as person:
        person.execute("BEGIN EXCLUSIVE")
        fail_retryably(store, "another program")
    succeed(store)


def test_a_file_that_a_person_locked_can_be_opened_later(path: Path) -> None:
    path.touch()
    with closing(sqlite3.connect(path, isolation_level=None)) as person:
        person.execute("BEGIN EXCLUSIVE")
        assert open_refused(path).retryable
    with blocking(SqliteStore(path)) as store:
        store.commit(added())


def test_a_person_may_read_while_the_foreman_works(store: Blocking, path: Path) -> None:
    store.commit(added())
    with closing(sqlite3.connect(path, isolation_level=None)) as person:
        person.execute("BEGIN")
        assert person.execute("SELECT waiting FROM jobs").fetchone() == (3,)
        store.commit(claimed())
        assert store.get_counts() == Counts(waiting=2, assigned=1)


# Durability

COMMITTER = """
import asyncio, sys
from gandy.store.sqlite import SqliteStore
from tests.disks import SmallDisk, small_disk
from tests.store.builders import added, claimed, ended

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.commit([added(tasks=1_000_000)])
    for batch in range(100_000):
        tasks = range(batch * 10 + 1, batch * 10 + 11)
        await store.commit([record for task in tasks for record in (claimed(task), ended(task=task))])
        print(batch, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("acknowledged", [0, 7, 120])
def test_what_was_acknowledged_survives_kill_9(path: Path, acknowledged: int) -> None:
    with subprocess.Popen([sys.executable, "-c", COMMITTER, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(acknowledged + 1):
            process.stdout.readline()
        process.kill()
        last = [acknowledged, *map(int, process.stdout.read().split())][-1]
    with blocking(SqliteStore(path)) as store:
        counts = store.get_counts()
        # A batch is there whole or not at all; one may be there whose commit was not confirmed.
        assert counts.finished in ((last + 1) * 10, (last + 2) * 10)
        assert (counts.assigned, counts.waiting) == (0, 1_000_000 - counts.finished)
        store.commit(claimed(counts.finished + 1))


def test_a_commit_is_synced_before_it_returns(store: Blocking) -> None:
    async def ask(question: str) -> object:
        assert isinstance(store.store, SqliteStore)
        return await store.store._writer.run(lambda db: db.execute(question).fetchone()[0])

    answers = [store.runner.run(ask(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert answers == ["wal", 2, 1]


# Size


def test_a_million_tasks_are_one_row_and_a_million_lines_a_thousand(store: Blocking, path: Path) -> None:
    store.commit(added(1, tasks=1_000_000), added(2, lines=("line",) * 1_000_000), tasks_set(TaskState.CANCELLED))
    assert count_rows(path) == {
        "jobs": 2,
        "specs": 2,
        "lines": 1_000,
        "uploads": 0,
        "tasks": 0,
        "attempts": 0,
        "results": 0,
    }
    assert store.read_lines(1_000_000, 1, job=2) == ["line"]


def test_a_forgotten_job_leaves_no_row(store: Blocking, path: Path) -> None:
    store.commit(added(lines=("a", "b")), claimed(), ended(TaskState.WAITING), claimed(attempt=2))
    assert {name for name, rows in count_rows(path).items() if rows} == {"jobs", "specs", "lines", "tasks", "attempts"}
    store.commit(forgotten())
    assert set(count_rows(path).values()) == {0}


def count_rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        tables = ("jobs", "specs", "lines", "uploads", "tasks", "attempts", "results")
        return {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
