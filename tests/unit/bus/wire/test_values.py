"""Values and their bytes, in both orders; and those of which there are no such bytes."""

import math
from typing import Any

import pytest

from gandy.bus.limits import MAX_TYPES
from gandy.bus.wire.types import INFINITUM
from gandy.bus.wire.values import CACHED_LENGTH, CACHED_TYPES, Codec
from gandy.errors import ErrorCode, RemoteProtocolError

LITTLE = Codec("<")
BIG = Codec(">")

# types, arguments, bytes behind the type string in little and in big order
EXAMPLES: list[tuple[str, tuple[Any, ...], str, str]] = [
    ("", (), "", ""),
    ("i", (-2,), "feffffff", "fffffffe"),
    ("h", (1,), "0100000000000000", "0000000000000001"),
    ("f", (1.0,), "0000803f", "3f800000"),
    ("d", (1.0,), "000000000000f03f", "3ff0000000000000"),
    ("t", (2.0,), "0000000000000040", "4000000000000000"),
    ("s", ("",), "00000000", "00000000"),
    ("s", ("abc",), "61626300", "61626300"),
    ("S", ("abcd",), "6162636400000000", "6162636400000000"),
    ("s", ("é",), "c3a90000", "c3a90000"),
    ("s", ("\udce9",), "e9000000", "e9000000"),
    ("c", ("a",), "61000000", "00000061"),
    ("c", ("\0",), "00000000", "00000000"),
    ("c", ("𝄞",), "1ed10100", "0001d11e"),
    ("m", (b"\x11\x22\x33\x44",), "11223344", "11223344"),
    ("b", (b"",), "00000000", "00000000"),
    ("b", (b"a",), "0100000061000000", "0000000161000000"),
    ("b", (b"abcd",), "0400000061626364", "0000000461626364"),
    ("BB", (True, False), "0100000000000000", "0000000100000000"),
    ("TFNI", (True, False, None, INFINITUM), "", ""),
    ("[]", ([],), "", ""),
    ("[i[s]T]", ([1, ["a"], True],), "0100000061000000", "0000000161000000"),
    ("vi", ((),), "00000000", "00000000"),
    ("vi", ((1, 2),), "080000000100000002000000", "000000080000000100000002"),
    ("vh", ((1,),), "080000000100000000000000", "000000080000000000000001"),
    ("vf", ((1.0,),), "040000000000803f", "000000043f800000"),
    ("vd", ((1.0,),), "08000000000000000000f03f", "000000083ff0000000000000"),
    ("ifsi", (1, 1.0, "a", 2), "010000000000803f6100000002000000", "000000013f8000006100000000000002"),
    ("i" * 40, tuple(range(40)), "", ""),
]


def encode(codec: Codec, types: str, *args: Any) -> bytes:
    return codec.encode_args(types, args)


@pytest.mark.parametrize(("types", "args", "little", "big"), EXAMPLES)
def test_values_are_written_and_read(types: str, args: tuple[Any, ...], little: str, big: str) -> None:
    for codec, rest in ((LITTLE, little), (BIG, big)):
        data = codec.encode_args(types, args)
        assert len(data) % 4 == 0
        assert data[: len(types) + 2] == b"," + types.encode() + b"\0"
        if len(types) < CACHED_LENGTH:
            assert data[(len(types) + 5) & -4 :].hex() == rest
        assert codec.decode_args(data, 0) == (types, args)
        assert codec.decode_args(b"head" + data, 4) == (types, args)


@pytest.mark.parametrize(
    ("types", "given", "read"),
    [
        ("f", 1, 1.0),
        ("d", True, 1.0),
        ("i", True, 1),
        ("B", 5, True),
        ("b", bytearray(b"a"), b"a"),
        ("b", memoryview(b"abc")[::2], b"ac"),
        ("m", bytearray(b"abcd"), b"abcd"),
        ("vi", [1, 2], (1, 2)),
        ("vd", (1, 2.5), (1.0, 2.5)),
        ("[ii]", (1, 2), [1, 2]),
    ],
)
def test_values_that_fit_are_taken(types: str, given: Any, read: Any) -> None:
    _, (found,) = BIG.decode_args(encode(BIG, types, given), 0)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("types", "value"),
    [
        ("i", 2**31),
        ("i", -(2**31) - 1),
        ("i", 1.0),
        ("i", "1"),
        ("i", None),
        ("h", 2**63),
        ("f", 1e300),
        ("f", "1"),
        ("d", 10**400),
        ("t", None),
        ("s", b"abc"),
        ("s", 1),
        ("s", "a\0b"),
        ("s", "\ud800"),
        ("c", ""),
        ("c", "ab"),
        ("c", b"a"),
        ("c", "\ud800"),
        ("m", b"abc"),
        ("m", "abcd"),
        ("m", 4),
        ("b", "text"),
        ("b", 3),
        ("B", "yes"),
        ("B", 1.0),
        ("T", False),
        ("T", 1),
        ("F", None),
        ("N", 0),
        ("I", math.inf),
        ("vi", (1, 2**31)),
        ("vi", "12"),
        ("vi", 1),
        ("vd", (1.0, "a")),
        ("[ii]", [1]),
        ("[ii]", [1, "a"]),
        ("[s]", "a"),
        ("[s]", None),
    ],
)
def test_value_that_does_not_fit_is_named_by_its_position(types: str, value: Any) -> None:
    for before, args in (("", ()), ("i", (1,)), ("s", ("a",)), ("is", (1, "a"))):
        with pytest.raises(ValueError, match=f"^argument {len(args) + 1}: "):
            encode(LITTLE, before + types + "i", *args, value, 1)


def test_values_and_types_have_the_same_number() -> None:
    with pytest.raises(ValueError, match="1 arguments, and types for 2: 'ii'"):
        encode(LITTLE, "ii", 1)
    with pytest.raises(ValueError, match="2 arguments, and types for 0"):
        encode(LITTLE, "", 1, 2)


def test_bad_types_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown type 'x'"):
        encode(LITTLE, "x", 1)


MALFORMED = {
    "nothing": ("", ErrorCode.BAD_PAYLOAD),
    "no types": ("61000000", ErrorCode.BAD_PAYLOAD),
    "types without an end": ("2c696969", ErrorCode.BAD_PAYLOAD),
    "types without their padding": ("2c00", ErrorCode.BAD_PAYLOAD),
    "an unknown type": ("2c780000", ErrorCode.UNKNOWN_TYPE),
    "a type that is no ASCII": ("2ce90000", ErrorCode.UNKNOWN_TYPE),
    "an array without an end": ("2c5b0000", ErrorCode.UNKNOWN_TYPE),
    "too many bytes": ("2c6900000000000100000002", ErrorCode.BAD_PAYLOAD),
    "half a number": ("2c6900000000", ErrorCode.BAD_PAYLOAD),
    "half a number after text": ("2c7369000000000000", ErrorCode.BAD_PAYLOAD),
    "text without an end": ("2c73000061626364", ErrorCode.BAD_PAYLOAD),
    "text without its padding": ("2c7300006100", ErrorCode.BAD_PAYLOAD),
    "half a MIDI message": ("2c6d00001122", ErrorCode.BAD_PAYLOAD),
    "a blob that claims too much": ("2c6200000000000561626364", ErrorCode.TOO_LONG),
    "a blob that claims all there is": ("2c6200007fffffff61626364", ErrorCode.TOO_LONG),
    "a blob of less than nothing": ("2c620000ffffffff61626364", ErrorCode.TOO_LONG),
    "a blob without its length": ("2c6200000000", ErrorCode.BAD_PAYLOAD),
    "a blob without its padding": ("2c6200000000000361626", ErrorCode.BAD_PAYLOAD),
    "a vector that claims too much": ("2c7669000000000800000001", ErrorCode.TOO_LONG),
    "a vector of one element and a half": ("2c7668000000000c000000000000000000000000", ErrorCode.BAD_PAYLOAD),
    "a character that is none": ("2c63000000110000", ErrorCode.BAD_PAYLOAD),
    "a character of half a pair": ("2c6300000000d800", ErrorCode.BAD_PAYLOAD),
    "a character below a C char": ("2c630000ffffff7f", ErrorCode.BAD_PAYLOAD),
    "an array that is cut off": ("2c5b69695d00000000000001", ErrorCode.BAD_PAYLOAD),
}


@pytest.mark.parametrize(("text", "code"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_arguments_are_refused(text: str, code: ErrorCode) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        BIG.decode_args(bytes.fromhex(text + "0" * (len(text) % 2)), 0)
    assert caught.value.code is code


def test_padding_is_not_looked_at() -> None:
    data = bytes.fromhex("2c7300ff" + "61006263")
    assert BIG.decode_args(data, 0) == ("s", ("a",))


def test_any_bool_but_0_is_true() -> None:
    assert BIG.decode_args(bytes.fromhex("2c420000" + "00000007"), 0) == ("B", (True,))


def test_c_char_above_127_has_a_sign() -> None:
    assert BIG.decode_args(bytes.fromhex("2c630000" + "ffffffe9"), 0) == ("c", ("é",))


def test_longest_type_string_is_taken_and_no_longer_one() -> None:
    types = "i" * (MAX_TYPES - 1) + "s"
    args = (*range(MAX_TYPES - 1), "a")
    data = encode(BIG, types, *args)
    assert BIG.decode_args(data, 0) == (types, args)
    with pytest.raises(RemoteProtocolError) as caught:
        BIG.decode_args(b"," + b"N" * (MAX_TYPES + 1) + bytes(2), 0)
    assert caught.value.code is ErrorCode.TOO_LONG


def test_peers_cannot_fill_memory_with_type_strings() -> None:
    codec = Codec("<")
    for number in range(3 * CACHED_TYPES):
        types = f"{number:011b}".replace("0", "N").replace("1", "T")
        args = tuple(None if code == "N" else True for code in types)
        assert codec.decode_args(codec.encode_args(types, args), 0) == (types, args)
    info = codec._find_reading.cache_info()
    assert info.currsize == CACHED_TYPES
    long = "N" * (CACHED_LENGTH + 1)
    codec.decode_args(codec.encode_args(long, (None,) * len(long)), 0)
    assert codec._find_reading.cache_info().misses == info.misses
