"""The history of a crew in its database: each foreman appends the samples of its shard, fenced by the shard's epoch.

Samples of all shards are read by any foreman. Old ones are dropped whole, part by part: see `parts`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import inf, nextafter
from typing import Any, Final

from gandy.core.samples import ALWAYS, Extent, LastSample, Level, StoredSample
from gandy.errors import ShardLost
from gandy.moments import Wall
from gandy.store.history import NEAR, choose_last, find_first, get_number
from gandy.store.postgres.arrays import pack_byteas, pack_float8s, pack_int4s, pack_int8s
from gandy.store.postgres.connections import DatabaseConnections, StoreConnection, execute, fetch, fetch_one
from gandy.store.postgres.parts import Parts
from gandy.store.postgres.sql import Statements

# The table of each level, which is a family of parts, too.
TABLES: Final[Mapping[Level, str]] = {Level.SAMPLE: "samples", Level.KEYFRAME: "keyframes", Level.HOURLY: "hourly"}


class PostgresHistory:
    """Implements `store.history.History`."""

    def __init__(
        self,
        connections: DatabaseConnections,
        sql: Statements,
        parts: Parts,
        get_fence: Callable[[], dict[str, object]],
    ) -> None:
        """`get_fence`: the lease of the shard, as the statements name it."""
        self._connections = connections
        self._sql = sql
        self._parts = parts
        self._get_fence = get_fence

    async def add_samples(self, samples: Sequence[StoredSample]) -> None:
        for level in Level:
            rows = [sample for sample in samples if sample.level is level]
            if rows:
                await self._add(level, rows)

    async def _add(self, level: Level, samples: Sequence[StoredSample]) -> None:
        table = TABLES[level]
        values = {
            **self._get_fence(),
            "part": self._parts.get(table),
            "shards": pack_int4s([sample.shard for sample in samples]),
            "numbers": pack_int8s([sample.number for sample in samples]),
            "runs": pack_int8s([sample.run for sample in samples]),
            "bases": pack_int8s([sample.base for sample in samples]),
            "times": pack_float8s([float(sample.at) for sample in samples]),
            "packed": pack_byteas([sample.packed for sample in samples]),
        }
        if not await self._connections.write(lambda db: execute(db, self._sql[f"add_{table}"], values)):
            raise ShardLost(f"{self._connections.url}: another foreman owns this shard now")

    async def note_dropped(self, level: Level) -> None:
        await self._parts.skip(TABLES[level])

    async def find_last(self, shard: int) -> LastSample | None:
        row = await self._read_one("find_last_sample", {"shard": shard})
        return None if row is None else LastSample(_to_sample(row[:-1]), row[-1])

    async def get_extent(self) -> Extent:
        row = await self._read_one("get_extent", {})
        assert row is not None
        first, second, third = (ALWAYS if at is None else Wall(at) for at in row[:3])
        return Extent((first, second, third), row[3])

    async def list_samples(self, level: Level, begin: Wall, end: Wall, step: float) -> list[StoredSample]:
        values = {"level": int(level), "begin": float(begin), "end": float(end), "step": step}

        async def work(db: StoreConnection) -> list[StoredSample]:
            before = await fetch(db, self._sql["find_history"], {"at": nextafter(float(begin), -inf)})
            rows = await fetch(db, self._sql["list_history"], values)
            return [_to_sample(row[:7]) for row in [*before, *rows]]

        return sorted(await self._connections.snapshot(work), key=get_number)

    async def find_samples(self, at: Wall) -> list[StoredSample]:
        async def work(db: StoreConnection) -> list[StoredSample]:
            newest = list(map(_to_sample, await fetch(db, self._sql["find_history"], {"at": float(at)})))
            near = {
                "shards": pack_int4s([sample.shard for sample in newest]),
                "begins": pack_float8s([float(sample.at) - NEAR for sample in newest]),
                "ends": pack_float8s([float(sample.at) for sample in newest]),
            }
            found = sorted(map(_to_sample, await fetch(db, self._sql["list_near"], near)), key=get_number)
            wanted = [choose_last(list(shard)) for _, shard in groupby(found, lambda sample: sample.shard)]
            values = {
                "shards": pack_int4s([sample.shard for sample in wanted]),
                "firsts": pack_int8s(map(find_first, wanted)),
                "lasts": pack_int8s([sample.number for sample in wanted]),
            }
            return list(map(_to_sample, await fetch(db, self._sql["find_chains"], values)))

        return await self._connections.snapshot(work)

    async def read_samples(self, level: Level, after: StoredSample | None, limit: int) -> list[StoredSample]:
        place = {"at": -inf, "shard": -1, "number": -1}
        if after is not None:
            place = {"at": float(after.at), "shard": after.shard, "number": after.number}
        values = {**place, "limit": limit}
        rows = await self._connections.read(lambda db: fetch(db, self._sql[f"read_{TABLES[level]}"], values))
        return [_to_sample((*row[:4], level, *row[4:])) for row in rows]

    async def _read_one(self, name: str, values: Mapping[str, object]) -> tuple[Any, ...] | None:
        return await self._connections.read(lambda db: fetch_one(db, self._sql[name], values))


def _to_sample(row: tuple[Any, ...]) -> StoredSample:
    shard, number, run, base, level, at, packed = row
    return StoredSample(shard, number, run, base, Level(level), Wall(at), bytes(packed))
