"""Items to deliver later, in the order of their times. Times are shared time: correcting a clock changes nothing here.

It refuses items that are too far ahead, too many or too large.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, NewType, TypeVar

from gandy.bus.limits import HORIZON, MAX_TIMED_BYTES, MAX_TIMED_MESSAGES
from gandy.errors import NotScheduled
from gandy.moments import Shared

Handle = NewType("Handle", int)
T = TypeVar("T")


class Schedule(Generic[T]):
    """Items by their time; those of one time in the order in which they were added."""

    def __init__(
        self, max_count: int = MAX_TIMED_MESSAGES, horizon: float = HORIZON, max_bytes: int = MAX_TIMED_BYTES
    ) -> None:
        self._max_count = max_count
        self._horizon = horizon
        self._max_bytes = max_bytes
        self._bytes = 0
        self._added = 0
        self._heap: list[tuple[Shared, Handle]] = []  # at most half of the entries are cancelled
        self._items: dict[Handle, tuple[T, int]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, time: Shared, item: T, now: Shared, size: int = 0) -> Handle:
        """Add an item; one that is late is due at once. `size`: its bytes. Raises: NotScheduled."""
        if not time - now <= self._horizon:  # NaN fails this test too
            raise NotScheduled(
                f"{time - now:.3f} s ahead is too far: the limit is {self._horizon:g} s", retryable=False
            )
        if len(self._items) >= self._max_count:
            raise NotScheduled(f"{self._max_count} messages are waiting for their time already", retryable=True)
        if self._bytes + size > self._max_bytes:
            raise NotScheduled(
                f"messages that wait for their time may hold {self._max_bytes} bytes in all", retryable=True
            )
        self._added += 1
        handle = Handle(self._added)
        self._bytes += size
        self._items[handle] = item, size
        heappush(self._heap, (time, handle))
        return handle

    def cancel(self, handle: Handle) -> bool:
        """True if the item was still waiting."""
        is_there = handle in self._items
        if is_there:
            self._take(handle)
            self._tidy()
        return is_there

    def next_deadline(self) -> Shared:
        """The shared time of the next item. `inf`: there is none."""
        return self._heap[0][0] if self._heap else Shared(inf)

    def pop_due(self, now: Shared) -> list[tuple[Shared, T]]:
        """The items that are due, each with its time, in order."""
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
        """Drop cancelled entries at the front, and all of them when they are the majority."""
        if len(self._heap) > 2 * len(self._items):
            self._heap = [entry for entry in self._heap if entry[1] in self._items]
            heapify(self._heap)
        while self._heap and self._heap[0][1] not in self._items:
            heappop(self._heap)
