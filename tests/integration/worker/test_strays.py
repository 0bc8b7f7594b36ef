"""Which processes are found that left the group of their task, and which are left alone."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.worker.crews import a_bench, an_attempt
from tests.integration.worker.python_crews import a_call
from tests.processes import is_alive

from gandy.core.model import AttemptKey
from gandy.worker.strays import Strays
from gandy.worker.table import MARK_NAME
from gandy.worker.watchdog import RECOVERY

MARK = f"test-{os.getpid()}"  # tests run beside one another, and every process of the machine is looked at


@contextmanager
def a_process(attempt: AttemptKey | None, *words: str, mark: str = MARK) -> Iterator[subprocess.Popen[bytes]]:
    """With the environment of what a worker starts."""
    names = ("GANDY_JOB", "GANDY_TASK", "GANDY_ATTEMPT")
    numbers = {} if attempt is None else {name: str(number) for name, number in zip(names, attempt, strict=True)}
    env = {**os.environ, **numbers, MARK_NAME: mark}
    command = words or ("sleep", "600")
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_only_those_of_the_attempt_and_the_worker_are_killed() -> None:
    strays = Strays(MARK)
    with (
        a_process(an_attempt(1)) as meant,
        a_process(an_attempt(2)) as other,
        a_process(None) as unknown,
        a_process(an_attempt(1), mark=f"{MARK}7") as foreign,
    ):
        assert strays.kill(an_attempt(1))
        assert meant.wait(20) == -signal.SIGKILL
        assert not strays.kill(an_attempt(1))
        strays.sweep(lambda attempt: attempt == an_attempt(2))
        assert [each.poll() for each in (other, unknown, foreign)] == [None, None, None]
        strays.sweep(lambda _attempt: False)
        assert other.wait(20) == -signal.SIGKILL
        strays.kill_all()
        assert unknown.wait(20) == -signal.SIGKILL
        assert foreign.poll() is None


def test_one_that_does_not_die_is_waited_for_by_its_own_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    strays = Strays(MARK)
    with a_process(an_attempt(1)) as process:
        assert strays.kill(an_attempt(1))
        process.wait(20)
        monkeypatch.setattr("gandy.worker.strays.lives", lambda _pid: True)  # as if the kernel were stuck
        assert strays.kill(an_attempt(1))
        assert not strays.kill(an_attempt(2))
        strays.forget(an_attempt(1))
        assert not strays.kill(an_attempt(1))


def test_the_watchdog_of_a_worker_inside_a_task_is_left_alone() -> None:
    with a_process(an_attempt(1), "sh", "-c", f"read -r word; : {RECOVERY}") as watchdog:
        assert not Strays(MARK).kill(an_attempt(1))
        assert watchdog.poll() is None


def _find_self() -> int:
    return os.getpid()


def test_slot_processes_of_a_worker_inside_a_task_do_not_look_like_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GANDY_JOB", "GANDY_TASK", "GANDY_ATTEMPT"):
        monkeypatch.setenv(name, "1")

    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            bench.runner.start(a_call(_find_self, task=2))
            await bench.ending_of(an_attempt(2))
            (pid,) = bench.runner.slot_pids
            await bench.run("exit 3")
            assert b"GANDY_JOB" not in Path(f"/proc/{pid}/environ").read_bytes()
            assert is_alive(pid)

    asyncio.run(go())
