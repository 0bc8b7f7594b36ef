"""What is to be delivered later, in order. Times are shared time: nothing here moves when a clock is put right.

It refuses what is too far away, and what is too much.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Generic, NewType, TypeVar

from gandy.errors import NotScheduled

MAX_COUNT: Final = 100_000  # entries; anyone in the ensemble can send timed messages
MAX_BYTES: Final = 64 * 1024 * 1024  # what they hold, as told by whoever adds them
HORIZON: Final = 86_400.0  # seconds; what is later is for a job, which survives a restart

Handle = NewType("Handle", int)
T = TypeVar("T")


class Schedule(Generic[T]):
    """Items by their time; of one time, in the order in which they were added."""

    def __init__(self, max_count: int = MAX_COUNT, horizon: float = HORIZON, max_bytes: int = MAX_BYTES) -> None:
        self._max_count = max_count
        self._horizon = horizon
        self._max_bytes = max_bytes
        self._bytes = 0
        self._added = 0
        self._heap: list[tuple[float, Handle]] = []  # cancelled entries too, but no more than others
        self._items: dict[Handle, tuple[T, int]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, time: float, item: T, now: float, size: int = 0) -> Handle:
        """What is late already is due at once. `size`: bytes that it holds. Raises: NotScheduled."""
        if not time - now <= self._horizon:  # nor is it, where it is no number
            raise NotScheduled(f"{time - now:.3f} s ahead is too far: at most {self._horizon:g} s", retryable=False)
        if len(self._items) >= self._max_count:
            raise NotScheduled(f"{self._max_count} messages wait for their time already", retryable=True)
        if self._bytes + size > self._max_bytes:
            raise NotScheduled(f"messages that wait may hold {self._max_bytes} bytes, and no more", retryable=True)
        self._added += 1
        handle = Handle(self._added)
        self._bytes += size
        self._items[handle] = item, size
        heappush(self._heap, (time, handle))
        return handle

    def cancel(self, handle: Handle) -> bool:
        """Whether it was still there."""
        is_there = handle in self._items
        if is_there:
            self._take(handle)
            self._tidy()
        return is_there

    def next_deadline(self) -> float:
        """The shared time at which `pop_due` is due. `inf`: nothing waits."""
        return self._heap[0][0] if self._heap else inf

    def pop_due(self, now: float) -> list[tuple[float, T]]:
        """What is due, with its time, in order."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            time, handle = heappop(self._heap)
            if handle in self._items:
                due.append((time, self._take(handle)))
        self._tidy()
        return due

    def clear(self) -> None:
        self._heap.clear()
        self._items.clear()
        self._bytes = 0

    def _take(self, handle: Handle) -> T:
        item, size = self._items.pop(handle)
        self._bytes -= size
        return item

    def _tidy(self) -> None:
        """So that the first entry is one that waits, and no more are cancelled than wait. Each is dropped once."""
        if len(self._heap) > 2 * len(self._items):
            self._heap = [entry for entry in self._heap if entry[1] in self._items]
            heapify(self._heap)
        while self._heap and self._heap[0][1] not in self._items:
            heappop(self._heap)
