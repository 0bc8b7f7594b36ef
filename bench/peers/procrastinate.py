"""procrastinate on PostgreSQL: two worker processes. It keeps no results: a task is done when its row says so.

python -m bench.peers.procrastinate URL CONCURRENCY
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from bench import servers
from bench.asking import asking
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running
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

UNDONE = "SELECT count(*) AS left FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
STATUS = "SELECT status FROM procrastinate_jobs WHERE id = %(job)s"
CONCURRENCY = 10  # tasks at a time in each worker
SUBMITTERS = 4  # as many as its pool has connections


async def negate(number: int) -> int:
    return -number


def make_app(url: str) -> Any:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url))
    app.task(negate, name="negate")
    return app


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Any]:
    app = make_app(url)
    async with app.open_async():
        yield app


async def submit_all(app: Any, count: int) -> int:
    task, share = app.tasks["negate"], count // SUBMITTERS

    async def submit() -> None:
        for number in range(share):
            await task.defer_async(number=number)

    await asyncio.gather(*(submit() for _ in range(SUBMITTERS)))
    await wait(app)
    return share * SUBMITTERS


async def wait(app: Any) -> None:
    while (await app.connector.execute_query_one_async(UNDONE))["left"]:
        await asyncio.sleep(PAUSE)


@contextmanager
def functions(place: Place) -> Iterator[Work]:
    with ExitStack() as held:
        url = held.enter_context(servers.postgres(place))
        asyncio.run(apply_schema(url))
        for _ in range(SLOTS):
            held.enter_context(running(sys.executable, "-m", "bench.peers.procrastinate", url, "1"))
        yield held.enter_context(asking(connect(url), submit_all))


@contextmanager
def durable(place: Place, run_many: RunMany) -> Iterator[Work]:
    url = get_server(place).url
    asyncio.run(apply_schema(url))
    with (
        running_workers("bench.peers.procrastinate", url, str(CONCURRENCY)) as workers,
        asking_queue(place, connect(url), run_many, run_one, workers) as work,
    ):
        yield work


async def submit_each(app: Any, count: int) -> None:
    await submit_singly(lambda number: app.tasks["negate"].defer_async(number=number), count)
    await wait(app)


async def submit_batches(app: Any, count: int) -> None:
    for numbers in split(count, BATCH):
        await app.tasks["negate"].batch_defer_async(*({"number": number} for number in numbers))
    await wait(app)


async def run_one(app: Any) -> None:
    job = await app.tasks["negate"].defer_async(number=1)
    while (await app.connector.execute_query_one_async(STATUS, job=job))["status"] != "succeeded":
        await asyncio.sleep(SHORT_PAUSE)


async def apply_schema(url: str) -> None:
    async with connect(url) as app:
        await app.schema_manager.apply_schema_async()


async def serve(url: str, concurrency: int) -> None:
    async with connect(url) as app:
        await app.run_worker_async(concurrency=concurrency)


make = partial(
    Contestant,
    name="procrastinate",
    durability=DURABLE,
    environment="postgres",
    packages=("procrastinate", "psycopg"),
    count=700,
    stays=False,
)

CONTESTANTS = (
    Contestant(
        "functions",
        "procrastinate, PostgreSQL",
        functions,
        durability="PostgreSQL, fsync before acknowledge",
        environment="peers",
        packages=("procrastinate", "psycopg"),
        programs=("postgres", "initdb"),
        count=1_000,
        note="keeps no results",
    ),
    make("durable", start=partial(durable, run_many=submit_each)),
    make("durable_batches", start=partial(durable, run_many=submit_batches)),
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
