"""Which attempt at a task is the current one, and which worker has it. This is the fence."""

from collections.abc import Iterator

from gandy.core.model import AttemptKey, TaskKey
from gandy.core.workers import Worker

Owned = tuple[AttemptKey, Worker]


class Owners:
    """An entry for every task that runs."""

    def __init__(self) -> None:
        self._owned: dict[TaskKey, Owned] = {}

    def __len__(self) -> int:
        return len(self._owned)

    def __iter__(self) -> Iterator[Owned]:
        return iter(self._owned.values())

    def __getitem__(self, task: TaskKey) -> Owned:
        return self._owned[task]

    def find(self, task: TaskKey) -> Owned | tuple[None, None]:
        return self._owned.get(task, (None, None))

    def take(self, worker: Worker, attempt: AttemptKey, slots: int) -> None:
        worker.take(attempt, slots)
        self._owned[attempt.task_key] = (attempt, worker)

    def drop(self, attempt: AttemptKey) -> Worker | None:
        """The attempt is no longer current. Gives its worker, or None where it was not."""
        owned, worker = self.find(attempt.task_key)
        if owned != attempt:
            return None
        del self._owned[attempt.task_key]
        return worker

    def is_current(self, attempt: AttemptKey, worker: Worker) -> bool:
        return self._owned.get(attempt.task_key) == (attempt, worker)
