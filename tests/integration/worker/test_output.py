"""What tasks print: kept whole, read in pieces, followed live, and removed when old."""

import asyncio
import os
import tracemalloc
from pathlib import Path

import pytest
from tests.integration.worker.crews import a_bench, an_attempt, an_order, run_one, until

from gandy.core.model import AttemptKey
from gandy.worker.output import Stream, create_output, output_path, read_output, trim

HUNDRED_MB = 100_000_000


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
    assert list((tmp_path / "1" / "0").iterdir()) == []


def test_tasks_are_spread_over_folders(tmp_path: Path) -> None:
    assert output_path(tmp_path, an_attempt(1_234_567, job=8, attempt=3), "err") == f"{tmp_path}/8/1234/1234567.3.err"


@pytest.mark.parametrize("removed", ["rm -f {line}; echo gone >&2", "rm -rf $(dirname {line})"])
def test_task_may_remove_its_own_output(tmp_path: Path, removed: str) -> None:
    ending, out = run_one(tmp_path, f"echo x; {removed}", line=output_path(tmp_path, an_attempt(), "out"))
    assert ending.is_success
    assert out == b""


def test_output_can_be_followed_to_its_last_byte(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            go_on = tmp_path / "go_on"
            os.mkfifo(go_on)
            bench.runner.start(an_order("echo one; cat {line}; echo three", line=str(go_on)))
            await until(lambda: bench.output() == b"one\n")
            assert bench.runner.read(an_attempt(), "out", 0, 100) == (b"one\n", False)
            assert bench.runner.read(an_attempt(), "out", 4, 100) == (b"", False)
            await asyncio.to_thread(go_on.write_text, "two\n")
            await bench.ending_of(an_attempt())
            assert bench.runner.read(an_attempt(), "out", 4, 5) == (b"two\nt", False)
            assert bench.runner.read(an_attempt(), "out", 9, 100) == (b"hree\n", True)

    asyncio.run(go())


def write(folder: Path, attempt: AttemptKey, age: float, size: int = 10, stream: Stream = "out") -> Path:
    for descriptor in create_output(folder, attempt):
        os.close(descriptor)
    path = Path(output_path(folder, attempt, stream))
    path.write_bytes(bytes(size))
    changed = path.stat().st_mtime - age
    for name in ("out", "err"):
        os.utime(path.with_suffix(f".{name}"), (changed, changed))
    return path


def test_trim_by_age_spares_what_runs(tmp_path: Path) -> None:
    old, running, new = (write(tmp_path, an_attempt(task), age) for task, age in ((1, 99), (2, 99), (3, 1)))
    assert trim(tmp_path, max_age=50, keep=[an_attempt(2)]) == 10
    assert not old.exists()
    assert running.exists()
    assert new.exists()


def test_trim_by_size_begins_with_the_oldest(tmp_path: Path) -> None:
    ages = {1: 10.0, 2: 30.0, 3001: 40.0, 3002: 20.0, 9000: 5.0}
    paths = {task: write(tmp_path, an_attempt(task), age) for task, age in ages.items()}
    assert trim(tmp_path, max_bytes=50) == 0
    assert trim(tmp_path, max_bytes=35) == 20
    assert {task for task, path in paths.items() if path.exists()} == {1, 2, 9000}
    assert not (tmp_path / "1" / "3").exists()


def test_trim_of_everything_leaves_no_folders(tmp_path: Path) -> None:
    for job in range(1, 4):
        write(tmp_path, an_attempt(job=job), 10)
    assert trim(tmp_path, max_bytes=0) == 30
    assert list(tmp_path.iterdir()) == []
    assert trim(tmp_path, max_bytes=0, max_age=0) == 0
