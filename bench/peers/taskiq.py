"""taskiq on Redis: two worker processes, results kept in Redis, which its clients poll.

python -m bench.peers.taskiq URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from bench import servers
from bench.asking import BODY, Ask, Way, asking, many_in_flight, one_by_one
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running

PAUSE = 0.001  # seconds between two polls for a result


async def echo(value: Any) -> Any:
    return value


def make_task(url: str) -> Any:
    from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

    broker = ListQueueBroker(url).with_result_backend(RedisAsyncResultBackend(url))
    return broker.register_task(echo, task_name="echo")


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Callable[[Any], Awaitable[Any]]]:
    """How to start a task."""
    task = make_task(url)
    await task.broker.startup()
    yield task.kiq
    await task.broker.shutdown()


@asynccontextmanager
async def connect_caller(url: str) -> AsyncIterator[Ask]:
    async with connect(url) as start:

        async def ask() -> Any:
            return await (await start(BODY)).wait_result(check_interval=PAUSE, timeout=60)

        await ask()  # they are there
        yield ask


@asynccontextmanager
async def connect_submitter(url: str) -> AsyncIterator[Ask]:
    async with connect(url) as start:
        yield lambda: start(1)


async def submit_all(start: Ask, count: int) -> int:
    tasks = [await start() for _ in range(count)]
    for task in tasks:
        await task.wait_result(check_interval=PAUSE, timeout=60)
    return count


@contextmanager
def crew(place: Place) -> Iterator[str]:
    with ExitStack() as held:
        url = held.enter_context(servers.redis(place))
        for _ in range(SLOTS):
            held.enter_context(running(sys.executable, "-m", "bench.peers.taskiq", url))
        yield url


@contextmanager
def functions(place: Place) -> Iterator[Work]:
    with crew(place) as url, asking(connect_submitter(url), submit_all) as work:
        yield work


@contextmanager
def calls(place: Place, way: Way) -> Iterator[Work]:
    with crew(place) as url, asking(connect_caller(url), way) as work:
        yield work


async def serve(url: str) -> None:
    from taskiq.api import run_receiver_task

    broker = make_task(url).broker
    broker.is_worker_process = True
    await run_receiver_task(broker, run_startup=True)


make = partial(
    Contestant,
    environment="peers",
    packages=("taskiq", "taskiq-redis"),
    programs=("redis-server",),
    durability="Redis, appendfsync everysec",
)

CONTESTANTS = (
    make("functions", "taskiq, Redis", functions, count=2_000),
    make("call_latency", "taskiq, Redis", partial(calls, way=one_by_one), count=300),
    make("calls_in_flight", "taskiq, Redis", partial(calls, way=many_in_flight), count=2_000, warm_count=1_000),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
