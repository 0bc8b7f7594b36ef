"""What processes tell of themselves, in each dialect, and what no process should."""

import math
from typing import Any

import pytest

from gandy.bus.limits import MAX_ENSEMBLE_NAME, MAX_REPLY_TO, MAX_SERVICE_NAME
from gandy.bus.wire.control import (
    ClockReply,
    ClockRequest,
    ClockSynced,
    Control,
    Discovery,
    Init,
    Services,
    decode_control,
    decode_discovery,
    decode_init,
    encode_clock_reply,
    encode_clock_request,
    encode_clock_synced,
    encode_discovery,
    encode_init,
    encode_services,
    is_ip,
    is_name,
    is_process,
    make_clock_request,
    make_first_services,
)
from gandy.bus.wire.dialects import DIALECTS, Dialect
from gandy.bus.wire.messages import BusMessage, decode_message, encode_message
from gandy.errors import ErrorCode, RemoteProtocolError

OLD, NEW, NEWEST = DIALECTS["2016"], DIALECTS["1.0"], DIALECTS["1.1"]
BIG_OLD = OLD._replace(order=">")  # as a process on a big-endian machine has it
ALL = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)

OURS, THEIRS = "10.0.0.1:4000", "10.0.0.2:5000"


def a_discovery(dialect: Dialect, **fields: Any) -> Discovery:
    return Discovery(
        **{"app": "band", "ip": "10.0.0.1", "tcp_port": 4000, "discovery_port": 53472, "order": dialect.order, **fields}
    )


def an_init(dialect: Dialect, **fields: Any) -> Init:
    return Init(
        **{"ip": "10.0.0.1", "tcp_port": 4000, "udp_port": 4001, "is_synced": True, "order": dialect.order, **fields}
    )


@ALL
def test_discovery(dialect: Dialect) -> None:
    said = a_discovery(dialect)
    assert said.process == OURS
    assert decode_discovery(encode_discovery(said, dialect), dialect) == said


@ALL
@pytest.mark.parametrize("is_synced", [False, True])
def test_init(dialect: Dialect, is_synced: bool) -> None:
    said = an_init(dialect, is_synced=is_synced)
    assert said.process == OURS
    assert decode_init(encode_init(said, THEIRS, dialect), dialect) == said


def test_2016_reads_processes_of_either_order() -> None:
    for ours, theirs in ((OLD, BIG_OLD), (BIG_OLD, OLD)):
        assert decode_discovery(encode_discovery(a_discovery(theirs), theirs), ours) == a_discovery(theirs)
        assert decode_init(encode_init(an_init(theirs), OURS, theirs), ours) == an_init(theirs)


def test_hubs_are_of_1_1_only() -> None:
    assert decode_discovery(encode_discovery(a_discovery(NEWEST, is_hub=True), NEWEST), NEWEST).is_hub
    assert decode_init(encode_init(an_init(NEWEST, is_hub=True), THEIRS, NEWEST), NEWEST).is_hub
    assert not decode_discovery(encode_discovery(a_discovery(NEW, is_hub=True), NEW), NEW).is_hub


def test_2016_reads_init_at_either_address() -> None:
    data = encode_init(an_init(OLD), "_o2", OLD)
    assert decode_message(data, "<").address == "!_o2/in"
    assert decode_init(data, OLD) == an_init(OLD)


def test_later_ones_read_init_at_one_address() -> None:
    data = encode_message(BusMessage(0.0, f"!{OURS}/in", "siii", ("10.0.0.1", 1, 2, 0)), ">")
    with pytest.raises(RemoteProtocolError, match="no init"):
        decode_init(data, NEW)


def test_dialects_do_not_understand_one_another() -> None:
    for ours in DIALECTS.values():
        for theirs in DIALECTS.values():
            if ours is not theirs:
                with pytest.raises(RemoteProtocolError):
                    decode_discovery(encode_discovery(a_discovery(theirs), theirs), ours)
                with pytest.raises(RemoteProtocolError):
                    decode_init(encode_init(an_init(theirs), OURS, theirs), ours)


BAD_PLACES: list[dict[str, Any]] = [
    {"ip": ""},
    {"ip": "localhost"},
    {"ip": "10.0.0"},
    {"ip": "10.0.0.256"},
    {"ip": "10.0.0.1.1"},
    {"ip": "10.0.0.01"},
    {"ip": "10.0.0.-1"},
    {"ip": "10.0.0.1 "},
    {"ip": "10.0.0.²"},
    {"ip": "1" * 1000},
    {"tcp_port": 0},
    {"tcp_port": -1},
    {"tcp_port": 65536},
]


@ALL
@pytest.mark.parametrize(
    "fields", [*BAD_PLACES, {"discovery_port": 0}, {"app": ""}, {"app": "a" * (MAX_ENSEMBLE_NAME + 1)}]
)
def test_discovery_of_nothing_real_is_refused(dialect: Dialect, fields: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_discovery(encode_discovery(a_discovery(dialect, **fields), dialect), dialect)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


@ALL
@pytest.mark.parametrize("fields", [*BAD_PLACES, {"udp_port": 65536}])
def test_init_from_nowhere_is_refused(dialect: Dialect, fields: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_init(encode_init(an_init(dialect, **fields), THEIRS, dialect), dialect)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


def test_discovery_has_its_own_address_and_order() -> None:
    args = ("l", "band", "10.0.0.1", 4000, 53472)
    with pytest.raises(RemoteProtocolError, match="no discovery"):
        decode_discovery(encode_message(BusMessage(0.0, "!_o2/xy", "sssii", args), "<"), OLD)
    with pytest.raises(RemoteProtocolError, match="order of bytes 'x'"):
        decode_discovery(encode_message(BusMessage(0.0, "!_o2/dy", "sssii", ("x", *args[1:])), "<"), OLD)
    init = encode_message(BusMessage(0.0, "/_o2/in", "ssiii", ("l", "10.0.0.1", 1, 2, 0)), "<")
    with pytest.raises(RemoteProtocolError, match="no init"):
        decode_init(init, OLD)


# Services


def read(data: bytes, dialect: Dialect) -> Control | None:
    return decode_control(decode_message(data, dialect.order), dialect)


@ALL
@pytest.mark.parametrize("added", [(), ("a",), ("a", "_cs", "x" * MAX_SERVICE_NAME)])
def test_services_that_came(dialect: Dialect, added: tuple[str, ...]) -> None:
    said = Services(OURS, added)
    (data,) = encode_services(said, THEIRS, dialect)
    assert decode_message(data, dialect.order).address == f"!{THEIRS}/sv"
    assert read(data, dialect) == said


@ALL
def test_first_services_tell_the_name_where_the_dialect_does(dialect: Dialect) -> None:
    said = make_first_services(OURS, ["a", "b"], dialect)
    assert said.added == (("a", "b") if dialect is OLD else (OURS, "a", "b"))
    (data,) = encode_services(said, THEIRS, dialect)
    assert read(data, dialect) == said


def test_later_ones_tell_what_came_and_went_at_once() -> None:
    said = Services(OURS, ("a",), ("b", "c"))
    for dialect in (NEW, NEWEST):
        (data,) = encode_services(said, THEIRS, dialect)
        assert read(data, dialect) == said


def test_libo2_tells_of_later_services_by_another_type() -> None:
    message = BusMessage(0.0, f"!{OURS}/sv", "ssBssBs", (THEIRS, "a", True, "", "b", False, ""))
    assert decode_control(message, NEWEST) == Services(THEIRS, ("a",), ("b",))


def test_2016_tells_of_each_service_that_went() -> None:
    messages = encode_services(Services(OURS, ("a",), ("b", "c")), THEIRS, OLD)
    assert [decode_message(data, "<").address[-3:] for data in messages] == ["/sv", "/sd", "/sd"]
    told = [Services(OURS, ("a",)), Services(OURS, (), ("b",)), Services(OURS, (), ("c",))]
    assert [read(data, OLD) for data in messages] == told
    assert len(encode_services(Services(OURS, (), ("b",)), THEIRS, OLD)) == 1


def test_removal_of_2016_is_unknown_later() -> None:
    assert decode_control(BusMessage(0.0, f"!{OURS}/sd", "ss", (THEIRS, "a")), NEW) is None


def test_taps_of_1_1_are_ignored() -> None:
    args = (THEIRS, "a", True, "", "spy", True, "a", "b", False, "", "old", False, "a", "a", False, "b")
    message = BusMessage(0.0, f"!{OURS}/sv", "s" + "sTs" * 2 + "sFs" * 3, args)
    assert decode_control(message, NEWEST) == Services(THEIRS, ("a",), ("b",))


def test_of_a_service_that_is_told_twice_the_last_counts() -> None:
    message = BusMessage(0.0, f"!{OURS}/sv", "ssTsFsT", (THEIRS, "a", True, "a", False, "b", True))
    assert decode_control(message, NEW) == Services(THEIRS, ("b",), ("a",))


# The clock


@ALL
def test_clock(dialect: Dialect) -> None:
    synced, request = ClockSynced(OURS), make_clock_request(7, OURS)
    assert request == ClockRequest(7, f"!{OURS}/cs")
    assert request.reply_address == f"!{OURS}/cs/get-reply"
    assert read(encode_clock_synced(synced, THEIRS, dialect), dialect) == synced
    assert read(encode_clock_request(request, dialect), dialect) == request
    data = encode_clock_reply(ClockReply(7, 1.5), request, dialect)
    assert decode_message(data, dialect.order).address == request.reply_address
    assert read(data, dialect) == ClockReply(7, 1.5)


@pytest.mark.parametrize(
    "message",
    [
        BusMessage(0.0, f"!{OURS}"),
        BusMessage(0.0, "!_o2/si", "sis", (OURS, 1, "")),
        BusMessage(0.0, f"!{OURS}/cs/rt", "s", ("!x",)),
        BusMessage(0.0, f"!{OURS}/get", "is", (1, "!x")),
        BusMessage(0.0, "!_cs/rt", "s", ("!x",)),
    ],
)
@ALL
def test_other_messages_are_no_error(dialect: Dialect, message: BusMessage) -> None:
    assert decode_control(message, dialect) is None


LONG = "x" * 1000
WRONG: list[tuple[str, str, tuple[Any, ...]]] = [
    ("/cs/cs", "", ()),
    ("/cs/cs", "i", (1,)),
    ("/cs/cs", "s", ("nobody",)),
    ("/cs/cs", "s", ("10.0.0.1:0",)),
    ("/cs/cs", "s", (LONG,)),
    ("/cs/get-reply", "id", (1, 1.0)),
    ("/cs/get-reply", "it", (1, math.nan)),
    ("/cs/get-reply", "it", (1, math.inf)),
    ("/sv", "", ()),
    ("/sv", "i", (1,)),
    ("/sv", "s", ("nobody",)),
    ("/sv", "si", (OURS, 1)),
    ("/sv", "sN", (OURS, None)),
]
WRONG_OLD: list[tuple[str, str, tuple[Any, ...]]] = [
    ("/sv", "ss", (OURS, "")),
    ("/sv", "ss", (OURS, "a/b")),
    ("/sv", "ss", (OURS, "a\n")),
    ("/sv", "ss", (OURS, "\udce9")),
    ("/sv", "ss", (OURS, "x" * (MAX_SERVICE_NAME + 1))),
    ("/sv", "ssT", (OURS, "a", True)),
    ("/sd", "s", (OURS,)),
    ("/sd", "ss", (OURS, "")),
    ("/sd", "ss", ("nobody", "a")),
]
WRONG_NEW: list[tuple[str, str, tuple[Any, ...]]] = [
    ("/sv", "ss", (OURS, "a")),
    ("/sv", "sT", (OURS, True)),
    ("/sv", "ssTs", (OURS, "a", True, "b")),
    ("/sv", "ssT", (OURS, LONG, True)),
]
WRONG_NEWEST: list[tuple[str, str, tuple[Any, ...]]] = [
    ("/sv", "ssT", (OURS, "a", True)),
    ("/sv", "ssTs", (OURS, "a", True, "/")),
    ("/sv", "ssTs", (OURS, "", True, "a")),
]


@pytest.mark.parametrize(
    ("dialect", "path", "types", "args"),
    [(OLD, *row) for row in WRONG + WRONG_OLD]
    + [(NEW, *row) for row in WRONG + WRONG_NEW]
    + [(NEWEST, *row) for row in WRONG + WRONG_NEWEST],
)
def test_wrong_shapes_are_refused(dialect: Dialect, path: str, types: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_control(BusMessage(0.0, f"!{THEIRS}{path}", types, args), dialect)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("reply_to", ["", "nowhere", "#bundle", "!" + "x" * MAX_REPLY_TO])
def test_reply_goes_to_an_address(reply_to: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_control(BusMessage(0.0, "!_cs/get", "is", (1, reply_to)), OLD)
    assert decode_control(BusMessage(0.0, "/_cs/get", "is", (1, "/x")), OLD) == ClockRequest(1, "/x")


def test_names() -> None:
    assert is_ip("0.0.0.0")
    assert is_ip("255.255.255.255")
    assert is_process("127.0.0.1:65535")
    assert not is_process("127.0.0.1")
    assert not is_process("127.0.0.1:080")
    assert not is_process("127.0.0.1:")
    assert not is_process("127.0.0.1:1:2")
    assert is_name("synth 2")
    assert is_name("é" * (MAX_SERVICE_NAME // 2))
    assert not is_name("é" * MAX_SERVICE_NAME)
