"""PgQueuer on asyncpg: two worker processes. A task is done when its row has left the queue.

python -m bench.peers.pgqueuer URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from bench.contract import Contestant, Place, Work
from bench.queues import (
    BATCH,
    CHUNK,
    DURABLE,
    PAUSE,
    SHORT_PAUSE,
    SUBMITTERS,
    RunMany,
    asking_queue,
    get_server,
    running_workers,
    split,
    submit_singly,
)

NAME = "negate"
UNDONE = "SELECT EXISTS (SELECT FROM pgqueuer) AS is_left"
LEFT = "SELECT EXISTS (SELECT FROM pgqueuer WHERE id = $1) AS is_left"


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Any]:
    import asyncpg
    from pgqueuer.db import AsyncpgPoolDriver
    from pgqueuer.queries import Queries

    async with asyncpg.create_pool(url, min_size=SUBMITTERS, max_size=SUBMITTERS) as pool:
        yield Queries(AsyncpgPoolDriver(pool))


async def install(url: str) -> None:
    async with connect(url) as queries:
        await queries.install()


async def submit_each(queries: Any, count: int) -> None:
    await submit_singly(lambda number: queries.enqueue(NAME, b"%d" % number), count)
    await wait(queries)


async def submit_batches(queries: Any, count: int) -> None:
    for numbers in split(count, BATCH):
        size = len(numbers)
        await queries.enqueue([NAME] * size, [b"%d" % number for number in numbers], [0] * size)
    await wait(queries)


async def wait(queries: Any) -> None:
    while await is_left(queries, UNDONE):
        await asyncio.sleep(PAUSE)


async def run_one(queries: Any) -> None:
    (job,) = await queries.enqueue(NAME, b"1")
    while await is_left(queries, LEFT, job):
        await asyncio.sleep(SHORT_PAUSE)


async def is_left(queries: Any, sql: str, *arguments: Any) -> bool:
    return bool((await queries.driver.fetch(sql, *arguments))[0]["is_left"])


@contextmanager
def durable(place: Place, run_many: RunMany) -> Iterator[Work]:
    url = get_server(place).url
    asyncio.run(install(url))
    with (
        running_workers("bench.peers.pgqueuer", url) as workers,
        asking_queue(place, connect(url), run_many, run_one, workers) as work,
    ):
        yield work


async def negate(_job: Any) -> None:
    pass


async def serve(url: str) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
    queuer.entrypoint(NAME)(negate)
    await queuer.run(batch_size=CHUNK)


make = partial(
    Contestant,
    name="PgQueuer",
    durability=DURABLE,
    environment="postgres",
    packages=("pgqueuer", "asyncpg"),
    stays=False,
)

CONTESTANTS = (
    make("durable", start=partial(durable, run_many=submit_each), count=2_000),
    make("durable_batches", start=partial(durable, run_many=submit_batches)),
)

if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(sys.argv[1]))
