"""Which processes are found that left the group of their task, and which are left alone."""

import asyncio
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.integration.worker.function_bench import a_task
from tests.integration.worker.runner_bench import a_bench, an_attempt
from tests.processes import is_alive
from tests.waiting import until

from gandy.core.model import AttemptKey
from gandy.worker.labels import LIMIT, MARK_NAME, make_label
from gandy.worker.strays import Strays, list_marked
from gandy.worker.table import NO_ATTEMPT
from gandy.worker.watchdog import Watchdog

# Tests run beside one another, and every process of the machine is looked at. Labels have the upper bits only.
MARK = os.getpid() << 40
OTHER_MARK = MARK + (1 << 39)
NUMBERS = ("GANDY_JOB", "GANDY_TASK", "GANDY_ATTEMPT")


Process = subprocess.Popen[bytes]
Starter = Callable[..., AbstractContextManager[Process]]


@contextmanager
def a_process(attempt: AttemptKey, *words: str, mark: int = MARK) -> Iterator[Process]:
    """With the environment of what a worker starts."""
    numbers = {name: str(number) for name, number in zip(NUMBERS, attempt, strict=True) if attempt != NO_ATTEMPT}
    with _start({**os.environ, **numbers, MARK_NAME: str(mark)}, *words) as process:
        yield process


@contextmanager
def a_labelled_process(attempt: AttemptKey, mark: int = MARK) -> Iterator[Process]:
    """With the label that a worker puts on what it starts, and without an environment."""
    with _start({}) as process:
        resource.prlimit(process.pid, LIMIT, (make_label(mark, *attempt), resource.RLIM_INFINITY))
        yield process


@contextmanager
def _start(env: dict[str, str], *words: str) -> Iterator[Process]:
    command = words or ("/bin/sleep", "600")
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            # Popen returns when exec has closed its pipe, a moment before the kernel shows the new environment.
            until(lambda: not env or Path(f"/proc/{process.pid}/environ").read_bytes() != b"")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("start", [a_process, a_labelled_process])
def test_only_those_of_the_attempt_and_the_worker_are_killed(start: Starter) -> None:
    strays = Strays(MARK)
    with (
        start(an_attempt(1)) as meant,
        start(an_attempt(2)) as other,
        start(NO_ATTEMPT) as unknown,
        start(an_attempt(1), mark=OTHER_MARK) as foreign,
    ):
        assert strays.kill(an_attempt(1))
        assert meant.wait(20) == -signal.SIGKILL
        assert not strays.kill(an_attempt(1))
        strays.sweep([an_attempt(2)])
        assert [each.poll() for each in (other, unknown, foreign)] == [None, None, None]
        strays.sweep([])
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


def test_nothing_that_a_task_says_makes_it_a_watchdog() -> None:
    with a_process(an_attempt(1), "sh", "-c", "read -r word; : python -m gandy.worker.recovery") as impostor:
        assert Strays(MARK).kill(an_attempt(1))
        assert impostor.wait(20) == -signal.SIGKILL


def test_the_watchdog_of_a_worker_inside_a_task_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task's own label and environment are those of this process."""
    attempt = an_attempt(1)
    for name, number in zip((*NUMBERS, MARK_NAME), (*attempt, MARK), strict=True):
        monkeypatch.setenv(name, str(number))
    before = resource.getrlimit(LIMIT)
    table = tmp_path / "running"
    table.touch()
    lock = os.open(tmp_path, os.O_RDONLY)
    try:
        resource.setrlimit(LIMIT, (make_label(MARK, *attempt), before[1]))
        watchdog = Watchdog(tmp_path, table, lock)
    finally:
        resource.setrlimit(LIMIT, before)
    assert not list(list_marked(MARK, [watchdog.pid]))
    watchdog.close()
    os.close(lock)


def _find_self() -> int:
    return os.getpid()


def test_slot_processes_of_a_worker_inside_a_task_do_not_look_like_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NUMBERS:
        monkeypatch.setenv(name, "1")

    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            bench.runner.start(a_task(_find_self, task=2))
            await bench.ending_of(an_attempt(2))
            (pid,) = bench.runner.pool.pids
            await bench.run("exit 3")
            assert b"GANDY_JOB" not in Path(f"/proc/{pid}/environ").read_bytes()
            assert is_alive(pid)

    asyncio.run(go())
