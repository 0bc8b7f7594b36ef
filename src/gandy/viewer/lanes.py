"""Places attempts side by side: each span of a worker gets a lane in which nothing else runs meanwhile. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from gandy.core.views import Span

MAX_LANES: Final = 1_024  # of one worker; more slots than a person looks at one by one
KEPT_SPANS: Final = 20_000  # of all workers, the newest: several minutes of a busy crew
OVERLAP: Final = 0.005  # seconds by which clocks of workers and foreman may disagree about a slot that changes hands

Key = tuple[int, int, int]  # job, task and attempt


class PlacedSpan(Struct, frozen=True):
    """A span, and the lane of its worker in which it is drawn."""

    span: Span
    lane: int


class Lanes:
    """Lanes are given from the first one on, so that a worker shows as many as it has used at once."""

    def __init__(self) -> None:
        self._ends: dict[str, list[float]] = {}  # by worker: until when each lane is taken
        self._running: dict[Key, PlacedSpan] = {}
        self._ended: deque[PlacedSpan] = deque(maxlen=KEPT_SPANS)

    def __iter__(self) -> Iterator[PlacedSpan]:
        yield from self._ended
        yield from self._running.values()

    def place(self, span: Span) -> PlacedSpan:
        """Place a span that begins or ends now."""
        key = (span.job, span.task, span.attempt)
        before = self._running.pop(key, None)
        lane = self._find_lane(span) if before is None else before.lane
        placed = PlacedSpan(span, lane)
        ends = self._ends[span.worker]
        if span.ended is None:
            self._running[key] = placed
            ends[lane] = float("inf")
        else:
            self._ended.append(placed)
            ends[lane] = float(span.ended)
        return placed

    def _find_lane(self, span: Span) -> int:
        """The first lane that is free when the span begins; if all are taken, the last."""
        ends = self._ends.setdefault(span.worker, [])
        for lane, end in enumerate(ends):
            if end <= float(span.began) + OVERLAP:
                return lane
        if len(ends) < MAX_LANES:
            ends.append(0.0)
        return len(ends) - 1

    def restart(self, workers: frozenset[str], running: frozenset[Key]) -> None:
        """A foreman sent everything anew. Attempts that run no more, and workers that are gone, are forgotten."""
        for key in self._running.keys() - running:
            placed = self._running.pop(key)
            self._ends[placed.span.worker][placed.lane] = 0.0
        self._ends = {worker: ends for worker, ends in self._ends.items() if worker in workers}
