"""DBOS: two processes that run workflows without steps from a queue. Its clients poll for results.

python -m bench.peers.dbos URL
"""

import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from bench.contract import Contestant, Place, Work
from bench.queues import DURABLE, PAUSE, SHORT_PAUSE, asking_queue, get_server, running_workers, submit_singly

QUEUE = "bench"


def negate(number: int) -> int:
    return -number


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Any]:
    from dbos import DBOSClient

    client = DBOSClient(system_database_url=url)
    yield client
    client.destroy()


async def run_many(client: Any, count: int) -> None:
    for handle in await submit_singly(partial(enqueue, client), count):
        await handle.get_result(polling_interval_sec=PAUSE)


async def run_one(client: Any) -> None:
    assert await (await enqueue(client, 1)).get_result(polling_interval_sec=SHORT_PAUSE) == -1


async def enqueue(client: Any, number: int) -> Any:
    return await client.enqueue_async({"queue_name": QUEUE, "workflow_name": "negate"}, number)


@contextmanager
def durable(place: Place) -> Iterator[Work]:
    from dbos import run_dbos_database_migrations

    url = get_server(place).url
    run_dbos_database_migrations(url)
    with (
        running_workers("bench.peers.dbos", url) as workers,
        asking_queue(place, connect(url), run_many, run_one, workers) as work,
    ):
        yield work


def serve(url: str) -> None:
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "WARNING", "run_admin_server": False})
    DBOS.workflow(name="negate")(negate)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=PAUSE)
    signal.pause()


CONTESTANTS = (
    Contestant(
        "durable",
        "DBOS",
        durable,
        durability=DURABLE,
        environment="postgres",
        packages=("dbos", "psycopg"),
        count=300,
        stays=False,
    ),
)

if __name__ == "__main__":
    serve(sys.argv[1])
