"""The last minutes of a crew as numbers, one point a second, and rates of what only grows. Pure."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

PERIOD: Final = 1.0  # seconds between two points
POINTS: Final = 900  # a quarter of an hour
RATE_SECONDS: Final = 5.0  # over which a rate is measured


class Point(Struct, frozen=True, array_like=True):
    """What a crew did in the second before a time, and what it had then.

    In this order: the time; tasks that finished, tasks that failed, and calls, in a second; slots in use, on average;
    all slots; tasks that wait; tasks that run.
    """

    at: float  # seconds since 1970
    finished: float  # tasks per second
    failed: float
    calls: float
    used: float  # slots, on average
    slots: int
    waiting: int  # tasks
    running: int


class Rate:
    """How fast a number grows. It may begin anew at zero. If the clock is set back, what was seen moves with it."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._first: tuple[float, int] | None = None  # since it grows

    def note(self, now: float, total: int) -> None:
        self._follow(now)
        if self._seen and total < self._seen[-1][1]:
            self._seen.clear()
            self._first = None
        self._first = self._first or (now, total)
        self._seen.append((now, total))
        self._drop(now)

    def per_second(self, now: float) -> float:
        """Over the last seconds, or since it was first noted."""
        if not self._seen:
            return 0.0
        self._follow(now)
        self._drop(now)
        (began, before), (_, total) = self._seen[0], self._seen[-1]
        return (total - before) / max(min(now - began, RATE_SECONDS), PERIOD)

    def _follow(self, now: float) -> None:
        """If the clock was set back: the last number was seen just now."""
        if not self._seen or now >= self._seen[-1][0] - PERIOD:
            return
        step = self._seen[-1][0] - now
        self._seen = deque((at - step, total) for at, total in self._seen)
        if self._first is not None:
            self._first = self._first[0] - step, self._first[1]

    def _drop(self, now: float) -> None:
        """Keep one number from before the time that is measured: it was the same until the next."""
        while len(self._seen) > 1 and self._seen[1][0] <= now - RATE_SECONDS:
            self._seen.popleft()

    @property
    def growth(self) -> int:
        """By how much it has grown since the first number."""
        return 0 if self._first is None else self._seen[-1][1] - self._first[1]

    def per_second_on_average(self, now: float) -> float:
        """Since the first number."""
        return 0.0 if self._first is None else self.growth / max(now - self._first[0], PERIOD)


class Series:
    """Points in the order of time. A time without a viewer has none."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=POINTS)

    def follow(self, now: float) -> bool:
        """If the clock was set back, move all points with it, so that the last one is of just now. True if it was."""
        if not self.points or now >= self.points[-1].at - PERIOD:
            return False
        step = self.points[-1].at - now
        self.points = deque((replace(point, at=point.at - step) for point in self.points), maxlen=POINTS)
        return True

    def note(self, point: Point) -> bool:
        """Add a point, unless the last one is newer than a period. True if it was added."""
        if self.points and point.at < self.points[-1].at + PERIOD * 0.9:
            return False
        self.points.append(point)
        return True

    def list_since(self, at: float) -> Sequence[Point]:
        return [point for point in self.points if point.at > at]
