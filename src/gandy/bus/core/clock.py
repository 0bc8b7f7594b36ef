"""The shared clock of an ensemble: it never runs backwards, follows a leader, and has rules that choose the leader.

Callers pass the local time, which never decreases. The bounds on errors hold if callers read it before they send a
message and after they receive one. docs/design/clock.md has the reasons.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from math import inf, nextafter
from typing import Final, NamedTuple

from gandy.bus.limits import MAX_CLOCK_REQUESTS, MAX_SHARED_TIME
from gandy.errors import LocalProtocolError
from gandy.moments import LONG_AGO, NEVER, Monotonic, Shared

# Seconds per second, between our clock and the leader's: each of two crystals is off by at most 50 ppm.
DRIFT: Final = 100e-6
RESOLUTION: Final = 1e-6  # seconds; the original sends whole microseconds

SLEW: Final = 0.1  # by which the shared time runs faster or slower while it is corrected
LARGEST_SLEW: Final = 1.0  # seconds; by more the clock jumps forward, or stands still instead of going back
LONGEST_STILL: Final = 10.0  # seconds; a clock that would have to stand still for longer is set back

NEEDED_REPLIES: Final = 5  # as in the original
LAST_SERIAL: Final = 0x7FFF_FFFF  # it travels as an int32
START_PERIOD: Final = 0.5  # seconds; the longest pause between two requests until there are enough replies
FREE_RUN: Final = 1000.0  # seconds without a leader until the error is too large: 0.1 s, at DRIFT

Plan = tuple[tuple[float, float], ...]  # (seconds since the leader was found, period until then)

# The original ends with a request every 10 s, in which clocks drift apart by more than the error of a reply; in 1 s
# they do not. Leaders answer every request, so the shorter period works with all of them.
PLAN: Final[Plan] = ((0.5, 0.1), (5.0, 0.5), (inf, 1.0))


class Correction(Enum):
    """How a clock was corrected."""

    SET = "set"  # for the first time
    SLEW = "slew"
    JUMP = "jump"  # forward
    STILL = "still"  # it stands until it is right
    RESTART = "restart"  # back, by more than LONGEST_STILL: times agreed on before are no longer valid


class _Line(NamedTuple):
    """The shared time from a local time on: it runs at `rate` until `until`, and then at the rate of local time."""

    local: Monotonic
    shared: Shared
    rate: float = 1.0
    until: Monotonic = LONG_AGO

    def read(self, local: Monotonic) -> Shared:
        # A thread that read the local clock before the line began gets its first point.
        passed = max(local - self.local, 0.0)
        slewed = min(passed, max(self.until - self.local, 0.0))
        return self.shared + slewed * self.rate + (passed - slewed)


def compute_offset(shared: Shared, local: Monotonic) -> float:
    """Seconds from local to shared time."""
    return float(shared) - float(local)


def add_offset(local: Monotonic, offset: float) -> Shared:
    """The shared time at a local time, if it is ahead of local time by this many seconds."""
    return Shared(float(local) + offset)


class SharedClock:
    """The shared time for each local time. It never runs backwards, except by a RESTART."""

    def __init__(self) -> None:
        self._line: _Line | None = None  # replaced as a whole, so that other threads may read

    @property
    def is_set(self) -> bool:
        return self._line is not None

    def read(self, local: Monotonic) -> Shared:
        """The shared time. Raises: LocalProtocolError if the clock was never set."""
        return self._get_line().read(local)

    def offset_at(self, local: Monotonic) -> float:
        """The shared time minus the local one."""
        return compute_offset(self.read(local), local)

    def local_time_of(self, shared: Shared) -> Monotonic:
        """The first local time at which the clock shows this shared time, if it is not corrected before."""
        line = self._get_line()
        if shared <= line.shared:
            return line.local
        until = max(line.until, line.local)
        turn = line.read(until)
        local = until + (shared - turn)
        if shared < turn:  # the rate is not 0, or the turn would be no later than the beginning
            local = line.local + (shared - line.shared) / line.rate
        # Rounding must not make it too early: a timer would wake up, find nothing to do, and sleep for no time.
        while (missing := shared - line.read(local)) > 0:
            local = max(local + missing, Monotonic(nextafter(float(local), inf)))
        return local

    def set(self, shared: Shared, local: Monotonic) -> None:
        """Set the clock, whether or not it was set before."""
        self._line = _Line(local, shared)

    def lead(self, local: Monotonic, beginning: Shared) -> None:
        """We lead now, so the clock is right by definition, and runs at the rate of local time.

        `beginning`: the shared time now, if the clock was never set.
        """
        self.set(self.read(local) if self.is_set else beginning, local)

    def steer(self, offset: float, local: Monotonic) -> Correction:
        """Bring the clock to an offset from local time; it never runs backwards, except by a RESTART."""
        here = self.read(local)
        wanted = add_offset(local, offset)
        advance = wanted - here
        if advance > LARGEST_SLEW or advance < -LONGEST_STILL:
            self.set(wanted, local)
            return Correction.JUMP if advance > 0 else Correction.RESTART
        if advance < -LARGEST_SLEW:
            self._line = _Line(local, here, 0.0, local - advance)
            return Correction.STILL
        rate = 1.0 + SLEW if advance > 0 else 1.0 - SLEW
        self._line = _Line(local, here, rate, local + abs(advance) / SLEW)
        return Correction.SLEW

    def _get_line(self) -> _Line:
        if self._line is None:
            raise LocalProtocolError("the shared clock is not set: no leader has answered yet")
        return self._line


class Bracket(NamedTuple):
    """Bounds: at the local time `at`, the leader's time minus ours lies between `low` and `high`."""

    low: float
    high: float
    at: Monotonic

    def age(self, now: Monotonic, drift: float) -> "Bracket":
        """The same at a later time: wider, because clocks drift."""
        spread = drift * (now - self.at)
        return Bracket(self.low - spread, self.high + spread, now)

    def meet(self, other: "Bracket") -> "Bracket | None":
        """The overlap of two brackets at the same time; None if they contradict each other."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Bracket(low, high, self.at) if low <= high else None

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def max_distance(self, offset: float) -> float:
        """The largest possible error of this offset."""
        return max(self.high - offset, offset - self.low)


class ClockFollower:
    """Asks a leader for its time, and steers a clock to it.

    Each reply bounds the offset, however the round trip divides into request and reply. The overlap of all bounds, each
    widened by the drift since, is narrower than the best single one.
    """

    def __init__(
        self, clock: SharedClock, plan: Plan = PLAN, drift: float = DRIFT, needed_replies: int = NEEDED_REPLIES
    ) -> None:
        self.strays = 0  # replies to no request of ours, and impossible times
        self.contradictions = 0  # replies that no earlier one allows: the leader's clock was set, or drifts too much
        self._clock = clock
        self._plan = plan
        self._drift = drift
        self._needed = needed_replies
        self._serial = 0
        self._sent: dict[int, Monotonic] = {}  # when each request was sent, by serial number
        self._found_at = NEVER
        self._ping_at = NEVER
        self._replies = 0  # of this leader
        self._trips: deque[float] = deque(maxlen=NEEDED_REPLIES)
        self._measured: Bracket | None = None  # by the replies of this leader
        self._trusted: Bracket | None = None  # in use: an older leader's, until this one has replied often enough
        self._good_until = LONG_AGO

    @property
    def round_trip(self) -> float | None:
        """The shortest of the last five."""
        return min(self._trips, default=None)

    def on_leader_found(self, now: Monotonic) -> None:
        """There is a new leader. Until it has replied often enough, the clock goes on as before."""
        self._forget(now)
        if self._clock.is_set and self._trusted is None:  # we led, so our clock was right by definition
            offset = self._clock.offset_at(now)
            self._trust(Bracket(offset, offset, now), now)

    def on_leader_lost(self, now: Monotonic) -> None:
        """The clock runs by itself now, and counts as synchronised for FREE_RUN seconds after the last reply."""
        self._forget(now)
        self._ping_at = NEVER

    def next_deadline(self) -> Monotonic:
        return self._ping_at

    def on_time(self, now: Monotonic) -> list[int]:
        """Serial numbers of requests to send at once."""
        if now < self._ping_at:
            return []
        self._ping_at = now + self._choose_period(now)
        self._serial = self._serial % LAST_SERIAL + 1
        self._sent[self._serial] = now
        if len(self._sent) > MAX_CLOCK_REQUESTS:
            del self._sent[next(iter(self._sent))]
        return [self._serial]

    def on_reply(self, serial: int, time: Shared, now: Monotonic) -> Correction | None:
        """How the clock was corrected. None: the reply does not count, or more are needed.

        After SET we are synchronised, and must announce that to the other processes.
        """
        sent = self._sent.pop(serial, NEVER)
        if now < sent or not 0 <= float(time) <= MAX_SHARED_TIME:
            self.strays += 1
            return None
        self._trips.append(now - sent)
        # At some moment between `sent` and `now`, the leader's clock showed `time`.
        low, high = compute_offset(time, now) - RESOLUTION, compute_offset(time, sent) + RESOLUTION
        self._measured = self._combine(Bracket(low, high, sent).age(now, self._drift))
        self._replies += 1
        if self._replies < self._needed:
            return None
        self._trust(self._measured, now)
        return self._steer(self._measured.middle, now)

    def is_synchronised(self, now: Monotonic) -> bool:
        return now <= self._good_until

    def max_error(self, now: Monotonic) -> float:
        """The largest possible error of the clock, with what is still to be slewed. `inf`: it is not known.

        It covers the leader whose time we use, and a new one from its first reply on.
        """
        if self._trusted is None:
            return inf
        offset = self._clock.offset_at(now)
        known = (self._trusted, self._measured or self._trusted)
        return max(bracket.age(now, self._drift).max_distance(offset) for bracket in known)

    def estimate_error(self, now: Monotonic) -> float:
        """How far the clock probably is from the leader's: from the middle of the bounds. `inf`: it is not known."""
        bracket = self._measured or self._trusted
        return inf if bracket is None or not self._clock.is_set else abs(bracket.middle - self._clock.offset_at(now))

    def _forget(self, now: Monotonic) -> None:
        """Drop the replies of the last leader. Serial numbers go on, so late replies count as strays."""
        self._sent.clear()
        self._trips.clear()
        self._measured = None
        self._replies = 0
        self._found_at = self._ping_at = now

    def _choose_period(self, now: Monotonic) -> float:
        age = now - self._found_at
        period = next((period for until, period in self._plan if age < until), self._plan[-1][1])
        return period if self._replies >= self._needed else min(period, START_PERIOD)

    def _combine(self, newest: Bracket) -> Bracket:
        # Widening the overlap is the same as widening each bracket, so the brackets need not be kept.
        if self._measured is None:
            return newest
        both = self._measured.age(newest.at, self._drift).meet(newest)
        if both is None:
            self.contradictions += 1
        return both or newest

    def _trust(self, bracket: Bracket, now: Monotonic) -> None:
        self._trusted = bracket
        self._good_until = now + FREE_RUN

    def _steer(self, offset: float, now: Monotonic) -> Correction:
        if self._clock.is_set:
            return self._clock.steer(offset, now)
        self._clock.set(add_offset(now, offset), now)
        return Correction.SET


# The choice of a leader

PATIENCE: Final = 2.0  # seconds; by then discovery has tried each port once, and a lost leader may be back
TURN: Final = 0.1  # seconds; processes offer the clock one after the other, the greatest name first
LAST_TURN: Final = 20  # more would take too long; if two offer at once, the law below chooses one of them


class Lead(Enum):
    """The part that a member has in the shared clock."""

    STANDING_BY = "standing by"  # there is no leader
    FOLLOWING = "following"
    LEADING = "leading"


class LeadEvent(Enum):
    """What a member learns about the leader."""

    FOUND = "found"  # another process offers the clock, for the first time
    CHANGED = "changed"  # another process is the greatest of those that offer
    LOST = "lost"  # no other process offers it any more
    PATIENCE = "patience"  # no process offered it for long enough
    RIVAL = "rival"  # another process offers it too, and has a lesser name
    BEATEN = "beaten"  # another process offers it too, and has a greater name


class LeadAct(Enum):
    """What a member does then, in order."""

    OFFER = "offer"  # the service `_cs`; our clock is right by definition
    ANNOUNCE = "announce"  # `_cs` again: for programs of 2016 the last announcement counts
    WITHDRAW = "withdraw"  # `_cs`; the clock goes on
    FOLLOW = "follow"  # `leader`, as ClockFollower: on_leader_found
    WAIT = "wait"  # on_leader_lost


_L, _E, _A = Lead, LeadEvent, LeadAct

LEAD_LAW: Final[Mapping[tuple[Lead, LeadEvent], tuple[Lead, tuple[LeadAct, ...]]]] = {
    (_L.STANDING_BY, _E.FOUND): (_L.FOLLOWING, (_A.FOLLOW,)),
    (_L.STANDING_BY, _E.PATIENCE): (_L.LEADING, (_A.OFFER,)),
    (_L.FOLLOWING, _E.CHANGED): (_L.FOLLOWING, (_A.FOLLOW,)),
    (_L.FOLLOWING, _E.LOST): (_L.STANDING_BY, (_A.WAIT,)),
    (_L.LEADING, _E.RIVAL): (_L.LEADING, (_A.ANNOUNCE,)),
    (_L.LEADING, _E.BEATEN): (_L.FOLLOWING, (_A.WITHDRAW, _A.FOLLOW)),
}


def choose_leader(candidates: Iterable[str]) -> str:
    """The greatest name of the processes that offer `_cs`, as for any service. Raises: ValueError: there is none."""
    return max(candidates)  # code points and bytes of UTF-8 have the same order: this is strcmp


class LeaderChoice:
    """Decides which process a member follows, or that it leads, which only a member with `clock="lead"` may."""

    def __init__(self, name: str, may_lead: bool, now: Monotonic, patience: float = PATIENCE) -> None:
        self.state = Lead.STANDING_BY
        self.leader: str | None = None  # perhaps ourselves
        self._name = name
        self._may_lead = may_lead
        self._patience = patience
        self._rivals: frozenset[str] = frozenset()
        self._offer_at = self._compute_turn(now, 0)

    def next_deadline(self) -> Monotonic:
        return self._offer_at

    def on_time(self, now: Monotonic) -> tuple[LeadAct, ...]:
        return self._move(LeadEvent.PATIENCE, self._name) if now >= self._offer_at else ()

    def on_offers(self, others: Iterable[str], now: Monotonic, greater_names: int = 0) -> tuple[LeadAct, ...]:
        """All other processes that offer `_cs` now, after any of them came or went.

        `greater_names`: how many known processes have a greater name than ours. They may offer before us.
        """
        offers = frozenset(others)
        before, self._rivals = self._rivals, offers
        first = choose_leader(offers) if offers else None
        if self.state is Lead.LEADING:
            return self._on_rivals(first, offers - before)
        if first == self.leader:
            return ()
        if first is None:
            self._offer_at = self._compute_turn(now, greater_names)
            return self._move(LeadEvent.LOST, None)
        return self._move(LeadEvent.FOUND if self.leader is None else LeadEvent.CHANGED, first)

    def _on_rivals(self, first: str | None, newcomers: frozenset[str]) -> tuple[LeadAct, ...]:
        if first is None or not newcomers:
            return ()
        if first > self._name:
            return self._move(LeadEvent.BEATEN, first)
        return self._move(LeadEvent.RIVAL, self._name)

    def _compute_turn(self, now: Monotonic, greater_names: int) -> Monotonic:
        return now + self._patience + TURN * min(greater_names, LAST_TURN) if self._may_lead else NEVER

    def _move(self, event: LeadEvent, leader: str | None) -> tuple[LeadAct, ...]:
        self.state, acts = LEAD_LAW[self.state, event]
        self.leader = leader
        if self.state is not Lead.STANDING_BY:
            self._offer_at = NEVER
        return acts
