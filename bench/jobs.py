"""Durable shell tasks end to end, beside `xargs -P2`; and what it costs to submit one task or a million."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness import race, report
from gandy import Client

TASKS = 2_000
SLOTS = 2
GANDY = [sys.executable, "-m", "gandy"]


@contextmanager
def crew() -> Iterator[tuple[Client, int]]:
    """A foreman on SQLite with full sync and a worker with two slots; gives a client and the foreman's pid."""
    home = Path(tempfile.mkdtemp(prefix="bench-", dir=Path.cwd()))  # on the disk, where jobs would be
    environment = {**os.environ, "GANDY_HOME": str(home)}
    foreman = start(environment, "foreman", "run")
    worker = start(environment, "worker", "run", "--slots", str(SLOTS))
    try:
        with connect(home) as client:
            while not client.workers():
                time.sleep(0.05)
            yield client, foreman.pid
    finally:
        for program in (worker, foreman):
            program.terminate()
            program.wait()
        shutil.rmtree(home)


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    command = [*GANDY, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def connect(home: Path) -> Client:
    while not (home / "foreman.sock").exists():
        time.sleep(0.05)
    return Client(f"unix:{home / 'foreman.sock'}")


def gandy_tasks(client: Client) -> Callable[[], int]:
    def run() -> int:
        client.submit(["sh", "-c", "true"], tasks=TASKS).wait()
        return TASKS

    return run


def xargs_tasks() -> int:
    lines = "\n".join(map(str, range(TASKS)))
    command = ["xargs", f"-P{SLOTS}", "-n1", "sh", "-c", "true"]
    subprocess.run(command, input=lines, text=True, check=True)
    return TASKS


def submits(client: Client, tasks: int) -> Callable[[], int]:
    def run() -> int:
        client.submit("true", tasks=tasks, held=True)
        return 1

    return run


def memory_kib(pid: int) -> int:
    """The most that the process has had in memory."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])


def run() -> None:
    with crew() as (client, pid):
        limit = f"xargs -P{SLOTS}"
        contestants = {limit: xargs_tasks, "gandy, durable": gandy_tasks(client)}
        for work in contestants.values():
            work()  # what is needed once is there
        rates = race(contestants, repeats=5)
        report("Shell tasks", "tasks", rates, limit)
        before = memory_kib(pid)
        one, many = "submit of 1 task", "submit of 1,000,000 tasks"
        rates = race({one: submits(client, 1), many: submits(client, 1_000_000)}, repeats=5)
        report("Submitting jobs", "jobs", rates, one)
        grown = (memory_kib(pid) - before) / 1024
        print(f"  the foreman's memory grew by {grown:.0f} MiB for five jobs of 1,000,000 tasks each")
