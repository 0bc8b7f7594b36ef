"""Files that were damaged, removed, replaced or given another name: noticed, told, and no number of a job comes twice.

Bits are flipped at many places. What happens is left to SQLite and to chance; the law is that an acknowledged job is
there, or its loss is told, and that nothing but StoreError comes out of a store.
"""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from tests.store.builders import Blocking, added, blocking, claimed, ended, forgotten, opened, tasks_added, tasks_set

from gandy.core.model import TaskState
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.rows import Recovered
from gandy.core.snapshot import restore
from gandy.errors import StoreError
from gandy.store.sqlite import SqliteStore
from gandy.store.stamp import SLOT_BYTES, Stamp, StampFile

FLIPS = int(os.environ.get("GANDY_FLIPS", "25"))
JOBS = 8
FRAME_BYTES = 24 + 4096  # of a log, behind its header of 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[Blocking]:
    with blocking(SqliteStore(path)) as store:
        yield store


def fill(store: Blocking) -> None:
    """A bit of everything, in some commits; jobs 1 to 8 are acknowledged."""
    store.commit(added(1, tasks=50), added(2, lines=("a", "b", "c")))
    for task in range(1, 41):
        store.commit(claimed(task), ended(task=task, result=b"value %d" % task))
    store.commit(claimed(41), ended(TaskState.WAITING, task=41, failures=1), claimed(41, attempt=2), claimed(42))
    store.commit(opened(3), tasks_added(1, b"x", b"y", job=3), claimed(job=2), ended(TaskState.FAILED, job=2))
    for job in range(4, JOBS + 1):
        store.commit(added(job), claimed(job=job), ended(job=job))
    store.commit(tasks_set(TaskState.CANCELLED, job=5), forgotten(6))


def read_all(store: Blocking) -> None:
    """All that a foreman may ask for. Each question is answered, or refused with a word about damage."""
    jobs = range(1, JOBS + 1)
    questions: list[Callable[[], object]] = [partial(store.load_job, job) for job in jobs]
    questions += [partial(ask, job) for ask in (store.list_tasks, store.list_results) for job in jobs]
    questions += [partial(store.list_attempts, task) for task in range(1, 51)]
    questions += [store.list_jobs, *(partial(store.read_lines, 1, 3, job) for job in (2, 3))]
    for question in questions:
        with suppress(StoreError):
            question()


def copy(path: Path, folder: Path) -> Path:
    """What a foreman leaves that is killed now."""
    folder.mkdir()
    for name in (path.name, f"{path.name}-wal", f"{path.name}.stamp"):
        if path.with_name(name).exists():
            shutil.copy(path.with_name(name), folder / name)
    log = folder / f"{path.name}-wal"
    if log.exists():  # the room that it has ahead takes long to copy
        os.truncate(log, -(-len(log.read_bytes().rstrip(b"\0")) // FRAME_BYTES) * FRAME_BYTES + 32)
    return folder / path.name


def flip(path: Path, place: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


@contextmanager
def a_face(path: Path) -> Iterator[Blocking]:
    """A store that may refuse to open."""
    face = Blocking(SqliteStore(path))
    with face.runner:
        yield face
        with suppress(StoreError):
            face.close()


def open_and_use(path: Path) -> Recovered | None:
    """What the store tells when a foreman starts with it; None where it refuses."""
    with a_face(path) as face:
        try:
            found = face.open()
        except StoreError as error:
            if not any(word in str(error) for word in ("damaged", "not a file of jobs", "not one of jobs", "version")):
                raise
            return None
        assert found.next_job > JOBS, "no number is given again"
        restore(Reactor(Policy(), found.next_job), found, 0.0)
        read_all(face)
        with suppress(StoreError):
            face.commit(added(found.next_job))
    return found


# Damage


def test_a_damaged_log_is_noticed_wherever_it_is(tmp_path: Path, path: Path) -> None:
    chance = Random(1)
    with blocking(SqliteStore(path)) as store:
        fill(store)
        whole = copy(path, tmp_path / "whole")
    log = whole.with_name(f"{whole.name}-wal")
    used = len(log.read_bytes().rstrip(b"\0"))
    told = 0
    for number in range(FLIPS):
        other = copy(whole, tmp_path / f"copy{number}")
        flip(other.with_name(log.name), chance.randrange(used), chance.randrange(8))
        found = open_and_use(other)
        if found is not None and found.problems:
            told += 1
            assert "commits are gone" in found.problems[0]
        elif found is not None:  # a bit that does not matter, as in a frame that SQLite has copied already
            assert {job.row.job for job in found.jobs} >= {1, 2, 3}
        shutil.rmtree(other.parent)
    assert told > FLIPS / 2


def test_a_store_that_was_not_closed_and_is_whole_has_no_problem(tmp_path: Path, path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        fill(store)
        found = open_and_use(copy(path, tmp_path / "copy"))
    assert found is not None
    assert found.problems == ()
    reopened = open_and_use(path)
    assert reopened is not None
    assert reopened.problems == ()


def test_what_a_damaged_log_has_lost_is_told(tmp_path: Path, path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        for job in range(1, JOBS + 1):
            store.commit(added(job))
            if job == 3:
                copied = copy(path, tmp_path / "older")
        newer = copy(path, tmp_path / "newer")
    shutil.copy(newer.with_name(f"{newer.name}.stamp"), copied.parent)
    found = open_and_use(copied)
    assert found is not None
    (problem,) = found.problems
    assert "the last 5 commits are gone" in problem
    assert "jobs 4 to 8" in problem
    assert "go on at 9" in problem
    with blocking(SqliteStore(copied)) as store:  # it is told once
        assert store.reopen().problems == ()


def test_every_change_of_a_closed_file_is_noticed(tmp_path: Path, path: Path) -> None:
    chance = Random(2)
    with blocking(SqliteStore(path)) as store:
        fill(store)
    for number in range(FLIPS):
        other = copy(path, tmp_path / f"copy{number}")
        flip(other, chance.randrange(40 * 4096), chance.randrange(8))
        found = open_and_use(other)
        assert found is None or found.problems, "it is refused, or told"
        shutil.rmtree(other.parent)


def test_nothing_but_store_errors_come_from_a_damaged_file(tmp_path: Path, path: Path) -> None:
    """Without the stamp of its closing, as after a crash or in a store of an older gandy."""
    chance = Random(3)
    with blocking(SqliteStore(path)) as store:
        fill(store)
    for number in range(FLIPS):
        other = copy(path, tmp_path / f"copy{number}")
        other.with_name(f"{other.name}.stamp").unlink()
        for _ in range(20):
            flip(other, chance.randrange(100, 40 * 4096), chance.randrange(8))
        with a_face(other) as face, suppress(StoreError):
            restore(Reactor(Policy()), face.open(), 0.0)
            read_all(face)
        shutil.rmtree(other.parent)


def test_a_task_in_another_state_than_it_was_counted_in_is_noticed(path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        fill(store)
    path.with_name(f"{path.name}.stamp").unlink()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE tasks SET state = 2 WHERE job = 1 AND task = 42")
    with pytest.raises(StoreError, match=r"damaged .*job 1 does not fit its tasks"):
        asyncio.run(SqliteStore(path).open())


def test_an_older_copy_is_noticed_and_its_numbers_are_not_given_again(tmp_path: Path, path: Path) -> None:
    with blocking(SqliteStore(path)) as store:
        store.commit(added(1))
    backup = tmp_path / "backup"
    shutil.copy(path, backup)
    with blocking(SqliteStore(path)) as store:
        store.commit(added(2))
        store.commit(added(3))
    shutil.copy(backup, path)
    with blocking(SqliteStore(path)) as store:
        found = store.reopen()
        assert found.next_job == 4
    path.unlink()
    with a_face(path) as face:
        found = face.open()
    assert found.next_job == 4
    assert "jobs 1 to 3" in found.problems[0]


# Places


def test_another_name_of_the_same_file_is_refused(store: Blocking, path: Path) -> None:
    link = path.with_name("link.db")
    link.hardlink_to(path)
    with pytest.raises(StoreError, match="another foreman uses it under another name"):
        asyncio.run(SqliteStore(link).open())
    store.commit(added())


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_that_was_removed_takes_nothing_until_it_is_back(store: Blocking, path: Path, suffix: str) -> None:
    store.commit(added(1))
    file = path.with_name(f"{path.name}{suffix}")
    hidden = path.with_name("hidden")
    file.rename(hidden)
    for _ in range(2):
        with pytest.raises(StoreError, match="removed or replaced") as caught:
            store.commit(added(2))
        assert caught.value.retryable
        with pytest.raises(StoreError, match="removed or replaced"):
            store.prepare()
        shutil.copy(hidden, file)  # another one is not the same
    hidden.rename(file)
    store.prepare()
    store.commit(added(2))
    assert store.reopen().next_job == 3


# The stamp


def test_the_newer_half_of_a_stamp_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "stamp"
    file = StampFile(path)
    assert file.last is None
    for commit in range(1, 4):
        file.write(Stamp(commit), is_synced=True)
    file.close()
    assert StampFile(path).last == Stamp(3)
    flip(path, SLOT_BYTES + 10)  # the third write
    assert StampFile(path).last == Stamp(2)
    flip(path, 10)
    assert StampFile(path).last is None


def test_a_stamp_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    file = StampFile(tmp_path / "nowhere" / "stamp")
    file.write(Stamp(1))
    file.close()
    assert file.last == Stamp(1)
