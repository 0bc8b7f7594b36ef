"""Places attempts side by side: each span of a worker gets a lane in which nothing else runs meanwhile. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from gandy.core.views import Span
from gandy.limits import MAX_LANES

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
        self._shards: dict[Key, int] = {}  # of these
        self._ended: deque[PlacedSpan] = deque(maxlen=KEPT_SPANS)

    def __iter__(self) -> Iterator[PlacedSpan]:
        yield from self._ended
        yield from self._running.values()

    def place(self, span: Span, shard: int) -> PlacedSpan:
        """Place a span that begins or ends now."""
        key = _get_key(span)
        before = self._take(key)
        is_same = before is not None and before.span.worker == span.worker
        placed = PlacedSpan(span, before.lane if before is not None and is_same else self._find_lane(span))
        if span.ended is None:
            self._running[key], self._shards[key] = placed, shard
        else:
            self._ended.append(placed)
        self._set_end(placed, float("inf") if span.ended is None else float(span.ended))
        return placed

    def _take(self, key: Key) -> PlacedSpan | None:
        """What ran under this key, whose lane is free now."""
        placed = self._running.pop(key, None)
        if placed is not None:
            del self._shards[key]
            self._set_end(placed, 0.0)
        return placed

    def _set_end(self, placed: PlacedSpan, end: float) -> None:
        ends = self._ends.setdefault(placed.span.worker, [])
        ends.extend([0.0] * (placed.lane + 1 - len(ends)))  # its worker may have been away
        ends[placed.lane] = end

    def _find_lane(self, span: Span) -> int:
        """The first lane that is free when the span begins; if all are taken, the last."""
        ends = self._ends.get(span.worker, [])
        for lane, end in enumerate(ends):
            if end <= float(span.began) + OVERLAP:
                return lane
        return min(len(ends), MAX_LANES - 1)

    def restart(self, shard: int, spans: Iterable[Span]) -> None:
        """A shard sent everything anew. Its attempts that do not run any more are forgotten."""
        running = {_get_key(span) for span in spans}
        for key in [key for key, its in self._shards.items() if its == shard and key not in running]:
            self._take(key)

    def drop_worker(self, worker: str) -> None:
        """It is gone. What ran there, and has not ended, keeps its lane."""
        self._ends.pop(worker, None)


def _get_key(span: Span) -> Key:
    return span.job, span.task, span.attempt
