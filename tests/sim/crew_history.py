"""The history of a simulated crew, as a shard's store sees it: fenced, and over a connection that breaks."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tests.sim.database import Database
from tests.waiting import run_sync

from gandy.core.samples import Extent, LastSample, Level, StoredSample
from gandy.core.shards import Lease
from gandy.errors import ShardLost

Do = Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]


class ShardHistory:
    """Implements `store.history.History`. `do`: has the database do something."""

    def __init__(self, do: Do, database: Database, mine: Lease) -> None:
        self._do = do
        self._database = database
        self._kept = database.store.history
        self._mine = mine

    async def add_samples(self, samples: Sequence[StoredSample]) -> None:
        await self._do(lambda: self._add(samples))

    def _add(self, samples: Sequence[StoredSample]) -> None:
        if not self._database.owns(self._mine):
            raise ShardLost("another foreman owns this shard")
        run_sync(self._kept.add_samples(samples))

    async def note_dropped(self, level: Level) -> None:
        await self._do(lambda: run_sync(self._kept.note_dropped(level)))

    async def find_last(self, shard: int) -> LastSample | None:
        found: LastSample | None = await self._do(lambda: run_sync(self._kept.find_last(shard)))
        return found

    async def get_extent(self) -> Extent:
        found: Extent = await self._do(lambda: run_sync(self._kept.get_extent()))
        return found

    async def list_samples(self, level: Level, begin: float, end: float, step: float) -> list[StoredSample]:
        found: list[StoredSample] = await self._do(lambda: run_sync(self._kept.list_samples(level, begin, end, step)))
        return found

    async def find_samples(self, at: float) -> list[StoredSample]:
        found: list[StoredSample] = await self._do(lambda: run_sync(self._kept.find_samples(at)))
        return found

    async def read_samples(self, level: Level, after: StoredSample | None, limit: int) -> list[StoredSample]:
        found: list[StoredSample] = await self._do(lambda: run_sync(self._kept.read_samples(level, after, limit)))
        return found
