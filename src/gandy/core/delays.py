"""Tasks of one job that wait again, and when each may start. Those that may have killed workers are apart."""

import heapq

from gandy.ids import TaskNumber
from gandy.moments import Monotonic


class DelayedTasks:
    """A task is in `ordinary`, in `suspects`, or in neither."""

    def __init__(self) -> None:
        self.ordinary: dict[TaskNumber, Monotonic] = {}
        self.suspects: dict[TaskNumber, Monotonic] = {}
        self._heap: list[tuple[Monotonic, TaskNumber]] = []  # the ordinary ones; some entries may be stale

    def __len__(self) -> int:
        return len(self.ordinary) + len(self.suspects)

    def add(self, task: TaskNumber, due: Monotonic, is_suspect: bool) -> None:
        if is_suspect:
            self.suspects[task] = due
        else:
            self.ordinary[task] = due
            heapq.heappush(self._heap, (due, task))

    def discard(self, task: TaskNumber) -> None:
        self.ordinary.pop(task, None)
        self.suspects.pop(task, None)

    def find_ready(self, now: Monotonic) -> TaskNumber | None:
        """The ordinary task that was due first, if it may start now."""
        first = self._find_first()
        return first[1] if first is not None and first[0] <= now else None

    def list_suspects(self, now: Monotonic) -> list[TaskNumber]:
        """The suspects that may start now."""
        return [task for task, due in self.suspects.items() if due <= now]

    def next_due(self) -> Monotonic | None:
        """When the first task, suspect or not, may start."""
        first = self._find_first()
        return min(self.suspects.values() if first is None else (first[0], *self.suspects.values()), default=None)

    def drop_above(self, last: int) -> None:
        """Forget tasks with higher numbers."""
        self.ordinary = {task: due for task, due in self.ordinary.items() if task <= last}
        self.suspects = {task: due for task, due in self.suspects.items() if task <= last}
        self._heap = [(due, task) for task, due in self.ordinary.items()]
        heapq.heapify(self._heap)

    def clear(self) -> None:
        self.ordinary.clear()
        self.suspects.clear()
        self._heap.clear()

    def check(self) -> None:
        """What must hold after every step; for tests."""
        assert not self.ordinary or self.ordinary.items() <= {(task, due) for due, task in self._heap}
        assert self.ordinary.keys().isdisjoint(self.suspects)

    def _find_first(self) -> tuple[Monotonic, TaskNumber] | None:
        while self._heap and self.ordinary.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None
