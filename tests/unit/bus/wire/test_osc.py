"""OSC as its specification has it, and what no program should send."""

from typing import Any

import pytest
from tests.bundles import encode_osc_element

from gandy.bus.limits import MAX_ADDRESS, MAX_BUNDLE_DEPTH, MAX_BUS_MESSAGE, MAX_ELEMENTS
from gandy.bus.wire.messages import Framer, frame
from gandy.bus.wire.osc import IMMEDIATELY, OscBundle, OscMessage, decode, encode, tag_to_wall, wall_to_tag
from gandy.bus.wire.types import INFINITUM
from gandy.errors import ErrorCode, RemoteProtocolError

# The two examples of the OSC 1.0 specification.
OSCILLATOR = OscMessage("/oscillator/4/frequency", "f", (440.0,))
FOO = OscMessage("/foo", "iisff", (1000, -1, "hello", 1.2339999675750732, 5.677999973297119))
EXAMPLES = [
    (OSCILLATOR, "2f6f7363696c6c61746f722f342f6672657175656e637900 2c660000 43dc0000"),
    (FOO, "2f666f6f00000000 2c69697366660000 000003e8 ffffffff 68656c6c6f000000 3f9df3b6 40b5b22d"),
]


@pytest.mark.parametrize(("message", "text"), EXAMPLES)
def test_examples_of_the_specification(message: OscMessage, text: str) -> None:
    assert encode(message) == bytes.fromhex(text)
    assert decode(bytes.fromhex(text)) == message


@pytest.mark.parametrize(
    ("types", "value", "text"),
    [
        ("h", -1, "ffffffffffffffff"),
        ("d", 1.0, "3ff0000000000000"),
        ("t", IMMEDIATELY, "0000000000000001"),
        ("t", 2**64 - 1, "ffffffffffffffff"),
        ("S", "abcd", "6162636400000000"),
        ("c", "a", "00000061"),
        ("m", b"\0\x90\x3c\x40", "00903c40"),
        ("r", b"\xff\x80\x00\x7f", "ff80007f"),
        ("b", b"abc", "0000000361626300"),
        ("T", True, ""),
        ("F", False, ""),
        ("N", None, ""),
        ("I", INFINITUM, ""),
        ("[i[r]]", [1, [b"abcd"]], "0000000161626364"),
    ],
)
def test_types(types: str, value: Any, text: str) -> None:
    message = OscMessage("/a", types, (value,))
    data = encode(message)
    assert data == b"/a\0\0," + types.encode() + bytes(4 - (len(types) + 1) % 4) + bytes.fromhex(text)
    assert decode(data) == message


def test_message_without_types_has_no_arguments() -> None:
    assert decode(b"/a\0\0") == OscMessage("/a")
    assert encode(OscMessage("/a")) == b"/a\0\0,\0\0\0"


BUNDLE = OscBundle(1 << 63, (FOO, OscBundle(IMMEDIATELY, (OSCILLATOR,)), OscBundle(0)))


def test_bundles() -> None:
    assert decode(encode_osc_element(BUNDLE)) == BUNDLE
    data = encode_osc_element(OscBundle(IMMEDIATELY, (OscMessage("/a"),)))
    assert data == b"#bundle\0" + bytes(7) + b"\1" + b"\0\0\0\x08" + b"/a\0\0,\0\0\0"


def test_frames_on_tcp_are_those_of_the_bus() -> None:
    framer = Framer()
    framer.receive_data(frame(encode(FOO)) + frame(encode_osc_element(BUNDLE)))
    assert [decode(data) for data in iter(framer.next_message, None)] == [FOO, BUNDLE]


def nest(depth: int) -> OscBundle:
    bundle = OscBundle(1)
    for _ in range(depth - 1):
        bundle = OscBundle(1, (bundle,))
    return bundle


def test_bundles_have_limits() -> None:
    deepest = nest(MAX_BUNDLE_DEPTH)
    assert decode(encode_osc_element(deepest)) == deepest
    with pytest.raises(RemoteProtocolError) as caught:
        decode(b"#bundle\0" + bytes(8) + frame(encode_osc_element(deepest)))
    assert caught.value.code is ErrorCode.TOO_LONG
    with pytest.raises(RemoteProtocolError) as caught:
        decode(b"#bundle\0" + bytes(8) + frame(b"/a\0\0") * (MAX_ELEMENTS + 1))
    assert caught.value.code is ErrorCode.TOO_LONG


@pytest.mark.parametrize(
    "message",
    [
        OscMessage(""),
        OscMessage("a"),
        OscMessage("#bundle"),
        OscMessage("/a\0"),
        OscMessage("/" * (MAX_ADDRESS + 1)),
        OscMessage("/a", "B", (True,)),
        OscMessage("/a", "vi", ((1,),)),
        OscMessage("/a", "t", (1.5,)),
        OscMessage("/a", "t", (-1,)),
        OscMessage("/a", "r", (b"abc",)),
        OscMessage("/a", "b", (bytes(MAX_BUS_MESSAGE),)),
    ],
    ids=lambda message: repr(message)[:50],
)
def test_values_that_cannot_be_encoded_are_refused(message: OscMessage) -> None:
    with pytest.raises(ValueError):
        encode(message)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a",
        b"\0\0\0\0",
        b"/abc",
        b"/a\0",
        b"/" * (MAX_ADDRESS + 1) + bytes(4),
        b"/a\0\0abc\0",
        b"/a\0\0,B\0\0\0\0\0\1",
        b"/a\0\0,vi\0\0\0\0\0",
        b"/a\0\0,i\0\0",
        b"/a\0\0,\0\0\0abcd",
        b"#bundle",
        b"#bundle\0",
        b"#bundle\0" + bytes(7),
        b"#bundle\0" + bytes(8) + b"\0\0\0",
        b"#bundle\0" + bytes(8) + b"\0\0\0\x05/a\0\0",
        b"#bundle\0" + bytes(8) + bytes(4),
        b"#bundle\0" + bytes(8) + b"\0\0\0\x01/",
        b"#other\0\0" + bytes(8),
    ],
)
def test_malformed_data_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(data)


def test_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(bytes(MAX_BUS_MESSAGE + 1))
    assert caught.value.code is ErrorCode.TOO_LONG


@pytest.mark.parametrize(
    ("seconds", "tag"),
    [
        (1.5, (2_208_988_801 << 32) + (1 << 31)),
        (-0.5, (2_208_988_799 << 32) + (1 << 31)),
        (1_700_000_000.25, (3_908_988_800 << 32) + (1 << 30)),
        (2_085_978_495.0, 0xFFFF_FFFF << 32),  # the last second of NTP's first era, in 2036
        (2_085_978_497.0, 1 << 32),  # and one of the second
        (4_233_462_143.5, (0x7FFF_FFFF << 32) + (1 << 31)),
    ],
)
def test_time_tags(seconds: float, tag: int) -> None:
    assert wall_to_tag(seconds) == tag
    assert tag_to_wall(tag) == seconds


def test_at_once_is_a_tag_of_its_own() -> None:
    assert wall_to_tag(0.0) == IMMEDIATELY == 1
    assert tag_to_wall(IMMEDIATELY) == tag_to_wall(0) == 0.0


@pytest.mark.parametrize("seconds", [-1e10, -61_505_153.0, 4_233_462_144.0, 1e300, float("nan"), float("inf")])
def test_times_that_have_no_tag(seconds: float) -> None:
    with pytest.raises(ValueError):
        wall_to_tag(seconds)
