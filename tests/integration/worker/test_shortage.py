"""A worker that is short of something gives tasks back: none fails for it, and none runs without being watched."""

import asyncio
import errno
import os
import resource
from pathlib import Path

import pytest
from tests.integration.worker.function_bench import a_task
from tests.integration.worker.runner_bench import a_bench, an_attempt, an_order, few_files
from tests.waiting import until_async

from gandy.core.model import Cause, Ending
from gandy.errors import ConfigError
from gandy.net import open_files
from gandy.net.open_files import allow_many_files, find_limits_of_tasks
from gandy.worker import spawn
from gandy.worker.files import FILES_PER_SLOT, OWN_FILES, fit_slots
from gandy.worker.posix_spawn import spawn as real_spawn
from gandy.worker.shortage import SHORTAGES
from gandy.worker.table import read_rows


def test_tasks_for_which_there_are_no_files_are_given_back_and_never_ran(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            await bench.run("true")  # what is kept for the next task is there
            with few_files(0):
                orders = [an_order(f"echo ran > {tmp_path}/{task}; exec sleep 60", task) for task in range(2, 9)]
                for order in orders:
                    bench.runner.start(order)
                # Only the first can be watched, with the descriptor that is held for it.
                returned = [await bench.ending_of(order.attempt) for order in orders[1:]]
            assert {ending.cause for ending in returned} == {Cause.RETURNED}
            assert all("open files" in ending.note for ending in returned)
            await until_async((tmp_path / "2").exists)
            assert not [task for task in range(3, 9) if (tmp_path / str(task)).exists()], "it ran, and will run again"
            assert (await bench.run("echo on", task=9)).is_success
            assert bench.output(9) == b"on\n"

    asyncio.run(go())


def test_process_that_was_spawned_with_the_last_file_is_watched(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            await bench.run("true")
            with few_files(0):
                ending = await bench.run("echo watched", task=2)
            assert ending.is_success
            assert bench.output(2) == b"watched\n"

    asyncio.run(go())


@pytest.mark.parametrize("code", sorted(SHORTAGES))
def test_every_shortage_at_spawning_gives_the_task_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """RLIMIT_NPROC does not bind root, and memory cannot be filled safely: the call of the C library fails here."""

    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            with monkeypatch.context() as patch:
                patch.setattr(spawn, "spawn", fail)
                for task, order in enumerate((an_order("true", 1), a_task(len, "ab", task=2)), 1):
                    bench.runner.start(order)
                    ending = await bench.ending_of(an_attempt(task))
                    assert (ending.cause, ending.note) == (Cause.RETURNED, SHORTAGES[code])
            assert (await bench.run("true", task=3)).is_success

    asyncio.run(go())


def test_program_that_asks_for_too_much_memory_is_its_own_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken program lets exec fail with ENOMEM: given back, it would come again for ever."""

    def fail(program: bytes, *rest: object) -> int:
        if program != b"/bin/sh":
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return real_spawn(program, *rest)  # type: ignore[arg-type]

    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            monkeypatch.setattr(spawn, "spawn", fail)
            ending = await bench.run(("sleep", "0"))
            assert ending.cause is Cause.NOT_STARTED
            assert "Cannot allocate memory" in ending.note

    asyncio.run(go())


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.EPERM])
def test_process_that_cannot_be_watched_is_killed_and_leaves_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    pids: list[int] = []

    def fail(pid: int) -> int:
        pids.append(pid)
        raise OSError(code, os.strerror(code))

    async def go() -> Ending:
        async with a_bench(tmp_path) as bench:
            with monkeypatch.context() as patch:
                patch.setattr(os, "pidfd_open", fail)
                ending = await bench.run("sleep 60")
            with pytest.raises(ProcessLookupError):
                os.kill(pids[0], 0)
            # The watchdog kills what is listed there, and the number may be another group's by then.
            assert read_rows(tmp_path).rows == []
            assert (await bench.run("true", task=2)).is_success
            return ending

    ending = asyncio.run(go())
    assert ending.cause is (Cause.NOT_STARTED if code == errno.EPERM else Cause.RETURNED)


def test_calls_for_which_there_are_no_files_are_given_back(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            with few_files(3):
                bench.runner.start(a_task(len, "ab", task=1))
                ending = await bench.ending_of(an_attempt(1))
            assert (ending.cause, ending.note) == (Cause.RETURNED, SHORTAGES[errno.EMFILE])
            bench.runner.start(a_task(len, "ab", task=2))
            assert (await bench.ending_of(an_attempt(2))).is_success

    asyncio.run(go())


def leak_files() -> None:
    """A function that leaves nothing to open in its process."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print("so the next call needs new files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_process_without_files_gives_its_next_call_back_and_ends(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            bench.runner.start(a_task(leak_files, task=1))
            assert (await bench.ending_of(an_attempt(1))).is_success
            before = bench.runner.pool.pids
            bench.runner.start(a_task(len, "ab", task=2))
            ending = await bench.ending_of(an_attempt(2))
            assert (ending.cause, ending.note) == (Cause.RETURNED, SHORTAGES[errno.EMFILE])
            bench.runner.start(a_task(len, "ab", task=3))
            assert (await bench.ending_of(an_attempt(3))).is_success
            assert not set(before) & set(bench.runner.pool.pids)

    asyncio.run(go())


def test_limit_of_files_is_raised_for_the_worker_and_stays_for_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(soft, hard - 1, 256)

    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            await bench.run("ulimit -Sn; ulimit -Hn")
            assert bench.output() == b"%d\n%d\n" % (low, hard)
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
            bench.runner.start(a_task(print_limits, task=2))
            await bench.ending_of(an_attempt(2))
            assert bench.output(2) == b"%d %d\n" % (low, hard)

    monkeypatch.setattr(open_files, "_before", [])
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
        assert find_limits_of_tasks() is None
        allow_many_files()
        allow_many_files()
        assert find_limits_of_tasks() == (low, hard)
        asyncio.run(go())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def print_limits() -> None:
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))


def test_slots_are_as_many_as_there_are_files_for() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OWN_FILES + 3 * FILES_PER_SLOT, hard))
        assert [fit_slots(wanted) for wanted in (1, 3, 4, 1000)] == [1, 3, 3, 3]
        resource.setrlimit(resource.RLIMIT_NOFILE, (OWN_FILES + FILES_PER_SLOT - 1, hard))
        with pytest.raises(ConfigError, match="ulimit -n"):
            fit_slots(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
