"""What tasks print: kept whole, read in pieces, followed live, and removed when old."""

import asyncio
import os
import tracemalloc
from pathlib import Path

import pytest
from tests.integration.worker.runner_bench import a_bench, an_attempt, an_order, no_files, run_one
from tests.waiting import until_async

from gandy.core.model import MISSING, AttemptKey
from gandy.worker.output import Stream, output_path
from gandy.worker.trim import trim, weigh

HUNDRED_MB = 100_000_000


def read_output(folder: Path, attempt: AttemptKey, stream: Stream, offset: int, limit: int) -> bytes:
    """As it is on the disk once the task has ended."""
    path = Path(output_path(folder, attempt, stream))
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(limit)


def test_line_of_100_mb_is_kept_and_read_in_pieces(tmp_path: Path) -> None:
    tracemalloc.start()
    line = f"head -c {HUNDRED_MB} /dev/zero | tee /dev/stderr"
    ending, _ = run_one(tmp_path, line)
    size, offset = 0, 0
    while data := read_output(tmp_path, an_attempt(), "out", offset, 1_000_000):
        offset += len(data)
        size += data.count(b"\0")
    assert size == HUNDRED_MB
    assert ending.tail == bytes(4096)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < HUNDRED_MB / 10


def test_streams_are_kept_apart(tmp_path: Path) -> None:
    run_one(tmp_path, "echo one; echo two >&2; echo three")
    assert read_output(tmp_path, an_attempt(), "out", 0, 100) == b"one\nthree\n"
    assert read_output(tmp_path, an_attempt(), "out", 4, 3) == b"thr"
    assert read_output(tmp_path, an_attempt(), "err", 0, 100) == b"two\n"
    assert read_output(tmp_path, an_attempt(), "err", 100, 100) == b""
    assert read_output(tmp_path, an_attempt(task=2), "out", 0, 100) == b""


def test_silent_task_leaves_no_file(tmp_path: Path) -> None:
    run_one(tmp_path, "true")
    assert weigh(tmp_path) == 0
    assert not (tmp_path / "1").exists()


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (folder / "open").iterdir()}


def test_files_that_stayed_empty_are_used_again_and_others_are_not(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            await bench.run("true")
            first = inodes(tmp_path)
            await bench.run("true", task=2)
            assert inodes(tmp_path) == first
            await bench.run("echo said", task=3)
            assert inodes(tmp_path) == {"1.err": first["1.err"]}
            assert read_output(tmp_path, an_attempt(3), "out", 0, 100) == b"said\n"

    asyncio.run(go())


def test_process_that_left_its_group_does_not_write_into_the_next_output(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            ready, say, hold = (tmp_path / name for name in ("ready", "say", "hold"))
            for fifo in (ready, say, hold):
                os.mkfifo(fifo)
            # The first task ends as soon as its child has left the group, and its output is empty then.
            stray = f"echo > {ready}; read word < {say}; echo $word; : > {say}"
            await bench.run(f"setsid sh -c '{stray}' & cat {ready}> /dev/null")
            bench.runner.start(an_order(f"cat {hold}", task=2))
            await asyncio.to_thread(say.write_text, "astray\n")
            await asyncio.to_thread(say.read_text)  # it has written by now
            await asyncio.to_thread(hold.write_text, "mine\n")
            await bench.ending_of(an_attempt(2))
            assert bench.output(2) == b"mine\n"

    asyncio.run(go())


def test_tasks_are_spread_over_folders(tmp_path: Path) -> None:
    assert output_path(tmp_path, an_attempt(1_234_567, job=8, attempt=3), "err") == f"{tmp_path}/8/1234/1234567.3.err"


@pytest.mark.parametrize("removed", ["rm -f {line}/open/*.out; echo gone >&2", "rm -rf {line}/open"])
def test_task_may_remove_its_own_output(tmp_path: Path, removed: str) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            ending = await bench.run(f"echo x; {removed}", line=str(tmp_path))
            assert ending.is_success
            assert bench.output() == b""
            assert (await bench.run("echo on", task=2)).is_success
            assert bench.output(2) == b"on\n"

    asyncio.run(go())


def test_output_can_be_followed_to_its_last_byte(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            go_on = tmp_path / "go_on"
            os.mkfifo(go_on)
            bench.runner.start(an_order("echo one; cat {line}; echo three", line=str(go_on)))
            await until_async(lambda: bench.output() == b"one\n")
            assert bench.runner.read(an_attempt(), "out", 0, 100) == (b"one\n", False, False)
            assert bench.runner.read(an_attempt(), "out", 4, 100) == (b"", False, False)
            await asyncio.to_thread(go_on.write_text, "two\n")
            await bench.ending_of(an_attempt())
            assert bench.runner.read(an_attempt(), "out", 4, 5) == (b"two\nt", False, False)
            assert bench.runner.read(an_attempt(), "out", 9, 100) == (b"hree\n", True, False)

    asyncio.run(go())


def test_output_of_tasks_that_end_while_no_file_can_be_opened_is_whole_and_not_mixed(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            gate = tmp_path / "gate"
            os.mkfifo(gate)
            opener = os.open(gate, os.O_RDWR)
            lines = [f"read w < {gate}; echo {{task}}; echo error {{task}} >&2", f"read w < {gate}"]
            for task in range(1, 9):
                bench.runner.start(an_order(lines[task % 2], task))
            with no_files():
                os.write(opener, b"go\n" * 8)
                endings = [await bench.ending_of(an_attempt(task)) for task in range(1, 9)]
            os.close(opener)
            sizes = [(ending.out_bytes, ending.err_bytes, ending.note) for ending in endings]
            assert sizes == [(0, 0, ""), (2, 8, "")] * 4
            for task in range(11, 19):  # with the names of files that the others had, perhaps
                await bench.run(lines[1].replace("read w < ", "true "), task)
            for task in range(1, 9):
                assert bench.output(task) == (b"" if task % 2 else b"%d\n" % task)
                assert read_output(tmp_path / "out", an_attempt(task), "err", 0, 100) == (
                    b"" if task % 2 else b"error %d\n" % task
                )
            assert {bench.output(task) for task in range(11, 19)} == {b""}

    asyncio.run(go())


@pytest.mark.parametrize("replacement", ["mkfifo $f", "ln -s /etc/hostname $f", "mkdir $f", "ln -s /nowhere $f"])
def test_what_a_task_puts_in_the_place_of_its_output_is_neither_waited_for_nor_read(
    tmp_path: Path, replacement: str
) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            ending = await bench.run(f"echo x; f=$(readlink /proc/$$/fd/1); rm $f; {replacement}")
            assert ending.is_success
            assert ending.out_bytes == MISSING
            assert "its standard output is missing" in ending.note
            assert bench.output() == b""
            assert (await bench.run("echo on", task=2)).is_success
            assert bench.output(2) == b"on\n"

    asyncio.run(go())


def write(folder: Path, attempt: AttemptKey, age: float, size: int = 10) -> Path:
    path = Path(output_path(folder, attempt, "out"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    changed = path.stat().st_mtime - age
    os.utime(path, (changed, changed))
    return path


def test_trim_begins_with_the_oldest(tmp_path: Path) -> None:
    ages = {1: 10.0, 2: 30.0, 3001: 40.0, 3002: 20.0, 9000: 5.0}
    paths = {task: write(tmp_path, an_attempt(task), age) for task, age in ages.items()}
    assert weigh(tmp_path) == 50
    assert trim(tmp_path, max_bytes=50) == 0
    assert trim(tmp_path, max_bytes=35) == 20
    assert {task for task, path in paths.items() if path.exists()} == {1, 2, 9000}
    assert not (tmp_path / "1" / "3").exists()
    assert weigh(tmp_path) == 30


def test_trim_of_everything_leaves_no_folders_and_spares_what_runs(tmp_path: Path) -> None:
    for job in range(1, 4):
        write(tmp_path, an_attempt(job=job), 10)
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "1.out").write_text("it runs")
    assert trim(tmp_path, max_bytes=0) == 30
    assert [path.name for path in tmp_path.rglob("*")] == ["open", "1.out"]
    assert trim(tmp_path, max_bytes=0) == 0
