"""How fast the runner starts and ends shell tasks, two at a time, beside `xargs -P2` and bare spawning."""

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path

from bench.harness import RESULTS, race, report
from gandy.core.model import AttemptKey, Ending
from gandy.ids import JobId, TaskNumber
from gandy.worker.order import Order
from gandy.worker.runner import Runner

TASKS = 2_000
SLOTS = 2


def xargs() -> int:
    numbers = "\n".join(map(str, range(TASKS))).encode()
    subprocess.run(["xargs", f"-P{SLOTS}", "-n1", "sh", "-c", "true"], input=numbers, check=True)
    return TASKS


def bare_spawning() -> int:
    """The limit of plain Python: no output kept, nobody to kill, nothing told."""
    for number in range(TASKS):
        if number >= SLOTS:
            os.wait()
        os.posix_spawn("/bin/sh", ["sh", "-c", "true"], os.environ)
    for _ in range(SLOTS):
        os.wait()
    return TASKS


def runner(cwd: str = "") -> int:
    # Not in /tmp: where many files come and go, some file systems take long to make a new one.
    with tempfile.TemporaryDirectory(dir=RESULTS) as folder:
        asyncio.run(run_all(Path(folder), cwd))
    return TASKS


async def run_all(folder: Path, cwd: str) -> None:
    numbers = iter(range(1, TASKS + 1))

    def start_next() -> None:
        if number := next(numbers, None):
            attempt = AttemptKey(JobId(1), TaskNumber(number), 1)
            running.start(Order(attempt=attempt, command="true", cwd=cwd, tasks=TASKS))

    def on_end(_attempt: AttemptKey, ending: Ending) -> None:
        assert ending.is_success
        start_next()

    running = Runner(folder, on_end)
    for _ in range(SLOTS):
        start_next()
    await running.wait_idle()
    running.close()


def run() -> None:
    peer = f"xargs -P{SLOTS}"
    contestants = {
        peer: xargs,
        "bare os.posix_spawn": bare_spawning,
        "gandy's runner": runner,
        "gandy's runner, another folder": lambda: runner("/"),
    }
    report("Shell tasks two at a time", "tasks", race(contestants), peer)
