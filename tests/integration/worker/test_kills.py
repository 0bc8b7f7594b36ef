"""Kill is real: of a whole group nothing is left, however it ends."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.worker.process_trees import STUBBORN_TREE, start_tree
from tests.integration.worker.runner_bench import a_bench, an_attempt, an_order, read_pids
from tests.processes import is_alive
from tests.waiting import until_async

from gandy.core.model import Cause
from gandy.errors import GandyError
from gandy.worker.runner import Runner
from gandy.worker.worker_folder import WorkerFolder


@pytest.mark.parametrize("immediate", [False, True])
def test_cancel_leaves_no_grandchildren(tmp_path: Path, immediate: bool) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            pids = await start_tree(bench, tmp_path / "pids")
            assert all(map(is_alive, pids))
            assert bench.runner.kill(an_attempt(), Cause.CANCELLED, "cancelled by ada", immediate=immediate)
            ending = await bench.ending_of(an_attempt())
            assert not any(map(is_alive, pids))
            assert (ending.cause, ending.note) == (Cause.CANCELLED, "cancelled by ada")
            assert ending.signal == (signal.SIGKILL if immediate else signal.SIGTERM)

    asyncio.run(go())


def test_timeout_leaves_no_grandchildren(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            pids = await start_tree(bench, tmp_path / "pids", timeout=2.0)
            ending = await bench.ending_of(an_attempt())
            assert not any(map(is_alive, pids))
            assert (ending.cause, ending.note) == (Cause.TIMEOUT, "ran longer than 2 seconds")

    asyncio.run(go())


def test_who_ignores_the_request_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out", grace=0.1) as bench:
            pids = await start_tree(bench, tmp_path / "pids", STUBBORN_TREE)
            bench.runner.kill(an_attempt(), Cause.CANCELLED)
            ending = await bench.ending_of(an_attempt())
            assert ending.signal == signal.SIGKILL
            assert not any(map(is_alive, pids))

    asyncio.run(go())


def test_impatience_cuts_the_grace_period_short(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            pids = await start_tree(bench, tmp_path / "pids", STUBBORN_TREE)
            bench.runner.kill(an_attempt(), Cause.CANCELLED, "first")
            bench.runner.kill(an_attempt(), Cause.WORKER_STOPPED, "second", immediate=True)
            ending = await bench.ending_of(an_attempt())
            assert (ending.cause, ending.note) == (Cause.CANCELLED, "first")
            assert not any(map(is_alive, pids))

    asyncio.run(go())


def test_children_have_the_grace_period_even_if_the_shell_dies_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    saver = f"trap 'echo saved > {path}.saved; exit' TERM; echo $PPID > {path}; while :; do sleep 0.01; done"

    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            bench.runner.start(an_order(f'sh -c "{saver}"; true'))
            await read_pids(path, 1)
            bench.runner.kill(an_attempt(), Cause.CANCELLED)
            assert (await bench.ending_of(an_attempt())).signal == signal.SIGTERM
            assert (tmp_path / "pids.saved").read_text() == "saved\n"

    asyncio.run(go())


def test_stopped_task_is_cancelled_too(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            pids = await start_tree(bench, tmp_path / "pids")
            os.killpg(os.getpgid(pids[0]), signal.SIGSTOP)
            bench.runner.kill(an_attempt(), Cause.CANCELLED)
            assert (await bench.ending_of(an_attempt())).signal == signal.SIGTERM
            assert not any(map(is_alive, pids))

    asyncio.run(go())


def test_children_left_behind_end_with_the_task(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            ending = await bench.run("trap '' TERM; sleep 600 & echo $!; sleep 600 & echo $!; exit 4")
            pids = [int(word) for word in bench.output().split()]
            assert len(pids) == 2
            assert not any(map(is_alive, pids))
            assert (ending.cause, ending.exit_code, ending.note) == (Cause.EXIT, 4, "")

    asyncio.run(go())


def test_orphans_are_reaped_where_they_become_our_children(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            await bench.run("sleep 600 & echo $!; exit")
            assert not is_alive(int(bench.output()))

    set_subreaper = 36  # PR_SET_CHILD_SUBREAPER: as if this were process 1 of a container
    libc = ctypes.CDLL(None)
    libc.prctl(set_subreaper, 1, 0, 0, 0)
    try:
        asyncio.run(go())
    finally:
        libc.prctl(set_subreaper, 0, 0, 0, 0)


def test_kill_all_ends_everything(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            for task in range(1, 6):
                bench.runner.start(an_order("sleep 600", task))
            assert list(bench.runner.running) == [an_attempt(task) for task in range(1, 6)]
            bench.runner.kill_all(Cause.WORKER_STOPPED, "the worker was stopped")
            await bench.runner.running.wait_idle()
            assert {ending.cause for ending in bench.endings.values()} == {Cause.WORKER_STOPPED}
            assert len(bench.endings) == 5
            assert not bench.runner.kill(an_attempt(), Cause.CANCELLED)

    asyncio.run(go())


def test_close_leaves_no_process(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out") as bench:
            pids = await start_tree(bench, tmp_path / "pids", STUBBORN_TREE)
            group = os.getpgid(pids[0])
        await until_async(lambda: not any(map(is_alive, pids)))
        with pytest.raises(ChildProcessError):
            os.waitpid(group, os.WNOHANG)

    asyncio.run(go())


def test_close_between_request_and_kill_is_final(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path / "out", grace=0.05) as bench:
            pids = await start_tree(bench, tmp_path / "pids", STUBBORN_TREE)
            bench.runner.kill(an_attempt(), Cause.CANCELLED)
        await bench.runner.running.wait_idle()
        await asyncio.sleep(0.1)  # a timer that was forgotten would fire now
        assert not any(map(is_alive, pids))
        assert bench.endings == {}

    asyncio.run(go())


def test_two_workers_cannot_share_a_folder(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            with pytest.raises(GandyError, match="another worker uses"):
                Runner(WorkerFolder(tmp_path), bench.on_end)
        Runner(WorkerFolder(tmp_path), bench.on_end).close()

    asyncio.run(go())


VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.integration.worker.runner_bench import Bench
from tests.integration.worker.process_trees import STUBBORN_TREE, start_tree

async def main():
    bench = Bench(Path(sys.argv[1]))
    await start_tree(bench, Path(sys.argv[2]), STUBBORN_TREE)
    if sys.argv[3] == "without":
        os.kill(bench.runner.folder.watchdog.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def kill_worker(folder: Path, watchdog: str) -> None:
    """Run a worker with one task and kill it with -9, maybe after its watchdog."""
    arguments = [sys.executable, "-c", VICTIM, str(folder / "out"), str(folder / "pids"), watchdog]
    root = Path(__file__).parents[3]  # where the package of the tests is found
    assert subprocess.run(arguments, check=False, cwd=root).returncode == -signal.SIGKILL


def test_watchdog_kills_the_tasks_of_a_killed_worker(tmp_path: Path) -> None:
    async def go() -> None:
        for pid in await read_pids(tmp_path / "pids", 3):
            await until_async(lambda pid=pid: not is_alive(pid))  # type: ignore[misc]

    kill_worker(tmp_path, watchdog="with")
    asyncio.run(go())


def test_table_lists_what_runs_and_nothing_else(tmp_path: Path) -> None:
    def listed() -> list[list[str]]:
        rows = map(str.split, (tmp_path / "running").read_text().splitlines())
        return sorted(row[1:4] for row in rows if row and row[0].isdigit())

    async def go() -> None:
        async with a_bench(tmp_path, on_free=lambda order: follow(order.attempt.task)) as bench:

            def follow(task: int) -> None:
                if task == 1:
                    bench.runner.start(an_order("sleep 600", task=3))

            bench.runner.start(an_order("sleep 600", task=2))
            await bench.run("true")
            assert listed() == [["1", "2", "1"], ["1", "3", "1"]]
            for task in (2, 3):
                bench.runner.kill(an_attempt(task), Cause.CANCELLED, immediate=True)
                await bench.ending_of(an_attempt(task))
                assert len(listed()) == 3 - task

    asyncio.run(go())


def test_next_worker_sweeps_what_a_killed_one_left(tmp_path: Path) -> None:
    async def go() -> None:
        pids = await read_pids(tmp_path / "pids", 3)
        assert all(map(is_alive, pids))
        async with a_bench(tmp_path / "out"):
            assert not any(map(is_alive, pids))

    kill_worker(tmp_path, watchdog="without")
    asyncio.run(go())


def test_sweep_spares_a_group_that_only_has_the_same_number(tmp_path: Path) -> None:
    async def go(stranger: int) -> None:
        (tmp_path / "running").write_text(f"{stranger} 1 1 1\n\n999999999 1 2 1\n")
        async with a_bench(tmp_path) as bench:
            assert bench.runner.folder.left.results == ()
            assert is_alive(stranger)

    with subprocess.Popen(["sleep", "600"], process_group=0) as stranger:
        try:
            asyncio.run(go(stranger.pid))
            assert stranger.poll() is None
        finally:
            stranger.kill()
