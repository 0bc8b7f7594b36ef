"""Loads whole jobs, many at once: for a foreman that takes a shard, and for users who change a job that is final."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gandy.core.model import Counts
from gandy.core.rows import RecoveredJob
from gandy.store.postgres.arrays import pack_int4s, pack_int8s
from gandy.store.postgres.assemble import Assembler, TaskEnd
from gandy.store.postgres.connections import StoreConnection, fetch
from gandy.store.postgres.heads import Head, to_head
from gandy.store.postgres.ranges import make_range
from gandy.store.postgres.shard_job import JobStanding, ShardJob
from gandy.store.postgres.sql import Statements

KEYS: Final = 1_000  # of jobs that are loaded by the same statements

Rows = dict[int, list[tuple[Any, ...]]]  # by key


class Loaded(NamedTuple):
    """A whole job, for users and for its owner."""

    recovered: RecoveredJob
    job: ShardJob


class Loader:
    """Every method expects a snapshot on its connection."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    async def load_shard(self, db: StoreConnection, shard: int) -> list[Loaded]:
        """The jobs of a shard that are not final, the oldest first."""
        keys = [key for key, _ in await fetch(db, self._sql["list_open_jobs"], {"shard": shard})]
        found: list[Loaded] = []
        for start in range(0, len(keys), KEYS):
            found += await self.load(db, keys[start : start + KEYS])
        return found

    async def load(self, db: StoreConnection, keys: Sequence[int]) -> list[Loaded]:
        """The jobs with these keys, the oldest first."""
        packed = {"keys": pack_int8s(keys)}
        heads = [to_head(row) for row in await fetch(db, self._sql["load_heads"], packed)]
        ends = await self._add_first_ends(db, await fetch(db, self._sql["load_other_ends"], packed))
        runs, claims, begins = [
            _group(await fetch(db, self._sql[name], packed))
            for name in ("load_plain_runs", "load_claims", "load_begins")
        ]
        return [
            _make_loaded(head, ends[head.key], runs[head.key], claims[head.key], begins[head.key]) for head in heads
        ]

    async def _add_first_ends(self, db: StoreConnection, ends: list[tuple[Any, ...]]) -> Rows:
        """Rows that tasks with other rows have, too: users may change a task before or after it simply finished."""
        changed = sorted({row[:2] for row in ends if row[2] < 2})
        if changed:
            keys, tasks = zip(*changed, strict=True)
            values = {"keys": pack_int8s(keys), "tasks": pack_int4s(tasks)}
            more = await fetch(db, self._sql["load_first_ends"], values)
            ends = sorted([*ends, *more], key=lambda row: row[:4])
        return _group(ends)


def _group(rows: list[tuple[Any, ...]]) -> Rows:
    found: Rows = defaultdict(list)
    for key, *rest in rows:
        found[key].append(tuple(rest))
    return found


def _make_loaded(head: Head, ends: list[Any], runs: list[Any], claims: list[Any], begins: list[Any]) -> Loaded:
    row = head.row
    last = max((one[0] if kind is ends else one[1] for kind in (ends, runs, claims) for one in kind), default=0)
    found = make_range(Assembler(claims, begins), [TaskEnd(*end) for end in ends], runs, 0, last)
    standing = JobStanding(head.tasks, row.spec.is_open, row.state, row.held, row.changed)
    standing.counts = [getattr(row.counts, name) for name in Counts.__struct_fields__]
    standing.fresh, standing.number = head.fresh, head.number
    standing.is_done, standing.was_done = standing.is_final, head.was_done
    job = ShardJob(head.key, standing)
    job.restore(found.rows, found.finished, found.steps)
    return Loaded(RecoveredJob(row, tuple(found.rows), head.fresh, found.finished), job)
