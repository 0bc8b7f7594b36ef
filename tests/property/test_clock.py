"""Leaders and followers on paper: whatever the network and the crystals do, the bound holds and time goes on.

`python -m tests.property.test_clock` prints the figures of docs/design/clock.md.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import cos, inf, isfinite, sin
from random import Random
from statistics import median, quantiles
from typing import Protocol

from hypothesis import example, given
from hypothesis import strategies as st

from gandy.bus.core.clock import (
    DRIFT,
    LARGEST_SLEW,
    LEAD_LAW,
    LONGEST_STILL,
    PLAN,
    ClockFollower,
    Correction,
    Lead,
    LeadAct,
    LeaderChoice,
    LeadEvent,
    Plan,
    SharedClock,
)

Delay = Callable[[Random], float]
PLAN_10: Plan = ((0.5, 0.1), (5.0, 0.5), (inf, 10.0))  # of the original since 2017
ROUNDING = 1e-9  # of doubles, in what the test itself computes


@dataclass(frozen=True)
class Network:
    """How long a request and a reply take, and how many of each are lost."""

    forth: Delay
    back: Delay
    loss: float = 0.0


@dataclass(frozen=True)
class Crystal:
    """A leader's time at each of ours. The rates differ by no more than `skew` and `wander` together."""

    offset: float
    skew: float = 0.0
    wander: float = 0.0
    speed: float = 0.05  # of the wander; radians in a second

    def read(self, local: float) -> float:
        return local + self.offset + self.skew * local + self.wander * sin(self.speed * local) / self.speed

    def rate(self, local: float) -> float:
        return self.skew + self.wander * cos(self.speed * local)


class Asks(Protocol):
    """A process that asks a leader for the time."""

    def next_deadline(self) -> float: ...
    def on_time(self, now: float) -> list[int]: ...
    def on_reply(self, serial: int, time: float, now: float) -> Correction | None: ...


class LeastOfFive:
    """What the original does: of the last five replies, the one with the least round trip."""

    def __init__(self, clock: SharedClock, plan: Plan) -> None:
        self._clock = clock
        self._pings = ClockFollower(SharedClock(), plan)
        self._pings.on_leader_found(0.0)
        self._latest = (0, 0.0)
        self._samples: deque[tuple[float, float]] = deque(maxlen=5)

    def next_deadline(self) -> float:
        return self._pings.next_deadline()

    def on_time(self, now: float) -> list[int]:
        serials = self._pings.on_time(now)
        for serial in serials:
            self._latest = serial, now
        return serials

    def on_reply(self, serial: int, time: float, now: float) -> Correction | None:
        self._pings.on_reply(serial, time, now)  # for its plan alone
        if serial != self._latest[0]:
            return None
        trip = now - self._latest[1]
        self._samples.append((trip, time + trip / 2 - now))
        if len(self._samples) < 5:
            return None
        offset = min(self._samples)[1]
        if self._clock.is_set:
            return self._clock.steer(offset, now)
        self._clock.set(now + offset, now)
        return Correction.SET


@dataclass
class World:
    """A process that asks, a leader, and what travels between them."""

    asks: Asks
    network: Network
    chance: Random
    leader: Crystal = field(default_factory=lambda: Crystal(0.0))
    now: float = 0.0
    steps: list[Correction] = field(default_factory=list)
    counted: int = 0  # replies that arrived since the leader changed
    _replies: list[tuple[float, int, float]] = field(default_factory=list)

    def run(self, until: float, pause: float) -> Iterator[float]:
        """Times at which to look: after everything that happens, and now and then between."""
        while True:
            due = min(self.asks.next_deadline(), self._replies[0][0] if self._replies else inf)
            look = self.now + self.chance.uniform(0, pause)
            self.now = max(self.now, min(due, look, until))
            if self.now == due:
                self._happen()
            yield self.now
            if self.now >= until:
                return

    def _happen(self) -> None:
        while self._replies and self._replies[0][0] <= self.now:
            _, serial, time = heappop(self._replies)
            self.counted += 1
            step = self.asks.on_reply(serial, time, self.now)
            if step:
                self.steps.append(step)
        for serial in self.asks.on_time(self.now):
            self._travel(serial)

    def _travel(self, serial: int) -> None:
        if self.chance.random() < self.network.loss:
            return
        read_at = self.now + self.network.forth(self.chance)
        arrives = read_at + self.network.back(self.chance)
        if self.chance.random() >= self.network.loss:
            heappush(self._replies, (arrives, serial, self.leader.read(read_at)))

    def change(self, leader: Crystal) -> None:
        """What is under way of the old one is still under way."""
        self.leader = leader
        self.counted = 0
        self._replies = [(at, serial, time) for at, serial, time in self._replies if self.chance.random() < 0.5]
        self._replies.sort()


def spread(least: float, jitter: float, tails: float) -> Delay:
    """At least so long, a bit more, and seldom much more."""

    def draw(chance: Random) -> float:
        much = chance.paretovariate(1.2) * jitter * 3 if chance.random() < tails else 0.0
        return least + chance.random() * jitter + min(much, 2.0)

    return draw


seconds = st.floats(0, 0.05)
networks = st.builds(
    lambda forth, back, loss: Network(spread(*forth), spread(*back), loss),
    st.tuples(seconds, seconds, st.floats(0, 0.3)),
    st.tuples(seconds, seconds, st.floats(0, 0.3)),
    st.floats(0, 0.3),
)
shares = st.floats(-0.5, 0.5)
plans = st.sampled_from([PLAN, ((3.0, 0.5), (inf, 10.0)), PLAN_10])


def make_crystal(offset: float, skew: float, wander: float) -> Crystal:
    """Within the allowance, but for rounding."""
    return Crystal(offset, skew * DRIFT * 0.999, wander * DRIFT * 0.999)


crystals = st.builds(make_crystal, st.floats(0, 1e6), shares, shares)


class Watch:
    """Looks at a follower's clock again and again."""

    def __init__(self, clock: SharedClock, follower: ClockFollower) -> None:
        self._clock = clock
        self._follower = follower
        self._last = -inf
        self._restarts = 0

    def look(self, world: World, *leaders: Crystal) -> None:
        if not self._clock.is_set:
            assert self._follower.max_error(world.now) == inf
            return
        shared = self._clock.read(world.now)
        restarts = world.steps.count(Correction.RESTART)
        assert shared >= self._last or restarts > self._restarts
        self._last, self._restarts = shared, restarts
        bound = self._follower.max_error(world.now)
        for leader in leaders:
            assert abs(shared - leader.read(world.now)) <= bound + ROUNDING


@given(networks, crystals, plans, st.integers(0, 2**32))
def test_the_bound_is_never_smaller_than_the_error_and_time_never_runs_backwards(
    network: Network, crystal: Crystal, plan: Plan, seed: int
) -> None:
    clock = SharedClock()
    follower = ClockFollower(clock, plan)
    follower.on_leader_found(0.0)
    world, watch = World(follower, network, Random(seed), crystal), Watch(clock, follower)
    for _ in world.run(60.0, 0.5):
        watch.look(world, crystal)
    assert clock.is_set
    assert follower.contradictions == 0


@given(
    networks,
    crystals,
    st.lists(
        st.tuples(st.floats(-2 * LONGEST_STILL, 2 * LONGEST_STILL), shares, shares, st.floats(0, 5)),
        min_size=1,
        max_size=3,
    ),
    plans,
    st.integers(0, 2**32),
)
def test_the_bound_holds_also_while_leaders_change(
    network: Network, crystal: Crystal, changes: list[tuple[float, float, float, float]], plan: Plan, seed: int
) -> None:
    clock = SharedClock()
    follower = ClockFollower(clock, plan)
    follower.on_leader_found(0.0)
    crystal = Crystal(crystal.offset + 1000, crystal.skew, crystal.wander)  # no time is negative
    world, watch = World(follower, network, Random(seed), crystal), Watch(clock, follower)
    for _ in world.run(20.0, 0.2):
        watch.look(world, crystal)
    for ahead, skew, wander, absence in changes:
        old = world.leader
        follower.on_leader_lost(world.now)
        for _ in world.run(world.now + absence, 0.2):
            watch.look(world, old)
        world.change(make_crystal(old.read(world.now) - world.now + ahead, skew, wander))
        follower.on_leader_found(world.now)
        strays, steps = follower.strays, len(world.steps)
        for _ in world.run(world.now + 20.0, 0.2):
            is_trusted = len(world.steps) > steps
            is_heard = world.counted > follower.strays - strays
            watch.look(world, *([] if is_trusted else [old]), *([world.leader] if is_heard else []))


@given(networks, crystals, st.floats(-LONGEST_STILL, LONGEST_STILL), st.integers(0, 2**32))
@example(Network(spread(0, 0, 0), spread(0, 0, 0)), Crystal(0.0), -LARGEST_SLEW, 0)
def test_it_converges_wherever_it_was(network: Network, crystal: Crystal, wrong: float, seed: int) -> None:
    clock = SharedClock()
    clock.set(crystal.read(0.0) + wrong, 0.0)
    follower = ClockFollower(clock)
    follower.on_leader_found(0.0)
    world = World(follower, network, Random(seed), crystal)
    widest = 0.0  # what was known at least at any time since it could be right
    for now in world.run(60.0, 1.0):
        if now > 20:
            widest = max(widest, follower.round_trip or inf)
        if now > 30:  # 10 s of standing or slewing at most, and then by what is found out
            bound = follower.max_error(now)
            assert abs(clock.read(now) - crystal.read(now)) <= bound <= widest + 40 * DRIFT
    assert follower.is_synchronised(60.0)


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(-30, 30)), max_size=10), st.floats(0, 1e7), st.floats(0, 1e9))
def test_a_clock_goes_on_and_tells_when_a_time_will_come(
    steering: list[tuple[float, float]], local: float, shared: float
) -> None:
    clock = SharedClock()
    clock.set(shared, local)
    last = shared
    for passes, advance in steering:
        local += passes
        here = clock.read(local)
        assert here >= last
        step = clock.steer(here + advance - local, local)
        last = clock.read(local)
        assert last >= here or step is Correction.RESTART
        for ahead in (-5.0, 0.0, 1e-6, 0.3, 7.0, 40.0):
            when = clock.local_time_of(last + ahead)
            assert clock.read(when) >= last + ahead
            if when > local + 1e-4:
                assert clock.read(when - 1e-4) <= last + ahead + 1e-6


@given(st.permutations(["10.0.0.1:9", "10.0.0.2:5", "10.0.0.10:7", "9.0.0.1:1"]), st.integers(0, 2**32))
def test_in_the_end_one_leads_and_all_others_follow_it(names: list[str], seed: int) -> None:
    """Whatever order news travel in. Each member hears what others offer after a while of its own."""
    chance = Random(seed)
    members = {name: LeaderChoice(name, may_lead=index < 3, now=0.0) for index, name in enumerate(names)}
    offers: set[str] = set()
    heard: dict[str, set[str]] = {name: set() for name in names}
    news: list[tuple[float, int, str, str, bool]] = []

    def spread_news(now: float, name: str, acts: tuple[LeadAct, ...]) -> None:
        for act in acts:
            if act in (LeadAct.OFFER, LeadAct.WITHDRAW):
                (offers.add if act is LeadAct.OFFER else offers.discard)(name)
                for other in names:
                    if other != name:
                        delay = now + chance.uniform(0, 0.5)
                        news.append((delay, len(news), other, name, act is LeadAct.OFFER))

    now = 0.0
    while now < 20:
        now += 0.05
        for entry in sorted(news):
            at, _, to, about, is_offered = entry
            # A link keeps the order of what one process says to another.
            if at <= now and not any(n[2:4] == entry[2:4] and n[1] < entry[1] for n in news):
                news.remove(entry)
                (heard[to].add if is_offered else heard[to].discard)(about)
                spread_news(now, to, members[to].on_offers(heard[to], now, sum(name > to for name in names)))
        for name, member in members.items():
            if member.next_deadline() <= now:
                spread_news(now, name, member.on_time(now))
    assert len(offers) == 1
    assert {member.leader for member in members.values()} == offers
    assert [member.state for member in members.values()].count(Lead.LEADING) == 1


def test_every_entry_of_the_law_is_used_and_no_other() -> None:
    used = set()

    class Recorded(LeaderChoice):
        def _move(self, event: LeadEvent, leader: str | None) -> tuple[LeadAct, ...]:
            used.add((self.state, event))
            return super()._move(event, leader)

    chance = Random(1)
    for seed in range(200):
        choice = Recorded("m", seed % 2 == 0, 0.0)
        for step in range(20):
            choice.on_time(step)
            choice.on_offers(chance.sample("alxz", chance.randrange(3)), step)
    assert used == set(LEAD_LAW)


# The figures


def uniform_us(least: float, most: float) -> Delay:
    return lambda chance: chance.uniform(least, most) / 1e6


def draw_wifi(chance: Random) -> float:
    """A millisecond, a few more by others on the air, and one in twenty is sent again and again."""
    return (
        0.001
        + chance.expovariate(1 / 0.002)
        + (min(chance.paretovariate(1.2) * 0.01, 0.5) if chance.random() < 0.05 else 0)
    )


NETWORKS = {
    "loopback": (Network(uniform_us(15, 40), uniform_us(15, 40)), 0.0),
    "5 ms ± 2 ms both ways, 1 % loss": (Network(uniform_us(3000, 7000), uniform_us(3000, 7000), 0.01), 0.0),
    "5 ms ± 2 ms one way, 1 % loss": (Network(uniform_us(3000, 7000), uniform_us(15, 40), 0.01), 0.0),
    "wire, 20 ppm": (Network(uniform_us(80, 200), uniform_us(80, 200)), 20e-6),
    "Wi-Fi with tails, 2 % loss, 20 ppm": (Network(draw_wifi, draw_wifi, 0.02), 20e-6),
    "20 ms forth, 5 ms back, ± 2 ms, 20 ppm": (Network(uniform_us(18000, 22000), uniform_us(3000, 7000)), 20e-6),
}


def measure(
    is_ours: bool, plan: Plan, network: Network, skew: float, runs: int = 20
) -> tuple[list[float], list[float]]:
    """Errors and bounds in ms, from synchronisation on, for ten minutes each."""
    errors, bounds = [], []
    for seed in range(runs):
        clock, crystal = SharedClock(), Crystal(100.0, skew)
        follower = ClockFollower(clock, plan)
        follower.on_leader_found(0.0)
        world = World(follower if is_ours else LeastOfFive(clock, plan), network, Random(seed), crystal)
        for now in world.run(600.0, 0.2):
            if clock.is_set:
                errors.append(abs(clock.read(now) - crystal.read(now)) * 1e3)
                bounds.append(follower.max_error(now) * 1e3)
    assert not is_ours or all(error <= bound for error, bound in zip(errors, bounds, strict=True))
    return errors, bounds


def test_errors_are_as_small_as_the_ensemble_needs_them() -> None:
    errors, _ = measure(True, PLAN, *NETWORKS["loopback"], runs=2)
    assert median(errors) < 0.2
    for name in ("5 ms ± 2 ms both ways, 1 % loss", "5 ms ± 2 ms one way, 1 % loss"):
        errors, _ = measure(True, PLAN, *NETWORKS[name], runs=2)
        assert max(errors) < 3.0


def describe(values: list[float]) -> str:
    return " / ".join(f"{value:.3f}" for value in (median(values), quantiles(values, n=100)[98], max(values)))


def main() -> None:
    for title, plan in (("every 10 s", PLAN_10), ("every second", PLAN)):
        print(f"| {title} | least of five | brackets | bound |\n|---|---|---|---|")
        for name, (network, skew) in NETWORKS.items():
            theirs, _ = measure(False, plan, network, skew)
            ours, bounds = measure(True, plan, network, skew)
            assert isfinite(max(bounds))
            print(f"| {name} | {describe(theirs)} | {describe(ours)} | {describe(bounds)} |", flush=True)


if __name__ == "__main__":
    main()
