"""How fast the worker's runner alone starts and ends shell tasks, two at a time, beside bare spawning."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count as count_up
from pathlib import Path

from bench.contract import SLOTS, Contestant, Place, Table, Work
from bench.peers.bare_spawn import in_python
from gandy.core.model import AttemptKey, Ending
from gandy.ids import JobId, TaskNumber
from gandy.worker.order import Order
from gandy.worker.runner import Runner
from gandy.worker.worker_folder import WorkerFolder


@contextmanager
def spawning(place: Place, cwd: str) -> Iterator[Work]:
    folders = (place.folder / f"tasks-{number}" for number in count_up())

    def work(count: int) -> int:
        folder = next(folders)
        folder.mkdir()
        asyncio.run(run_all(folder, cwd, count))
        return count

    yield work


async def run_all(folder: Path, cwd: str, count: int) -> None:
    numbers = iter(range(1, count + 1))

    def start_next() -> None:
        if number := next(numbers, None):
            attempt = AttemptKey(JobId(1), TaskNumber(number), 1)
            running.start(Order(attempt=attempt, command="true", cwd=cwd, tasks=count))

    def on_end(_attempt: AttemptKey, ending: Ending) -> None:
        assert ending.is_success
        start_next()

    running = Runner(WorkerFolder(folder), on_end)
    for _ in range(SLOTS):
        start_next()
    await running.running.wait_idle()
    running.close()


TABLES = (
    Table("spawning", "The runner alone: shell tasks, two at a time", "tasks", 2_000, "bare posix_spawn, Python"),
)

CONTESTANTS = (
    Contestant("spawning", "bare posix_spawn, Python", in_python),
    Contestant("spawning", "gandy's runner", partial(spawning, cwd=""), packages=("gandy",)),
    Contestant("spawning", "gandy's runner, another folder", partial(spawning, cwd="/"), packages=("gandy",)),
)
