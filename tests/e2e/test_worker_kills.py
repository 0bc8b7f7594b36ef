"""kill -9 of workers that are started again: what had ended does not run again.

The long version: GANDY_WORKER_KILLS=12 GANDY_WORKER_KILL_TASKS=2300, and GANDY_KILL_SEED=N for other moments.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.e2e.crew import PATIENCE
from tests.e2e.members import Member, Site, a_site
from tests.processes import is_alive
from tests.waiting import until

from gandy import Client
from gandy.client import Job
from gandy.core.model import JobState

KILLS = int(os.environ.get("GANDY_WORKER_KILLS", "4"))
TASKS = int(os.environ.get("GANDY_WORKER_KILL_TASKS", "500"))
SEED = int(os.environ.get("GANDY_KILL_SEED", "1"))
WORKERS = 3


class Line(NamedTuple):
    """What a task writes as its last act: its number, its process, and its worker's."""

    task: int
    pid: int
    worker: int


class Book:
    """The file that every task writes a line to before it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()
        self.command = f'sleep 0.01; echo "$GANDY_TASK $$ $PPID" >> {path}'

    def __len__(self) -> int:
        return self._path.read_bytes().count(b"\n")

    def __iter__(self) -> Iterator[Line]:
        for line in self._path.read_text().splitlines():
            yield Line(*map(int, line.split()))

    def list_ended(self, worker: int) -> set[int]:
        """Tasks that have ended there for sure: they did their last act, and no process of that number lives."""
        return {line.task for line in self if line.worker == worker and not is_alive(line.pid)}


def kill_at_random(site: Site, book: Book, chance: Random) -> dict[int, int]:
    """Kill workers and start them again. Gives how many lines each task had that had ended before a kill."""
    ended: dict[int, int] = {}
    for moment in sorted(chance.sample(range(TASKS // 20, TASKS * 9 // 10), KILLS)):
        until(lambda moment=moment: len(book) >= moment)  # type: ignore[misc]
        victim: Member = chance.choice(site.workers)
        before = book.list_ended(victim.busy_pid)
        victim.kill()
        lines = Counter(line.task for line in book)
        for task in before:
            ended.setdefault(task, lines[task])
        victim.start()
    return ended


def check_attempts(job: Job, ended: dict[int, int], book: Book) -> None:
    lines = Counter(line.task for line in book)
    again = {task: (count, lines[task]) for task, count in ended.items() if lines[task] > count}
    assert not again, f"ran again though they had ended: {again}"
    assert {row.ending and row.ending.exit_code for row in job.tasks()} == {0}


def test_nothing_that_ended_runs_again_when_workers_are_killed(tmp_path: Path) -> None:
    with a_site(tmp_path, workers=WORKERS) as site, Client(f"unix:{site.home}/foreman.sock") as client:
        book = Book(tmp_path / "book")
        job = client.submit(book.command, tasks=TASKS)
        ended = kill_at_random(site, book, Random(SEED))
        assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        check_attempts(job, ended, book)
