"""Arrays as PostgreSQL reads them in binary form, made without a step of Python for each number.

A driver's own arrays cost a few times as much, and every task that ends is in six of them.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

_HEADER: Final = struct.Struct(">iiIii")  # dimensions, whether there are nulls, type of elements, length, first index
_SIZE: Final = struct.Struct(">i").pack
_NULL: Final = _SIZE(-1)
_BYTEA: Final = 17
_INT8: Final = 20
_INT4: Final = 23
_FLOAT8: Final = 701


class PackedArray(bytes):
    """An array in binary form. Each type of elements is a class, so that the driver knows the type of the array."""

    oid = 0


class Int8Array(PackedArray):
    oid = 1016


class Int4Array(PackedArray):
    oid = 1007


class Float8Array(PackedArray):
    oid = 1022


class ByteaArray(PackedArray):
    oid = 1001


PACKED: Final = (Int8Array, Int4Array, Float8Array, ByteaArray)


def pack_int4s(values: Iterable[int]) -> Int4Array:
    numbers = _swap(array("i", values))
    count = len(numbers)
    packed = array("i", bytes(8 * count))
    packed[0::2] = _swap(array("i", [4])) * count
    packed[1::2] = numbers
    return Int4Array(_make_header(_INT4, count) + packed.tobytes())


def pack_int8s(values: Iterable[int]) -> Int8Array:
    return Int8Array(_pack_wide(_INT8, array("q", values)))


def pack_float8s(values: Iterable[float]) -> Float8Array:
    return Float8Array(_pack_wide(_FLOAT8, array("d", values)))


def pack_byteas(values: Sequence[bytes | None]) -> ByteaArray:
    pieces = [piece for value in values for piece in ((_NULL,) if value is None else (_SIZE(len(value)), value))]
    return ByteaArray(_make_header(_BYTEA, len(values), None in values) + b"".join(pieces))


def _pack_wide(oid: int, values: "array[Any]") -> bytes:
    count = len(values)
    halves = array("i")
    halves.frombytes(_swap(values).tobytes())
    packed = array("i", bytes(12 * count))
    packed[0::3] = _swap(array("i", [8])) * count
    packed[1::3] = halves[0::2]
    packed[2::3] = halves[1::2]
    return _make_header(oid, count) + packed.tobytes()


def _make_header(oid: int, count: int, has_nulls: bool = False) -> bytes:
    return _HEADER.pack(1, has_nulls, oid, count, 1) if count else struct.pack(">iiI", 0, 0, oid)


def _swap(values: "array[Any]") -> "array[Any]":
    if sys.byteorder == "little":
        values.byteswap()
    return values
