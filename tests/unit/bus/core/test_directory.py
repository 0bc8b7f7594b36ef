"""Services are announced to all processes, and all agree which one has each."""

from itertools import permutations

import pytest
from tests.ensembles import (
    EVERY_DIALECT,
    START,
    Band,
    accept,
    announce,
    listen,
    make_band,
    make_member,
    say,
    take_effects,
    take_heard,
    take_news,
    take_written,
)

from gandy.bus.core import directory
from gandy.bus.core.effects import (
    ProcessFound,
    ProcessLost,
    ServiceFound,
    ServiceLost,
    Write,
)
from gandy.bus.core.member import Member
from gandy.bus.core.processes import ProcessState
from gandy.bus.wire.dialects import DialectName
from gandy.bus.wire.messages import BusMessage, encode_message


@EVERY_DIALECT
def test_services_are_told_in_both_directions_and_when_they_come_and_go(dialect: DialectName) -> None:
    first, second = make_member(5000, dialect), make_member(6000, dialect)
    first.add_service("drum")
    second.add_service("horn")
    band = Band(first, second)
    band.meet()
    for member in band.members:
        assert dict(member.services) == {"drum": first.name, "horn": second.name}
    second.add_service("flute")
    band.settle()
    assert first.services.find("flute") == second.name
    second.remove_service("flute")
    second.remove_service("horn")
    second.remove_service("horn")
    band.settle()
    for member in band.members:
        assert dict(member.services) == {"drum": first.name}
    assert take_news(first) == [
        ServiceFound("drum", first.name),
        ProcessFound(second.name),
        ServiceFound("horn", second.name),
        ServiceFound("flute", second.name),
        ServiceLost("flute"),
        ServiceLost("horn"),
    ]


@EVERY_DIALECT
def test_changes_between_our_greeting_and_their_answer_are_announced(dialect: DialectName) -> None:
    """The greeting is under way already, so it is not in it."""
    port = 4000 if dialect == "2016" else 6000
    member = make_member(5000, dialect, may_lead=True)
    member.add_service("gone")
    member.on_datagram(announce(make_member(port, dialect)), "10.0.0.1", START)
    member.links.on_connected(1, START)
    take_effects(member)
    member.add_service("drum")
    member.remove_service("gone")
    written = take_written(member, 1)
    assert [message.address for message in written] == [
        f"!10.0.0.1:{port}/sv",
        f"!10.0.0.1:{port}/{'sd' if dialect == '2016' else 'sv'}",
    ]
    member.on_time(START + 2.0)
    addresses = [
        message.address
        for effect in take_effects(member)
        if isinstance(effect, Write)
        for message in [decode(member, effect)]
    ]
    assert addresses == [f"!10.0.0.1:{port}/sv", f"!10.0.0.1:{port}/cs/cs"]


def decode(member: Member, effect: Write) -> BusMessage:
    member.effects.append(effect)
    (message,) = take_written(member, effect.link)
    return message


@EVERY_DIALECT
def test_nothing_is_told_before_the_greeting(dialect: DialectName) -> None:
    port = 4000 if dialect == "2016" else 6000
    member = make_member(5000, dialect)
    member.on_datagram(announce(make_member(port, dialect)), "10.0.0.1", START)
    take_effects(member)
    member.add_service("drum")
    assert not member.effects
    member.links.on_connected(1, START)
    assert "drum" in take_written(member, 1)[1].args


@EVERY_DIALECT
def test_loss_removes_services_everywhere_and_rediscovery_brings_them_back(dialect: DialectName) -> None:
    band = make_band(4, dialect)
    first, *others = band.members
    first.add_service("drum")
    first.add_service("horn")
    band.settle()
    for member in others:
        take_news(member)
        band.cut(first, member)
        assert dict(member.services) == {}
        assert take_news(member) == [ServiceLost("drum"), ServiceLost("horn"), ProcessLost(first.name)]
    band.meet()
    for member in others:
        assert dict(member.services) == {"drum": first.name, "horn": first.name}


@EVERY_DIALECT
def test_of_several_the_greatest_name_has_a_service_whatever_came_first(dialect: DialectName) -> None:
    for order in permutations(range(3)):
        band = make_band(3, dialect)
        for number in order:
            band.members[number].add_service("drum")
            band.settle()
        names = [member.name for member in band.members]
        assert {member.services.find("drum") for member in band.members} == {max(names)}
        band.lose(band.members[2])
        assert {member.services.find("drum") for member in band.members} == {names[1]}
        band.members[1].remove_service("drum")
        band.settle()
        assert {member.services.find("drum") for member in band.members} == {names[0]}


def test_a_message_goes_to_the_process_that_has_the_service_and_not_to_us() -> None:
    band = make_band(2)
    first, second = band.members
    for member in band.members:
        listen(member, "drum")
    band.settle()
    first.outbox.send("/drum/hit", (1,), START)
    band.settle()
    assert not take_heard(first)
    assert take_heard(second) == [("/drum/hit", (1,))]


def test_a_process_tells_only_of_itself() -> None:
    member = make_member()
    link = accept(member, 6000)
    accept(member, 6001)
    say(member, link, "/sv", "ss", "10.0.0.1:6001", "drum")
    say(member, link, "/cs/cs", "s", "10.0.0.1:6001")
    assert dict(member.services) == {}
    assert member.processes["10.0.0.1:6001"].state is ProcessState.NO_CLOCK
    assert member.dropped == {"no such control message": 2}


def test_a_datagram_tells_nothing_of_services() -> None:
    member = make_member()
    accept(member, 6000)
    message = BusMessage(0.0, f"!{member.name}/sv", "ss", ("10.0.0.1:6000", "drum"))
    member.on_datagram(encode_message(message, "<"), "10.0.0.1", START)
    assert dict(member.services) == {}
    assert member.dropped == {"no such control message": 1}


def test_names_of_processes_cannot_be_offered() -> None:
    """Else a process that offers our name would get our messages."""
    member = make_member()
    link = accept(member, 6000)
    say(member, link, "/sv", "sssss", "10.0.0.1:6000", member.name, "10.0.0.1:6001", "_o2", "10.0.0.1:6000")
    assert dict(member.services) == {}
    assert not member.news


def test_services_of_a_process_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "MAX_SERVICES", 2)
    member = make_member()
    link = accept(member, 6000)
    say(member, link, "/sv", "ssss", "10.0.0.1:6000", "a", "b", "c")
    say(member, link, "/sv", "ss", "10.0.0.1:6000", "a")  # it has that one
    assert dict(member.services) == {"a": "10.0.0.1:6000", "b": "10.0.0.1:6000"}
    assert member.dropped == {"too many services": 1}


def test_removal_of_what_was_not_offered_is_nothing() -> None:
    member = make_member()
    member.add_service("drum")
    link = accept(member, 6000)
    say(member, link, "/sd", "ss", "10.0.0.1:6000", "drum")
    assert dict(member.services) == {"drum": member.name}
