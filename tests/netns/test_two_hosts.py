"""Members on two hosts, and what is between them. Both hosts have the clock of this machine: true errors are known."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final, NamedTuple

import pytest
from tests.netns.members import Sample, join
from tests.netns.namespaces import LINK, Hosts, Namespace, Weather, two_hosts
from tests.netns.programs import Program, time_limit

from gandy.bus import Status
from gandy.bus.core.effects import ServiceFound, ServiceLost
from gandy.bus.wire.dialects import DIALECTS

BAD_WEATHER: Final = Weather(delay_ms=5, jitter_ms=2, loss_percent=1)
PRIVATE: Final = {"insecure": False, "key": "6b" * 32}
LATE: Final = time_limit(0.1)  # seconds; messages may come so much after their time


class Player(Program):
    """A member that tells its clock. player.py says how."""

    def __init__(self, host: Namespace, service: str, **options: object) -> None:
        words = json.dumps({"ip": host.ip, "insecure": True, **options})
        with host.inside():
            super().__init__([sys.executable, "-m", "tests.netns.player", service, words])
        self.expect("ready .*")

    def take_samples(self, count: int, seconds: float) -> list[Sample]:
        self.say(f"sample {count} {seconds}")
        return [Sample(*map(float, self.expect_words("sample"))) for _ in range(count)]

    def play(self, seconds: float, service: str) -> float:
        self.say(f"play {seconds} {service}")
        (at,) = self.expect_words("played")
        return float(at)


class Pair(NamedTuple):
    leader: Player
    follower: Player

    def measure(self, count: int, seconds: float) -> list[tuple[float, float]]:
        """True errors of the follower, and how great it said that each may be."""
        offset = self.find_offset()
        samples = self.follower.take_samples(count, seconds)
        assert self.find_offset() == pytest.approx(offset, abs=20e-6), "the leader runs like the clock of the machine"
        return [(shared - monotonic - offset, bound) for monotonic, shared, bound in samples]

    def find_offset(self) -> float:
        """The true shared time, minus the monotonic one."""
        return median(shared - monotonic for monotonic, shared, _ in self.leader.take_samples(20, 0))


@contextmanager
def pair(first: Namespace, second: Namespace, **options: object) -> Iterator[Pair]:
    """They have met, and know no shared time yet."""
    with Player(first, "first", clock="lead", **options) as leader, Player(second, "second", **options) as follower:
        leader.expect("found second")
        follower.expect("found first")
        yield Pair(leader, follower)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_members_find_each_other_by_broadcast(hosts: Hosts, dialect: str) -> None:
    with join(hosts.first, dialect=dialect, ip=None) as first, join(hosts.second, dialect=dialect, ip=None) as second:
        assert first.process.startswith("10.77.0.1:")  # it finds its address itself
        first.offer("first")
        second.offer("second")
        first.expect_news(ServiceFound("second", second.process))
        second.expect_news(ServiceFound("first", first.process))
        first.send("/second/hello", 1)
        assert second.expect_message().message.values == (1,)
        second.send("/first/hello", 2, reliable=False)
        assert first.expect_message().message.values == (2,)
        second.close()
        first.expect_news(ServiceLost("second"))
        assert first.status("second") is Status.UNKNOWN


def test_members_without_broadcast_meet_by_address(hosts: Hosts) -> None:
    for host in (hosts.first, hosts.second):
        host.run("ip", "route", "delete", "default")
    with join(hosts.first) as first, join(hosts.second, peers=(hosts.first.ip,)) as second:
        second.offer("second")
        first.expect_news(ServiceFound("second", second.process))


def test_a_member_whose_machine_vanishes_is_missed_while_we_send_to_it(hosts: Hosts) -> None:
    with join(hosts.first) as first, join(hosts.second) as second:
        second.offer("second")
        first.expect_news(ServiceFound("second", second.process))
        hosts.second.run("ip", "link", "set", LINK, "down")
        first.send("/second/hello", bytes(1000))  # from now on it is unanswered
        first.expect_news(ServiceLost("second"))


@pytest.mark.parametrize("options", [{}, PRIVATE], ids=["plain", "private"])
def test_clock_and_messages_keep_their_time_in_bad_weather(options: dict[str, object]) -> None:
    with two_hosts(has_weather=True) as hosts, pair(hosts.first, hosts.second, **options) as members:
        hosts.set_weather(BAD_WEATHER)
        members.follower.expect("clock .*")
        errors = members.measure(600, 0.015)
        worst, bound = max(abs(error) for error, _ in errors), max(bound for _, bound in errors)
        print(f"weather: median {median(abs(error) for error, _ in errors) * 1e6:.0f} us, worst {worst * 1e6:.0f} us,")
        print(f"bounds {min(bound for _, bound in errors) * 1e6:.0f} to {bound * 1e6:.0f} us")
        assert [(error, bound) for error, bound in errors if abs(error) > bound] == []
        assert worst < time_limit(0.003)

        offset = members.find_offset()
        for _ in range(5):
            check_fired(members, offset)


def check_fired(members: Pair, offset: float) -> None:
    """What the leader sends to both comes to each at its time, as far as each knows it."""
    for service, player in (("first", members.leader), ("second", members.follower)):
        at = members.leader.play(0.3, service)
        monotonic, shared, bound = map(float, player.expect_words("fired"))
        print(f"{service} late by {(monotonic + offset - at) * 1e6:.0f} us")
        assert shared == at
        assert -bound <= monotonic + offset - at <= bound + LATE


def test_clocks_on_one_host_differ_by_little(host: Namespace) -> None:
    with pair(host, host) as members:
        members.follower.expect("clock .*")
        errors = members.measure(200, 0.01)
        middle = median(abs(error) for error, _ in errors)
        print(f"loopback: median {middle * 1e6:.0f} us, worst {max(abs(error) for error, _ in errors) * 1e6:.0f} us")
        assert [(error, bound) for error, bound in errors if abs(error) > bound] == []
        assert middle < time_limit(0.0002)
        check_fired(members, members.find_offset())
