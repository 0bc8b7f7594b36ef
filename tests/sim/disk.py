"""The disk of a simulated foreman: a store that outlives it, that may be full, and that is watched by the laws."""

from collections.abc import Sequence
from random import Random

from tests.sim.laws import Laws
from tests.waiting import run_sync

from gandy.core.model import AttemptKey
from gandy.core.records import Record
from gandy.errors import StoreError
from gandy.store.memory import MemoryStore


class Disk:
    """A commit takes up to `max_commit` seconds, and fails at random (`error`) or while the disk is full."""

    def __init__(self, laws: Laws, max_commit: float, error: float, seed: int) -> None:
        self.store = MemoryStore()
        self.is_full = False
        self.error = error
        self._max_commit = max_commit
        self._laws = laws
        self._random = Random(f"{seed} disk")

    def choose_delay(self) -> float:
        """How long the next commit takes."""
        return self._max_commit * self._random.random()

    def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """Raises: StoreError."""
        if self.is_full or (self.error and self._random.random() < self.error):
            self._laws.seen["disk error"] += 1
            raise StoreError("the disk is full", retryable=True)
        lost = run_sync(self.store.commit(records))
        self._laws.on_commit(records, lost)
        return lost
