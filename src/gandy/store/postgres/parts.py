"""Keeps the parts of tables in order: makes the next one in time, drops old ones, and sweeps what was forgotten."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gandy.errors import StoreError
from gandy.limits import MAX_HISTORY_BYTES
from gandy.store.postgres.connections import DatabaseConnections, StoreConnection, execute, fetch
from gandy.store.postgres.schema import Schema, make_key
from gandy.store.postgres.sql import Statements

log = logging.getLogger("gandy.store")

PERIOD: Final = 60.0  # seconds from one look at the parts to the next


class _Rule(NamedTuple):
    """When a part is full: by its bytes, or by the seconds since it was made, if it has any row."""

    bytes: int
    seconds: float
    kept: float | None = None  # seconds until a full one is dropped, if that depends on nothing else


_DAY: Final = 86_400.0

# A part is dropped whole, so that a larger one stays longer, and a smaller one costs tables and locks.
RULES: Final = {
    "jobs": _Rule(4 << 30, 7 * _DAY),
    "results": _Rule(4 << 30, _DAY),
    "commits": _Rule(64 << 20, 3_600.0),  # only the last commit of each shard is ever looked for
    "audit": _Rule(50_000_000, 366 * _DAY),
    "samples": _Rule(MAX_HISTORY_BYTES, 0.5 * _DAY, 2 * _DAY),
    "keyframes": _Rule(MAX_HISTORY_BYTES, 7.5 * _DAY, 30 * _DAY),
    "hourly": _Rule(MAX_HISTORY_BYTES, 182 * _DAY, 730 * _DAY),
}

HISTORY_PARTS: Final = 8  # of each level; if they fill faster than they age, the oldest is dropped

CLOSED_SECONDS: Final = 600.0  # from the next part to the drop of one: a foreman may still write to it
SWEPT_ROWS: Final = 5_000  # deleted in one transaction


class Parts:
    """The last part of each family, as far as we know. A foreman that knows an older one may still write to it."""

    def __init__(self, connections: DatabaseConnections, schema: Schema, sql: Statements) -> None:
        self._connections = connections
        self._schema = schema
        self._sql = sql
        self._last: dict[str, int] = {}

    def get(self, family: str) -> int:
        return self._last[family]

    def note(self, family: str, part: int) -> None:
        self._last[family] = part

    async def load(self) -> None:
        self._last = await self._schema.get_parts()

    async def skip(self, family: str) -> None:
        """Drop the last part, which is empty, for a new one."""
        last = self._last[family]
        await self._schema.make_part(family, last)
        await self._schema.drop_part(family, last)
        await self.load()

    async def run(self) -> None:
        """Keep order until cancelled."""
        while True:
            await asyncio.sleep(PERIOD)
            try:
                await self.keep()
            except StoreError as error:
                log.warning("the parts of tables are as they were: %s", error)

    async def keep(self) -> None:
        """Raises: StoreError."""
        await self._write("drop_silent_foremen", {})
        await self._write("trim_ring", {})
        await self._write("trim_drops", {})
        for family in RULES:
            await self._keep_family(family)
        await self.load()
        await self.sweep()

    async def _keep_family(self, family: str) -> None:
        name = self._connections.url.schema
        parts = await self._read("look_at_parts", {"family": family, "schema": name})
        last, size, age, _ = parts[-1]
        rule = RULES[family]
        if size > rule.bytes or (size and age > rule.seconds):
            await self._schema.make_part(family, last)
        closed = [(part, closed) for part, _, _, closed in parts[:-1] if closed > CLOSED_SECONDS]
        for part, age in closed:
            if await self._is_unused(family, part, age) and not await self._schema.drop_part(family, part):
                log.info("part %s of %s is in use, and is dropped later", part, family)

    async def _is_unused(self, family: str, part: int, closed: float) -> bool:
        kept = RULES[family].kept
        if kept is not None:
            return closed > kept or part <= self._last[family] - HISTORY_PARTS
        if family == "jobs":
            values = {"first": make_key(part, 0), "end": make_key(part + 1, 0)}
            return not (await self._read("has_jobs", values))[0][0]
        if family == "results":
            return not (await self._read("has_results", {"part": part}))[0][0]
        return part < self._last[family] - 1  # the one before the last stays

    async def sweep(self) -> None:
        """Delete what forgotten jobs left in parts that have other jobs."""
        for (key,) in await self._read("list_forgotten", {}):
            for name in ("sweep_ends", "sweep_claims", "sweep_changes", "sweep_begins", "sweep_lines", "sweep_results"):
                while await self._write(name, {"key": key, "rows": SWEPT_ROWS}):
                    pass
            await self._write("sweep_key", {"key": key})

    async def _read(self, name: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        return await self._connections.read(lambda db: fetch(db, self._sql[name], values))

    async def _write(self, name: str, values: Mapping[str, object]) -> int:
        async def work(db: StoreConnection) -> int:
            return await execute(db, self._sql[name], values)

        return await self._connections.write(work)
