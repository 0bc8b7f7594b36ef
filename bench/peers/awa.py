"""awa: two worker processes. Tasks are written by COPY; one is done when its state says so.

python -m bench.peers.awa URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.contract import Contestant, Place, Work
from bench.queues import (
    BATCH,
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
PERMITS = 64  # tasks at a time in each worker: more are not faster
# Its own count of finished jobs takes seconds, so the client looks at what workers write when tasks end.
FINISHED = "SELECT batch_id, completed_count FROM awa.receipt_completion_batches WHERE batch_id > $1"
SELDOM = 0.5  # seconds between two looks at them while tasks are still submitted
LATE = 1_000  # batches whose transaction may end after that of a later number


@dataclass
class Negate:
    number: int


async def negate(_job: Any) -> None:
    pass


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Any]:
    from awa import AsyncClient

    client = AsyncClient(url)
    yield client
    await client.close()


async def migrate(url: str) -> None:
    async with connect(url) as client:
        await client.migrate()
        await client.install_queue_storage()


async def submit_each(client: Any, count: int) -> None:
    await finish(client, count, submit_singly(lambda number: client.insert(Negate(number), queue=QUEUE), count))


async def submit_batches(client: Any, count: int) -> None:
    async def submit() -> None:
        for numbers in split(count, BATCH):
            await client.enqueue_many_copy([Negate(number) for number in numbers], queue=QUEUE)

    await finish(client, count, submit())


async def finish(client: Any, count: int, submitting: Coroutine[Any, Any, object]) -> None:
    """Count from the beginning: the rows of finished tasks go away after some seconds."""
    seen = await look(client, 0)
    wanted = sum(seen.values()) + count
    submitter = asyncio.create_task(submitting)
    while sum(seen.values()) < wanted:
        await asyncio.sleep(PAUSE if submitter.done() else SELDOM)
        seen |= await look(client, max(seen, default=0) - LATE)
    await submitter


async def look(client: Any, since: int) -> dict[int, int]:
    """How many tasks each batch of finished ones has."""
    async with await client.transaction() as transaction:
        rows = await transaction.fetch_all(FINISHED, since)
    return {row["batch_id"]: row["completed_count"] for row in rows}


async def run_one(client: Any) -> None:
    job = await client.insert(Negate(1), queue=QUEUE)
    while not await is_done(client, job.id):
        await asyncio.sleep(SHORT_PAUSE)


async def is_done(client: Any, job: int) -> bool:
    from awa import AwaError

    try:
        return str((await client.get_job(job)).state) == "completed"
    except AwaError as error:
        if "not found" in str(error):  # it is done, and forgotten since
            return True
        raise


@contextmanager
def durable(place: Place, run_many: RunMany) -> Iterator[Work]:
    url = get_server(place).url
    asyncio.run(migrate(url))
    with (
        running_workers("bench.peers.awa", url) as workers,
        asking_queue(place, connect(url), run_many, run_one, workers) as work,
    ):
        yield work


async def serve(url: str) -> None:
    async with connect(url) as client:
        client.task(Negate, queue=QUEUE)(negate)
        await client.start([(QUEUE, PERMITS)])
        await asyncio.Event().wait()


make = partial(Contestant, name="awa", durability=DURABLE, environment="postgres", packages=("awa-pg",), stays=False)

CONTESTANTS = (
    make("durable", start=partial(durable, run_many=submit_each), count=1_000),
    make("durable_batches", start=partial(durable, run_many=submit_batches)),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
