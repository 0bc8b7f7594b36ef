"""The keyring and the audit of a crew, as its database has them, in memory."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from gandy.errors import StoreError
from gandy.store.crew import CrewStore, StoredRing


class SharedRing:
    """Implements those parts of `store.crew.CrewStore`. While it `is_away`, it fails."""

    def __init__(self) -> None:
        self.ring = StoredRing(0, b"")
        self.lines: list[str] = []
        self.is_away = False
        self.looks = 0
        self.before_save: Callable[[], Awaitable[None]] | None = None  # once

    def as_store(self) -> CrewStore:
        return cast("CrewStore", cast("Any", self))

    async def load_ring(self) -> StoredRing:
        self._check()
        self.looks += 1
        return self.ring

    async def save_ring(self, ring: StoredRing) -> bool:
        self._check()
        if self.before_save is not None:
            before, self.before_save = self.before_save, None
            await before()
        if ring.version != self.ring.version + 1:
            return False
        self.ring = ring
        return True

    async def note_audit(self, lines: Sequence[str]) -> None:
        self._check()
        self.lines += lines

    def _check(self) -> None:
        if self.is_away:
            raise StoreError("the database is away", retryable=True)
