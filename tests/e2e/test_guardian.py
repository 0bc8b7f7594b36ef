"""A worker is two processes: signals, children and exit codes are as if it were one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.crew import GANDY, PATIENCE, Crew
from tests.processes import find_busy, is_alive, read_state
from tests.waiting import until

from gandy import Client
from gandy.core.model import Cause


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run"):
        yield crew


def until_at_work(crew: Crew, count: int = 1) -> None:
    with Client(f"unix:{crew.home}/foreman.sock") as client:
        until(lambda: sum(worker.connected for worker in client.workers()) == count)


def test_a_signal_to_both_processes_ends_tasks_once_and_gently(crew: Crew, tmp_path: Path) -> None:
    """As a service manager does, or pkill: the guardian forwards what the worker gets anyway."""
    ready, tidied = tmp_path / "ready", tmp_path / "tidied"
    command = f"trap 'sleep 0.3; touch {tidied}; exit' TERM; touch {ready}; while :; do sleep 0.01; done"
    with crew.running("worker", "run") as worker, Client(f"unix:{crew.home}/foreman.sock") as client:
        job = client.submit(command)
        until(ready.exists)
        for pid in (find_busy(worker.pid), worker.pid):
            os.kill(pid, signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
        assert tidied.exists()
        (attempt,) = job.attempts(1)
        assert attempt.ending is not None
        assert attempt.ending.cause is Cause.WORKER_STOPPED


def test_what_a_shell_started_before_is_not_the_workers(crew: Crew, tmp_path: Path) -> None:
    helper = tmp_path / "helper"
    line = f"sleep 600 & echo $! > {helper}; exec {GANDY} worker run"
    with subprocess.Popen(["sh", "-c", line], env=crew.environment, stderr=subprocess.DEVNULL) as worker:
        until_at_work(crew)
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
    pid = int(helper.read_text())
    assert is_alive(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_worker_whose_parent_ignores_its_children_ends_as_ever(crew: Crew) -> None:
    ignore = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = [sys.executable, "-c", ignore, GANDY, "worker", "run"]
    with subprocess.Popen(words, env=crew.environment, stderr=subprocess.DEVNULL) as worker:
        until_at_work(crew)
        worker.terminate()
        assert worker.wait(PATIENCE) == 0


def test_what_stops_the_guardian_stops_the_worker_and_lets_it_go_on(crew: Crew) -> None:
    with crew.running("worker", "run") as worker:
        until_at_work(crew)
        busy = find_busy(worker.pid)
        worker.send_signal(signal.SIGTSTP)
        until(lambda: read_state(worker.pid) + read_state(busy) == "TT")
        worker.send_signal(signal.SIGCONT)
        until(lambda: "T" not in read_state(worker.pid) + read_state(busy))
        crew.run("submit", "--wait", "true")


def test_a_worker_dies_as_its_child_does(crew: Crew) -> None:
    with crew.running("worker", "run") as worker:
        until_at_work(crew)
        os.kill(find_busy(worker.pid), signal.SIGKILL)
        assert worker.wait(PATIENCE) == -signal.SIGKILL
