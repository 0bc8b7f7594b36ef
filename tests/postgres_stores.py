"""Stores in PostgreSQL for tests: one server for each test process, and a schema of its own for each store."""

import atexit
import itertools
import os
from functools import cache
from typing import Any

from tests.postgres import Postgres

from gandy.core.rows import Recovered
from gandy.core.shards import ForemanPlace, Lease
from gandy.store.base import Store
from gandy.store.postgres.crew import PostgresCrew
from gandy.store.postgres.shard import PostgresStore
from gandy.store.postgres.url import parse_url

_schemas = itertools.count(1)
_starts = itertools.count(1)


@cache
def shared_postgres() -> Postgres:
    """The server of this process. It does not sync: tests of durability start their own."""
    server = Postgres.start(fsync=False)
    atexit.register(server.stop)
    return server


def make_schema() -> str:
    return f"test_{os.getpid()}_{next(_schemas)}"


def make_crew(url: str) -> PostgresCrew:
    return PostgresCrew(parse_url(url))


def make_foreman() -> ForemanPlace:
    """A new start of a foreman."""
    number = next(_starts)
    return ForemanPlace(f"start-{number}", "here", "1", (f"tcp://127.0.0.1:{number}",))


class ShardStore:
    """A crew of one foreman with one shard. Each `open` is a new foreman, which takes over what the last one left."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.crew = make_crew(url)
        self.lease = Lease(0, 0, "")
        self.shard: PostgresStore

    async def open(self) -> Recovered:
        me = make_foreman()
        await self.crew.open()
        try:
            view = await self.crew.beat(me, ())
            found = await self.crew.seize(me.id, view.leases[0]) if view.leases else await self.crew.take_new(me.id)
            assert found is not None
            self.lease = found
            self.shard = self.crew.open_shard(found)
            return await self.shard.open()
        except BaseException:
            await self.crew.close()
            raise

    async def close(self) -> None:
        await self.crew.close()
        self.crew = make_crew(self._url)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shard, name)


def make_shard_store() -> Store:
    """A store in a schema of its own."""
    store: Any = ShardStore(shared_postgres().url(make_schema()))
    made: Store = store  # type checkers do not see what it passes on
    return made
