"""How many strangers there may be, from where, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.core.unknown_peers import FORGIVEN, Failures, UnknownPeers, find_source
from gandy.limits import MAX_COUNTED_SOURCES, MAX_FAILURES


class Peer:
    def __init__(self) -> None:
        self.is_cut = False

    def abort(self) -> None:
        self.is_cut = True


def enter(lobby: UnknownPeers[Peer], count: int, source: str, now: float = 0.0) -> list[Peer]:
    peers = [Peer() for _ in range(count)]
    for peer in peers:
        lobby.enter(peer, source, now)
    return peers


def test_of_one_address_only_the_newest_stay() -> None:
    peers = enter(UnknownPeers(10, 5.0), 8, "a")
    assert [peer.is_cut for peer in peers] == [True] * 3 + [False] * 5


def test_one_address_takes_no_room_from_another() -> None:
    lobby: UnknownPeers[Peer] = UnknownPeers(10, 5.0)
    (other,) = enter(lobby, 1, "b")
    enter(lobby, 100, "a")
    assert not other.is_cut


def test_of_all_addresses_only_the_newest_stay() -> None:
    lobby: UnknownPeers[Peer] = UnknownPeers(10, 5.0)
    peers = [peer for number in range(15) for peer in enter(lobby, 1, str(number))]
    assert [peer.is_cut for peer in peers] == [True] * 5 + [False] * 10
    assert len(lobby) == 10


def test_who_is_known_or_gone_is_not_counted_and_never_cut() -> None:
    lobby: UnknownPeers[Peer] = UnknownPeers(2, 5.0)
    (known,) = enter(lobby, 1, "a")
    assert known in lobby
    lobby.leave(known)
    lobby.leave(known)
    enter(lobby, 5, "a")
    lobby.expire(100.0)
    assert not known.is_cut
    assert len(lobby) == 0


def test_the_clock_cuts_those_that_came_first() -> None:
    lobby: UnknownPeers[Peer] = UnknownPeers(10, 5.0)
    (first,), (second,) = enter(lobby, 1, "a", 0.0), enter(lobby, 1, "a", 3.0)
    lobby.expire(5.0)
    assert (first.is_cut, second.is_cut) == (True, False)
    lobby.expire(9.0)
    assert second.is_cut


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans())), st.integers(1, 6))
def test_there_are_never_too_many(steps: list[tuple[int, bool]], most: int) -> None:
    lobby: UnknownPeers[Peer] = UnknownPeers(most, 5.0)
    sources: dict[Peer, str] = {}
    for number, leaves in steps:
        (peer,) = enter(lobby, 1, str(number))
        sources[peer] = str(number)
        if leaves:
            lobby.leave(peer)
        there = [peer for peer in sources if peer in lobby]
        assert len(there) == len(lobby) <= most
        assert all([sources[peer] for peer in there].count(source) <= lobby.most_each for source in "0123")
        assert not any(peer.is_cut for peer in there)


def test_an_address_that_fails_too_often_is_not_heard_for_a_while() -> None:
    failures = Failures()
    told = [failures.note("a", 0.0) for _ in range(MAX_FAILURES + 50)]
    assert told.count(True) == 1
    assert told[MAX_FAILURES - 1]
    assert not failures.may_connect("a", 0.0)
    assert failures.may_connect("b", 0.0)
    assert failures.may_connect("a", 1.5 / FORGIVEN)


def test_few_failures_are_forgiven() -> None:
    failures = Failures()
    assert not any(failures.note("a", float(second)) for second in range(10 * MAX_FAILURES))


def test_failures_of_so_many_addresses_are_counted() -> None:
    failures = Failures()
    for _ in range(MAX_FAILURES):
        failures.note("first", 0.0)
    for number in range(MAX_COUNTED_SOURCES):
        failures.note(str(number), 0.0)
    assert failures.may_connect("first", 0.0)


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9%eth0", "2001:db8:1:2::/64"),
        ("this machine", "this machine"),
    ],
)
def test_a_site_has_one_source(host: str, source: str) -> None:
    assert find_source(host) == source
