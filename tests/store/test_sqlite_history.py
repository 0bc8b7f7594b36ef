"""The file of a history: nothing that happens to it reaches the jobs, and nothing but StoreError comes out of it."""

import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest
from tests.disks import SmallDisk, small_disk
from tests.samples import a_sample, numbers
from tests.store.builders import Blocking, added, blocking, claimed, ended
from tests.store.histories import BlockingHistory, chain

from gandy.core.model import Counts, JobState
from gandy.core.past_crew import merge_shards, rebuild
from gandy.core.past_points import Grid, make_points
from gandy.core.samples import Level, SampledJob, SampledWorker, SampleHead, ShardSample
from gandy.errors import StoreError
from gandy.ids import JobId
from gandy.limits import MIN_HISTORY_ROOM
from gandy.store import history_file
from gandy.store.sqlite import SqliteStore

FLIPS = int(os.environ.get("GANDY_FLIPS", "25"))
SAMPLE, KEYFRAME, HOURLY = Level


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[Blocking]:
    with blocking(SqliteStore(path)) as store:
        yield store


@pytest.fixture
def history(store: Blocking) -> BlockingHistory:
    return BlockingHistory(store)


def get_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.history")


def test_there_is_no_file_before_the_first_sample(history: BlockingHistory, path: Path) -> None:
    assert (history.find(1.0), history.steps(), history.find_last(), history.get_extent().shards) == ([], [], None, 1)
    assert not get_file(path).exists()
    history.add(*chain())
    assert stat.S_IMODE(get_file(path).stat().st_mode) == 0o600


def test_a_store_that_is_not_open_has_no_history(history: BlockingHistory) -> None:
    history.face.close()
    with pytest.raises(StoreError, match="not open"):
        history.find(1.0)
    history.face.open()
    assert history.find(1.0) == []


def test_samples_do_not_change_the_file_of_jobs(history: BlockingHistory, path: Path) -> None:
    """An older gandy can open it."""
    history.face.commit(added())
    history.face.reopen()
    before = path.read_bytes()
    for number in range(1, 50):
        history.add(a_sample(number, 10.0 * number, KEYFRAME))
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"nonsense" * 1_000, b"SQLite format 3\0" + bytes(5_000)])
def test_a_file_that_is_none_is_set_aside(
    history: BlockingHistory, path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = get_file(path)
    file.write_bytes(content)
    assert history.find(1e9) == []
    history.add(*chain())
    history.face.reopen()
    assert numbers(history.find(1e9)) == [1, 2, 3, 4, 5]
    aside = file.with_name(f"{file.name}.damaged")
    assert aside.exists() == bool(content)
    assert ("a new history begins" in caplog.text) == bool(content)


def test_a_damaged_page_is_noticed_when_it_is_read(history: BlockingHistory, path: Path) -> None:
    history.add(*(a_sample(number, 10.0 * number, KEYFRAME) for number in range(1, 2_000)))
    history.face.close()
    file = get_file(path)
    with file.open("r+b") as opened:
        opened.seek(5 * 4_096)
        opened.write(b"\xff" * 40 * 4_096)
    history.face.open()
    for _ in range(2):
        assert len(history.read(KEYFRAME)) < 2_000
    history.add(a_sample(2_000, 1e5, HOURLY))
    assert numbers(history.find(1e6)) == [2_000]
    history.face.commit(added())
    assert history.face.get_counts() == Counts(waiting=3)


@pytest.mark.parametrize("seed", range(FLIPS))
def test_damage_loses_history_at_most_and_never_jobs(path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Bits are flipped anywhere, and all that can be asked is asked, whatever was read."""
    chance = Random(seed)
    with blocking(SqliteStore(path)) as store:
        history = BlockingHistory(store)
        store.commit(added(tasks=50))
        for task in range(1, 41):
            store.commit(claimed(task), ended(task=task))
        job = SampledJob(JobId(1), JobState.RUNNING, 1, 1, 1, 1, 1, 1, 1)
        sample = ShardSample(
            SampleHead(*range(15)), (job,) * 20, tuple(SampledWorker(f"w-{n}", 1, 1, 1) for n in range(20))
        )
        levels = [HOURLY, *(chance.choice([SAMPLE] * 5 + [KEYFRAME]) for _ in range(300))]
        history.add(*(a_sample(n + 1, 10.0 * n, level, sample=sample) for n, level in enumerate(levels)))
    file = get_file(path)
    with file.open("r+b") as opened:
        size = opened.seek(0, os.SEEK_END)
        for _ in range(chance.choice([1, 1, 20, 2_000])):
            place = opened.seek(chance.randrange(size))
            (byte,) = opened.read(1)
            opened.seek(place)
            opened.write(bytes([byte ^ 1 << chance.randrange(8)]))
    caplog.set_level(logging.ERROR)  # that it was set aside is expected
    with blocking(SqliteStore(path)) as store:
        history = BlockingHistory(store)
        for at in range(0, 3_200, 100):
            with suppress(StoreError):
                if shards := rebuild(history.find(float(at))):
                    merge_shards(shards, {})
            with suppress(StoreError):
                grid = Grid(SAMPLE, float(at), at + 500.0, 10.0)
                make_points(grid, history.steps(*grid))
        for level in Level:
            with suppress(StoreError):
                history.read(level)
        with suppress(StoreError):
            history.find_last()
            history.get_extent()
            history.add(a_sample(5_000, 5_000.0, HOURLY))
            assert history.find(5_000.0)[-1].number == 5_000
        assert store.get_counts() == Counts(waiting=10, finished=40)
        store.commit(claimed(41))


def test_rows_with_other_values_than_those_that_were_written_are_left_out(history: BlockingHistory, path: Path) -> None:
    history.add(*chain(count=9))
    with closing(sqlite3.connect(get_file(path))) as db, db:
        for number, column, value in (
            (2, "at", "text"),
            (3, "packed", "text"),
            (4, "base", -1),
            (5, "run", 1.5),
            (6, "number", b"6"),
            (7, "at", 1e300),
        ):
            db.execute(f"UPDATE samples SET {column} = ? WHERE number = ?", (value, number))
    assert numbers(history.read(SAMPLE)) == [8, 9]
    assert numbers(history.find(200.0)) == [1, 8, 9]


def test_a_file_of_a_newer_gandy_is_left_alone(history: BlockingHistory, path: Path) -> None:
    history.add(*chain())
    history.face.close()
    with closing(sqlite3.connect(get_file(path))) as db, db:
        db.execute("PRAGMA user_version = 2")
    before = get_file(path).read_bytes()
    history.face.open()
    for ask in (lambda: history.find(1.0), lambda: history.add(*chain(6)), history.find_last, history.get_extent):
        with pytest.raises(StoreError, match="newer gandy"):
            ask()
    history.face.commit(added())
    history.face.close()
    assert get_file(path).read_bytes() == before
    history.face.open()


def test_another_file_in_its_place_is_left_alone(history: BlockingHistory, path: Path) -> None:
    with closing(sqlite3.connect(get_file(path))) as db, db:
        db.execute("CREATE TABLE precious (a)")
    with pytest.raises(StoreError, match="not one of history"):
        history.add(*chain())
    with closing(sqlite3.connect(get_file(path))) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("precious",)]


def test_a_file_that_cannot_be_opened_stops_nothing(history: BlockingHistory, path: Path) -> None:
    get_file(path).mkdir()
    with pytest.raises(StoreError):
        history.add(*chain())
    with pytest.raises(StoreError):
        history.find(1.0)
    history.face.commit(added())


def test_a_locked_file_loses_the_sample_and_counts_right_afterwards(
    history: BlockingHistory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_file, "BUSY_TIMEOUT", 0.05)
    history.add(*chain())
    with closing(sqlite3.connect(get_file(path), isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            history.add(a_sample(6, 500.0))
        db.execute("ROLLBACK")
    history.add(a_sample(7, 600.0, KEYFRAME))
    assert numbers(history.find(1e9)) == [7]
    assert numbers(history.read(SAMPLE)) == [2, 3, 4, 5]


def test_the_last_room_of_a_disk_is_for_jobs(
    history: BlockingHistory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.add(*chain())
    monkeypatch.setattr(history_file, "MIN_HISTORY_ROOM", 1 << 62)
    with pytest.raises(StoreError, match="nearly full") as caught:
        history.add(a_sample(6, 500.0))
    assert caught.value.retryable
    assert numbers(history.find(1e9)) == [1, 2, 3, 4, 5]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 64) as disk:
        if disk.prefix:
            pytest.skip("only root can mount a small disk for this process")
        yield disk


def test_history_never_fills_a_disk(disk: SmallDisk) -> None:
    with blocking(SqliteStore(disk.path / "jobs.db")) as store:
        history = BlockingHistory(store)
        disk.fill(leave=MIN_HISTORY_ROOM + 3_000_000)
        wide = ShardSample(SampleHead(), new=tuple(SampledWorker("w" * 250, 1, 1, 1) for _ in range(100)))
        kept = 0
        with suppress(StoreError):
            for number in range(1, 1_000):
                history.add(a_sample(number, 10.0 * number, HOURLY, sample=wide))
                kept = number
        assert 10 < kept < 500
        assert disk.count_free_bytes() > MIN_HISTORY_ROOM * 0.9
        for job in range(1, 100):
            store.commit(added(job, tasks=1_000))
        disk.fill()
        store.commit(added(100))
        assert numbers(history.find(1e9)) == [kept]
