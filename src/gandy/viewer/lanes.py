"""Places attempts and calls side by side: each gets a lane of its worker in which nothing else runs meanwhile. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from gandy.core.views import CallSpan, Span
from gandy.limits import MAX_LANES
from gandy.moments import Wall

KEPT_SPANS: Final = 20_000  # of all workers, the newest: several minutes of a busy crew
KEPT_CALLS: Final = 10_000  # the same
OVERLAP: Final = 0.005  # seconds by which clocks of workers and foreman may disagree about a slot that changes hands

Key = tuple[int, int, int]  # job, task and attempt
CallKey = tuple[int, str, int]  # shard, worker, and number there


class PlacedSpan(Struct, frozen=True):
    """A span, and the lane of its worker in which it is drawn."""

    span: Span
    lane: int


class PlacedCall(Struct, frozen=True):
    """The same for a call."""

    call: CallSpan
    lane: int


class _LanePlace(NamedTuple):
    """Where something runs, and which shard said so."""

    worker: str
    lane: int
    shard: int


class Lanes:
    """Lanes are given from the first one on, so that a worker shows as many as it has used at once."""

    def __init__(self) -> None:
        self._ends: dict[str, list[float]] = {}  # by worker: until when each lane is taken
        self._places: dict[Key | CallKey, _LanePlace] = {}  # of what runs
        self._running: dict[Key, PlacedSpan] = {}
        self._calls: dict[CallKey, PlacedCall] = {}  # that run
        self._ended: deque[PlacedSpan] = deque(maxlen=KEPT_SPANS)
        self._ended_calls: deque[PlacedCall] = deque(maxlen=KEPT_CALLS)

    def __iter__(self) -> Iterator[PlacedSpan]:
        yield from self._ended
        yield from self._running.values()

    def list_calls(self) -> Iterator[PlacedCall]:
        yield from self._ended_calls
        yield from self._calls.values()

    def place(self, span: Span, shard: int) -> PlacedSpan:
        """Place an attempt that begins or ends now."""
        key = (span.job, span.task, span.attempt)
        placed = PlacedSpan(span, self._place(key, span.worker, span.began, span.ended, shard))
        if span.ended is None:
            self._running[key] = placed
        else:
            self._running.pop(key, None)
            self._ended.append(placed)
        return placed

    def place_call(self, call: CallSpan, shard: int) -> PlacedCall:
        """Place a call that begins or ends now."""
        key = (shard, call.worker, call.number)
        placed = PlacedCall(call, self._place(key, call.worker, call.began, call.ended, shard))
        if call.ended is None:
            self._calls[key] = placed
        else:
            self._calls.pop(key, None)
            self._ended_calls.append(placed)
        return placed

    def _place(self, key: Key | CallKey, worker: str, began: Wall, ended: Wall | None, shard: int) -> int:
        before = self._take(key)
        is_same = before is not None and before.worker == worker
        lane = before.lane if before is not None and is_same else self._find_lane(worker, began)
        if ended is None:
            self._places[key] = _LanePlace(worker, lane, shard)
        self._set_end(worker, lane, float("inf") if ended is None else float(ended))
        return lane

    def _take(self, key: Key | CallKey) -> _LanePlace | None:
        """Where something ran under this key. Its lane is free now."""
        place = self._places.pop(key, None)
        if place is not None:
            self._set_end(place.worker, place.lane, 0.0)
        return place

    def _set_end(self, worker: str, lane: int, end: float) -> None:
        ends = self._ends.setdefault(worker, [])
        ends.extend([0.0] * (lane + 1 - len(ends)))  # its worker may have been away
        ends[lane] = end

    def _find_lane(self, worker: str, began: Wall) -> int:
        """The first lane that is free at this time; if all are taken, the last."""
        ends = self._ends.get(worker, [])
        for lane, end in enumerate(ends):
            if end <= float(began) + OVERLAP:
                return lane
        return min(len(ends), MAX_LANES - 1)

    def restart(self, shard: int, spans: Iterable[Span], calls: Iterable[CallSpan] = ()) -> None:
        """A shard sent everything anew. What does not run there any more is forgotten."""
        running: set[Key | CallKey] = {(span.job, span.task, span.attempt) for span in spans}
        running.update((shard, call.worker, call.number) for call in calls)
        for key in [key for key, its in self._places.items() if its.shard == shard and key not in running]:
            self._take(key)
        self._running = {key: placed for key, placed in self._running.items() if key in self._places}
        self._calls = {key: placed for key, placed in self._calls.items() if key in self._places}

    def drop_worker(self, worker: str) -> None:
        """It is gone. What ran there, and has not ended, keeps its lane."""
        self._ends.pop(worker, None)
