from itertools import pairwise

import pytest

from gandy.bus.core.discovery import Announcer, meeting_time
from gandy.bus.core.effects import Broadcast, Datagram
from gandy.bus.wire.dialects import DIALECTS, DialectName

PORTS = DIALECTS["2016"].ports


def run(announcer: Announcer, count: int) -> tuple[list[float], list[Broadcast | Datagram]]:
    times: list[float] = []
    sent: list[Broadcast | Datagram] = []
    for _ in range(count):
        times.append(announcer.due)
        sent += announcer.on_time(b"me", announcer.due)
    return times, sent


def test_ports_in_turn_by_broadcast_and_on_this_machine() -> None:
    announcer = Announcer(DIALECTS["2016"], PORTS[0], True, (), 0.0)
    _, sent = run(announcer, 5)
    ports = (*PORTS[1:], PORTS[0])
    assert [effect for effect in sent if isinstance(effect, Broadcast)] == [Broadcast(port, b"me") for port in ports]
    local = [effect for effect in sent if isinstance(effect, Datagram)]
    assert local == [Datagram("127.0.0.1", port, b"me") for port in ports[:-1]]  # not to our own


def test_without_a_network_nothing_leaves_the_machine() -> None:
    announcer = Announcer(DIALECTS["2016"], PORTS[1], False, (), 0.0)
    _, sent = run(announcer, 5)
    assert sent == [Datagram("127.0.0.1", port, b"me") for port in (*PORTS[2:], PORTS[0])]


def test_peers_that_broadcasts_do_not_reach_hear_it_too() -> None:
    announcer = Announcer(DIALECTS["2016"], PORTS[1], False, ("10.1.0.1", "10.2.0.1"), 0.0)
    _, sent = run(announcer, 1)  # to our own port: peers have it as well
    assert sent == [Datagram("10.1.0.1", PORTS[1], b"me"), Datagram("10.2.0.1", PORTS[1], b"me")]


def test_intervals_grow_by_a_tenth_from_a_third_of_a_second_to_four() -> None:
    times, _ = run(Announcer(DIALECTS["2016"], PORTS[0], True, (), 7.0), 60)
    gaps = [after - before for before, after in pairwise(times)]
    assert times[0] == 7.0
    assert gaps[0] == pytest.approx(0.33)
    assert gaps[1] == pytest.approx(0.363)
    assert sum(gaps[:4]) < 2.0  # each port once within the first two seconds
    assert gaps[-1] == pytest.approx(4.0)
    assert max(gaps) == pytest.approx(4.0)


def test_nothing_is_sent_too_early() -> None:
    announcer = Announcer(DIALECTS["2016"], PORTS[0], True, (), 7.0)
    assert list(announcer.on_time(b"me", 6.9)) == []
    assert announcer.due == 7.0


@pytest.mark.parametrize("name", ["1.0", "1.1"])
def test_1_x_sends_to_the_ports_up_to_its_own_and_at_first_once_to_the_others(name: DialectName) -> None:
    ports = DIALECTS[name].ports
    _, sent = run(Announcer(DIALECTS[name], ports[2], True, (), 0.0), 22)
    reached = [effect.port for effect in sent if isinstance(effect, Broadcast)]
    assert reached[:16] == list(ports)
    assert sorted(reached[16:]) == sorted([*ports[:3], *ports[:3]])


@pytest.mark.parametrize(("name", "seconds"), [("2016", 5.3), ("1.0", 11.9), ("1.1", 11.9)])
def test_patience_is_enough_for_a_message_to_each_port(name: DialectName, seconds: float) -> None:
    times, _ = run(Announcer(DIALECTS[name], DIALECTS[name].ports[0], True, (), 0.0), 17)
    assert meeting_time(DIALECTS[name]) == pytest.approx(seconds, abs=0.05)
    assert meeting_time(DIALECTS[name]) >= times[len(DIALECTS[name].ports) - 1]
