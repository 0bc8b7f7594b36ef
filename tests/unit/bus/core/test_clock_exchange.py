"""One process leads the clock, the others follow it, and all of them say so."""

import pytest
from tests.ensembles import (
    EVERY_DIALECT,
    START,
    Band,
    accept,
    announce,
    get_process,
    listen,
    make_band,
    make_member,
    take_effects,
    take_news,
    take_written,
    write_init,
)

from gandy.bus.core.clock import FREE_RUN
from gandy.bus.core.effects import (
    Broadcast,
    ClockChanged,
    ClockFound,
    ClockLost,
    Connect,
    Datagram,
)
from gandy.bus.core.processes import ProcessState
from gandy.bus.limits import MAX_REPLY_TO
from gandy.bus.wire.control import ClockReply, ClockRequest, encode_clock_reply, encode_clock_request
from gandy.bus.wire.dialects import DialectName
from gandy.bus.wire.messages import BusMessage, decode_message
from gandy.errors import ConfigError


@EVERY_DIALECT
def test_one_leads_and_the_others_follow_and_say_so(dialect: DialectName) -> None:
    band = make_band(3, dialect, leaders=1)
    leader = band.members[2]
    band.run(4.0)
    assert [member.time.leader for member in band.members] == [leader.name] * 3
    assert [member.time.leads for member in band.members] == [False, False, True]
    assert all(member.time.is_synced(band.now) for member in band.members)
    states = {process.state for member in band.members for process in member.processes.values()}
    assert states == {ProcessState.OK}
    for member in band.members:
        assert [item for item in take_news(member) if isinstance(item, ClockFound)] == [ClockFound(leader.name)]
        assert member.time.clock.read(band.now) == pytest.approx(4.0, abs=1e-5)


@EVERY_DIALECT
def test_a_late_comer_hears_who_knows_the_time(dialect: DialectName) -> None:
    band = make_band(2, dialect, leaders=1)
    band.run(4.0)
    late = make_member(5500, dialect, now=band.now)
    band.members.append(late)
    band.meet()
    assert {process.state for process in late.processes.values()} == {ProcessState.OK}
    assert get_process(band.members[0], late).state is ProcessState.NO_CLOCK
    band.run(3.0)
    assert get_process(band.members[0], late).state is ProcessState.OK


def test_2016_tells_its_clock_once_more_since_the_original_does_not_read_the_first() -> None:
    for dialect, paths in (("2016", ["in", "sv", "cs/cs"]), ("1.0", ["in", "sv"])):
        member = make_member(5000, dialect, may_lead=True)  # type: ignore[arg-type]
        member.on_time(START + 2.0)
        member.effects.clear()
        link = member.links.on_accept(START + 2.0)
        member.links.on_data(link, write_init(member, 6000), START + 2.0)
        written = take_written(member, link)
        assert [message.address.partition("/")[2] for message in written] == paths


@EVERY_DIALECT
def test_a_leader_that_is_lost_is_replaced_and_time_goes_on(dialect: DialectName) -> None:
    band = make_band(4, dialect, leaders=3)
    band.run(5.0)
    leader = band.members[3]
    assert leader.time.leads
    before = [member.time.clock.read(band.now) for member in band.members[:3]]
    for member in band.members:
        take_news(member)
    band.lose(leader)
    for member in band.members:
        assert take_news(member)[-1] == ClockLost(leader.name)
        assert member.time.is_synced(band.now)
    band.run(5.0)
    second = band.members[2]
    assert [member.time.leads for member in band.members] == [False, False, True]
    for member, time in zip(band.members, before, strict=True):
        assert [item for item in take_news(member) if isinstance(item, ClockFound)] == [ClockFound(second.name)]
        assert member.time.clock.read(band.now) == pytest.approx(time + 5.0, abs=1e-4)


@EVERY_DIALECT
def test_of_two_leaders_that_meet_the_greatest_name_leads(dialect: DialectName) -> None:
    first, second = make_member(5000, dialect, may_lead=True), make_member(6000, dialect, may_lead=True, beginning=0.3)
    follower = make_member(5500, dialect)
    band = Band(first, second, follower)
    band.loses = {Broadcast, Datagram}
    band.run(2.5)
    assert first.time.leads
    assert second.time.leads
    band.loses = set()
    band.meet()
    assert not first.time.leads
    assert second.time.leads
    assert {member.services.find("_cs") for member in band.members} == {second.name}
    band.run(10.0)
    times = [member.time.clock.read(band.now) for member in band.members]
    assert times == pytest.approx([times[1]] * 3, abs=1e-5)


def test_a_process_that_comes_while_the_time_is_unknown_hears_of_it_later() -> None:
    """There was no leader for long; then there is one."""
    band = make_band(2, leaders=1)
    band.run(4.0)
    first, leader = band.members
    band.lose(leader)
    band.now += 2 * FREE_RUN
    assert not first.time.is_synced(band.now)
    late = make_member(5500, now=band.now)
    new = make_member(5600, now=band.now, may_lead=True)
    band.members += [late, new]
    band.meet()
    assert get_process(late, first).state is ProcessState.NO_CLOCK
    band.run(6.0)
    assert get_process(late, first).state is ProcessState.OK


def test_a_leap_of_the_clock_is_news_and_nothing_waits_for_a_time_that_is_over() -> None:
    band = make_band(2, "2016", leaders=1)
    band.run(4.0)
    follower, leader = band.members
    listen(follower, "drum")
    for leap, waits in ((100.0, True), (-50.0, False)):
        follower.outbox.send("/drum/hit", (), band.now, at=follower.time.clock.read(band.now) + 300.0)
        take_news(follower)
        leader.time.clock.set(leader.time.clock.read(band.now) + leap, band.now)
        band.run(2.0)
        (news,) = take_news(follower)
        assert isinstance(news, ClockChanged)
        assert (news.leader, round(news.seconds)) == (leader.name, leap)
        assert (follower.next_deadline() > band.now, len(follower._local._held) > 0) == (True, waits)
    assert follower.dropped == {"for a time that is over": 2}


@EVERY_DIALECT
def test_a_process_that_knows_our_state_is_not_told_again(dialect: DialectName) -> None:
    band = make_band(3, dialect, leaders=2)
    band.run(4.0)
    first, second, leader = band.members
    late = make_member(5500, dialect, now=band.now)
    band.members.append(late)
    band.meet()
    band.run(3.0)
    band.lose(leader)
    band.written.clear()
    band.run(6.0)
    assert second.time.leads
    assert take_news(first)[-1] == ClockFound(second.name)
    assert band.written
    assert not [data for data in band.written if b"/cs/cs" in data]


def test_only_a_leader_answers_and_only_processes_that_it_knows() -> None:
    leader, follower = make_member(5000, may_lead=True), make_member(5010)
    for member in (leader, follower):
        accept(member, 6000)
    leader.on_time(START + 2.0)
    for member in (leader, follower):
        take_effects(member)
        for reply_to in ("!10.0.0.1:6000/cs", "!10.0.0.1:6001/cs", "/nobody"):
            asked = encode_clock_request(ClockRequest(7, reply_to), member.dialect)
            member.on_datagram(asked, "10.0.0.9", START + 3.0)
    request = ClockRequest(7, "!10.0.0.1:6000/cs")
    reply = encode_clock_reply(ClockReply(7, 3.0), request, leader.dialect)
    assert take_effects(leader) == [Datagram("10.0.0.1", 9, reply)]
    assert not follower.effects
    assert leader.dropped == {"clock request": 2}
    assert follower.dropped == {"clock request": 3}


def test_a_process_that_is_only_being_connected_gets_no_answer() -> None:
    leader = make_member(5000, may_lead=True)
    leader.on_time(START + 2.0)
    leader.on_datagram(announce(make_member(4000)), "10.0.0.1", START)
    take_effects(leader)
    request = encode_clock_request(ClockRequest(7, "!10.0.0.1:4000/cs"), leader.dialect)
    leader.on_datagram(request, "10.0.0.1", START + 3.0)
    assert not leader.effects


@pytest.mark.parametrize("letter", ["\U0001f941", "\udcff", "x"])
def test_the_longest_reply_makes_an_address(letter: str) -> None:
    """Each character may be four bytes, and an address has its limit."""
    leader = make_member(5000, may_lead=True)
    accept(leader, 1, ip="1.1.1.1")
    leader.on_time(START + 2.0)
    take_effects(leader)
    reply_to = "!1.1.1.1:1/"
    reply_to += letter * (MAX_REPLY_TO - len(reply_to))
    leader.on_datagram(encode_clock_request(ClockRequest(7, reply_to), leader.dialect), "10.0.0.1", START + 3.0)
    (reply,) = leader.effects
    assert isinstance(reply, Datagram)
    assert decode_message(reply.data, "<") == BusMessage(0.0, reply_to + "/get-reply", "it", (7, 3.0))


def test_a_reply_to_nothing_does_nothing() -> None:
    member = make_member(5000)
    reply = encode_clock_reply(ClockReply(7, 3.0), ClockRequest(7, f"!{member.name}/cs"), member.dialect)
    for _ in range(10):
        member.on_datagram(reply, "10.0.0.1", START)
    assert not member.time.is_synced(START)
    assert not member.news


def test_no_program_can_add_the_service_of_the_clock() -> None:
    with pytest.raises(ConfigError):
        make_member(may_lead=True).add_service("_cs")


@EVERY_DIALECT
def test_a_newcomer_follows_the_leader_of_those_that_it_meets_first(dialect: DialectName) -> None:
    """It may lead, and its name is the greatest; but the others have a time already."""
    band = make_band(2, dialect, leaders=1)
    band.run(4.0)
    first, leader = band.members
    newcomer = make_member(9000, dialect, now=band.now, may_lead=True)
    band.members.append(newcomer)
    newcomer.on_datagram(announce(first), "10.0.0.1", band.now)
    first.on_datagram(announce(newcomer), "10.0.0.1", band.now)
    band.settle()
    band.loses = {Broadcast, Connect}
    band.run(4.0)
    assert not newcomer.time.leads
    band.loses = set()
    band.meet()
    band.run(3.0)
    assert newcomer.time.leader == leader.name
