"""A member as a whole: unicast peers, statuses, unknown control messages, and its end."""

from tests.ensembles import (
    EVERY_DIALECT,
    START,
    Band,
    accept,
    make_band,
    make_member,
    say,
    take_effects,
    take_written,
)

from gandy.bus.core.effects import (
    Broadcast,
    Cut,
    Datagram,
    Write,
)
from gandy.bus.core.processes import Status
from gandy.bus.wire.dialects import DialectName


def test_an_unknown_control_message_is_counted() -> None:
    member = make_member()
    link = accept(member, 6000)
    say(member, link, "/xy", "s", "?")
    assert not member.effects
    assert member.dropped == {"no such control message": 1}


@EVERY_DIALECT
def test_close_tells_the_others(dialect: DialectName) -> None:
    """Also of services that another process has for now."""
    band = make_band(3, dialect, leaders=1)
    last = band.members[-1]
    band.members[1].add_service("horn")
    band.members[0].add_service("drum")
    last.add_service("drum")
    band.run(3.0)
    assert last.time.leads
    written = []
    last.close()
    for effect in last.effects:
        assert isinstance(effect, Write | Cut)
        written.append(type(effect))
    assert written[-2:] == [Cut, Cut]
    assert (Write in written) == (dialect == "2016")  # the cut says it all, and libo2 hangs when it is told before
    band.settle()
    assert not last.processes
    for member in band.members[:2]:
        assert dict(member.services) == {"drum": band.members[0].name, "horn": band.members[1].name}
        assert list(member.processes) == [other.name for other in band.members[:2] if other is not member]


def test_close_withdraws_services_that_another_process_has() -> None:
    member = make_member(5000)
    member.add_service("drum")
    link = accept(member, 6000)
    say(member, link, "/sv", "ss", "10.0.0.1:6000", "drum")
    member.close()
    *effects, last = take_effects(member)
    assert last == Cut(link)
    member.effects.extend(effects)
    assert [message.args for message in take_written(member, link)] == [(member.name, "drum")]


def test_after_close_no_process_is_asked_for_the_time() -> None:
    band = make_band(2, leaders=1)
    band.run(3.0)
    first, _ = band.members
    first.close()
    take_effects(first)
    first.on_time(START + 100.0)
    assert not [effect for effect in first.effects if isinstance(effect, Datagram) and b"/get" in effect.data]


def test_unicast_peers_find_one_another() -> None:
    first = make_member(5000, ip="10.0.0.1", peers=("10.9.0.1",))
    second = make_member(6000, ip="10.9.0.1")
    band = Band(first, second)
    band.loses = {Broadcast}
    band.run(2.0)
    assert list(first.processes) == [second.name]
    assert list(second.processes) == [first.name]


@EVERY_DIALECT
def test_statuses_of_services(dialect: DialectName) -> None:
    band = make_band(2, dialect, leaders=1)
    first, second = band.members
    first.add_service("drum")
    first.add_service("osc", is_osc=True)
    band.settle()
    assert first.get_status("horn", START) == Status.UNKNOWN
    assert first.get_status("drum", START) == Status.LOCAL_NOTIME
    assert first.get_status("osc", START) == Status.TO_OSC_NOTIME
    assert second.get_status("drum", START) == Status.REMOTE_NOTIME
    band.run(2.0)
    assert second.get_status("_cs", band.now) == Status.LOCAL
    assert second.get_status("drum", band.now) == Status.REMOTE_NOTIME  # it does not know the time yet
    assert first.get_status("_cs", band.now) == Status.REMOTE_NOTIME  # and neither do we
    band.run(2.0)
    assert first.get_status("drum", band.now) == Status.LOCAL
    assert first.get_status("osc", band.now) == Status.TO_OSC
    assert second.get_status("drum", band.now) == Status.REMOTE
    assert first.get_status("_cs", band.now) == Status.REMOTE
