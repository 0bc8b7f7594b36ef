"""Makes our tables and brings them up to date: in one transaction, by one foreman at a time, whole or not at all.

It also makes the parts of tables: each family of tables grows in its last part, and old parts are dropped whole.
"""

import logging
from collections.abc import Mapping
from typing import Final

from gandy.errors import StoreError
from gandy.store.postgres.connections import DatabaseConnections, StoreConnection, execute, fetch, fetch_one
from gandy.store.postgres.explain import Locked
from gandy.store.postgres.sql import Statements

log = logging.getLogger("gandy.store")

# In order: each makes the next version from the one before. Users have such databases: never change one, only append.
MIGRATIONS: Final = ("schema_1",)

# The tables of the history are of no version: an older gandy does all that it does without them. So foremen of both can
# start again while a crew is brought up to date, one after the other. Never change them, either.
HISTORY: Final = "history_1"

OLDEST_SERVER: Final = 13  # the oldest PostgreSQL that gandy is made for

# The tables of each family, and the column by which they are divided.
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "jobs": ("changes", "claims", "begins", "ends", "lines"),
    "results": ("results",),
    "commits": ("commits",),
    "audit": ("audit",),
    "samples": ("samples",),
    "keyframes": ("keyframes",),
    "hourly": ("hourly",),
}
HISTORY_FAMILIES: Final = ("samples", "keyframes", "hourly")

# For the lock that dropping a part needs. Commits wait behind it: it must be short beside what users notice.
LOCK_TIMEOUT_MS: Final = 50

KEY_BITS: Final = 40  # of a key, for its serial: a trillion jobs. The bits above are the part of the job


def make_key(part: int, serial: int) -> int:
    return (part << KEY_BITS) + serial


class Schema:
    """The tables of one crew."""

    def __init__(self, connections: DatabaseConnections, sql: Statements) -> None:
        self._connections = connections
        self._sql = sql
        self._name = connections.url.schema

    async def update(self) -> None:
        """Raises: StoreError: the database is too old, not UTF-8, read-only, or has tables of a newer gandy."""
        version, has_history = await self._connections.read(self._look)
        if version < len(MIGRATIONS) or not has_history:
            await self._connections.transact(self._migrate)

    async def _look(self, db: StoreConnection) -> tuple[int, bool]:
        """The version of our tables, 0 if there are none; and whether there are those of the history."""
        found = await fetch_one(db, self._sql["look_at_database"], {"schema": self._name})
        assert found is not None
        has_tables, _, server, encoding, durability, is_standby, has_history = found
        self._check_server(server, encoding, is_standby)
        if durability == "off":
            log.warning(
                "%s: synchronous_commit is off: if the server crashes, it may lose what it has confirmed",
                self._connections.url,
            )
        return (await self._get_version(db) if has_tables else 0), has_history

    def _check_server(self, server: int, encoding: str, is_standby: bool) -> None:
        url = self._connections.url
        if server < OLDEST_SERVER * 10_000:
            raise StoreError(f"{url}: PostgreSQL {server // 10_000} is too old: gandy needs {OLDEST_SERVER} or newer")
        if encoding != "UTF8":
            raise StoreError(f"{url}: its encoding is {encoding}: make a database with the encoding UTF8")
        if is_standby:
            raise StoreError(f"{url}: it is a standby: name the primary", retryable=True)

    async def _get_version(self, db: StoreConnection) -> int:
        found = await fetch_one(db, self._sql["get_version"])
        version = 0 if found is None else found[0]
        if version > len(MIGRATIONS):
            url, newest = self._connections.url, len(MIGRATIONS)
            raise StoreError(f"{url}: version {version} is of a newer gandy; this one knows up to {newest}")
        return int(version)

    async def _migrate(self, db: StoreConnection) -> None:
        await execute(db, self._sql["lock_schema"], {"schema": self._name})
        version, has_history = await self._look(db)  # again: another foreman may have been faster
        if not version:
            await self._make_schema(db)
        for name in MIGRATIONS[version:]:
            await db.execute(self._sql[name])  # many statements in one: they have no parameters
        if version < len(MIGRATIONS):
            await execute(db, self._sql["set_version"], {"number": len(MIGRATIONS)})
        if not has_history:
            await db.execute(self._sql[HISTORY])
        for family in FAMILIES:
            is_new = not has_history if family in HISTORY_FAMILIES else not version
            if is_new:
                await self._add_part(db, family, 1)

    async def _make_schema(self, db: StoreConnection) -> None:
        found = await fetch_one(db, self._sql["look_at_database"], {"schema": self._name})
        assert found is not None
        if not found[1]:  # only if need be: the user may have no right to make one
            await db.execute(f'CREATE SCHEMA "{self._name}"')

    async def get_parts(self) -> dict[str, int]:
        """The last part of each family."""
        return dict(await self._connections.read(lambda db: fetch(db, self._sql["get_parts"])))

    async def make_part(self, family: str, last: int) -> None:
        """Make the part after the last, unless another foreman has."""

        async def work(db: StoreConnection) -> None:
            await execute(db, self._sql["lock_schema"], {"schema": self._name})
            if dict(await fetch(db, self._sql["get_parts"]))[family] == last:
                await self._add_part(db, family, last + 1)

        await self._connections.transact(work)

    async def _add_part(self, db: StoreConnection, family: str, part: int) -> None:
        for table in FAMILIES[family]:
            for statement in self._write_part(table, part, is_range=family == "jobs"):
                await db.execute(statement)
        await execute(db, self._sql["add_part"], {"family": family, "part": part})

    def _write_part(self, table: str, part: int, is_range: bool) -> list[str]:
        """A table that is made by itself and then attached: this needs no lock that a commit would wait for."""
        parent, name = f'"{self._name}".{table}', f'"{self._name}".{table}_{part}'
        column, first, end = "key", make_key(part, 0), make_key(part + 1, 0)
        bounds = f"FROM ({first}) TO ({end})" if is_range else f"IN ({part})"
        check = f"{column} >= {first} AND {column} < {end}" if is_range else f"part IS NOT NULL AND part = {part}"
        return [
            f"CREATE TABLE {name} (LIKE {parent} INCLUDING ALL)",
            f"ALTER TABLE {name} ADD CONSTRAINT bounds CHECK ({check})",  # spares the server to look at rows
            f"ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES {bounds}",
            f"ALTER TABLE {name} DROP CONSTRAINT bounds",
        ]

    async def drop_part(self, family: str, part: int) -> bool:
        """Drop a part whole. False: a transaction uses it now, and nothing was done."""

        async def work(db: StoreConnection) -> None:
            await execute(db, self._sql["lock_schema"], {"schema": self._name})
            await db.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
            for table in FAMILIES[family]:
                await db.execute(f'DROP TABLE IF EXISTS "{self._name}".{table}_{part}')
            await execute(db, self._sql["remove_part"], {"family": family, "part": part})

        try:
            await self._connections.transact(work)
        except Locked:
            return False
        return True
