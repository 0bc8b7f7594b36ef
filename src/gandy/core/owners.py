"""Which attempts are the current ones of their tasks, and which worker has each. This is the fence."""

from collections.abc import ItemsView, Iterable

from gandy.core.held import Held
from gandy.core.model import AttemptKey
from gandy.core.workers import KnownWorker


class Owners:
    """An entry for every task that a worker has, or is about to get."""

    def __init__(self) -> None:
        self._owners: dict[AttemptKey, KnownWorker] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, attempt: AttemptKey) -> bool:
        return attempt in self._owners

    def items(self) -> ItemsView[AttemptKey, KnownWorker]:
        return self._owners.items()

    def find(self, attempt: AttemptKey) -> KnownWorker | None:
        """The worker that has it, or None if it is not current."""
        return self._owners.get(attempt)

    def take(self, worker: KnownWorker, attempt: AttemptKey, held: Held) -> None:
        worker.held.take(attempt, held)
        self._owners[attempt] = worker

    def drop(self, attempt: AttemptKey) -> KnownWorker | None:
        """The attempt is no longer current. Gives its worker, or None if it was not."""
        return self._owners.pop(attempt, None)

    def is_current(self, attempt: AttemptKey, worker: KnownWorker) -> bool:
        return self._owners.get(attempt) is worker

    def find_absent(self, attempts: Iterable[AttemptKey]) -> str | None:
        """The worker that these attempts belong to, if it is away: a peer that has them must be it."""
        for attempt in attempts:
            worker = self._owners.get(attempt)
            if worker is not None and not worker.connected:
                return worker.info.id
        return None
