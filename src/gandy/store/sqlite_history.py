"""The history beside a file of jobs: a file of its own, and the only thread that uses it."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from gandy.core.samples import Extent, LastSample, Level, StoredSample
from gandy.errors import StoreError
from gandy.moments import Wall
from gandy.store.history_file import HistoryFile

P = ParamSpec("P")
T = TypeVar("T")


class SqliteHistory:
    """Implements `store.history.History`. It can be used while it is open."""

    def __init__(self, path: Path) -> None:
        self._file = HistoryFile(path)
        self._pool: ThreadPoolExecutor | None = None

    def open(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="gandy-store-history")

    async def close(self) -> None:
        if self._pool is not None:
            await self._run(self._file.close)
            self._pool.shutdown()
            self._pool = None

    async def _run(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._pool is None:
            raise StoreError(f"{self._file.path}: not open")
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: do(*args, **kwargs))

    async def add_samples(self, samples: Sequence[StoredSample]) -> None:
        await self._run(self._file.add, samples)

    async def note_dropped(self, level: Level) -> None:
        await self._run(self._file.note_dropped, level)

    async def find_last(self, shard: int) -> LastSample | None:
        return await self._run(self._file.find_last, shard)

    async def get_extent(self) -> Extent:
        return await self._run(self._file.get_extent)

    async def list_samples(self, level: Level, begin: Wall, end: Wall, step: float) -> list[StoredSample]:
        return await self._run(self._file.list_samples, level, begin, end, step)

    async def find_samples(self, at: Wall) -> list[StoredSample]:
        return await self._run(self._file.find_samples, at)

    async def read_samples(self, level: Level, after: StoredSample | None, limit: int) -> list[StoredSample]:
        return await self._run(self._file.read_samples, level, after, limit)
