"""Whatever can be said on the bus comes back as it went, in either order; whatever else comes is refused."""

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.bundles import encode_element, encode_osc_element
from tests.fuzz import bus as fuzz
from tests.strategies import cut_into_pieces

from gandy.bus.limits import MAX_BUNDLE_DEPTH
from gandy.bus.wire import control as bus_control
from gandy.bus.wire import osc
from gandy.bus.wire.control import ClockReply, ClockRequest, ClockSynced, Discovery, Init, Services
from gandy.bus.wire.dialects import DIALECTS, Dialect
from gandy.bus.wire.messages import (
    BusBundle,
    BusMessage,
    Framer,
    Order,
    decode,
    decode_args,
    decode_message,
    encode_message,
    frame,
    make_message,
    peek,
)
from gandy.bus.wire.types import INFINITUM, infer_types
from gandy.errors import RemoteProtocolError


class Typed(NamedTuple):
    """A value, and its type string."""

    types: str
    value: Any


orders: st.SearchStrategy[Order] = st.sampled_from(["<", ">"])
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, width=32)
doubles = st.floats(allow_nan=False)
times = st.floats(allow_nan=False, allow_infinity=False)

NUMBERS: dict[str, st.SearchStrategy[Any]] = {"i": ints, "h": longs, "f": floats, "d": doubles}
COMMON: dict[str, st.SearchStrategy[Any]] = {
    **NUMBERS,
    "s": texts,
    "S": texts,
    "c": st.characters(codec="utf-8"),
    "m": st.binary(min_size=4, max_size=4),
    "b": st.binary(max_size=9),
    "T": st.just(True),
    "F": st.just(False),
    "N": st.none(),
    "I": st.just(INFINITUM),
}
ON_THE_BUS = {**COMMON, "t": doubles, "B": st.booleans()}
IN_OSC = {**COMMON, "t": st.integers(0, 2**64 - 1), "r": st.binary(min_size=4, max_size=4)}


def typed(codes: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Typed]:
    return st.one_of([st.builds(Typed, st.just(code), values) for code, values in codes.items()])


def make_array(items: list[Typed]) -> Typed:
    return Typed("[" + "".join(item.types for item in items) + "]", [item.value for item in items])


def nested(values: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.recursive(values, lambda inner: st.lists(inner, max_size=3).map(make_array), max_leaves=6)


vectors = st.one_of(
    [st.builds(Typed, st.just("v" + code), st.lists(NUMBERS[code], max_size=4).map(tuple)) for code in NUMBERS]
)
bus_values = nested(typed(ON_THE_BUS) | vectors)
osc_values = nested(typed(IN_OSC))

addresses = st.builds(str.__add__, st.sampled_from("/!"), texts)
osc_addresses = texts.map("/".__add__)


def build_message(time: float, address: str, values: list[Typed]) -> BusMessage:
    return BusMessage(time, address, "".join(one.types for one in values), tuple(one.value for one in values))


def build_osc(address: str, values: list[Typed]) -> osc.OscMessage:
    return osc.OscMessage(address, "".join(one.types for one in values), tuple(one.value for one in values))


messages = st.builds(build_message, times, addresses, st.lists(bus_values, max_size=5))
osc_messages = st.builds(build_osc, osc_addresses, st.lists(osc_values, max_size=5))


def is_shallow(element: Any, depth: int = MAX_BUNDLE_DEPTH) -> bool:
    inner = getattr(element, "elements", None)
    return inner is None or (depth > 0 and all(is_shallow(one, depth - 1) for one in inner))


def tuples(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=3).map(tuple)


elements: st.SearchStrategy[BusMessage | BusBundle] = st.recursive(
    messages, lambda inner: st.builds(BusBundle, times, texts, tuples(inner)), max_leaves=4
).filter(is_shallow)
osc_elements: st.SearchStrategy[osc.OscMessage | osc.OscBundle] = st.recursive(
    osc_messages, lambda inner: st.builds(osc.OscBundle, st.integers(0, 2**64 - 1), tuples(inner)), max_leaves=4
).filter(is_shallow)


@given(messages, orders)
def test_messages(message: BusMessage, order: Order) -> None:
    data = encode_message(message, order)
    assert len(data) % 4 == 0
    assert decode_message(data, order) == message
    time, address, at = peek(data, order)
    assert (time, address, *decode_args(data, at, order)) == message


@given(elements, orders)
def test_bundles(element: BusMessage | BusBundle, order: Order) -> None:
    assert decode(encode_element(element, order), order) == element


@given(osc_elements)
def test_osc(element: osc.OscMessage | osc.OscBundle) -> None:
    assert osc.decode(encode_osc_element(element)) == element


@given(messages)
def test_both_orders_have_the_same_length(message: BusMessage) -> None:
    assert len(encode_message(message, "<")) == len(encode_message(message, ">"))


@given(st.lists(messages, max_size=4), st.lists(st.integers(0), max_size=8))
def test_frames_in_any_pieces(said: list[BusMessage], cuts: list[int]) -> None:
    framer, heard = Framer(), []
    for piece in cut_into_pieces(b"".join([frame(encode_message(message, "<")) for message in said]), cuts):
        framer.receive_data(piece)
        heard += [decode_message(data, "<") for data in iter(framer.next_message, None)]
    assert heard == said
    assert framer.unread == 0


plain_values = st.recursive(
    st.one_of(longs, doubles, texts, st.binary(max_size=9), st.booleans(), st.none(), st.just(INFINITUM)),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
) | st.one_of(st.lists(longs, max_size=3).map(tuple), st.lists(doubles, max_size=3).map(tuple))


@given(st.lists(plain_values, max_size=5), orders)
def test_inferred_types_keep_every_value(values: list[Any], order: Order) -> None:
    message = decode_message(encode_message(make_message("/a", values), order), order)
    assert message.types == infer_types(values)
    assert list(message.args) == values
    assert list(map(type, message.args)) == list(map(type, values))


@given(st.binary(max_size=40), orders)
def test_text_that_is_no_utf_8_goes_on_as_it_came(raw: bytes, order: Order) -> None:
    raw = raw.replace(b"\0", b"")
    data = bytes(8) + b"/a\0\0" + b",s\0\0" + raw + bytes(4 - len(raw) % 4)
    assert encode_message(decode_message(data, order), order) == data


@example(-1e-40)
@given(st.floats(-6e7, 4.2e9).filter(bool))
def test_time_tags_are_as_exact_as_seconds(seconds: float) -> None:
    assert abs(osc.tag_to_wall(osc.wall_to_tag(seconds)) - seconds) <= 2**-32


def is_at_an_edge(tag: int) -> bool:
    """Its seconds, rounded, may be 0, which is at once, or in another era."""
    return tag >> 32 == 2_208_988_800 or tag >> 32 == 0x7FFF_FFFF


@given(st.integers(2, 2**64 - 1).filter(lambda tag: not is_at_an_edge(tag)))
def test_seconds_are_as_exact_as_a_double(tag: int) -> None:
    error = (osc.wall_to_tag(osc.tag_to_wall(tag)) - tag) % 2**64
    assert min(error, 2**64 - error) <= 2**11


# Control messages

dialects = st.sampled_from(list(DIALECTS.values()))
ips = st.ip_addresses(v=4).map(str)
ports = st.integers(1, 65535)
processes = st.builds("{}:{}".format, ips, ports)
names = st.text(st.sampled_from("abc_é 1.:"), min_size=1, max_size=20)
name_sets = st.lists(names, max_size=6, unique=True)


@given(names, ips, ports, ports, dialects, orders)
def test_discovery(app: str, ip: str, tcp_port: int, port: int, dialect: Dialect, order: Order) -> None:
    theirs = dialect._replace(order=order) if "order" in dialect.discovery.fields else dialect
    said = Discovery(app, ip, tcp_port, port, order=theirs.order)
    assert bus_control.decode_discovery(bus_control.encode_discovery(said, theirs), dialect) == said
    init = Init(ip, tcp_port, port, is_synced=port % 2 == 0, order=theirs.order)
    assert bus_control.decode_init(bus_control.encode_init(init, "1.2.3.4:5", theirs), dialect) == init


@given(processes, name_sets, dialects)
def test_services(process: str, told: list[str], dialect: Dialect) -> None:
    half = len(told) // 2
    said = Services(process, tuple(told[:half]), tuple(told[half:]))
    heard = [
        bus_control.decode_control(decode_message(data, dialect.order), dialect)
        for data in bus_control.encode_services(said, "1.2.3.4:5", dialect)
    ]
    found = [one for one in heard if isinstance(one, Services)]
    assert len(found) == len(heard)
    assert tuple(name for one in found for name in one.added) == said.added
    assert tuple(name for one in found for name in one.removed) == said.removed


@given(processes, ints, times, dialects)
def test_clock(process: str, serial: int, time: float, dialect: Dialect) -> None:
    request = bus_control.make_clock_request(serial, process)
    said = [ClockSynced(process), request, ClockReply(serial, time)]
    written = [
        bus_control.encode_clock_synced(ClockSynced(process), process, dialect),
        bus_control.encode_clock_request(request, dialect),
        bus_control.encode_clock_reply(ClockReply(serial, time), request, dialect),
    ]
    assert isinstance(request, ClockRequest)
    read = [bus_control.decode_control(decode_message(data, dialect.order), dialect) for data in written]
    assert read == said


# Anything else


@pytest.mark.parametrize("name", fuzz.TARGETS)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    fuzz.TARGETS[name](data)


@given(messages, orders, st.data())
def test_damaged_messages_are_read_or_refused(message: BusMessage, order: Order, choices: st.DataObject) -> None:
    data = bytearray(encode_message(message, order))
    for _ in range(choices.draw(st.integers(1, 3))):
        begin = choices.draw(st.integers(0, len(data)))
        end = begin + choices.draw(st.integers(0, 4))
        data[begin:end] = choices.draw(st.binary(max_size=4))
    for read in (partial(decode, order=order), partial(decode_message, order=order), osc.decode):
        with suppress(RemoteProtocolError):
            read(bytes(data))
