"""The database that all foremen of a crew share: who is there, which shards exist, and who owns each."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from gandy.core.shards import CrewView, ForemanPlace, Lease
from gandy.errors import StoreError
from gandy.limits import MAX_SHARDS
from gandy.store.crew import StoredRing
from gandy.store.postgres.arguments import Arguments
from gandy.store.postgres.connections import DatabaseConnections, StoreConnection, execute, fetch, fetch_one
from gandy.store.postgres.parts import Parts
from gandy.store.postgres.schema import Schema
from gandy.store.postgres.shard import PostgresStore
from gandy.store.postgres.sql import Statements
from gandy.store.postgres.url import DatabaseUrl

LEASE_SECONDS: Final = 6.0  # from a beat to the end of the leases that it renewed: three beats

_CONTROLS: Final = re.compile("[\0\ud800-\udfff]")  # what a text of PostgreSQL cannot hold


class PostgresCrew:
    """A lease is renewed by the row of its owner, not by its own: commits lock that one, and it seldom changes."""

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self._sql = Statements(url.schema)
        self._connections = DatabaseConnections(url)
        self._schema = Schema(self._connections, self._sql)
        self.parts = Parts(self._connections, self._schema, self._sql)
        self._arguments = Arguments(self._connections, self._sql)
        self._keeper: asyncio.Task[None] | None = None
        self.put_arguments = self._arguments.put
        self.read_arguments = self._arguments.read
        self.drop_arguments = self._arguments.drop

    async def open(self) -> None:
        self._connections.open()
        try:
            await self._schema.update()
            await self.parts.load()
        except BaseException:
            await self._connections.close()
            raise
        self._keeper = asyncio.create_task(self.parts.run())

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        await self._connections.close()

    # Foremen and shards

    async def beat(self, me: ForemanPlace, leases: Sequence[Lease]) -> CrewView:  # noqa: ARG002 - all of ours are renewed
        values = {
            "id": me.id,
            "name": me.name,
            "version": me.version,
            "machine": me.machine,
            "places": list(me.places),
            "is_leaving": me.is_leaving,
            "lease": LEASE_SECONDS,
        }
        rows = await self._repeat(lambda db: fetch(db, self._sql["beat"], values))
        for row in rows:
            if row[0] == "part":
                self.parts.note(row[1], row[8])
        foremen = [_to_foreman(row) for row in rows if row[0] == "foreman"]
        found = sorted([me, *foremen], key=lambda foreman: foreman.id)
        shards = sorted(
            (Lease(shard, epoch, owner, left) for kind, owner, *_, left, shard, epoch in rows if kind == "shard"),
            key=lambda lease: lease.shard,
        )
        return CrewView(tuple(found), tuple(shards), next(row[9] for row in rows if row[0] == "ring"))

    async def list_running(self, me: str) -> list[str]:
        """The names of other foremen that were heard of within a lease."""
        values = {"id": me, "lease": LEASE_SECONDS}
        rows = await self._connections.read(lambda db: fetch(db, self._sql["list_foremen"], values))
        return [name for (name,) in rows]

    async def leave(self, me: str) -> None:
        await self._repeat(lambda db: execute(db, self._sql["leave"], {"id": me}))

    async def take_new(self, me: str) -> Lease:
        async def work(db: StoreConnection) -> tuple[Any, ...] | None:
            found = await fetch_one(db, self._sql["take_empty"], {"id": me})
            return found or await fetch_one(db, self._sql["make_shard"], {"id": me})

        while True:
            found = await self._connections.transact(work)
            if found is None:  # another foreman made the same one
                continue
            if found[0] > MAX_SHARDS:
                raise StoreError(f"{self.url}: the crew has {MAX_SHARDS} shards already")
            return Lease(found[0], found[1], me, LEASE_SECONDS)

    async def seize(self, me: str, seen: Lease) -> Lease | None:
        return await self._change_owner(seen, me, has_expired=seen.seconds_left <= 0)

    async def hand_over(self, mine: Lease, heir: str) -> bool:
        return await self._change_owner(mine, heir, has_expired=False) is not None

    async def _change_owner(self, seen: Lease, heir: str, has_expired: bool) -> Lease | None:
        values: dict[str, object] = {"shard": seen.shard, "epoch": seen.epoch, "owner": seen.owner, "heir": heir}
        values |= {"has_expired": has_expired, "lease": LEASE_SECONDS}
        found = await self._connections.write(lambda db: fetch_one(db, self._sql["change_owner"], values))
        return None if found is None else Lease(seen.shard, found[0], heir, LEASE_SECONDS)

    async def retire(self, mine: Lease) -> bool:
        values = {"shard": mine.shard, "epoch": mine.epoch, "owner": mine.owner}

        async def work(db: StoreConnection) -> bool:
            if not await fetch(db, self._sql["retire_lock"], values):
                return False
            if await fetch(db, self._sql["list_open_jobs"], values):
                return False
            await execute(db, self._sql["retire"], values)
            return True

        return await self._connections.transact(work)

    def open_shard(self, mine: Lease) -> PostgresStore:
        return PostgresStore(self._connections, self._sql, self.parts, mine)

    # The keyring and the audit

    async def load_ring(self) -> StoredRing:
        found = await self._connections.read(lambda db: fetch_one(db, self._sql["load_ring"]))
        return StoredRing(0, b"") if found is None else StoredRing(found[0], bytes(found[1]))

    async def save_ring(self, ring: StoredRing) -> bool:
        values = {"version": ring.version, "content": ring.content}
        return bool(await self._connections.write(lambda db: execute(db, self._sql["save_ring"], values)))

    async def note_audit(self, lines: Sequence[str]) -> None:
        values = {"part": self.parts.get("audit"), "lines": [_CONTROLS.sub("\ufffd", line) for line in lines]}
        if lines:
            await self._connections.write(lambda db: execute(db, self._sql["note_audit"], values))

    async def list_audit(self, limit: int) -> list[str]:
        """The last lines, the oldest first."""
        rows = await self._connections.read(lambda db: fetch(db, self._sql["list_audit"], {"limit": limit}))
        return [line for (line,) in reversed(rows)]

    async def _repeat(self, do: Any) -> Any:
        """Write what may be written twice, on the first connection that works."""
        return await self._connections.write_again(do)


def _to_foreman(row: tuple[Any, ...]) -> ForemanPlace:
    _, name_of_start, name, version, machine, places, is_leaving, silent, _, _ = row
    return ForemanPlace(name_of_start, name, version, tuple(places), machine, is_leaving, silent)
