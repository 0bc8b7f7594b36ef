"""Encodes and decodes typed values of the bus and of OSC: a type string, then the arguments, all aligned to 4 bytes.

    ",types" padded | i h f d t | s S padded | c: int32 | m r: 4 bytes | b: int32 length, bytes, padded
    B: int32 | v: int32 length in bytes, elements | T F N I [ ]: nothing

Padding is written as zeros, and ignored when read.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import Any, Final, Literal, NamedTuple

from gandy.bus.limits import MAX_TYPES
from gandy.bus.wire.types import CODES, INFINITUM, VECTOR_CODES, Item, format_item, format_items, parse_types
from gandy.errors import ErrorCode, RemoteProtocolError

Order = Literal["<", ">"]

# Type strings whose readers and writers are cached; peers choose them, so both numbers are small.
CACHED_TYPES: Final = 256
CACHED_LENGTH: Final = 32  # characters of each

NUMBERS: Final[Mapping[str, str]] = {"i": "i", "h": "q", "f": "f", "d": "d", "t": "d"}  # code: that of `struct`
CONSTANTS: Final[Mapping[str, object]] = {"T": True, "F": False, "N": None, "I": INFINITUM}

_COMMA: Final = ord(",")
_ZEROS: Final = (b"\0\0\0\0", b"\0\0\0", b"\0\0", b"\0")  # after text, by its length modulo 4
_BLOB_ZEROS: Final = (b"", b"\0\0\0", b"\0\0", b"\0")

# What `struct` and the writers raise for a value that does not fit.
_MISFIT: Final = (struct.error, OverflowError, TypeError, ValueError, AttributeError)

Reader = Callable[[bytes, int, list[Any]], int]  # message, position, values to append to; returns the next position
Writer = Callable[..., bytes]


class Reading(NamedTuple):
    """How to read the arguments of a type string."""

    types: str
    numbers: Struct | None  # for all of them, if they are nothing but numbers
    readers: tuple[Reader, ...]

    def read(self, data: bytes, at: int) -> tuple[Any, ...]:
        """The arguments, from `at` to the end. Raises: RemoteProtocolError."""
        _, numbers, readers = self
        try:
            if numbers is not None:
                args = numbers.unpack_from(data, at)
                at += numbers.size
            else:
                values: list[Any] = []
                for read in readers:
                    at = read(data, at, values)
                args = tuple(values)
        except struct.error:
            raise _cut_off() from None
        if at != len(data):
            raise _cut_off() if at > len(data) else _too_much(len(data) - at)
        return args


class Writing(NamedTuple):
    """How to write the arguments of a type string."""

    head: bytes  # the type string itself
    items: tuple[Item, ...]
    numbers: Struct | None
    writers: tuple[tuple[int, int, Writer], ...]  # the first argument, the one after the last, and their writer


class Codec:
    """Reads and writes type strings and arguments in one byte order. The codes of OSC differ a little."""

    def __init__(
        self,
        order: Order,
        numbers: Mapping[str, str] = NUMBERS,
        codes: frozenset[str] = CODES,
        vector_codes: frozenset[str] = VECTOR_CODES,
    ) -> None:
        self._order = order
        self._numbers = numbers
        self._codes = codes
        self._vector_codes = vector_codes
        structs = {code: Struct(order + numbers[code]) for code in numbers}
        self._readers = make_readers(order) | {code: _read_run(one) for code, one in structs.items()}
        self._writers: dict[str, Writer] = make_writers(order) | {code: one.pack for code, one in structs.items()}
        self._find_reading = lru_cache(CACHED_TYPES)(self._make_reading)
        self._find_writing = lru_cache(CACHED_TYPES)(self._make_writing)

    def encode_args(self, types: str, args: Sequence[Any]) -> bytes:
        """Raises: ValueError, with the position of a value that does not fit."""
        writing = self.find_writing(types)
        return writing.head + self.write(writing, args)

    def find_writing(self, types: str) -> Writing:
        """Raises: ValueError."""
        return self._find_writing(types) if len(types) <= CACHED_LENGTH else self._make_writing(types)

    def write(self, writing: Writing, args: Sequence[Any]) -> bytes:
        """The bytes after the type string. Raises: ValueError, with the position of a value that does not fit."""
        _, items, numbers, writers = writing
        if len(args) != len(items):
            raise ValueError(f"{len(args)} arguments, and types for {len(items)}: {format_items(items)[:40]!r}")
        try:
            if numbers is not None:
                return numbers.pack(*args)
            return b"".join([write(*args[first:end]) for first, end, write in writers])
        except _MISFIT:
            raise self._explain(items, args) from None

    def _explain(self, items: Sequence[Item], args: Sequence[Any]) -> ValueError:
        for number, (item, value) in enumerate(zip(items, args, strict=True), 1):
            try:
                self._get_writer(item)(value)
            except _MISFIT as error:
                return ValueError(f"argument {number}: {value!r:.60} is not of type {format_item(item)!r:.40}: {error}")
        raise AssertionError("one of them did not fit")

    def decode_args(self, data: bytes, at: int) -> tuple[str, tuple[Any, ...]]:
        """Type string and arguments, from `at` to the end. Raises: RemoteProtocolError."""
        reading, begin = self.find_reading(data, at)
        return reading.types, reading.read(data, begin)

    def find_reading(self, data: bytes, at: int) -> tuple[Reading, int]:
        """The reading of the type string at `at`, and where its arguments begin. Raises: RemoteProtocolError."""
        end = data.find(0, at)
        if end < 0 or data[at] != _COMMA:
            raise RemoteProtocolError("a message without a type string", ErrorCode.BAD_PAYLOAD)
        found = data[at + 1 : end]
        reading = self._find_reading(found) if len(found) <= CACHED_LENGTH else self._make_reading(found)
        return reading, end + 4 & -4

    # Plans

    def _make_reading(self, found: bytes) -> Reading:
        if len(found) > MAX_TYPES:
            raise RemoteProtocolError(f"a type string of {len(found):,} bytes", ErrorCode.TOO_LONG)
        types = found.decode("latin-1")
        try:
            items = self._parse(types)
        except ValueError as error:
            raise RemoteProtocolError(str(error), ErrorCode.UNKNOWN_TYPE) from None
        numbers = self._maybe_join(items)
        return Reading(types, numbers, () if numbers else self._list_readers(items))

    def _make_writing(self, types: str) -> Writing:
        items = self._parse(types)
        numbers = self._maybe_join(items)
        return Writing(write_text("," + types), items, numbers, () if numbers else self._list_writers(items))

    def _parse(self, types: str) -> tuple[Item, ...]:
        return parse_types(types, self._codes, self._vector_codes)

    def _maybe_join(self, items: Sequence[Item]) -> Struct | None:
        """One struct for all of them, if they are nothing but numbers."""
        numbers = self._numbers
        if not all(item in numbers for item in items):
            return None
        return Struct(self._order + "".join([numbers[str(code)] for code in items]))

    def _list_readers(self, items: tuple[Item, ...]) -> tuple[Reader, ...]:
        """Adjacent numbers are read at once."""
        readers: list[Reader] = []
        for run in self._list_runs(items):
            numbers = self._maybe_join(run) if len(run) > 1 else None
            readers.append(_read_run(numbers) if numbers else self._get_reader(run[0]))
        return tuple(readers)

    def _list_writers(self, items: tuple[Item, ...]) -> tuple[tuple[int, int, Writer], ...]:
        writers: list[tuple[int, int, Writer]] = []
        first = 0
        for run in self._list_runs(items):
            numbers = self._maybe_join(run) if len(run) > 1 else None
            end = first + len(run)
            writers.append((first, end, numbers.pack if numbers else self._get_writer(run[0])))
            first = end
        return tuple(writers)

    def _list_runs(self, items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
        """Adjacent numbers together, and each other item alone."""
        for are_numbers, group in groupby(items, self._numbers.__contains__):
            if are_numbers:
                yield tuple(group)
            else:
                yield from ((item,) for item in group)

    def _get_reader(self, item: Item) -> Reader:
        if isinstance(item, str):
            return self._readers[item]
        readers = self._list_readers(item)

        def read_array(data: bytes, at: int, args: list[Any]) -> int:
            inner: list[Any] = []
            for read in readers:
                at = read(data, at, inner)
            args.append(inner)
            return at

        return read_array

    def _get_writer(self, item: Item) -> Writer:
        if isinstance(item, str):
            return self._writers[item]
        writers = self._list_writers(item)

        def write_array(values: Any) -> bytes:
            if not isinstance(values, list | tuple) or len(values) != len(item):
                raise ValueError(f"expected a list of {len(item)}")
            return b"".join([write(*values[first:end]) for first, end, write in writers])

        return write_array


def _cut_off() -> RemoteProtocolError:
    return RemoteProtocolError("a message is cut off", ErrorCode.BAD_PAYLOAD)


def _too_much(count: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{count} bytes after the arguments", ErrorCode.BAD_PAYLOAD)


def is_character(code: int) -> bool:
    return 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000  # surrogates of UTF-16


# Readers


def make_readers(order: Order) -> dict[str, Reader]:
    """For every code but the plain numbers."""
    readers: dict[str, Reader] = {code: _read_constant(value) for code, value in CONSTANTS.items()}
    readers |= {"v" + code: _read_vector(order, NUMBERS[code]) for code in VECTOR_CODES}
    unpack = Struct(order + "i").unpack_from
    return readers | {
        "s": read_text,
        "S": read_text,
        "m": read_four,
        "r": read_four,
        "b": _read_blob(unpack),
        "c": _read_character(unpack),
        "B": _read_bool(unpack),
    }


def read_text(data: bytes, at: int, args: list[Any]) -> int:
    """Bytes that are not UTF-8 become surrogates, which are encoded as the same bytes again."""
    end = data.find(0, at)
    if end < 0:
        raise _cut_off()
    args.append(data[at:end].decode("utf-8", "surrogateescape"))
    return end + 4 & -4


def read_four(data: bytes, at: int, args: list[Any]) -> int:
    args.append(data[at : at + 4])  # `Reading.read` notices if there are too few
    return at + 4


def _read_run(numbers: Struct) -> Reader:
    unpack, size = numbers.unpack_from, numbers.size

    def read_run(data: bytes, at: int, args: list[Any]) -> int:
        args += unpack(data, at)
        return at + size

    return read_run


def _read_constant(value: object) -> Reader:
    def read_constant(_: bytes, at: int, args: list[Any]) -> int:
        args.append(value)
        return at

    return read_constant


def _read_blob(unpack: Callable[..., tuple[Any, ...]]) -> Reader:
    def read_blob(data: bytes, at: int, args: list[Any]) -> int:
        end = at + 4 + _read_size(unpack, data, at)
        args.append(data[at + 4 : end])
        return end + 3 & -4

    return read_blob


def _read_vector(order: Order, code: str) -> Reader:
    unpack = Struct(order + "i").unpack_from
    width = struct.calcsize(order + code)

    def read_vector(data: bytes, at: int, args: list[Any]) -> int:
        size = _read_size(unpack, data, at)
        if size % width:
            raise RemoteProtocolError(f"a vector of {size} bytes in elements of {width}", ErrorCode.BAD_PAYLOAD)
        args.append(struct.unpack_from(f"{order}{size // width}{code}", data, at + 4))
        return at + 4 + size

    return read_vector


def _read_size(unpack: Callable[..., tuple[Any, ...]], data: bytes, at: int) -> int:
    size: int = unpack(data, at)[0]
    if not 0 <= size <= len(data) - at - 4:
        raise RemoteProtocolError(f"{size} bytes are claimed, and {len(data) - at - 4} are there", ErrorCode.TOO_LONG)
    return size


def _read_character(unpack: Callable[..., tuple[Any, ...]]) -> Reader:
    def read_character(data: bytes, at: int, args: list[Any]) -> int:
        code = unpack(data, at)[0]
        if -128 <= code < 0:  # a C peer's `char` has a sign
            code &= 0xFF
        if not is_character(code):
            raise RemoteProtocolError(f"a character of code {code}", ErrorCode.BAD_PAYLOAD)
        args.append(chr(code))
        return at + 4

    return read_character


def _read_bool(unpack: Callable[..., tuple[Any, ...]]) -> Reader:
    def read_bool(data: bytes, at: int, args: list[Any]) -> int:
        args.append(unpack(data, at)[0] != 0)
        return at + 4

    return read_bool


# Writers


def make_writers(order: Order) -> dict[str, Writer]:
    """For every code but the plain numbers."""
    writers: dict[str, Writer] = {code: _write_constant(value) for code, value in CONSTANTS.items()}
    pack = Struct(order + "i").pack
    writers |= {"v" + code: _write_vector(pack, order, NUMBERS[code]) for code in VECTOR_CODES}
    return writers | {
        "s": write_text,
        "S": write_text,
        "m": write_four,
        "r": write_four,
        "b": _write_blob(pack),
        "c": _write_character(pack),
        "B": _write_bool(pack),
    }


def write_text(text: str) -> bytes:
    """Raises: ValueError."""
    data = text.encode("utf-8", "surrogateescape")
    if 0 in data:
        raise ValueError("text cannot hold a NUL")
    return data + _ZEROS[len(data) & 3]


def write_four(value: bytes) -> bytes:
    if len(value) != 4:
        raise ValueError("expected 4 bytes")
    return bytes(value)


def _write_constant(wanted: object) -> Writer:
    def write_constant(value: object) -> bytes:
        if value is not wanted:
            raise ValueError(f"expected {wanted}")
        return b""

    return write_constant


def _write_blob(pack: Callable[..., bytes]) -> Writer:
    def write_blob(value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):  # bytes(3) is three zeros
            raise TypeError("expected bytes")
        data = bytes(value)
        return pack(len(data)) + data + _BLOB_ZEROS[len(data) & 3]

    return write_blob


def _write_vector(pack: Callable[..., bytes], order: Order, code: str) -> Writer:
    def write_vector(values: Any) -> bytes:
        if not isinstance(values, list | tuple):
            raise TypeError("expected a tuple of numbers")
        data = struct.pack(f"{order}{len(values)}{code}", *values)
        return pack(len(data)) + data

    return write_vector


def _write_character(pack: Callable[..., bytes]) -> Writer:
    def write_character(value: Any) -> bytes:
        if not isinstance(value, str) or not is_character(ord(value)):
            raise ValueError("expected one character")
        return pack(ord(value))

    return write_character


def _write_bool(pack: Callable[..., bytes]) -> Writer:
    def write_bool(value: Any) -> bytes:
        if not isinstance(value, int):
            raise TypeError("expected a bool")
        return pack(bool(value))

    return write_bool
