"""The file that keeps a worker's results: nothing that was added is missing, and nothing else is read."""

import errno
import os
from pathlib import Path

import pytest

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result
from gandy.ids import JobId, TaskNumber
from gandy.journal import NAME, REWRITE_BYTES, STALE_BYTES, Journal, Left, lock_folder, read_abandoned, read_left
from gandy.limits import MAX_BATCH, MAX_FORMER
from gandy.wire import payloads
from gandy.wire.messages import TaskResult


def a_result(task: int, note: str = "") -> TaskResult:
    return make_result(AttemptKey(JobId(1), TaskNumber(task), 1), Ending(cause=Cause.EXIT, exit_code=0, note=note))


def pack(*results: TaskResult) -> list[bytes]:
    return list(map(payloads.encode, results))


def list_left(folder: Path) -> list[int]:
    return [result.task for result in read_left(folder).results]


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["w-1"], [])
    assert read_left(tmp_path) == Left(("w-1",), ())
    journal.add(pack(a_result(1), a_result(2)))
    journal.add(pack(a_result(3)))
    assert read_left(tmp_path) == Left(("w-1",), (a_result(1), a_result(2), a_result(3)))
    journal.close()
    next_one = Journal(tmp_path, ["w-1", "w-2"], pack(a_result(1)))
    assert read_left(tmp_path) == Left(("w-1", "w-2"), (a_result(1),))
    next_one.close()


def test_there_is_nothing_where_nothing_was_kept(tmp_path: Path) -> None:
    assert read_left(tmp_path) == Left()
    (tmp_path / NAME).write_bytes(b"")
    assert read_left(tmp_path) == Left()
    (tmp_path / NAME).write_bytes(os.urandom(1000))
    assert read_left(tmp_path) == Left()


def test_of_a_torn_end_everything_before_it_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["w-1"], [])
    for task in (1, 2):
        journal.add(pack(a_result(task)))
    whole = (tmp_path / NAME).read_bytes()
    seen = set()
    for size in range(len(whole)):
        (tmp_path / NAME).write_bytes(whole[:size])
        seen.add(tuple(list_left(tmp_path)))
    assert seen == {(), (1,)}
    for place in range(len(whole)):
        (tmp_path / NAME).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert list_left(tmp_path) in ([], [1])
    journal.close()


@pytest.mark.parametrize("count", [1, 40, 2000])
def test_what_is_acknowledged_is_not_read_once_something_else_was_added(tmp_path: Path, count: int) -> None:
    journal = Journal(tmp_path, ["w-1"], [])
    for task in range(1, count + 1):
        journal.add(pack(a_result(task)))
    journal.forget()
    journal.add(pack(a_result(5000)))
    assert list_left(tmp_path) == [5000]
    journal.close()


def test_what_is_left_behind_the_end_is_bounded(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["w-1"], [])
    for task in range(1, 2000):
        journal.add(pack(a_result(task)))
    assert (tmp_path / NAME).stat().st_size > STALE_BYTES
    journal.forget()
    assert (tmp_path / NAME).stat().st_size < STALE_BYTES
    assert list_left(tmp_path) == []
    journal.close()


def test_a_busy_worker_does_not_fill_the_disk(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["w-1"], [])
    for task in range(1, 100):
        journal.add(pack(a_result(task, "x" * 50_000)))
        if journal.is_large:
            journal.compact(pack(a_result(task)))
        assert (tmp_path / NAME).stat().st_size < REWRITE_BYTES + 100_000
    assert list_left(tmp_path)[-1] == 99
    journal.close()


def test_many_results_at_once_are_several_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path, ["w-1"], [])
    journal.add(pack(*(a_result(task) for task in range(1, 3 * MAX_BATCH))))
    assert list_left(tmp_path) == list(range(1, 3 * MAX_BATCH))
    journal.close()


def test_a_full_disk_is_said_once_and_is_not_the_tasks_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, ["w-1"], [])
    journal.add(pack(a_result(1)))
    write = os.pwrite

    def write_some(file: int, data: bytes, at: int) -> int:
        if len(data) <= 50:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:5], at)

    monkeypatch.setattr(os, "pwrite", write_some)
    for task in (2, 3):
        journal.add(pack(a_result(task)))
    monkeypatch.undo()
    assert list_left(tmp_path) == [1]
    assert journal.is_behind
    journal.add(pack(a_result(4)))  # not without those before it
    assert list_left(tmp_path) == [1]
    journal.compact(pack(*(a_result(task) for task in (1, 2, 3, 4))))
    assert not journal.is_behind
    journal.add(pack(a_result(5)))
    assert list_left(tmp_path) == [1, 2, 3, 4, 5]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "No space left on device; a kill -9 of this worker may lose results"
    ]
    journal.close()


def test_only_the_last_former_workers_are_named(tmp_path: Path) -> None:
    Journal(tmp_path, [f"w-{number}" for number in range(100)], []).close()
    assert read_left(tmp_path).ids == tuple(f"w-{number}" for number in range(100))[-MAX_FORMER:]


def test_a_folder_in_use_is_not_read(tmp_path: Path) -> None:
    assert read_abandoned(str(tmp_path)) == Left()  # no worker was ever there
    Journal(tmp_path, ["w-1"], pack(a_result(1))).close()
    lock = lock_folder(tmp_path)
    assert lock is not None
    assert lock_folder(tmp_path) is None
    assert read_abandoned(str(tmp_path)) is None
    os.close(lock)
    assert read_abandoned(str(tmp_path)) == Left(("w-1",), (a_result(1),))


@pytest.mark.parametrize("folder", ["", ".", "somewhere", "/nowhere/at/all"])
def test_only_an_absolute_folder_is_looked_at(folder: str) -> None:
    assert read_abandoned(folder) == Left()
