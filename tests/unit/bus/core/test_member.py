"""Services, sending, and the clock, between members in one room."""

from itertools import permutations

import pytest
from tests.ensembles import (
    START,
    Band,
    accept,
    announce,
    get_process,
    listen,
    make_member,
    take_effects,
    take_heard,
    take_news,
    take_written,
    write,
    write_init,
)

from gandy.bus.core import member as member_module
from gandy.bus.core.clock import FREE_RUN
from gandy.bus.core.effects import (
    Broadcast,
    ClockChanged,
    ClockFound,
    ClockLost,
    Connect,
    Cut,
    Datagram,
    ProcessFound,
    ProcessLost,
    ServiceFound,
    ServiceLost,
    Write,
)
from gandy.bus.core.member import Member
from gandy.bus.core.processes import ProcessState, Status
from gandy.bus.core.schedule import HORIZON
from gandy.bus.wire.control import MAX_REPLY_TO, ClockReply, ClockRequest, encode_clock_reply, encode_clock_request
from gandy.bus.wire.dialects import DIALECTS, DialectName
from gandy.bus.wire.messages import MAX_DATAGRAM, BusMessage, decode_message, encode_message
from gandy.errors import AddressError, ConfigError, NoClock, NotScheduled, UnknownService

EVERY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)


def make_band(count: int = 2, dialect: DialectName = "2016", leaders: int = 0) -> Band:
    """Members that know one another; the last ones may lead."""
    members = [make_member(5000 + 10 * number, dialect, may_lead=number >= count - leaders) for number in range(count)]
    band = Band(*members)
    band.meet()
    return band


def tell(member: Member, link: int, path: str, types: str, *args: object) -> None:
    """A process at the other end of a link says something."""
    member.on_data(link, write(member, BusMessage(0.0, f"!{member.name}{path}", types, args)), START)


# Services


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
def test_what_changes_between_our_greeting_and_their_answer_is_told(dialect: DialectName) -> None:
    """The greeting is under way already, so it is not in it."""
    port = 4000 if dialect == "2016" else 6000
    member = make_member(5000, dialect, may_lead=True)
    member.add_service("gone")
    member.on_datagram(announce(make_member(port, dialect)), "10.0.0.1", START)
    member.on_connected(1, START)
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
    member.on_connected(1, START)
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


def test_a_message_goes_to_whoever_has_the_service_and_not_to_us() -> None:
    band = make_band(2)
    first, second = band.members
    for member in band.members:
        listen(member, "drum")
    band.settle()
    first.send("/drum/hit", (1,), START)
    band.settle()
    assert not take_heard(first)
    assert take_heard(second) == [("/drum/hit", (1,))]


def test_a_process_tells_only_of_itself() -> None:
    member = make_member()
    link = accept(member, 6000)
    accept(member, 6001)
    tell(member, link, "/sv", "ss", "10.0.0.1:6001", "drum")
    tell(member, link, "/cs/cs", "s", "10.0.0.1:6001")
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


def test_names_of_processes_are_nobodys_services() -> None:
    """Else whoever offers our name gets what is for us."""
    member = make_member()
    link = accept(member, 6000)
    tell(member, link, "/sv", "sssss", "10.0.0.1:6000", member.name, "10.0.0.1:6001", "_o2", "10.0.0.1:6000")
    assert dict(member.services) == {}
    assert not member.news


def test_services_of_a_process_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_module, "MAX_SERVICES", 2)
    member = make_member()
    link = accept(member, 6000)
    tell(member, link, "/sv", "ssss", "10.0.0.1:6000", "a", "b", "c")
    tell(member, link, "/sv", "ss", "10.0.0.1:6000", "a")  # it has that one
    assert dict(member.services) == {"a": "10.0.0.1:6000", "b": "10.0.0.1:6000"}
    assert member.dropped == {"too many services": 1}


def test_removal_of_what_was_not_offered_is_nothing() -> None:
    member = make_member()
    member.add_service("drum")
    link = accept(member, 6000)
    tell(member, link, "/sd", "ss", "10.0.0.1:6000", "drum")
    assert dict(member.services) == {"drum": member.name}


def test_a_control_message_that_nobody_knows_is_counted() -> None:
    member = make_member()
    link = accept(member, 6000)
    tell(member, link, "/xy", "s", "?")
    assert not member.effects
    assert member.dropped == {"no such control message": 1}


@EVERY_DIALECT
def test_close_tells_the_others(dialect: DialectName) -> None:
    """Also of services that somebody else has, for now."""
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


def test_close_withdraws_services_that_somebody_else_has() -> None:
    member = make_member(5000)
    member.add_service("drum")
    link = accept(member, 6000)
    tell(member, link, "/sv", "ss", "10.0.0.1:6000", "drum")
    member.close()
    *effects, last = take_effects(member)
    assert last == Cut(link)
    member.effects.extend(effects)
    assert [message.args for message in take_written(member, link)] == [(member.name, "drum")]


def test_after_close_nobody_is_asked_for_the_time() -> None:
    band = make_band(2, leaders=1)
    band.run(3.0)
    first, _ = band.members
    first.close()
    take_effects(first)
    first.on_time(START + 100.0)
    assert not [effect for effect in first.effects if isinstance(effect, Datagram) and b"/get" in effect.data]


# Peers that broadcasts do not reach


def test_unicast_peers_find_one_another() -> None:
    first = make_member(5000, ip="10.0.0.1", peers=("10.9.0.1",))
    second = make_member(6000, ip="10.9.0.1")
    band = Band(first, second)
    band.loses = {Broadcast}
    band.run(2.0)
    assert list(first.processes) == [second.name]
    assert list(second.processes) == [first.name]


# Sending


def test_send_to_a_service_of_our_own() -> None:
    member = make_member()
    listen(member, "drum", "/hit", "f")
    member.send("/drum/h*", (1,), START)
    member.send("!drum/hit", (2,), START, types="h", is_reliable=False)
    assert not member.effects
    assert take_heard(member) == [("/drum/h*", (1.0,)), ("!drum/hit", (2.0,))]


@EVERY_DIALECT
def test_send_to_a_service_elsewhere(dialect: DialectName) -> None:
    band = make_band(2, dialect)
    first, second = band.members
    listen(second, "drum")
    band.settle()
    first.send("/drum/hit", (1, "two"), START)
    assert isinstance(first.effects[0], Write)
    first.send("/drum/hit", (3.5,), START, is_reliable=False)
    sent = first.effects[1]
    assert isinstance(sent, Datagram)
    assert (sent.ip, sent.port) == (second.place.ip, second.place.udp_port)
    band.settle()
    assert take_heard(second) == [("/drum/hit", (1, "two")), ("/drum/hit", (3.5,))]


def test_send_to_a_process_by_its_name() -> None:
    band = make_band(2)
    first, second = band.members
    first.send(f"!{second.name}/xy", (), START)
    band.settle()
    assert second.dropped == {"no such control message": 1}


def test_send_to_nobody() -> None:
    member = make_member()
    for address in ("/drum/hit", "!_o2/in", f"!{member.name}/in"):
        with pytest.raises(UnknownService):
            member.send(address, (), START)
    member.on_datagram(announce(make_member(4000)), "10.0.0.1", START)
    with pytest.raises(UnknownService, match="not connected yet"):
        member.send("!10.0.0.1:4000/x", (), START)


@pytest.mark.parametrize("address", ["", "drum/hit", "#drum", "//hit", "!", "/"])
def test_send_to_no_address(address: str) -> None:
    with pytest.raises(AddressError, match="no address"):
        make_member().send(address, (), START)


def test_drafts_of_messages_are_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_module, "MAX_DRAFTS", 2)
    member = make_member()
    listen(member, "drum")
    for count in (1, 2, 3, 4, 2 * member_module.MAX_DRAFTED):
        member.send("/drum/hit", range(count), START)
        assert len(member._drafts) <= 2
    assert [len(args) for _, args in take_heard(member)] == [1, 2, 3, 4, 2 * member_module.MAX_DRAFTED]


def test_send_what_does_not_fit() -> None:
    band = make_band(2)
    first, second = band.members
    for member in band.members:
        listen(member, member.name[-4:] + "x")
    band.settle()
    for service in ("5000x", "5010x"):  # ours or not: what is wrong is wrong everywhere
        with pytest.raises(ValueError, match="argument 1"):
            first.send(f"/{service}/a", ("text",), START, types="i")
        with pytest.raises(ValueError, match="cannot be for the time"):
            first.send(f"/{service}/a", (), START, at=float("nan"))
        with pytest.raises(ValueError, match="do not fit a datagram"):
            first.send(f"/{service}/a", (bytes(MAX_DATAGRAM),), START, is_reliable=False)
        first.send(f"/{service}/a", (bytes(MAX_DATAGRAM),), START)
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
            first.send(f"/{service}/a", (), START, at=5.0)
    band.run(2.0)
    assert second.time.leads
    second.send("/5010x/a", (), band.now, at=2.0)
    with pytest.raises(NoClock, match=first.name):
        second.send("/5000x/a", (), band.now, at=5.0)
    assert not second.effects


@EVERY_DIALECT
def test_a_timed_message_is_held_by_the_receiver(dialect: DialectName) -> None:
    band = make_band(2, dialect, leaders=1)
    first, second = band.members
    listen(first, "drum")
    band.run(4.0)
    shared = second.time.clock.read(band.now)
    for is_reliable in (True, False):
        second.send("/drum/hit", (is_reliable,), band.now, at=shared + 1.0, is_reliable=is_reliable)
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
        second.send("/drum/hit", (), band.now, at=HORIZON + 10.0)
    assert not caught.value.retryable
    assert not second.effects


# Statuses


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


# The clock


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
        link = member.on_accept(START + 2.0)
        member.on_data(link, write_init(member, 6000), START + 2.0)
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


def test_who_comes_while_the_time_is_not_known_hears_of_it_later() -> None:
    """Nobody told the time for long; then somebody does."""
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
        follower.send("/drum/hit", (), band.now, at=follower.time.clock.read(band.now) + 300.0)
        take_news(follower)
        leader.time.clock.set(leader.time.clock.read(band.now) + leap, band.now)
        band.run(2.0)
        (news,) = take_news(follower)
        assert isinstance(news, ClockChanged)
        assert (news.leader, round(news.seconds)) == (leader.name, leap)
        assert (follower.next_deadline() > band.now, len(follower._inbox._held) > 0) == (True, waits)
    assert follower.dropped == {"for a time that is over": 2}


@EVERY_DIALECT
def test_who_knows_that_we_know_the_time_is_not_told_again(dialect: DialectName) -> None:
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


def test_the_service_of_the_clock_is_nobodys_to_add() -> None:
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


def test_local_send_from_a_handler_is_delivered_after_it() -> None:
    member = make_member()
    listen(member, "drum")
    member.send("/drum/1", (), START)
    member.deliveries.popleft()
    member.send("/drum/2", (), START)
    member.send("/drum/3", (), START)
    assert take_heard(member) == [("/drum/2", ()), ("/drum/3", ())]
