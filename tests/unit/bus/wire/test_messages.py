"""Messages, bundles and frames of the bus: layout, limits, and what no process should send."""

import math
import tracemalloc
from itertools import product
from typing import Any, cast

import pytest
from tests.bundles import encode_element

from gandy.bus.limits import MAX_ADDRESS, MAX_BUNDLE_DEPTH, MAX_BUS_MESSAGE, MAX_ELEMENTS
from gandy.bus.wire.messages import (
    INFINITUM,
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
from gandy.errors import ErrorCode, RemoteProtocolError

ORDERS: list[Order] = ["<", ">"]
HELLO = BusMessage(1.5, "/svc/hello", "ifs", (1, 2.0, "three"))


@pytest.mark.parametrize("order", ORDERS)
def test_message_in_either_order(order: Order) -> None:
    data = encode_message(HELLO, order)
    assert decode_message(data, order) == decode(data, order) == HELLO
    assert encode_element(HELLO, order) == data


def test_layout_to_the_byte() -> None:
    assert encode_message(HELLO, ">").hex(" ", 4) == (
        "3ff80000 00000000 2f737663 2f68656c 6c6f0000 2c696673 00000000 00000001 40000000 74687265 65000000"
    )
    assert encode_message(HELLO, "<").hex(" ", 4) == (
        "00000000 0000f83f 2f737663 2f68656c 6c6f0000 2c696673 00000000 01000000 00000040 74687265 65000000"
    )


@pytest.mark.parametrize("size", range(2, 10))
def test_address_has_1_to_4_zeros_behind_it(size: int) -> None:
    address = "!" + "a" * (size - 1)
    data = encode_message(BusMessage(0.0, address), "<")
    zeros = 4 - size % 4
    assert data == bytes(8) + address.encode() + bytes(zeros) + b",\0\0\0"
    assert decode_message(data, "<") == BusMessage(0.0, address)


@pytest.mark.parametrize("order", ORDERS)
def test_time_and_address_are_read_without_the_rest(order: Order) -> None:
    data = encode_message(HELLO, order)
    time, address, at = peek(data, order)
    assert (time, address, at) == (1.5, "/svc/hello", 20)
    assert decode_args(data, at, order) == ("ifs", (1, 2.0, "three"))
    assert peek(data[:20], order) == (1.5, "/svc/hello", 20)


def test_types_are_inferred_unless_they_are_told() -> None:
    assert make_message("/a", [1, 2.0, "x", INFINITUM]) == BusMessage(0.0, "/a", "idsI", (1, 2.0, "x", INFINITUM))
    assert make_message("!a", (1,), "d", 7.5) == BusMessage(7.5, "!a", "d", (1,))
    with pytest.raises(ValueError, match="argument 1"):
        make_message("/a", [{}])


def test_address_that_is_no_utf_8_is_kept() -> None:
    data = bytes(8) + b"/\xe9\0\0" + b",\0\0\0"
    message = decode_message(data, "<")
    assert message.address == "/\udce9"
    assert encode_message(message, "<") == data


@pytest.mark.parametrize(
    "message",
    [
        BusMessage(0.0, ""),
        BusMessage(0.0, "svc"),
        BusMessage(0.0, "#svc"),
        BusMessage(0.0, "/a\0b"),
        BusMessage(0.0, "/\ud800"),
        BusMessage(0.0, "/" * (MAX_ADDRESS + 1)),
        BusMessage(0.0, "/" + "é" * (MAX_ADDRESS // 2 + 1)),
        BusMessage(math.nan, "/a"),
        BusMessage(math.inf, "/a"),
        BusMessage(0.0, "/a", "i"),
        BusMessage(0.0, "/a", "i", ("x",)),
        BusMessage(0.0, "/a", "?", (1,)),
        BusMessage(0.0, "/a", "b", (bytes(MAX_BUS_MESSAGE),)),
    ],
    ids=lambda message: repr(message)[:60],
)
def test_values_that_cannot_be_encoded_are_refused(message: BusMessage) -> None:
    with pytest.raises(ValueError):
        encode_message(message, "<")


def test_longest_address_is_taken() -> None:
    message = BusMessage(0.0, "/" * MAX_ADDRESS)
    assert decode_message(encode_message(message, "<"), "<") == message


NAN = bytes.fromhex("7ff8000000000000")

MALFORMED = {
    "nothing": b"",
    "a time and no more": bytes(8),
    "half a time": bytes(5),
    "an empty address": bytes(12) + b",\0\0\0",
    "an address without an end": bytes(8) + b"/abc",
    "an address of another kind": bytes(8) + b"abc\0" + b",\0\0\0",
    "an address that is too long": bytes(8) + b"/" * (MAX_ADDRESS + 1) + bytes(4) + b",\0\0\0",
    "an endless address": bytes(8) + b"/" * 60_000,
    "an address without its padding": bytes(8) + b"/\0",
    "no types": bytes(8) + b"/a\0\0",
    "arguments without types": bytes(8) + b"/a\0\0" + b"abc\0",
    "a time that is no number": NAN + b"/a\0\0" + b",\0\0\0",
    "a time without an end": bytes.fromhex("7ff0000000000000") + b"/a\0\0" + b",\0\0\0",
    "bytes behind it": bytes(8) + b"/a\0\0" + b",\0\0\0" + bytes(4),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_messages_are_refused(data: bytes) -> None:
    for read in (decode_message, decode):
        with pytest.raises(RemoteProtocolError) as caught:
            read(data, ">")
        assert caught.value.code is ErrorCode.BAD_PAYLOAD


def test_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(bytes(MAX_BUS_MESSAGE + 1), "<")
    assert caught.value.code is ErrorCode.TOO_LONG


# Bundles

INNER = BusBundle(2.0, "other", (HELLO,))
BUNDLE = BusBundle(1.0, "svc", (HELLO, INNER, BusMessage(0.0, "!svc/bye")))


@pytest.mark.parametrize("order", ORDERS)
def test_bundle_in_either_order(order: Order) -> None:
    data = encode_element(BUNDLE, order)
    assert decode(data, order) == BUNDLE
    assert peek(data, order) == (1.0, "#svc", 16)


def test_layout_of_a_bundle() -> None:
    bye = encode_message(BusMessage(0.0, "!s/b"), ">")
    data = encode_element(BusBundle(0.5, "svc", (BusMessage(0.0, "!s/b"),)), ">")
    assert data == bytes.fromhex("3fe0000000000000") + b"#svc\0\0\0\0" + bytes((0, 0, 0, len(bye))) + bye


def test_bundle_may_be_empty() -> None:
    assert decode(encode_element(BusBundle(0.0, "svc"), "<"), "<") == BusBundle(0.0, "svc")


def test_bundle_is_no_message() -> None:
    with pytest.raises(RemoteProtocolError):
        decode_message(encode_element(BUNDLE, "<"), "<")


def nest(depth: int) -> BusBundle:
    bundle = BusBundle(0.0, "a")
    for _ in range(depth - 1):
        bundle = BusBundle(0.0, "a", (bundle,))
    return bundle


def wrap(data: bytes, count: int = 1) -> bytes:
    return bytes(8) + b"#a\0\0" + (len(data).to_bytes(4, "big") + data) * count


def test_bundles_within_bundles_have_a_limit() -> None:
    deepest = encode_element(nest(MAX_BUNDLE_DEPTH), ">")
    assert decode(deepest, ">") == nest(MAX_BUNDLE_DEPTH)
    with pytest.raises(RemoteProtocolError) as caught:
        decode(wrap(deepest), ">")
    assert caught.value.code is ErrorCode.TOO_LONG


def test_messages_of_a_bundle_have_a_limit_however_they_are_nested() -> None:
    bye = BusMessage(0.0, "!a")
    half = BusBundle(0.0, "a", (bye,) * (MAX_ELEMENTS // 2 - 1))
    full = BusBundle(0.0, "a", (half, half))
    assert decode(encode_element(full, ">"), ">") == full
    with pytest.raises(RemoteProtocolError) as caught:
        decode(encode_element(full, ">") + frame(encode_element(bye, ">")), ">")
    assert caught.value.code is ErrorCode.TOO_LONG


BYE = encode_message(BusMessage(0.0, "!a"), ">")


@pytest.mark.parametrize(
    "data",
    [
        wrap(BYE)[:-1],
        wrap(BYE)[:-4],
        wrap(BYE) + bytes(1),
        wrap(BYE) + bytes(3),
        wrap(BYE) + bytes(4),
        wrap(BYE) + b"\xff\xff\xff\xff",
        wrap(b""),
        wrap(b"abc"),
        bytes(8) + b"#\0",
    ],
)
def test_malformed_bundles_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(data, ">")


# Frames


@pytest.mark.parametrize("sizes", list(product([0, 1, 3, 4, 5, 60], repeat=2)))
def test_frames_come_out_as_they_went_in(sizes: tuple[int, int]) -> None:
    messages = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(frame, messages))
    for size in (1, 2, 5, len(stream)):
        framer = Framer()
        found: list[bytes] = []
        for begin in range(0, len(stream), size):
            framer.receive_data(stream[begin : begin + size])
            found += iter(framer.next_message, None)
        assert found == messages
        assert all(type(message) is bytes for message in found)
        assert framer.unread == 0


def test_length_is_big_endian() -> None:
    assert frame(b"x" * 258) == b"\0\0\1\2" + b"x" * 258


def test_frame_that_is_too_long_is_refused_for_good() -> None:
    framer = Framer(limit=5)
    framer.receive_data(frame(b"12345") + frame(b"123456"))
    assert framer.next_message() == b"12345"
    for _ in range(2):
        with pytest.raises(RemoteProtocolError) as caught:
            framer.next_message()
        assert (caught.value.code, caught.value.offset) == (ErrorCode.TOO_LONG, 9)


def test_claimed_length_costs_no_memory() -> None:
    framer = Framer()
    framer.receive_data(b"\xff\xff\xff\xff" + bytes(8))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            framer.next_message()
        framer = Framer()
        framer.receive_data(MAX_BUS_MESSAGE.to_bytes(4, "big") + bytes(8))
        assert framer.next_message() is None
        for claim in (b",b\0\0\x7f\xff\xff\xff", b",vi\0\x7f\xff\xff\xfc"):
            with pytest.raises(RemoteProtocolError):
                decode(bytes(8) + b"/a\0\0" + claim, ">")
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


def test_large_frame_is_collected_where_it_grows() -> None:
    data = bytes(range(256)) * 4_000
    stream = frame(data) + frame(b"next")
    framer = Framer()
    for begin in range(0, len(stream), 1_000):
        framer.receive_data(stream[begin : begin + 1_000])
    assert (framer.next_message(), framer.next_message(), framer.next_message()) == (data, b"next", None)


def test_messages_are_plain_tuples() -> None:
    assert cast("tuple[Any, ...]", HELLO) == (1.5, "/svc/hello", "ifs", (1, 2.0, "three"))
