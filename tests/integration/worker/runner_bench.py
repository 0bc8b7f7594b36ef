"""A real runner for tests, and what its tasks left: endings, output, processes."""

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import until_async

from gandy.core.model import AttemptKey, Command, Ending
from gandy.ids import JobId, TaskNumber
from gandy.worker.order import Order
from gandy.worker.runner import Runner
from gandy.worker.worker_folder import WorkerFolder

DEADLINE = 20.0  # seconds; far more than anything here takes on a busy machine


def an_attempt(task: int = 1, job: int = 1, attempt: int = 1) -> AttemptKey:
    return AttemptKey(JobId(job), TaskNumber(task), attempt)


def an_order(command: Command, task: int = 1, **more: Any) -> Order:
    return Order(attempt=an_attempt(task), command=command, **more)


class Bench:
    """A runner and the endings that it reported."""

    def __init__(self, folder: Path, grace: float = DEADLINE, **more: Any) -> None:
        self.folder = folder
        self.endings: dict[AttemptKey, Ending] = {}
        self.runner = Runner(WorkerFolder(folder), self.on_end, grace, **more)
        self._futures: dict[AttemptKey, asyncio.Future[Ending]] = {}

    def on_end(self, attempt: AttemptKey, ending: Ending) -> None:
        assert attempt not in self.endings, "reported twice"
        assert attempt not in self.runner.running
        self.endings[attempt] = ending
        self.ending_of(attempt).set_result(ending)

    def ending_of(self, attempt: AttemptKey) -> asyncio.Future[Ending]:
        return self._futures.setdefault(attempt, asyncio.get_running_loop().create_future())

    async def run(self, command: Command, task: int = 1, **more: Any) -> Ending:
        order = an_order(command, task, **more)
        self.runner.start(order)
        return await self.ending_of(order.attempt)

    def output(self, task: int = 1) -> bytes:
        return self.runner.read(an_attempt(task), "out", 0, 1_000_000).data


@asynccontextmanager
async def a_bench(folder: Path, grace: float = DEADLINE, **more: Any) -> AsyncIterator[Bench]:
    bench = Bench(folder, grace, **more)
    try:
        async with asyncio.timeout(DEADLINE):
            yield bench
    finally:
        bench.runner.close()


def run_one(folder: Path, command: Command, **more: Any) -> tuple[Ending, bytes]:
    """The ending and the output of a single task."""

    async def go() -> tuple[Ending, bytes]:
        async with a_bench(folder) as bench:
            return await bench.run(command, **more), bench.output()

    return asyncio.run(go())


def run_shell(folder: Path, line: str, lines: Mapping[int, str]) -> dict[int, bytes]:
    """What the shell line printed for each task's line."""

    async def go() -> dict[int, bytes]:
        async with a_bench(folder) as bench:
            await asyncio.gather(*(bench.run(line, task, line=text) for task, text in lines.items()))
            return {task: bench.output(task) for task in lines}

    return asyncio.run(go())


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@contextmanager
def few_files(count: int) -> Iterator[None]:
    """So many more files can be opened by this process, and by those that it starts meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = (number for number in range(soft) if not is_open(number))
    last = [next(free) for _ in range(count + 1)][-1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (last, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_files() -> Iterator[None]:
    """No file can be opened by this process, also when others are closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def read_pids(path: Path, count: int) -> list[int]:
    """The process numbers that a task wrote, one per line, once all are there."""
    await until_async(lambda: path.exists() and len(path.read_text().splitlines()) == count)
    return [int(line) for line in path.read_text().splitlines()]
