"""arq on Redis: two worker processes. Workers and clients poll Redis.

python -m bench.peers.arq URL
"""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

from bench import servers
from bench.asking import Ask, asking
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running

PAUSE = 0.01  # seconds between two polls


async def negate(_context: Any, number: int) -> int:
    return -number


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Ask]:
    from arq import create_pool
    from arq.connections import RedisSettings

    pool = await create_pool(RedisSettings.from_dsn(url))
    yield lambda: pool.enqueue_job("negate", 1)
    await pool.aclose()


async def submit_all(start: Ask, count: int) -> int:
    jobs = [await start() for _ in range(count)]
    for job in jobs:
        await job.result(timeout=60, poll_delay=PAUSE)
    return count


@contextmanager
def functions(place: Place) -> Iterator[Work]:
    with ExitStack() as held:
        url = held.enter_context(servers.redis(place))
        for _ in range(SLOTS):
            held.enter_context(running(sys.executable, "-m", "bench.peers.arq", url))
        yield held.enter_context(asking(connect(url), submit_all))


def serve(url: str) -> None:
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    settings = RedisSettings.from_dsn(url)
    Worker([func(negate, name="negate")], redis_settings=settings, poll_delay=PAUSE).run()


CONTESTANTS = (
    Contestant(
        "functions",
        "arq, Redis",
        functions,
        durability="Redis, appendfsync everysec",
        environment="arq",
        packages=("arq", "redis"),
        programs=("redis-server",),
        count=1_500,
        spins=True,
    ),
)

if __name__ == "__main__":
    serve(sys.argv[1])
