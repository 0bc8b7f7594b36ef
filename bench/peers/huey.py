"""Huey on SQLite, on Redis and on PostgreSQL, with two worker processes.

python -m bench.peers.huey sqlite|sqlite-fsync|redis|postgres WHERE
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

from bench import servers
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running
from bench.queues import DURABLE, PAUSE, SHORT_PAUSE, Queue, get_server, measure


def negate(number: int) -> int:
    return -number


def make_task(store: str, where: str) -> Any:
    from huey import RedisHuey, SqliteHuey

    queues: dict[str, Callable[[], Any]] = {
        "redis": lambda: RedisHuey("bench", url=where),
        "postgres": lambda: make_postgres_queue(where),
    }
    make_default = partial(SqliteHuey, "bench", filename=where, fsync=store == "sqlite-fsync")
    return queues.get(store, make_default)().task(name="negate")(negate)


def make_postgres_queue(url: str) -> Any:
    from huey.contrib.sql_huey import SqlHuey

    return SqlHuey("bench", database=url)


@contextmanager
def functions(place: Place, store: str, appendfsync: str = "") -> Iterator[Work]:
    opened = servers.redis(place, appendfsync) if appendfsync else nullcontext(str(place.folder / "huey.db"))
    with opened as where, running(sys.executable, "-m", "bench.peers.huey", store, where):
        task = make_task(store, where)

        def work(count: int) -> int:
            results = [task(number) for number in range(count)]
            for number, result in enumerate(results):
                assert result.get(blocking=True, timeout=60, backoff=1, max_delay=PAUSE) == -number
            return count

        work(SLOTS)  # they are there
        yield work


@contextmanager
def durable(place: Place) -> Iterator[Work]:
    url = get_server(place).url
    task = make_task("postgres", url)  # which makes its tables
    with running(sys.executable, "-m", "bench.peers.huey", "postgres", url) as worker:

        def run_many(count: int) -> None:
            for result in [task(number) for number in range(count)]:
                result.get(blocking=True, timeout=60, backoff=1, max_delay=PAUSE)

        def run_one() -> None:
            task(1).get(blocking=True, timeout=60, backoff=1, max_delay=SHORT_PAUSE)

        run_one()  # they are there
        yield measure(Queue(run_many, run_one, {"worker": [worker.pid]}), place)


def serve(store: str, where: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    queue = make_task(store, where).huey
    queue.create_consumer(
        workers=SLOTS, worker_type="process", initial_delay=PAUSE, max_delay=PAUSE, periodic=False
    ).run()


make = partial(Contestant, "functions", environment="peers", spins=True)
on_redis = partial(make, packages=("huey", "redis"), programs=("redis-server",), count=3_000)

CONTESTANTS = (
    make(
        "Huey, SQLite",
        partial(functions, store="sqlite"),
        durability="SQLite in WAL mode, no fsync",
        packages=("huey",),
        count=5_000,
    ),
    make(
        "Huey, SQLite, fsync",
        partial(functions, store="sqlite-fsync"),
        durability="SQLite in WAL mode, fsync",
        packages=("huey",),
        count=1_000,
    ),
    on_redis(
        "Huey, Redis",
        partial(functions, store="redis", appendfsync="everysec"),
        durability="Redis, appendfsync everysec",
    ),
    on_redis(
        "Huey, Redis, fsync",
        partial(functions, store="redis", appendfsync="always"),
        durability="Redis, appendfsync always",
        count=1_000,
    ),
    Contestant(
        "durable",
        "Huey",
        durable,
        durability=DURABLE,
        environment="postgres",
        packages=("huey", "peewee", "psycopg"),
        count=500,
        stays=False,
    ),
)

if __name__ == "__main__":
    import_module("bench.peers.huey").serve(*sys.argv[1:])  # its tasks are named after this module, not after __main__
