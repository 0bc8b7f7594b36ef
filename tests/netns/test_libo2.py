"""Members that speak 1.1 beside Debian's libo2, the library that people have. peer.c says what it does.

Not tried are arrays, vectors, blobs of odd size and patterns: libo2 gets these wrong.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.netns.members import APP, Member, join
from tests.netns.namespaces import Hosts, Namespace
from tests.netns.peers import Peer
from tests.netns.programs import time_limit

from gandy.bus import INFINITUM, Status
from gandy.bus.core.effects import ClockFound, ClockLost, ProcessLost, ServiceFound, ServiceLost

SMALL: Final = time_limit(0.01)  # seconds; the error of a clock on one machine, though others work there too
LATE: Final = time_limit(0.25)  # seconds; messages may come so much after their time

EVERYTHING: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    ("", ()),
    ("iii", (0, 2**31 - 1, -(2**31))),
    ("hhh", (1, 2**63 - 1, -(2**63))),
    ("ff", (0.5, -(2.0**-100))),
    ("dd", (0.1, -1e300)),
    ("t", (1234.567891,)),
    ("ssss", ("", "abc", "abcd", "Grüße, 世界")),
    ("SS", ("symbol", "")),
    ("cc", ("a", "~")),
    ("mm", (b"\x00\x90\x3c\x7f", b"\xff\xfe\xfd\xfc")),
    ("bbb", (b"", b"\x00\x01\x02\xff", bytes(range(256)) * 8)),
    ("BB", (True, False)),
    ("TFNI", (True, False, None, INFINITUM)),
    (
        "isTbfNhSdFmctBIi",
        (1, "two", True, b"four", 5.0, None, 7, "8", 9.0, False, b"1234", "c", 13.0, True, INFINITUM, 16),
    ),
)


class Places(NamedTuple):
    """Where we are, and where the peer is."""

    ours: Namespace
    theirs: Namespace
    start: Callable[[], Peer]


@pytest.fixture(params=["we connect", "they connect"])
def places(request: pytest.FixtureRequest, hosts: Hosts, peer_program: Path) -> Places:
    """On two hosts. The lower name connects to the higher one."""
    ours, theirs = (hosts.first, hosts.second) if request.param == "we connect" else (hosts.second, hosts.first)
    return Places(ours, theirs, partial(Peer, peer_program, APP, theirs))


@pytest.fixture
def member(places: Places) -> Iterator[Member]:
    with join(places.ours, dialect="1.1") as joined:
        yield joined


@pytest.fixture
def peer(places: Places) -> Iterator[Peer]:
    with places.start() as started:
        yield started


def meet(member: Member, peer: Peer) -> None:
    """Each has a service that the other one knows: "ours" and "theirs"."""
    member.offer("ours")
    peer.say("service theirs")
    member.expect_news(ServiceFound("theirs", peer.name))
    peer.expect_info("ours", Status.REMOTE_NOTIME, member.process)


# Discovery and services


@pytest.mark.parametrize("is_first", [True, False], ids=["we come first", "they come first"])
def test_both_find_each_other_by_broadcast(places: Places, is_first: bool) -> None:
    if is_first:
        with join(places.ours, dialect="1.1") as member, places.start() as peer:
            meet(member, peer)
    else:
        with places.start() as peer, join(places.ours, dialect="1.1") as member:
            meet(member, peer)


@pytest.mark.parametrize("is_first", [True, False], ids=["we come first", "they come first"])
def test_both_find_each_other_on_one_host(hosts: Hosts, peer_program: Path, is_first: bool) -> None:
    host = hosts.first
    if is_first:
        with join(host, dialect="1.1") as member, Peer(peer_program, APP, host) as peer:
            meet(member, peer)
    else:
        with Peer(peer_program, APP, host) as peer, join(host, dialect="1.1") as member:
            meet(member, peer)


def test_both_find_each_other_without_a_network(host: Namespace, peer_program: Path) -> None:
    with Peer(peer_program, APP, host) as peer, join(host, dialect="1.1") as member:
        meet(member, peer)


def test_another_ensemble_is_not_found(places: Places, peer_program: Path, member: Member) -> None:
    with Peer(peer_program, "another", places.theirs) as stranger, places.start() as peer:
        stranger.say("service strange")
        meet(member, peer)
        assert [neighbour.name for neighbour in member.neighbours()] == [peer.name]
        assert member.status("strange") is Status.UNKNOWN
        assert stranger.read_status("ours") is Status.UNKNOWN


def test_services_come_and_go_on_both_sides(member: Member, peer: Peer) -> None:
    meet(member, peer)
    later = member.service("later").offer()
    peer.expect_info("later", Status.REMOTE_NOTIME, member.process)
    later.close()
    peer.expect_info("later", Status.UNKNOWN)
    member.service("later").offer()
    peer.expect_info("later", Status.REMOTE_NOTIME, member.process)

    peer.say("service new")
    member.expect_news(ServiceFound("new", peer.name))
    assert member.status("new") is Status.REMOTE_NOTIME
    peer.say("free new")
    member.expect_news(ServiceLost("new"))
    assert member.status("new") is Status.UNKNOWN
    peer.say("service new")
    member.expect_news(ServiceFound("new", peer.name))


def test_a_service_that_both_offer_belongs_to_the_greater_name(member: Member, peer: Peer) -> None:
    meet(member, peer)
    member.offer("both")
    peer.say("service both")
    peer.say("service last")
    member.expect_news(ServiceFound("last", peer.name))  # so it has told the other one before
    greater = max(member.process, peer.name)
    assert member.services()["both"] == greater
    # It may not have heard of ours yet; what it sends goes by what it knows when it says so.
    expected = Status.LOCAL_NOTIME if greater == peer.name else Status.REMOTE_NOTIME
    if greater == member.process:
        peer.expect_info("both", Status.REMOTE_NOTIME, member.process)
    assert peer.read_status("both") is expected


# Messages


@pytest.mark.parametrize("way", ["tcp", "udp"])
def test_values_of_every_type_are_equal_on_the_other_side(member: Member, peer: Peer, way: str) -> None:
    meet(member, peer)
    for number, (types, values) in enumerate(EVERYTHING):
        member.send(f"/theirs/{number}", *values, types=types, reliable=way == "tcp")
        assert peer.expect_message(f"/theirs/{number}")[2:] == (0.0, f"/theirs/{number}", types, values)
        peer.send(f"/ours/{number}", types, values, way=way)
        assert member.expect_message().message == (f"/ours/{number}", types, values, 0.0)


def test_literal_addresses_are_the_same_services(member: Member, peer: Peer) -> None:
    meet(member, peer)
    member.send("!theirs/path/longer", 1)
    assert peer.expect_message("!theirs/path/longer").values == (1,)
    peer.send("!ours/path/longer", "i", (2,))
    assert member.expect_message().message.values == (2,)


def test_many_messages_come_in_order(member: Member, peer: Peer) -> None:
    meet(member, peer)
    for number in range(500):
        member.send("/theirs/count", number)
    assert [peer.expect_message("/theirs/count").values for _ in range(500)] == [(number,) for number in range(500)]
    for number in range(500):
        peer.say(f"send tcp 0 /ours/count i {number}")
    assert [member.expect_message().message.values for _ in range(500)] == [(number,) for number in range(500)]


# The clock


def measure_peer(peer: Peer) -> float:
    """Its shared time minus the monotonic time of this machine. What comes between two readings only adds to it."""
    return min(shared - monotonic for monotonic, shared in (peer.read_time() for _ in range(20)))


def test_we_follow_its_clock(member: Member, peer: Peer) -> None:
    meet(member, peer)
    assert member.clock_error() == float("inf")
    peer.say("lead")
    member.expect_news(ClockFound(peer.name))
    assert member.status("theirs") is Status.REMOTE
    peer.expect_info("ours", Status.REMOTE, member.process)
    offset = measure_peer(peer)
    for _ in range(100):
        error, bound = member.measure(offset)
        assert abs(error) <= bound <= SMALL
        time.sleep(0.01)  # not for a race: errors of many moments are wanted
    print(f"we follow: error {error * 1e6:.0f} us, bound {bound * 1e6:.0f} us")


def test_it_follows_our_clock(places: Places, peer: Peer) -> None:
    with join(places.ours, dialect="1.1", clock="lead") as member:
        meet(member, peer)
        member.expect_news(ClockFound(member.process))
        peer.expect("synced .*")
        peer.expect_status("ours", Status.REMOTE)
        offset = -member.measure(0.0)[0]
        error = measure_peer(peer) + offset
        print(f"it follows: error {error * 1e6:.0f} us")
        assert abs(error) <= SMALL


def test_we_lead_on_when_it_is_gone(places: Places) -> None:
    with join(places.ours, dialect="1.1", clock="lead") as member:
        with places.start() as peer:
            peer.say("lead")
            member.expect_news(ClockFound(peer.name))
            offset = measure_peer(peer)
        member.expect_news(ClockLost(peer.name))
        member.expect_news(ClockFound(member.process))
        error, _ = member.measure(offset)
        assert abs(error) <= SMALL  # it goes on where the other one ended
        with places.start() as another:
            another.expect("synced .*")
            assert abs(measure_peer(another) - offset - error) <= SMALL


def test_timed_messages_wait_for_their_time_on_both_sides(member: Member, peer: Peer) -> None:
    meet(member, peer)
    peer.say("lead")
    member.expect_news(ClockFound(peer.name))
    peer.expect_info("ours", Status.REMOTE, member.process)
    offset = measure_peer(peer)

    start = member.now() + 0.2
    for after in (0.2, 0.0, 0.1):
        member.send("/theirs/timed", after, types="d", at=start + after)
    for after in (0.0, 0.1, 0.2):
        got = peer.expect_message("/theirs/timed")
        assert got.values == (after,)
        assert got.time == start + after
        check_moment(got.monotonic + offset - got.time, member.clock_error())

    for after in (0.4, 0.2, 0.3):
        peer.send("/ours/timed", "d", (after,), at=after)
    for after in (0.2, 0.3, 0.4):
        message, monotonic = member.expect_message()
        assert message.values == (after,)
        check_moment(monotonic + offset - message.time, member.clock_error())


def check_moment(late: float, bound: float) -> None:
    """How long after its time a message came, by the true clock."""
    print(f"late by {late * 1e6:.0f} us, bound {bound * 1e6:.0f} us")
    assert -bound <= late <= LATE


# Loss and return


def test_a_peer_that_is_killed_is_lost_and_comes_back(places: Places, member: Member) -> None:
    with places.start() as peer:
        meet(member, peer)
    member.expect_news(ServiceLost("theirs"))
    member.expect_news(ProcessLost(peer.name))
    assert member.status("theirs") is Status.UNKNOWN
    with places.start() as again:
        again.say("service theirs")
        member.expect_news(ServiceFound("theirs", again.name))
        again.expect_info("ours", Status.REMOTE_NOTIME, member.process)
        member.send("/theirs/hello", "again")
        assert again.expect_message("/theirs/hello").values == ("again",)


def test_a_peer_that_ends_is_lost(places: Places, member: Member) -> None:
    with places.start() as peer:
        meet(member, peer)
        assert peer.end() == 0
        member.expect_news(ServiceLost("theirs"))
        member.expect_news(ProcessLost(peer.name))


def test_a_member_that_leaves_is_lost_and_comes_back(places: Places, peer: Peer) -> None:
    with join(places.ours, dialect="1.1") as member:
        meet(member, peer)
    peer.expect_info("ours", Status.UNKNOWN)
    with join(places.ours, dialect="1.1") as again:
        again.offer("ours")
        peer.expect_info("ours", Status.REMOTE_NOTIME, again.process)
        peer.send("/ours/hello", "s", ("again",))
        assert again.expect_message().message.values == ("again",)


def test_a_member_that_leaves_with_much_unread_is_lost(places: Places, peer: Peer) -> None:
    with join(places.ours, dialect="1.1") as member:
        meet(member, peer)
        member.service("slow").add(lambda _: time.sleep(0.2))  # meanwhile it reads nothing
        peer.expect_info("slow", Status.REMOTE_NOTIME, member.process)
        for _ in range(100):
            peer.send("/slow/much", "b", (bytes(1000),))
    peer.expect_info("ours", Status.UNKNOWN)
