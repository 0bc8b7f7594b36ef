"""What W8 measures of a durable queue: many tasks at once, then one at a time, and the CPU of each kind of process.

A task is done when the queue has durably said so, and the client has seen it.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from bench.asking import staying_connected
from bench.contract import SLOTS, Done, Place, Server, Work
from bench.processes import cpu_seconds, own_cpu_seconds, running

ALONE: Final = 15  # tasks one at a time
PAUSE: Final = 0.01  # seconds between two looks at tasks, for clients and workers that have to poll
SHORT_PAUSE: Final = 0.001  # the same, while a client waits for a single task
BATCH: Final = 500  # tasks that a client submits in one statement, where a queue takes them so
CHUNK: Final = 50  # tasks that a worker takes and finishes together, where they can be
SUBMITTERS: Final = 10  # at a time, where each task is submitted on its own; each has a connection
DURABLE: Final = "PostgreSQL, fsync"

C = TypeVar("C")
T = TypeVar("T")
RunMany: TypeAlias = Callable[[Any, int], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class Queue:
    """How a contestant runs tasks that do nothing, and which processes work for it beside this one."""

    run_many: Callable[[int], object]  # returns when all are done
    run_one: Callable[[], object]
    processes: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by kind: worker, foreman


def measure(queue: Queue, place: Place) -> Work:
    """Work that takes its time from many tasks, and adds the median of tasks that are alone."""
    kinds = {"worker": (), "foreman": (), **queue.processes, "postgres": [get_server(place).process]}

    def work(count: int) -> Done:
        before = read_cpu(kinds)
        begin = time.perf_counter()
        queue.run_many(count)
        seconds = time.perf_counter() - begin
        used = {kind: after - before[kind] for kind, after in read_cpu(kinds).items()}
        alone = statistics.median(time_it(queue.run_one) for _ in range(ALONE))
        figures = {f"{kind}_us": cpu / count * 1e6 for kind, cpu in used.items()}
        return Done(count, seconds, {**figures, "alone_us": alone * 1e6}, sum(used.values()))

    return work


@contextmanager
def asking_queue(
    place: Place,
    connected: AbstractAsyncContextManager[C],
    run_many: Callable[[C, int], Coroutine[Any, Any, object]],
    run_one: Callable[[C], Coroutine[Any, Any, object]],
    workers: Sequence[int],
) -> Iterator[Work]:
    """Work by coroutines of a client that stays connected."""
    with staying_connected(connected) as (runner, link):
        runner.run(run_one(link))  # the workers are there
        queue = Queue(
            lambda count: runner.run(run_many(link, count)), lambda: runner.run(run_one(link)), {"worker": workers}
        )
        yield measure(queue, place)


@contextmanager
def running_workers(module: str, *arguments: str) -> Iterator[list[int]]:
    """Two processes of a peer's module, as workers."""
    with ExitStack() as held:
        command = (sys.executable, "-m", module, *arguments)
        yield [held.enter_context(running(*command)).pid for _ in range(SLOTS)]


async def submit_singly(submit: Callable[[int], Awaitable[T]], count: int) -> list[T]:
    """Each task on its own, by several submitters at a time."""
    numbers = iter(range(count))

    async def submit_some() -> list[T]:
        return [await submit(number) for number in numbers]

    return [each for some in await asyncio.gather(*(submit_some() for _ in range(SUBMITTERS))) for each in some]


def split(count: int, size: int) -> Iterator[range]:
    """The numbers of `count` tasks, in batches."""
    return (range(begin, min(count, begin + size)) for begin in range(0, count, size))


def read_cpu(kinds: Mapping[str, Iterable[int]]) -> dict[str, float]:
    """CPU seconds so far: of this process, and of all others with their descendants."""
    own = {"client": own_cpu_seconds(os.getpid())}
    return own | {kind: sum(map(cpu_seconds, processes)) for kind, processes in kinds.items()}


def time_it(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def get_server(place: Place) -> Server:
    assert place.server is not None, "the table says that its contestants share one"
    return place.server
