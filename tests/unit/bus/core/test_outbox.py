"""Messages of our own program go to the process that has the service, or are refused with a reason."""

import pytest
from tests.ensembles import (
    EVERY_DIALECT,
    START,
    announce,
    listen,
    make_band,
    make_member,
    take_heard,
)

from gandy.bus.core import outbox
from gandy.bus.core.effects import (
    Datagram,
    Write,
)
from gandy.bus.limits import HORIZON, MAX_DATAGRAM, MAX_DRAFT_TYPES
from gandy.bus.wire.dialects import DialectName
from gandy.errors import AddressError, NoClock, NotScheduled, UnknownService


def test_send_to_a_service_of_our_own() -> None:
    member = make_member()
    listen(member, "drum", "/hit", "f")
    member.outbox.send("/drum/h*", (1,), START)
    member.outbox.send("!drum/hit", (2,), START, types="h", is_reliable=False)
    assert not member.effects
    assert take_heard(member) == [("/drum/h*", (1.0,)), ("!drum/hit", (2.0,))]


@EVERY_DIALECT
def test_send_to_a_service_elsewhere(dialect: DialectName) -> None:
    band = make_band(2, dialect)
    first, second = band.members
    listen(second, "drum")
    band.settle()
    first.outbox.send("/drum/hit", (1, "two"), START)
    assert isinstance(first.effects[0], Write)
    first.outbox.send("/drum/hit", (3.5,), START, is_reliable=False)
    sent = first.effects[1]
    assert isinstance(sent, Datagram)
    assert (sent.ip, sent.port) == (second.place.ip, second.place.udp_port)
    band.settle()
    assert take_heard(second) == [("/drum/hit", (1, "two")), ("/drum/hit", (3.5,))]


def test_send_to_a_process_by_its_name() -> None:
    band = make_band(2)
    first, second = band.members
    first.outbox.send(f"!{second.name}/xy", (), START)
    band.settle()
    assert second.dropped == {"no such control message": 1}


def test_send_to_a_service_that_no_process_offers() -> None:
    member = make_member()
    for address in ("/drum/hit", "!_o2/in", f"!{member.name}/in"):
        with pytest.raises(UnknownService):
            member.outbox.send(address, (), START)
    member.on_datagram(announce(make_member(4000)), "10.0.0.1", START)
    with pytest.raises(UnknownService, match="not connected yet"):
        member.outbox.send("!10.0.0.1:4000/x", (), START)


@pytest.mark.parametrize("address", ["", "drum/hit", "#drum", "//hit", "!", "/"])
def test_send_to_no_address(address: str) -> None:
    with pytest.raises(AddressError, match="not an address"):
        make_member().outbox.send(address, (), START)


def test_drafts_of_messages_are_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_DRAFTS", 2)
    member = make_member()
    listen(member, "drum")
    for count in (1, 2, 3, 4, 2 * MAX_DRAFT_TYPES):
        member.outbox.send("/drum/hit", range(count), START)
        assert len(member.outbox._drafts) <= 2
    assert [len(args) for _, args in take_heard(member)] == [1, 2, 3, 4, 2 * MAX_DRAFT_TYPES]


def test_send_what_does_not_fit() -> None:
    band = make_band(2)
    first, second = band.members
    for member in band.members:
        listen(member, member.name[-4:] + "x")
    band.settle()
    for service in ("5000x", "5010x"):  # ours or not: what is wrong is wrong everywhere
        with pytest.raises(ValueError, match="argument 1"):
            first.outbox.send(f"/{service}/a", ("text",), START, types="i")
        with pytest.raises(ValueError, match="cannot be for the time"):
            first.outbox.send(f"/{service}/a", (), START, at=float("nan"))
        with pytest.raises(ValueError, match="do not fit a datagram"):
            first.outbox.send(f"/{service}/a", (bytes(MAX_DATAGRAM),), START, is_reliable=False)
        first.outbox.send(f"/{service}/a", (bytes(MAX_DATAGRAM),), START)
    band.settle()
    assert len(take_heard(first)) == len(take_heard(second)) == 1


@EVERY_DIALECT
def test_a_time_needs_the_clock_here_and_there(dialect: DialectName) -> None:
    band = make_band(2, dialect, leaders=1)
    first, second = band.members
    for member in band.members:
        listen(member, member.name[-4:] + "x")
    band.settle()
    for service in ("5000x", "5010x"):
        with pytest.raises(NoClock, match="not known yet"):
            first.outbox.send(f"/{service}/a", (), START, at=5.0)
    band.run(2.0)
    assert second.time.leads
    second.outbox.send("/5010x/a", (), band.now, at=2.0)
    with pytest.raises(NoClock, match=first.name):
        second.outbox.send("/5000x/a", (), band.now, at=5.0)
    assert not second.effects


@EVERY_DIALECT
def test_a_timed_message_is_held_by_the_receiver(dialect: DialectName) -> None:
    band = make_band(2, dialect, leaders=1)
    first, second = band.members
    listen(first, "drum")
    band.run(4.0)
    shared = second.time.clock.read(band.now)
    for is_reliable in (True, False):
        second.outbox.send("/drum/hit", (is_reliable,), band.now, at=shared + 1.0, is_reliable=is_reliable)
    band.run(0.9)
    assert not take_heard(first)
    band.run(0.2)
    assert take_heard(first) == [("/drum/hit", (True,)), ("/drum/hit", (False,))]


def test_a_time_that_is_too_far_is_refused_where_it_is_sent() -> None:
    band = make_band(2, leaders=1)
    first, second = band.members
    first.add_service("drum")
    band.run(4.0)
    with pytest.raises(NotScheduled) as caught:
        second.outbox.send("/drum/hit", (), band.now, at=HORIZON + 10.0)
    assert not caught.value.retryable
    assert not second.effects


def test_local_send_from_a_handler_is_delivered_after_it() -> None:
    member = make_member()
    listen(member, "drum")
    member.outbox.send("/drum/1", (), START)
    member.deliveries.popleft()
    member.outbox.send("/drum/2", (), START)
    member.outbox.send("/drum/3", (), START)
    assert take_heard(member) == [("/drum/2", ()), ("/drum/3", ())]
