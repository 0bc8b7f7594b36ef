"""Which attempts are the current ones of their tasks, and which worker has each. This is the fence."""

from collections.abc import Iterable

from gandy.core.held import Held
from gandy.core.model import AttemptKey
from gandy.core.workers import KnownWorker


class Owners(dict[AttemptKey, KnownWorker]):
    """An entry for every task that a worker has, or is about to get."""

    def take(self, worker: KnownWorker, attempt: AttemptKey, held: Held) -> None:
        worker.held.take(attempt, held)
        self[attempt] = worker

    def is_current(self, attempt: AttemptKey, worker: KnownWorker) -> bool:
        return self.get(attempt) is worker

    def find_absent(self, attempts: Iterable[AttemptKey]) -> str | None:
        """The worker that these attempts belong to, if it is away: a peer that has them must be it."""
        for attempt in attempts:
            worker = self.get(attempt)
            if worker is not None and not worker.connected:
                return worker.info.id
        return None
