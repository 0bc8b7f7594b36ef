"""pgmq by its SQL: a queue of messages. Two processes read them and archive each when its work is done.

With batches, what a worker has read is archived together, and done again together if the worker dies, as gandy's
chunks are.

python -m bench.peers.pgmq URL BATCH
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
    RunMany,
    asking_queue,
    get_server,
    running_workers,
    split,
    submit_singly,
)

QUEUE = "bench"
VISIBLE_AFTER = 60  # seconds within which a worker must have done what it read
WAIT = 5  # seconds that a worker waits for messages within one statement


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Any]:
    from pgmq import AsyncPGMQueue

    queue = AsyncPGMQueue(conn_string=url, init_extension=False)
    await queue.init()
    yield queue
    await queue.close()


async def create(url: str) -> None:
    from pgmq import install_pgmq_from_sql

    install_pgmq_from_sql(dsn=url)
    async with connect(url) as queue:
        await queue.create_queue(QUEUE)


async def submit_each(queue: Any, count: int) -> None:
    await submit_singly(lambda number: queue.send(QUEUE, {"number": number}), count)
    await wait(queue, PAUSE)


async def submit_batches(queue: Any, count: int) -> None:
    for numbers in split(count, BATCH):
        await queue.send_batch(QUEUE, [{"number": number} for number in numbers])
    await wait(queue, PAUSE)


async def run_one(queue: Any) -> None:
    await queue.send(QUEUE, {"number": 1})
    await wait(queue, SHORT_PAUSE)


async def wait(queue: Any, pause: float) -> None:
    """Until all messages are archived."""
    while (await queue.metrics(QUEUE)).queue_length:
        await asyncio.sleep(pause)


@contextmanager
def durable(place: Place, run_many: RunMany, size: int) -> Iterator[Work]:
    url = get_server(place).url
    asyncio.run(create(url))
    with (
        running_workers("bench.peers.pgmq", url, str(size)) as workers,
        asking_queue(place, connect(url), run_many, run_one, workers) as work,
    ):
        yield work


async def serve(url: str, size: int) -> None:
    async with connect(url) as queue:
        while True:
            read = await queue.read_with_poll(
                QUEUE, vt=VISIBLE_AFTER, qty=size, max_poll_seconds=WAIT, poll_interval_ms=round(PAUSE * 1000)
            )
            if not read:
                continue
            messages = read if isinstance(read, list) else [read]
            for message in messages:
                negate(message.message["number"])
            if size == 1:
                await queue.archive(QUEUE, messages[0].msg_id)
            else:
                await queue.archive_batch(QUEUE, [message.msg_id for message in messages])


def negate(number: int) -> int:
    return -number


make = partial(
    Contestant,
    name="pgmq",
    durability=DURABLE,
    environment="postgres",
    packages=("pgmq", "asyncpg"),
    stays=False,
    note="messages, not tasks",
)

CONTESTANTS = (
    make("durable", start=partial(durable, run_many=submit_each, size=1), count=1_000),
    make("durable_batches", start=partial(durable, run_many=submit_batches, size=CHUNK)),
)

if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(sys.argv[1], int(sys.argv[2])))
