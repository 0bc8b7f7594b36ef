"""Which attempts are the current ones of their tasks, and which worker has each. This is the fence."""

from collections.abc import Iterator

from gandy.core.model import AttemptKey
from gandy.core.workers import Held, KnownWorker


class Owners:
    """An entry for every task that runs."""

    def __init__(self) -> None:
        self._owners: dict[AttemptKey, KnownWorker] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[tuple[AttemptKey, KnownWorker]]:
        return iter(self._owners.items())

    def find(self, attempt: AttemptKey) -> KnownWorker | None:
        """The worker that has it, or None where it is not a current one."""
        return self._owners.get(attempt)

    def take(self, worker: KnownWorker, attempt: AttemptKey, held: Held) -> None:
        worker.take(attempt, held)
        self._owners[attempt] = worker

    def drop(self, attempt: AttemptKey) -> KnownWorker | None:
        """The attempt is no longer current. Gives its worker, or None where it was not."""
        return self._owners.pop(attempt, None)

    def is_current(self, attempt: AttemptKey, worker: KnownWorker) -> bool:
        return self._owners.get(attempt) is worker
