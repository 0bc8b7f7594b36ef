"""Whole ensembles on simulated time: all find one another, agree on the time, and heal."""

import os
from collections.abc import Callable
from math import inf
from statistics import median

import pytest
from tests.ensembles import EVERY_DIALECT
from tests.sim.ensemble import EnsembleSim, SimMember
from tests.sim.ensemble_network import Host, NetworkFaults

from gandy.bus.core.effects import ClockFound
from gandy.bus.core.processes import Status
from gandy.bus.wire.dialects import DialectName

# `make soak` runs many more: one seed here costs as much as a hundred in other tests.
SEEDS = max(2, int(os.environ.get("GANDY_SIM_SEEDS", "200")) // 100)

LARGE = 10 if SEEDS > 2 else 2  # hosts

BAD_NETWORK = NetworkFaults(min_delay=0.003, max_delay=0.007, loss=0.01, twice=0.01)


def gather(
    seed: int, dialect: DialectName, hosts: int, each: int, faults: NetworkFaults | None = None, leaders: int = 1
) -> EnsembleSim:
    """So many processes on each host, all started within a second. The first ones may lead."""
    ensemble = EnsembleSim(seed, dialect, faults)
    for number in range(hosts * each):
        host = ensemble.network.hosts[number % hosts] if number >= hosts else ensemble.network.add_host()
        may_lead = number < leaders

        def start(host: Host = host, may_lead: bool = may_lead) -> None:
            ensemble.add_member(host, may_lead=may_lead)

        ensemble.sim.call_later(ensemble.sim.random.random(), start)
    ensemble.run(1.0)
    return ensemble


def wait(ensemble: EnsembleSim, condition: Callable[[], bool], seconds: float, watch: Callable[[], None]) -> float:
    """How long it took."""
    start = ensemble.now
    while not condition():
        assert ensemble.now - start < seconds, f"not within {seconds} s"
        ensemble.run(0.1, watch)
    return ensemble.now - start


class ClockWatch:
    """Time never runs backwards, and is never more wrong than its bound."""

    def __init__(self, ensemble: EnsembleSim) -> None:
        self.ensemble = ensemble
        self.errors: list[float] = []
        self.bounds: list[float] = []
        self._last: dict[str, float] = {}
        self._truth: dict[str, SimMember] = {}  # whose time a member goes by

    def __call__(self) -> None:
        for member in self.ensemble.members:
            time, now = member.member.time, member.now
            if not time.clock.is_set:
                continue
            shared = member.shared
            assert shared >= self._last.get(member.member.name, -inf)
            self._last[member.member.name] = shared
            self._check(member, time.max_error(now))

    def _check(self, member: SimMember, bound: float) -> None:
        name, time = member.member.name, member.member.time
        if time.leads:
            self._truth[name] = member
            assert bound == 0.0
        elif time.follower.round_trip is not None and time.leader is not None:
            self._truth[name] = self.ensemble.all_members[time.leader]
        truth = self._truth.get(name, member)  # of one that is gone, perhaps: its clock goes on
        error = abs(member.shared - truth.shared)
        assert error <= bound + 1e-9, (name, truth.member.name, error, bound)
        if truth is not member:
            self.errors.append(error)
            self.bounds.append(bound)


def are_synced(ensemble: EnsembleSim) -> bool:
    return all(member.member.time.is_synced(member.now) for member in ensemble.members)


def count_sent(ensemble: EnsembleSim, seconds: float) -> dict[str, int]:
    before = ensemble.network.sent.copy()
    ensemble.run(seconds)
    return {kind: ensemble.network.sent[kind] - before[kind] for kind in ensemble.network.sent}


def offer(member: SimMember) -> None:
    """A service of its own, and one that all offer."""
    member.on(f"of {member.member.name}")
    member.on("drum")


def check_services(ensemble: EnsembleSim) -> None:
    names = [member.member.name for member in ensemble.members]
    expected = {f"of {name}": name for name in names} | {"drum": max(names)}
    for member in ensemble.members:
        services = dict(member.member.services)
        assert services.pop("_cs") == ensemble.list_leaders()[0].member.name
        assert services == expected


# 2016 has five discovery ports, so a host has no more processes than that.
@pytest.mark.parametrize(("dialect", "hosts", "each"), [("2016", 20, 5), ("1.0", LARGE, 10), ("1.1", LARGE, 10)])
def test_a_hundred_find_one_another_are_quiet_and_heal(dialect: DialectName, hosts: int, each: int) -> None:
    """docs/protocol/bus.md, rule 3: with 100 processes there is a message every 40 ms on average."""
    ensemble = gather(1, dialect, hosts, each, leaders=2)
    count = hosts * each
    watch = ClockWatch(ensemble)
    for member in ensemble.members:
        offer(member)
    wait(ensemble, ensemble.all_know_all, 3.0 if dialect == "2016" else 13.0, watch)
    wait(ensemble, lambda: are_synced(ensemble), 3.0, watch)
    ensemble.run(41.0, watch, every=1.0)  # intervals have grown to 4 s
    check_services(ensemble)
    sent = count_sent(ensemble, 20.0)
    assert sent["direct discovery"] == 0  # no answer is needed
    assert 20.0 / sent["broadcast discovery"] == pytest.approx(4.0 / count, rel=0.002)  # of 100: 0.040

    (leader,) = ensemble.list_leaders()
    others = [member for member in ensemble.members if not member.may_lead]  # one of those that may lead is left
    lost = [leader, *ensemble.sim.random.sample(others, 3 * count // 10 - 1)]
    for number, member in enumerate(lost):
        ensemble.kill(member, is_silent=number % 3 == 0)
    ensemble.run(0.1)
    for member in lost:
        delay = ensemble.sim.random.uniform(0.0, 5.0)
        ensemble.sim.call_later(delay, lambda host=member.host: offer(ensemble.add_member(host)))  # type: ignore[misc]
    ensemble.run(5.0, watch)
    wait(ensemble, ensemble.all_know_all, 13.0, watch)
    wait(ensemble, lambda: bool(ensemble.list_leaders()) and are_synced(ensemble), 10.0, watch)
    assert len(ensemble.members) == count
    check_services(ensemble)


@EVERY_DIALECT
@pytest.mark.parametrize("seed", range(SEEDS))
def test_in_a_bad_network_the_clock_is_never_more_wrong_than_it_says(dialect: DialectName, seed: int) -> None:
    ensemble = gather(seed, dialect, 3, 3, BAD_NETWORK, leaders=2)
    watch = ClockWatch(ensemble)
    wait(ensemble, lambda: ensemble.all_know_all() and are_synced(ensemble), 60.0, watch)
    ensemble.run(20.0, watch)
    watch.errors.clear()
    watch.bounds.clear()
    ensemble.run(20.0, watch)
    assert max(watch.errors) < 0.002  # delays differ by 4 ms from one another
    assert max(watch.bounds) < 0.005  # and are 3 ms at least, twice
    assert median(watch.errors) < 0.001


@EVERY_DIALECT
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_leader_is_lost_and_another_one_takes_over(dialect: DialectName, seed: int) -> None:
    ensemble = gather(seed, dialect, 3, 3, leaders=4)
    watch = ClockWatch(ensemble)
    ensemble.run(12.0, watch)
    for is_silent in (False, True):
        (leader,) = ensemble.list_leaders()
        before = {member.member.name: member.shared - ensemble.now for member in ensemble.members}
        ensemble.kill(leader, is_silent)
        wait(ensemble, lambda: bool(ensemble.list_leaders()), 20.0, watch)
        ensemble.run(15.0, watch)
        assert len(ensemble.list_leaders()) == 1
        assert are_synced(ensemble)
        for member in ensemble.members:
            assert member.shared - ensemble.now == pytest.approx(before[member.member.name], abs=0.01)
            found = [item for item in member.news if isinstance(item, ClockFound)]
            assert found[-1].leader == ensemble.list_leaders()[0].member.name


@EVERY_DIALECT
@pytest.mark.parametrize("seed", range(SEEDS))
def test_timed_messages_fire_everywhere_within_the_bounds(dialect: DialectName, seed: int) -> None:
    ensemble = gather(seed, dialect, 4, 3, BAD_NETWORK)
    ensemble.run(15.0)
    for member in ensemble.members:
        member.on(f"of {member.member.name}")
    ensemble.run(1.0)
    sender = ensemble.sim.random.choice(ensemble.members)
    (leader,) = ensemble.list_leaders()
    at = sender.shared + 0.5
    for member in ensemble.members:
        address = f"!of {member.member.name}/go"
        here = member is sender
        assert sender.member.get_status(address[1:-3], sender.now) == (Status.LOCAL if here else Status.REMOTE)
        sender.send(address, 1, at=at)
        sender.send(address, 2, at=at + 0.25)
    ensemble.run(0.49)
    assert not any(member.heard for member in ensemble.members)
    true = ensemble.now + (at - leader.shared)
    bounds = {member.member.name: member.member.time.max_error(member.now) for member in ensemble.members}
    ensemble.run(1.0)
    for member in ensemble.members:
        (first, one), (second, two) = member.heard
        assert (one.args, two.args) == ((1,), (2,))
        slack = bounds[member.member.name] + 1e-4  # of clocks, in what is left
        assert first == pytest.approx(true, abs=slack)
        assert second == pytest.approx(true + 0.25, abs=slack)


@EVERY_DIALECT
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_breaks_heals(dialect: DialectName, seed: int) -> None:
    """Cuts, half-open links, silent deaths, restarts at the same port, a host that is unplugged."""
    ensemble = gather(seed, dialect, 4, 3, NetworkFaults(loss=0.05, twice=0.05, tear=0.5))
    chance = ensemble.sim.random
    ensemble.run(5.0)
    for _ in range(12):
        ends = [end for end in ensemble.network.list_ends() if end.other is not None]
        ensemble.network.cut(chance.choice(ends), is_half_open=chance.random() < 0.5)
        ensemble.run(chance.random())
    for _ in range(3):
        victim = chance.choice([member for member in ensemble.members if not member.member.time.leads])
        ensemble.kill(victim, is_silent=chance.random() < 0.5)
        ensemble.run(chance.random())
        ensemble.add_member(victim.host, tcp_port=victim.place.tcp_port)
    quiet = next(host for host in ensemble.network.hosts if not any(m.host is host for m in ensemble.list_leaders()))
    ensemble.network.cut_off(quiet)
    ensemble.run(chance.uniform(0.0, 20.0))
    ensemble.network.let_in(quiet)
    for member in ensemble.members:
        member.on("drum")
    ensemble.run(15.0)  # what broke before is noticed by now
    wait(ensemble, ensemble.all_know_all, 150.0, lambda: None)
    ensemble.run(5.0)
    assert ensemble.all_know_all()
    names = [member.member.name for member in ensemble.members]
    assert {member.member.services.find("drum") for member in ensemble.members} == {max(names)}
    assert are_synced(ensemble)


def test_on_a_host_without_a_network_all_find_one_another_and_nothing_leaves_it() -> None:
    ensemble = EnsembleSim(3)
    alone = ensemble.network.add_host("127.0.0.1")
    inside = [ensemble.add_member(alone) for _ in range(5)]
    ensemble.run(5.0)
    assert ensemble.all_know_all()
    assert ensemble.network.sent["broadcast discovery"] == 0
    ensemble.add_member(ensemble.network.add_host("10.7.0.1"))
    ensemble.run(30.0)
    assert all(len(member.member.processes) == 4 for member in inside)


@EVERY_DIALECT
def test_without_broadcast_peers_find_one_another_if_one_of_two_knows_where(dialect: DialectName) -> None:
    ensemble = EnsembleSim(4, dialect, NetworkFaults(has_broadcast=False))
    hosts = [ensemble.network.add_host() for _ in range(3)]
    for number, host in enumerate(hosts):
        for _ in range(2):
            ensemble.add_member(host, peers=[other.ip for other in hosts[:number]])
    ensemble.run(15.0)
    assert ensemble.all_know_all()


def test_the_same_seed_is_the_same_run() -> None:
    runs = []
    for _ in range(2):
        ensemble = gather(5, "2016", 3, 2, NetworkFaults(loss=0.1, twice=0.1))
        ensemble.run(10.0)
        runs.append((ensemble.network.sent, [member.news for member in ensemble.members], ensemble.members[0].shared))
    assert runs[0] == runs[1]
