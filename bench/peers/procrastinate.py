"""procrastinate on PostgreSQL: two worker processes. It keeps no results: a task is done when its row says so.

python -m bench.peers.procrastinate URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

from bench import servers
from bench.asking import asking
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running

PAUSE = 0.01  # seconds between two polls
UNDONE = "SELECT count(*) AS left FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
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
    while (await app.connector.execute_query_one_async(UNDONE))["left"]:
        await asyncio.sleep(PAUSE)
    return share * SUBMITTERS


@contextmanager
def functions(place: Place) -> Iterator[Work]:
    with ExitStack() as held:
        url = held.enter_context(servers.postgres(place))
        asyncio.run(apply_schema(url))
        for _ in range(SLOTS):
            held.enter_context(running(sys.executable, "-m", "bench.peers.procrastinate", url))
        yield held.enter_context(asking(connect(url), submit_all))


async def apply_schema(url: str) -> None:
    async with connect(url) as app:
        await app.schema_manager.apply_schema_async()


async def serve(url: str) -> None:
    async with connect(url) as app:
        await app.run_worker_async()


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
)

if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
