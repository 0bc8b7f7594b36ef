"""Follows calls while viewers look: counts those that end, times a sample of them, and shows those that take a while.

At half a million calls a second, nothing may be done for each. Calls that run are found by looking from time to time.
The numbers are in `core.calls.OfferedCommand`, and go with it.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from gandy.core.calls import Call, Peer
from gandy.core.rows import CHARACTER_BYTES, take_page
from gandy.core.views import CallSpan, find_bucket
from gandy.limits import MAX_BUCKETS, MAX_CALL_SPANS, MAX_GLANCES, MAX_PAGE
from gandy.moments import Monotonic, Wall

EACH: Final = 16  # of many calls that come at once, one in so many is timed: that takes longer than to pass one on
LONG_SECONDS: Final = 0.1  # after which viewers are told that a call runs
BRIEF_SECONDS: Final = 0.01  # a call that took less is not shown: it is a tenth of a pixel in a minute of the page
SPAN_BYTES: Final = 60  # of a call in an update, besides its texts


class CallMeter:
    """One while viewers look. `take` gives what has happened since the last `take`."""

    def __init__(self) -> None:
        self._begun: dict[Call, None] = {}  # viewers have not been told that these run
        self._told: dict[Call, CallSpan] = {}  # viewers have been told that these run
        self._ended: list[tuple[CallSpan, Monotonic, bool]] = []  # of those; when, and whether they failed
        self._lost: list[CallSpan] = []  # of those, too
        self._short: list[tuple[Call, str, Monotonic, bool]] = []  # that ended too, as many as fit; with their workers

    # What happens

    def note_end(self, call: Call, now: Monotonic, *, has_failed: bool = False) -> None:
        """A worker has ended a call."""
        call.command.ended += 1
        call.command.failed += has_failed
        if call.sent:
            self.note_time(call, now, has_failed=has_failed)

    def note_time(self, call: Call, now: Monotonic, *, has_failed: bool = False) -> None:
        """The same, for a call that has been counted. It is known when it was sent."""
        if call.began:
            _count_time(call, now)
        if self._begun:
            self._begun.pop(call, None)
        if self._told and (span := self._told.pop(call, None)) is not None:
            self._ended.append((span, now, has_failed))
        elif float(now) - call.sent >= BRIEF_SECONDS and len(self._short) < MAX_CALL_SPANS:
            assert call.peer is not None, "it ran there"
            self._short.append((call, call.peer.id, now, has_failed))

    def note_lost(self, call: Call) -> None:
        """A call ended without its worker, or before it had one."""
        call.command.ended += 1
        call.command.failed += 1
        self._begun.pop(call, None)
        if (span := self._told.pop(call, None)) is not None:
            self._lost.append(span)

    def look(self, workers: Iterable[Peer], now: Monotonic) -> None:
        """Find the calls that have run for a while."""
        moment = float(now)
        for worker in workers:
            for call in worker.serves.values():
                if not call.sent:
                    call.sent = moment  # it was one of many that came together; now it is worth a note
                elif moment - call.sent >= LONG_SECONDS and call not in self._told:
                    self._begun[call] = None

    # What viewers get

    def list_running(self) -> tuple[CallSpan, ...]:
        """The calls that viewers have been told of and that still run, as many as fit an update."""
        return tuple(take_page(self._told.values(), MAX_PAGE, _weigh))

    def take(self, now: Monotonic, wall_ahead: float) -> tuple[CallSpan, ...]:
        """The calls that ended, and those that run and are new, as many as fit an update."""
        spans = [_end(span, at, wall_ahead, has_failed) for span, at, has_failed in self._ended[:MAX_GLANCES]]
        spans += [_end(span, now, wall_ahead, has_failed=True) for span in self._lost[:MAX_GLANCES]]
        self._ended, self._lost = self._ended[MAX_GLANCES:], self._lost[MAX_GLANCES:]
        spans += [
            _end(_describe(call, worker, wall_ahead), at, wall_ahead, has_failed)
            for call, worker, at, has_failed in self._short
        ]
        self._short = []
        begun, self._begun = self._begun, {}  # the next look finds those for which there is no room
        for call in list(begun)[:MAX_CALL_SPANS]:
            assert call.peer is not None, "it runs there"
            span = self._told[call] = _describe(call, call.peer.id, wall_ahead)
            spans.append(span)
        return tuple(spans)


def _count_time(call: Call, now: Monotonic) -> None:
    command = call.command
    if command.buckets is None:
        command.buckets = [0] * MAX_BUCKETS
    command.buckets[find_bucket(int((float(now) - call.began) * 1e6))] += 1


def _describe(call: Call, worker: str, wall_ahead: float) -> CallSpan:
    name = call.command.name.decode(errors="replace")
    return CallSpan(worker, call.id, name, Wall(call.sent + wall_ahead))


def _end(span: CallSpan, at: Monotonic, wall_ahead: float, has_failed: bool) -> CallSpan:
    return replace(span, ended=Wall(float(at) + wall_ahead), has_failed=has_failed)


def _weigh(span: CallSpan) -> int:
    return SPAN_BYTES + CHARACTER_BYTES * (len(span.worker) + len(span.command))
