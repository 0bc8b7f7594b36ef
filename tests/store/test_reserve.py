"""A full disk: new work is refused, and what must be kept has its place: results, cancels, forgetting, a clean end."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests.disks import SmallDisk, small_disk
from tests.store.builders import Blocking, added, blocking, claimed, ended, forgotten, tasks_set

from gandy.core.model import AttemptKey, Counts, TaskState
from gandy.core.records import Claimed, LinesAdded
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.store.sqlite import SqliteStore
from gandy.store.sqlite_room import LOG_BYTES, RESERVE_BYTES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 64) as disk:
        if disk.prefix:
            pytest.skip(
                "only root can mount a small disk for this process: tests/e2e/test_foreman_disk.py does without"
            )
        yield disk


@pytest.fixture
def store(disk: SmallDisk) -> Iterator[Blocking]:
    with blocking(SqliteStore(disk.path / "jobs.db")) as store:
        yield store


def claim_all(tasks: int, job: int) -> Claimed:
    return Claimed("w", tuple(AttemptKey(JobId(job), TaskNumber(task), 1) for task in range(1, tasks + 1)), 2.0)


def refuse_new_work(store: Blocking) -> None:
    for record in (added(99), LinesAdded(1, TaskNumber(1), ("a",)), claimed(3)):
        with pytest.raises(StoreError, match="the disk is full: make room") as caught:
            store.commit(record)
        assert caught.value.retryable
    assert store.find_job(99) is None


def fill(store: Blocking, disk: SmallDisk) -> None:
    """A full disk, and a store that has used up what it had grown ahead."""
    disk.fill()
    upload = 0
    with suppress(StoreError):
        while True:
            upload += 1
            store.commit(LinesAdded(upload, TaskNumber(1), (os.urandom(50_000).hex(),)))


def test_results_and_cancels_are_kept_on_a_full_disk(store: Blocking, disk: SmallDisk) -> None:
    store.commit(added(1), added(2, tasks=2_000), claim_all(2_000, job=2))
    fill(store, disk)
    for task in range(1, 2_001, 10):
        store.commit(*(ended(task=n, job=2) for n in range(task, task + 10)))
    store.commit(tasks_set(TaskState.CANCELLED))
    assert store.get_counts(2) == Counts(finished=2_000)
    assert store.get_counts(1) == Counts(cancelled=3)
    refuse_new_work(store)
    assert [job.row.job for job in store.reopen().jobs] == [1, 2]
    assert store.get_counts(2) == Counts(finished=2_000)


def test_a_large_job_can_be_forgotten_on_a_full_disk(store: Blocking, disk: SmallDisk) -> None:
    """Larger than what the log has room for."""
    store.commit(added(2, tasks=4_000), claim_all(4_000, job=2))
    store.commit(*(ended(task=task, job=2, result=bytes(4_000)) for task in range(1, 4_001)))
    fill(store, disk)
    store.commit(forgotten(2))
    assert store.find_job(2) is None
    store.prepare()  # which gives all the room that new work needs
    store.commit(added(3))
    assert disk.count_free_bytes() == 0


def test_what_was_half_forgotten_is_forgotten_at_the_next_start(path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        store.commit(added(1), added(2), claimed(job=2), ended(job=2))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM specs WHERE job = 2")  # the first step
    with blocking(SqliteStore(path)) as store:
        assert [row.job for row in store.list_jobs()] == [1]
        assert store.reopen().next_job == 3
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM tasks").fetchone() == (0,)


def test_the_reserve_is_made_again_when_there_is_room(store: Blocking, disk: SmallDisk) -> None:
    store.commit(added(2, tasks=2_000), claim_all(2_000, job=2))
    fill(store, disk)
    for task in range(1, 2_001, 100):
        store.commit(*(ended(task=n, job=2) for n in range(task, task + 100)))
    with pytest.raises(StoreError, match="the disk is full"):
        store.prepare()
    disk.empty()
    store.prepare()
    store.commit(added(3))
    disk.fill()
    store.commit(tasks_set(TaskState.CANCELLED, job=3))


def test_a_foreman_can_start_on_a_disk_that_is_nearly_full(disk: SmallDisk) -> None:
    with blocking(SqliteStore(disk.path / "jobs.db")) as store:
        store.commit(added(1))
    disk.fill()
    with pytest.raises(StoreError, match="the disk is full: make room"):
        asyncio.run(SqliteStore(disk.path / "jobs.db").open())
    disk.empty()
    disk.fill(leave=200_000)
    with blocking(SqliteStore(disk.path / "jobs.db")) as store:
        assert store.get_counts() == Counts(waiting=3)
        with pytest.raises(StoreError, match="the disk is full"):
            store.commit(added(2))
        store.commit(tasks_set(TaskState.CANCELLED))
        disk.empty()
        store.commit(added(2))


def test_the_room_is_there_from_the_start(path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        log = path.with_name("jobs.db-wal").stat()
        assert log.st_blocks * 512 >= LOG_BYTES
        store.commit(added())
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT length(room) FROM reserve").fetchall() == [(RESERVE_BYTES,)]


def test_a_file_that_may_not_grow_refuses_new_work_and_keeps_results(path: Path) -> None:
    """Without a disk of its own: SQLite is told that the file is as long as it may be."""
    with blocking(SqliteStore(path)) as store:
        store.commit(added(tasks=5_000), *(claimed(task) for task in range(1, 5_001)))
        limit(store, "1")  # which means: as many pages as there are
        with pytest.raises(StoreError, match="full"):
            store.commit(added(2, lines=(os.urandom(400_000).hex(),)))
        for task in range(1, 5_001, 100):
            store.commit(*(ended(task=n) for n in range(task, task + 100)))
        with pytest.raises(StoreError, match="full"):
            store.commit(added(2))
        assert store.get_counts() == Counts(finished=5_000)
        limit(store, "1000000")
        store.prepare()
        store.commit(added(2))


def limit(store: Blocking, pages: str) -> None:
    assert isinstance(store.store, SqliteStore)
    store.runner.run(store.store._writer.run(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchall()))
