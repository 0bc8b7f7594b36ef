"""What had ended when its worker was killed counts, with its output, whether a new worker or the foreman finds it."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.worker.runner_bench import a_bench, an_attempt
from tests.waiting import until_async

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result, read_attempt, read_ending, read_shard
from gandy.core.shards import NO_SHARD
from gandy.errors import GandyError
from gandy.journal import TABLE_NAME, Journal, Left, read_abandoned
from gandy.limits import MAX_SHARDS
from gandy.wire import payloads
from gandy.worker.recovery import recover
from gandy.worker.runner import Runner
from gandy.worker.table import ROW_BYTES, GroupTable, Row, Rows, read_rows
from gandy.worker.worker_folder import WorkerFolder

VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.integration.worker.runner_bench import DEADLINE, an_order
from gandy.worker.runner import Runner
from gandy.worker.worker_folder import WorkerFolder

async def main():
    folder, watchdog, books = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    over = asyncio.Queue()
    runner = Runner(WorkerFolder(folder), lambda attempt, ending: None, on_over=over.put_nowait)
    runner.start(an_order("echo good; echo bad >&2; exit 3", task=1))
    runner.start(an_order("sleep 600", task=2))
    async with asyncio.timeout(DEADLINE):
        await over.get()
    if books == "kept":
        runner.finished.report()
    if watchdog == "without":
        os.kill(runner.folder.watchdog.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def kill_worker(folder: Path, *words: str) -> None:
    root = Path(__file__).parents[3]  # where the package of the tests is found
    done = subprocess.run([sys.executable, "-c", VICTIM, str(folder), *words], check=False, cwd=root)
    assert done.returncode == -signal.SIGKILL


def check_left(left: Left) -> None:
    (result,) = left.results  # and nothing about the one that ran
    assert read_attempt(result) == an_attempt(1)
    ending = read_ending(result)
    assert (ending.cause, ending.exit_code, ending.tail) == (Cause.EXIT, 3, b"bad\n")
    assert (ending.out_bytes, ending.err_bytes) == (5, 4)
    assert ending.started is not None
    assert ending.ended is not None
    assert ending.started <= ending.ended


@pytest.mark.parametrize("books", ["kept", "not kept"])
@pytest.mark.parametrize("watchdog", ["with", "without"])
def test_what_ended_before_a_kill_is_left_with_its_output(tmp_path: Path, watchdog: str, books: str) -> None:
    async def go() -> None:
        if watchdog == "with":
            await until_async(lambda: read_abandoned(str(tmp_path)) is not None)
            left = read_abandoned(str(tmp_path))
            assert left is not None
            check_left(left)
        else:
            assert read_abandoned(str(tmp_path)) is None  # no worker has looked yet what ended, and what still runs
        async with a_bench(tmp_path) as bench:
            check_left(bench.runner.folder.left)
            assert bench.output(1) == b"good\n"

    kill_worker(tmp_path, watchdog, books)
    asyncio.run(go())


def test_what_was_left_is_safe_before_the_next_worker_begins(tmp_path: Path) -> None:
    """That one may be killed at once, too."""
    kill_worker(tmp_path, "without", "not kept")
    check_left(recover(tmp_path))
    assert not (tmp_path / TABLE_NAME).exists()
    check_left(recover(tmp_path))


def test_what_cannot_be_kept_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_words: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def begin_on_a_full_disk() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("gandy.worker.recovery.Journal", fail)
            with pytest.raises(GandyError, match="No space left"):
                Runner(WorkerFolder(tmp_path), lambda _attempt, _ending: None)

    async def go() -> None:
        begin_on_a_full_disk()
        async with a_bench(tmp_path) as bench:  # its lock was given back
            check_left(bench.runner.folder.left)

    kill_worker(tmp_path, "without", "not kept")
    asyncio.run(go())


def test_what_was_kept_before_is_not_made_up_again(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            assert bench.runner.folder.left == Left(("w-1",), (known,))

    known = make_result(an_attempt(1), Ending(cause=Cause.EXIT, exit_code=7))
    kill_worker(tmp_path, "without", "not kept")
    Journal(tmp_path, ["w-1"], [payloads.encode(known)]).close()
    asyncio.run(go())


def test_what_was_stopped_with_its_worker_is_given_back(tmp_path: Path) -> None:
    """A result that says that its worker was stopped would have the foreman give nothing to the next one."""

    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            (result,) = bench.runner.folder.left.results
            assert (read_ending(result).cause, read_shard(result)) == (Cause.RETURNED, 3)

    stopped = make_result(an_attempt(1), Ending(cause=Cause.WORKER_STOPPED), shard=3)
    Journal(tmp_path, ["w-1"], [payloads.encode(stopped)]).close()
    asyncio.run(go())


@pytest.mark.parametrize("shard", [NO_SHARD, MAX_SHARDS])
def test_rows_are_read_as_they_were_written(tmp_path: Path, shard: int) -> None:
    table = GroupTable(tmp_path)
    ending = Ending(cause=Cause.TIMEOUT, signal=9, started=1.25, ended=2.5, note="ran longer\nthan it may")
    big = 2**62
    ended = Row(0, AttemptKey(*an_attempt(big)[:2], big), "12", big, ending, shard)
    running = Row(4321, an_attempt(3))
    assert [table.add(running.group, running.attempt), table.add(1, an_attempt(1)), table.add(77)] == [1, 2, 3]
    table.end(2, ended)
    found = read_rows(tmp_path)
    assert (found.mark, found.rows[:2]) == (table.mark, [running, ended])
    table.remove(2)
    table.tidy()
    assert [row.group for row in read_rows(tmp_path).rows] == [4321, 77]
    table.end(3, ended._replace(ending=Ending(cause=Cause.EXIT, note="x" * ROW_BYTES)))
    assert read_rows(tmp_path).rows[1].ending == Ending(cause=Cause.EXIT)  # a note that has no room is left out
    table.close()
    assert read_rows(tmp_path) == Rows(0, [])


@pytest.mark.parametrize("text", [b"", b"\n", b"12 1 1 1\n", os.urandom(500), b"mark 5\nended 1 1 1 2 0 {\n\nx 1 1\n"])
def test_a_table_of_another_version_is_no_trouble(tmp_path: Path, text: bytes) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            assert bench.runner.folder.left == Left()

    (tmp_path / "running").write_bytes(text)
    asyncio.run(go())
