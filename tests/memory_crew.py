"""A database of a crew in memory, for tests that run several foremen in one process."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from gandy.core.hosting import LEASE_SECONDS
from gandy.core.model import FINAL_JOB_STATES, AttemptKey
from gandy.core.records import JobAdded, Record
from gandy.core.rows import Recovered
from gandy.core.shards import NO_SHARD, CrewView, ForemanPlace, Lease
from gandy.errors import ShardLost, StoreError
from gandy.ids import JobId
from gandy.store.base import Store
from gandy.store.crew import StoredRing
from gandy.store.memory import MemoryStore


class MemoryCrew:
    """Implements `store.crew.CrewStore`. While `trouble` is set, every statement fails with it."""

    def __init__(self) -> None:
        self.jobs = MemoryStore()
        self.shard_of: dict[JobId, int] = {}
        self.trouble = ""
        self.commits: list[Lease] = []  # that were made, each by this owner
        self._last_job = 0
        self._foremen: dict[str, tuple[ForemanPlace, float]] = {}
        self._leases: dict[int, tuple[Lease, float]] = {}  # with the moment until which each holds
        self._audit: list[str] = []
        self._ring = StoredRing(0, b"")
        self._arguments: dict[str, bytes] = {}

    def check(self) -> None:
        if self.trouble:
            raise StoreError(self.trouble, retryable=True)

    @property
    def shards(self) -> list[int]:
        return list(self._leases)

    def let_pass(self, foreman: str, seconds: float) -> None:
        """As if a foreman had told the database so long ago that it is there, for the last time."""
        seen = time.monotonic() - seconds
        self._foremen[foreman] = self._foremen[foreman][0], seen
        for lease, _ in list(self._leases.values()):
            if lease.owner == foreman:
                self._leases[lease.shard] = lease, seen + LEASE_SECONDS

    def holds(self, lease: Lease) -> bool:
        found = self._leases.get(lease.shard)
        return found is not None and (found[0].owner, found[0].epoch) == (lease.owner, lease.epoch)

    def draw_number(self) -> JobId:
        self._last_job += 1
        return JobId(self._last_job)

    async def open(self) -> None:
        self.check()

    async def close(self) -> None:
        pass

    async def beat(self, me: ForemanPlace, leases: Sequence[Lease]) -> CrewView:
        self.check()
        now = time.monotonic()
        self._foremen[me.id] = me, now
        for lease in leases:
            if self.holds(lease):
                self._leases[lease.shard] = lease, now + LEASE_SECONDS
        foremen = (replace(place, silent_seconds=now - seen) for place, seen in self._foremen.values())
        found = (replace(lease, seconds_left=until - now) for lease, until in self._leases.values())
        return CrewView(tuple(foremen), tuple(found), self._ring.version)

    async def leave(self, me: str) -> None:
        self.check()
        self._foremen.pop(me, None)
        for lease, _ in list(self._leases.values()):
            if lease.owner == me:
                self._set(replace(lease, owner="", epoch=lease.epoch + 1))

    async def take_new(self, me: str) -> Lease:
        self.check()
        return self._set(Lease(max(self._leases, default=0) + 1, 1, me))

    async def seize(self, me: str, seen: Lease) -> Lease | None:
        self.check()
        is_renewed = seen.seconds_left < 0 and self._leases[seen.shard][1] > time.monotonic()
        return None if is_renewed else self._change_owner(seen, me)

    async def hand_over(self, mine: Lease, heir: str) -> bool:
        self.check()
        return self._change_owner(mine, heir) is not None

    def _change_owner(self, seen: Lease, heir: str) -> Lease | None:
        return self._set(replace(seen, owner=heir, epoch=seen.epoch + 1)) if self.holds(seen) else None

    async def retire(self, mine: Lease) -> bool:
        self.check()
        states = await self.jobs.find_states([job for job, shard in self.shard_of.items() if shard == mine.shard])
        if not self.holds(mine) or not FINAL_JOB_STATES.issuperset(states.values()):
            return False
        del self._leases[mine.shard]
        self.shard_of = {job: NO_SHARD if shard == mine.shard else shard for job, shard in self.shard_of.items()}
        return True

    def _set(self, lease: Lease) -> Lease:
        self._leases[lease.shard] = lease, time.monotonic() + LEASE_SECONDS
        return lease

    def open_shard(self, mine: Lease) -> Store:
        return MemoryShard(self, mine)

    async def load_ring(self) -> StoredRing:
        self.check()
        return self._ring

    async def save_ring(self, ring: StoredRing) -> bool:
        self.check()
        if ring.version != self._ring.version + 1:
            return False
        self._ring = ring
        return True

    async def note_audit(self, lines: Sequence[str]) -> None:
        self.check()
        self._audit += lines

    async def list_audit(self, limit: int) -> list[str]:
        self.check()
        return self._audit[-limit:]

    async def put_arguments(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        self._arguments[name] = self._arguments.get(name, b"")[:offset] + data

    async def read_arguments(self, name: str, offset: int, limit: int) -> bytes | None:
        found = self._arguments.get(name)
        return None if found is None else found[offset : offset + limit]

    async def drop_arguments(self, seconds: float) -> None:
        pass


class MemoryShard:
    """The store of one shard: reads see the jobs of all, and commits are fenced."""

    def __init__(self, crew: MemoryCrew, lease: Lease) -> None:
        self._crew = crew
        self._lease = lease

    def __getattr__(self, name: str) -> Any:
        self._crew.check()
        return getattr(self._crew.jobs, name)

    async def open(self) -> Recovered:
        self._crew.check()
        found = await self._crew.jobs.open()
        own = tuple(job for job in found.jobs if self._crew.shard_of[job.row.job] == self._lease.shard)
        return Recovered(own, found.next_job)

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        self._crew.check()
        if not self._crew.holds(self._lease):
            raise ShardLost(f"shard {self._lease.shard} has another owner")
        lost = await self._crew.jobs.commit(records)
        for record in records:
            if isinstance(record, JobAdded):
                self._crew.shard_of[record.job] = self._lease.shard
        self._crew.commits.append(self._lease)
        return lost

    async def draw_number(self) -> JobId | None:
        return self._crew.draw_number()

    async def find_shard(self, job: JobId) -> int | None:
        return self._crew.shard_of.get(job)
