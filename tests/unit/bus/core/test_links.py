"""Discovery, who connects, first messages, states, and what a flood of strangers can do."""

from itertools import permutations

import pytest
from tests.ensembles import (
    EVERY_DIALECT,
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

from gandy.bus.core import links
from gandy.bus.core.effects import Connect, Cut, Datagram, ProcessFound, ProcessLost, Write
from gandy.bus.core.links import PATIENCE
from gandy.bus.core.processes import ProcessState
from gandy.bus.limits import MAX_BUS_MESSAGE, MAX_CONNECTING, MAX_DISCOVERY_BYTES, MAX_INIT_BYTES, MAX_STRANGERS
from gandy.bus.wire.control import Discovery, Init, encode_discovery
from gandy.bus.wire.dialects import DIALECTS, DialectName
from gandy.bus.wire.messages import BusMessage, encode_message, frame


def discover(port: int, *, app: str = "band", ip: str = "10.0.0.1", dialect: DialectName = "2016") -> bytes:
    return encode_discovery(Discovery(app, ip, port, 53472), DIALECTS[dialect])


# docs/protocol/bus.md, rules 6 and 7


def test_1_another_application_is_ignored() -> None:
    member = make_member(5000)
    member.on_datagram(discover(4000, app="other band"), "10.0.0.1", START)
    member.on_datagram(discover(6000, app="other band"), "10.0.0.1", START)
    assert not member.effects
    assert not member.processes


def test_2_a_known_process_is_ignored_and_so_are_we() -> None:
    member = make_member(5000)
    member.on_datagram(discover(4000), "10.0.0.1", START)
    take_effects(member)
    member.on_datagram(discover(4000), "10.0.0.1", START)  # it is being connected
    member.on_datagram(announce(member), "10.0.0.1", START)
    assert not member.effects
    assert list(member.processes) == ["10.0.0.1:4000"]


@pytest.mark.parametrize(("dialect", "answered", "connected"), [("2016", 6000, 4000), ("1.0", 4000, 6000)])
def test_3_who_is_to_connect_to_us_gets_a_discovery_message_back(
    dialect: DialectName, answered: int, connected: int
) -> None:
    member = make_member(5000, dialect)
    member.on_datagram(discover(answered, dialect=dialect), "10.0.0.1", START)
    assert take_effects(member) == [Datagram("10.0.0.1", 53472, announce(member))]
    assert not member.processes
    member.on_datagram(discover(connected, dialect=dialect), "10.0.0.1", START)
    assert take_effects(member) == [Connect(1, "10.0.0.1", connected)]


@EVERY_DIALECT
def test_names_are_compared_as_text(dialect: DialectName) -> None:
    member = make_member(5000, dialect)  # 10.0.0.1:5000
    member.on_datagram(discover(45000, dialect=dialect), "10.0.0.1", START)  # text: lower than 5000
    assert (type(take_effects(member)[0]) is Connect) == (dialect == "2016")


def test_4_a_new_process_is_connected_to() -> None:
    member = make_member(5000)
    member.on_datagram(discover(4000), "10.0.0.1", START)
    process = member.processes["10.0.0.1:4000"]
    assert process.state is ProcessState.CONNECTING


def test_a_process_of_another_machine_at_127_0_0_1_cannot_be_reached() -> None:
    """Its name is that of a process here."""
    member = make_member(5000)
    member.on_datagram(discover(4000, ip="127.0.0.1"), "10.0.0.2", START)
    assert not member.effects
    assert member.dropped["discovery of a place elsewhere"] == 1
    member.on_datagram(discover(4000, ip="127.0.0.1"), "127.0.0.1", START)
    assert take_effects(member) == [Datagram("127.0.0.1", 53472, announce(member))]


def test_a_long_discovery_message_is_nonsense_and_is_not_kept() -> None:
    member = make_member(5000)
    said = BusMessage(0.0, "!_o2/dy", "sssii", ("l", "x" * 60_000, "10.0.0.1", 4000, 53472))
    before = links._decode_cached.cache_info().currsize
    member.on_datagram(encode_message(said, "<"), "10.0.0.1", START)
    assert member.dropped == {"nonsense": 1}
    assert links._decode_cached.cache_info().currsize == before
    longest = discover(65535, app="x" * 255, ip="255.255.255.255", dialect="1.1")
    assert len(longest) <= MAX_DISCOVERY_BYTES


# docs/protocol/bus.md, rule 10


@EVERY_DIALECT
def test_states_of_the_process_that_we_connect_to(dialect: DialectName) -> None:
    ports = (5000, 4000) if dialect == "2016" else (5000, 6000)
    member, other = make_member(ports[0], dialect), make_member(ports[1], dialect)
    member.on_datagram(announce(other), "10.0.0.1", START)
    process = get_process(member, other)
    assert get_process(member, other).state is ProcessState.CONNECTING
    take_effects(member)
    member.links.on_connected(process.link, START + 1)
    assert get_process(member, other).state is ProcessState.CONNECTED
    assert [message.address.rpartition("/")[2] for message in take_written(member, process.link)] == ["in", "sv"]
    assert not member.news
    member.links.on_data(process.link, write_init(member, ports[1], udp_port=77), START + 2)
    assert get_process(member, other).state is ProcessState.NO_CLOCK
    assert process.udp_port == 77
    assert take_news(member) == [ProcessFound(other.name)]
    assert not member.effects  # we have said who we are
    member.links.on_data(
        process.link, write(member, BusMessage(0.0, f"!{member.name}/cs/cs", "s", (other.name,))), START + 3
    )
    assert get_process(member, other).state is ProcessState.OK


@EVERY_DIALECT
def test_states_of_the_process_that_connects_to_us(dialect: DialectName) -> None:
    member = make_member(5000, dialect)
    link = member.links.on_accept(START)
    assert not member.processes
    member.links.on_data(link, write_init(member, 6000), START)
    assert member.processes["10.0.0.1:6000"].state is ProcessState.NO_CLOCK
    assert take_news(member) == [ProcessFound("10.0.0.1:6000")]
    assert [message.address.rpartition("/")[2] for message in take_written(member, link)] == ["in", "sv"]


@EVERY_DIALECT
def test_a_first_message_tells_whether_the_time_is_known(dialect: DialectName) -> None:
    member = make_member(5000, dialect)
    accept(member, 6000, is_synced=True)
    assert member.processes["10.0.0.1:6000"].state is ProcessState.OK


def test_connected_counts_once_and_only_for_those_that_we_connect_to() -> None:
    member = make_member(5000)
    link = accept(member, 6000)
    member.links.on_connected(link, START)
    member.links.on_connected(99, START)
    member.links.on_connected(member.links.on_accept(START), START)
    assert not member.effects
    assert member.processes["10.0.0.1:6000"].state is ProcessState.NO_CLOCK


@EVERY_DIALECT
def test_two_find_one_another_whichever_hears_first(dialect: DialectName) -> None:
    for ports in permutations((5000, 6000)):
        first, second = order = [make_member(port, dialect) for port in ports]
        band = Band(*order)
        second.on_datagram(announce(first), "10.0.0.1", START)
        band.settle()
        assert [len(member.processes) for member in order] == [1, 1]
        assert all(process.is_here for member in order for process in member.processes.values())
        assert len(band.wires) == 2  # one link


def test_bytes_may_come_one_by_one() -> None:
    member = make_member(5000)
    link = member.links.on_accept(START)
    for byte in write_init(member, 6000):
        member.links.on_data(link, bytes([byte]), START)
    assert member.processes["10.0.0.1:6000"].is_here


def test_init_is_read_for_the_local_service_too() -> None:
    """The original's programs of 2016 understand both."""
    member = make_member(5000)
    link = member.links.on_accept(START)
    args = ("l", "10.0.0.1", 6000, 7, 0)
    member.links.on_data(link, write(member, BusMessage(0.0, "!_o2/in", "ssiii", args)), START)
    assert "10.0.0.1:6000" in member.processes


# "l" and "b"


@pytest.mark.parametrize(("flag", "order"), [("l", "<"), ("b", ">")])
def test_2016_peers_of_either_order_are_understood(flag: str, order: str) -> None:
    member = make_member(5000)
    listen(member, "drum")

    def say(address: str, types: str, *args: object) -> bytes:
        return encode_message(BusMessage(0.0, address, types, args), order)  # type: ignore[arg-type]

    member.on_datagram(say("!_o2/dy", "sssii", flag, "band", "10.0.0.2", 6000, 54859), "10.0.0.2", START)
    assert take_effects(member) == [Datagram("10.0.0.2", 54859, announce(member))]  # always in our own
    link = member.links.on_accept(START)
    name = "10.0.0.2:6000"
    member.links.on_data(link, frame(say(f"!{member.name}/in", "ssiii", flag, "10.0.0.2", 6000, 77, 1)), START)
    member.links.on_data(link, frame(say(f"!{member.name}/sv", "ss", name, "horn")), START)
    assert member.services.find("horn") == name
    member.links.on_data(link, frame(say("/drum/hit", "i", 7)), START)
    member.on_datagram(say("/drum/hit", "i", 8), "10.0.0.2", START)  # the order of the processes there
    assert take_heard(member) == [("/drum/hit", (7,)), ("/drum/hit", (8,))]


def test_where_both_orders_are_at_one_address_a_datagram_is_taken_for_the_usual_one() -> None:
    member = make_member(5000)
    listen(member, "drum")
    for flag, order, port in (("b", ">", 6000), ("l", "<", 6001)):
        link = member.links.on_accept(START)
        init = BusMessage(0.0, f"!{member.name}/in", "ssiii", (flag, "10.0.0.2", port, 77, 1))
        member.links.on_data(link, frame(encode_message(init, order)), START)  # type: ignore[arg-type]
    member.on_datagram(encode_message(BusMessage(0.0, "/drum/hit", "i", (8,)), "<"), "10.0.0.2", START)
    assert take_heard(member) == [("/drum/hit", (8,))]
    assert member.links.foreign
    member.links.on_cut(2, START)
    member.on_datagram(encode_message(BusMessage(0.0, "/drum/hit", "i", (9,)), ">"), "10.0.0.2", START)
    assert take_heard(member) == [("/drum/hit", (9,))]
    member.links.on_cut(1, START)
    assert not member.links.foreign  # a process that came and went leaves nothing behind


# Loss and return


@EVERY_DIALECT
def test_a_lost_process_is_forgotten_and_found_again(dialect: DialectName) -> None:
    first, second = make_member(5000, dialect), make_member(6000, dialect)
    band = Band(first, second)
    band.meet()
    band.cut(first, second)
    assert [len(member.processes) for member in band.members] == [0, 0]
    assert take_news(first) == [ProcessFound(second.name), ProcessLost(second.name)]
    band.meet()
    assert [len(member.processes) for member in band.members] == [1, 1]


def test_a_connection_that_is_not_made_is_tried_again_at_the_next_announcement() -> None:
    member = make_member(5000)
    member.on_datagram(discover(4000), "10.0.0.1", START)
    member.links.on_cut(1, START)
    assert not member.processes
    assert not member.news
    take_effects(member)
    member.on_datagram(discover(4000), "10.0.0.1", START)
    assert take_effects(member) == [Connect(2, "10.0.0.1", 4000)]


def test_a_process_that_comes_again_takes_the_place_of_what_it_was() -> None:
    """Its end was not noticed: the cable was out, or the machine."""
    member = make_member(5000)
    old = accept(member, 6000)
    member.links.on_data(
        old, write(member, BusMessage(0.0, f"!{member.name}/sv", "ss", ("10.0.0.1:6000", "drum"))), START
    )
    take_news(member)
    new = member.links.on_accept(START)
    member.links.on_data(new, write_init(member, 6000), START)
    news = take_news(member)
    assert [type(item) for item in news][-2:] == [ProcessLost, ProcessFound]
    assert take_effects(member)[0] == Cut(old)
    assert member.services.find("drum") is None  # until it says so again
    member.links.on_cut(old, START)  # a late event of a link that is forgotten
    member.links.on_data(old, b"late", START)
    assert member.processes["10.0.0.1:6000"].link == new


def test_a_second_link_of_one_that_we_connect_to_is_cut() -> None:
    member = make_member(5000)
    member.on_datagram(discover(4000), "10.0.0.1", START)
    take_effects(member)
    link = member.links.on_accept(START)
    member.links.on_data(link, write_init(member, 4000), START)
    assert take_effects(member) == [Cut(link)]
    assert member.dropped["init of another process"] == 1
    assert member.processes["10.0.0.1:4000"].state is ProcessState.CONNECTING


def test_a_process_with_our_name_is_cut() -> None:
    member = make_member(5000)
    link = member.links.on_accept(START)
    member.links.on_data(link, write_init(member, 5000), START)
    assert take_effects(member) == [Cut(link)]
    assert not member.processes


def test_a_process_with_another_name_than_expected_is_cut() -> None:
    member = make_member(5000)
    member.on_datagram(discover(4000), "10.0.0.1", START)
    member.links.on_connected(1, START)
    take_effects(member)
    member.links.on_data(1, write_init(member, 4001), START)
    assert take_effects(member) == [Cut(1)]
    assert not member.processes
    assert not member.news


# Strangers, floods and nonsense


def test_a_process_that_sends_nonsense_is_cut_and_forgotten() -> None:
    member = make_member(5000)
    stranger = member.links.on_accept(START)
    known = accept(member, 6000)
    for link in (stranger, known):
        member.links.on_data(link, frame(b"nonsense"), START)
        assert take_effects(member) == [Cut(link)]
    assert not member.processes
    assert member.dropped["nonsense"] == 2
    assert take_news(member) == [ProcessLost("10.0.0.1:6000")]


def test_bytes_after_nonsense_are_not_read() -> None:
    member = make_member(5000)
    listen(member, "drum")
    link = accept(member, 6000)
    hit = write(member, BusMessage(0.0, "/drum/hit"))
    member.links.on_data(link, hit + frame(b"nonsense") + hit, START)
    assert take_heard(member) == [("/drum/hit", ())]


def test_bytes_after_a_wrong_init_are_not_read() -> None:
    member = make_member(5000)
    listen(member, "drum")
    link = member.links.on_accept(START)
    member.links.on_data(link, write_init(member, 5000) + write(member, BusMessage(0.0, "/drum/hit")), START)
    assert not take_heard(member)


def test_a_stranger_may_not_claim_much() -> None:
    member = make_member(5000)
    link = member.links.on_accept(START)
    member.links.on_data(link, (MAX_INIT_BYTES + 1).to_bytes(4, "big"), START)
    assert take_effects(member) == [Cut(link)]
    known = accept(member, 6000)
    member.links.on_data(known, (MAX_BUS_MESSAGE).to_bytes(4, "big"), START)
    assert not member.effects
    other = accept(member, 6001)
    member.links.on_data(other, (MAX_BUS_MESSAGE + 1).to_bytes(4, "big"), START)
    assert take_effects(member) == [Cut(other)]


def test_silent_strangers_are_cut_after_a_while_and_others_are_not() -> None:
    member = make_member(5000)
    member.on_time(START)
    accept(member, 6000)
    stranger = member.links.on_accept(START + 0.1)
    member.on_datagram(discover(4000), "10.0.0.1", START + 0.2)
    connected = member.processes["10.0.0.1:4000"].link
    member.links.on_connected(connected, START + 1.0)
    take_effects(member)
    for due, link in ((START + 0.1 + PATIENCE, stranger), (START + 0.2 + PATIENCE, connected)):
        member.on_time(due - 0.01)
        assert Cut(link) not in take_effects(member)
        member.on_time(due)
        assert Cut(link) in take_effects(member)
    assert list(member.processes) == ["10.0.0.1:6000"]


def test_no_deadline_of_a_stranger_is_too_early() -> None:
    """Whatever rounding does to the sum of two times: else the program would spin."""
    beginnings = [3.0 + number * 0.0123 for number in range(400)]
    assert any(since + PATIENCE - since < PATIENCE for since in beginnings)
    for since in beginnings:
        member = make_member(5000, now=since)
        member.on_time(since)
        link = member.links.on_accept(since)
        member.on_time(since + PATIENCE)
        assert Cut(link) in member.effects
        assert member.next_deadline() > since + PATIENCE


def test_of_too_many_strangers_the_oldest_goes() -> None:
    """Else a few who say nothing could keep all others out."""
    member = make_member(5000)
    first, *others = [member.links.on_accept(START) for _ in range(MAX_STRANGERS)]
    assert not member.effects
    late = member.links.on_accept(START)
    assert take_effects(member) == [Cut(first)]
    assert member.dropped["too many connections"] == 1
    member.links.on_cut(others[0], START)
    member.links.on_accept(START)
    assert not member.effects
    member.links.on_data(late, write_init(member, 6000), START)
    assert len(member.processes) == 1


def test_connections_that_are_being_made_are_counted() -> None:
    member = make_member(5000)
    for port in range(1, MAX_CONNECTING + 3):
        member.on_datagram(discover(port, ip="1.0.0.1"), "1.0.0.1", START)
    assert len(member.processes) == MAX_CONNECTING
    assert member.dropped["too many processes"] == 2
    member.on_time(START + PATIENCE)
    assert not member.processes  # and the flood is over


def test_processes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_PROCESSES", 3)
    member = make_member(5000)
    for port in (6000, 6001, 6002):
        accept(member, port)
    member.on_datagram(discover(4000), "10.0.0.1", START)
    assert member.dropped["too many processes"] == 1
    link = member.links.on_accept(START)
    member.links.on_data(link, write_init(member, 6003), START)
    assert take_effects(member) == [Cut(link)]
    again = member.links.on_accept(START)
    member.links.on_data(again, write_init(member, 6001), START)  # one of the three may come again
    assert len(member.processes) == 3
    assert isinstance(member.effects[1], Write)


def test_init_of_no_place_is_nonsense() -> None:
    member = make_member(5000)
    link = member.links.on_accept(START)
    args = ("l", "10.0.0.256", 6000, 7, 0)
    member.links.on_data(link, write(member, BusMessage(0.0, "!_o2/in", "ssiii", args)), START)
    assert take_effects(member) == [Cut(link)]
    assert Init("10.0.0.1", 6000, 7, False).process == "10.0.0.1:6000"
