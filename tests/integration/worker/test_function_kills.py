"""Slot processes that are killed, crash, or never become ready: only the attempt that they ran suffers."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.worker import functions
from tests.integration.worker.function_bench import ROOT, FunctionBench, run_with_bench
from tests.integration.worker.runner_bench import a_bench, an_attempt, read_pids
from tests.processes import is_alive
from tests.waiting import until_async

from gandy.core.model import Cause


@pytest.mark.parametrize("function", [functions.spin, functions.doze])
@pytest.mark.parametrize("immediate", [False, True])
def test_cancel_is_real(tmp_path: Path, function: Any, immediate: bool) -> None:
    async def go(bench: FunctionBench) -> None:
        running = bench.start(function, str(tmp_path / "pid"))
        (pid,) = await read_pids(tmp_path / "pid", 1)
        bench.runner.kill(an_attempt(), Cause.CANCELLED, "cancelled by ada", immediate=immediate)
        ending = await running
        assert not is_alive(pid)
        assert (ending.cause, ending.note) == (Cause.CANCELLED, "cancelled by ada")
        assert ending.signal == (signal.SIGKILL if immediate else signal.SIGTERM)
        assert await bench.value(functions.who) != pid

    run_with_bench(tmp_path / "out", go)


def test_who_ignores_the_request_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        running = bench.start(functions.ignore_and_doze, str(tmp_path / "pid"))
        await read_pids(tmp_path / "pid", 1)
        bench.runner.kill(an_attempt(), Cause.CANCELLED)
        assert (await running).signal == signal.SIGKILL

    run_with_bench(tmp_path / "out", go, grace=0.1)


def test_timeout_is_real_and_children_go_too(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        running = bench.start(functions.doze_with_child, str(tmp_path / "pids"), timeout=1.0)
        pids = await read_pids(tmp_path / "pids", 2)
        ending = await running
        assert (ending.cause, ending.note) == (Cause.TIMEOUT, "ran longer than 1 seconds")
        assert not any(map(is_alive, pids))

    run_with_bench(tmp_path / "out", go)


def test_timeout_does_not_outlive_its_task(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing, timeout=0.5)
        running = bench.start(functions.doze, str(tmp_path / "pid"), timeout=1.0)
        await read_pids(tmp_path / "pid", 1)
        assert (await running).note == "ran longer than 1 seconds"

    run_with_bench(tmp_path / "out", go)


def test_task_can_be_cancelled_while_its_process_starts(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        running = bench.start(functions.nothing)
        bench.runner.kill(an_attempt(), Cause.CANCELLED, "at once")
        ending = await running
        assert (ending.cause, ending.note, ending.started) == (Cause.CANCELLED, "at once", None)
        assert bench.runner.pool.pids == []
        assert await bench.value(functions.add, 1, 1) == 2

    run_with_bench(tmp_path, go)


def test_crash_fails_its_attempt_and_says_where(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.crash)
        assert (ending.cause, ending.signal, ending.exit_code) == (Cause.SIGNAL, signal.SIGSEGV, None)
        assert ending.note == "killed by SIGSEGV"
        assert b"in crash" in ending.tail
        assert await bench.value(functions.add, 1, 1) == 2

    run_with_bench(tmp_path, go)


@pytest.mark.parametrize(("code", "told"), [(0, None), (3, 3)])
def test_exit_before_the_function_returns_is_no_success(tmp_path: Path, code: int, told: int | None) -> None:
    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.exit_now, code)
        assert (ending.cause, ending.exit_code, ending.signal) == (Cause.EXIT, told, None)
        assert ending.note == f"its process ended with exit code {code} before the function did"
        assert not ending.is_success
        assert await bench.value(functions.add, 1, 1) == 2

    run_with_bench(tmp_path, go)


def test_kill_by_a_stranger_fails_only_what_runs(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        victim = bench.start(functions.doze, str(tmp_path / "victim"))
        other = bench.start(functions.doze, str(tmp_path / "other"))
        (pid,) = await read_pids(tmp_path / "victim", 1)
        (other_pid,) = await read_pids(tmp_path / "other", 1)
        os.kill(pid, signal.SIGKILL)
        ending = await victim
        assert (ending.cause, ending.signal, ending.note) == (Cause.SIGNAL, signal.SIGKILL, "killed by SIGKILL")
        assert is_alive(other_pid)
        assert not other.done()

    run_with_bench(tmp_path / "out", go)


def test_kill_by_the_kernel_is_called_out_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([4, 5])
    monkeypatch.setattr("gandy.worker.oom.OomCounter.read", lambda self: next(counts))

    async def go(bench: FunctionBench) -> None:
        running = bench.start(functions.doze, str(tmp_path / "pid"))
        (pid,) = await read_pids(tmp_path / "pid", 1)
        os.kill(pid, signal.SIGKILL)
        assert (await running).note == "killed by the kernel, which was out of memory"

    run_with_bench(tmp_path / "out", go)


def test_death_while_idle_harms_no_task(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        os.kill(pid, signal.SIGKILL)
        await until_async(lambda: bench.runner.pool.pids == [])
        assert await bench.value(functions.who) != pid

    run_with_bench(tmp_path, go)


def test_idle_process_that_died_unnoticed_is_passed_over(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid):  # the loop does not run meanwhile, so the pool has not noticed
            pass
        assert await bench.value(functions.who) != pid

    run_with_bench(tmp_path, go)


def test_process_without_a_link_is_killed(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.close_everything)
        assert (ending.cause, ending.note) == (Cause.SIGNAL, "its process closed its link to the worker")

    run_with_bench(tmp_path, go, grace=0.1)


def test_fresh_task_has_a_process_of_its_own(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        warm = await bench.value(functions.who)
        fresh = await bench.value(functions.who, fresh=True)
        assert fresh != warm
        assert not is_alive(fresh)
        assert await bench.value(functions.who, fresh=True) not in (warm, fresh)
        assert await bench.value(functions.who) == warm
        assert bench.runner.pool.pids == [warm]

    run_with_bench(tmp_path, go)


def test_warm_processes_serve_the_first_tasks_also_fresh_ones(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        bench.runner.pool.warm(2)
        warm = set(bench.runner.pool.pids)
        assert len(warm) == 2
        await until_async(lambda: len(bench.runner.pool.idle) == 2)
        assert await bench.value(functions.who, fresh=True) in warm
        assert await bench.value(functions.who) in warm

    run_with_bench(tmp_path, go)


def test_preloaded_modules_are_there(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        assert await bench.value(functions.is_imported, "wave")
        assert not await bench.value(functions.is_imported, "wave2")

    run_with_bench(tmp_path, go, preload=("wave",))


def test_preload_that_fails_is_told_each_time(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        for _ in range(2):
            ending = await bench.end(functions.nothing)
            assert ending.cause is Cause.NOT_STARTED
            assert ending.note == (
                "cannot preload no_such_module: ModuleNotFoundError: No module named 'no_such_module'"
            )
            assert ending.exit_code is None
        assert bench.runner.pool.pids == []

    run_with_bench(tmp_path, go, preload=("no_such_module",))


def test_preload_that_fails_when_no_task_waits_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go(bench: FunctionBench) -> None:
        bench.runner.pool.warm(1)
        await until_async(lambda: bench.runner.pool.pids == [])

    run_with_bench(tmp_path, go, preload=("no_such_module",))
    assert "cannot preload no_such_module: ModuleNotFoundError" in caplog.text


def test_process_that_dies_before_it_is_ready_is_told(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.nothing)
        assert (ending.cause, ending.note) == (
            Cause.NOT_STARTED,
            "its process ended with exit code 9 before it was ready",
        )

    (tmp_path / "bad_module.py").write_text("import os; os._exit(9)\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        run_with_bench(tmp_path / "out", go, preload=("bad_module",))


def test_interpreter_that_cannot_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.nothing)
        assert (ending.cause, ending.note) == (
            Cause.NOT_STARTED,
            "cannot run /no/such/python: No such file or directory",
        )

    run_with_bench(tmp_path, go)


def test_close_leaves_no_process(tmp_path: Path) -> None:
    pids: list[int] = []

    async def go(bench: FunctionBench) -> None:
        await asyncio.gather(bench.value(functions.who), bench.value(functions.who))
        bench.start(functions.ignore_and_doze, str(tmp_path / "pid"))
        await read_pids(tmp_path / "pid", 1)
        bench.start(functions.nothing, fresh=True)  # is just starting
        pids.extend(bench.runner.pool.pids)

    run_with_bench(tmp_path / "out", go)
    assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.integration.worker import functions
from tests.integration.worker.runner_bench import Bench, read_pids
from tests.integration.worker.function_bench import FunctionBench

async def main():
    bench = FunctionBench(Bench(Path(sys.argv[1]) / "out"))
    idle = bench.start(functions.write_pid, sys.argv[1] + "/idle")
    bench.start(functions.doze_with_child, sys.argv[1] + "/busy")
    await idle
    await read_pids(Path(sys.argv[1]) / "busy", 2)
    if sys.argv[2] == "without":
        os.kill(bench.runner.folder.watchdog.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def kill_worker(folder: Path, watchdog: str) -> list[int]:
    """Run a worker with an idle and a busy slot process and kill it with -9, maybe after its watchdog."""
    arguments = [sys.executable, "-c", VICTIM, str(folder), watchdog]
    assert subprocess.run(arguments, check=False, cwd=ROOT).returncode == -signal.SIGKILL
    return [int(line) for name in ("idle", "busy") for line in (folder / name).read_text().splitlines()]


def test_watchdog_kills_the_slot_processes_of_a_killed_worker(tmp_path: Path) -> None:
    pids = kill_worker(tmp_path, "with")
    asyncio.run(until_async(lambda: not any(map(is_alive, pids))))


def test_next_worker_sweeps_slot_processes(tmp_path: Path) -> None:
    async def go() -> None:
        _idle, *busy = kill_worker(tmp_path, "without")
        assert all(map(is_alive, busy))
        async with a_bench(tmp_path / "out"):
            assert not any(map(is_alive, busy))

    asyncio.run(go())


def test_idle_slot_process_ends_with_its_worker(tmp_path: Path) -> None:
    idle, *busy = kill_worker(tmp_path, "without")
    try:
        asyncio.run(until_async(lambda: not is_alive(idle)))
    finally:
        os.killpg(busy[0], signal.SIGKILL)
