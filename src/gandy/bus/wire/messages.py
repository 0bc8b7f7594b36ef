"""Messages of the bus, bundles of them, and their frames on TCP (docs/protocol/bus.md). Addresses are not interpreted.

    message: time, a double | address, padded | types, padded | arguments
    bundle:  time | "#service", padded | { int32 length | message or bundle }*
    TCP:     length, always big-endian | message or bundle

A datagram is one message. All but the length on TCP is in the byte order of the dialect or of the sender.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec

from gandy.bus.limits import MAX_ADDRESS, MAX_BUNDLE_DEPTH, MAX_BUS_MESSAGE, MAX_ELEMENTS
from gandy.bus.wire.types import INFINITUM, infer_types
from gandy.bus.wire.values import Codec, Order, Reading, Writing, write_text
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.moments import Shared

__all__ = ["INFINITUM", "Order", "Reading", "infer_types"]  # for modules that need no more than messages


_LENGTH: Final = Struct(">I")
_CODECS: Final[Mapping[Order, Codec]] = {"<": Codec("<"), ">": Codec(">")}
_TIMES: Final[Mapping[Order, Struct]] = {"<": Struct("<d"), ">": Struct(">d")}
_SIZES: Final[Mapping[Order, Struct]] = {"<": Struct("<I"), ">": Struct(">I")}
_TIME_BYTES: Final = 8
AT_ONCE: Final = Shared(0.0)
UNTIMED: Final = bytes(_TIME_BYTES)  # AT_ONCE in either order


class BusMessage(NamedTuple):
    """Typed values for an address."""

    time: Shared
    address: str
    types: str = ""
    args: tuple[Any, ...] = ()


class BusBundle(NamedTuple):
    """Messages to a service for one time. Each of them also has a time of its own."""

    time: Shared
    service: str
    elements: tuple["BusMessage | BusBundle", ...] = ()


def make_message(address: str, values: Sequence[Any], types: str | None = None, time: Shared = AT_ONCE) -> BusMessage:
    """Types are inferred if none are given. Raises: ValueError."""
    return BusMessage(time, address, infer_types(values) if types is None else types, tuple(values))


# Messages


def encode_message(message: BusMessage, order: Order) -> bytes:
    """Raises: ValueError: it cannot be encoded."""
    time, address, types, args = message
    return draft(address, types, order).encode(time, args)


class Draft(msgspec.Struct, frozen=True):
    """A message without its time and arguments."""

    head: bytes  # address and types
    order: Order
    writing: Writing
    begin: bytes  # of an untimed message: its time, and the head
    pack: Callable[..., bytes] | None  # of all arguments, if they are nothing but numbers

    def encode(self, time: Shared, args: Sequence[Any]) -> bytes:
        """Raises: ValueError: the time or an argument cannot be encoded."""
        if self.pack is not None and not time:
            try:
                return self.begin + self.pack(*args)
            except (struct.error, OverflowError, TypeError):
                pass  # the slow way below raises an error that explains what does not fit
        when = _encode_time(time, self.order) if time else UNTIMED
        data = when + self.head + _CODECS[self.order].write(self.writing, args)
        if len(data) > MAX_BUS_MESSAGE:
            raise ValueError(f"a message of {len(data):,} bytes, the limit is {MAX_BUS_MESSAGE:,}")
        return data


def draft(address: str, types: str, order: Order) -> Draft:
    """Raises: ValueError: the address or the types cannot be encoded."""
    writing = _CODECS[order].find_writing(types)
    head = _encode_address(address) + writing.head
    pack = None if writing.numbers is None else writing.numbers.pack
    return Draft(head, order, writing, UNTIMED + head, pack)


def decode_message(data: bytes, order: Order) -> BusMessage:
    """Raises: RemoteProtocolError."""
    time, address, at = peek(data, order)
    if address[0] == "#":
        raise RemoteProtocolError("a bundle where a message should be", ErrorCode.BAD_PAYLOAD)
    types, args = _CODECS[order].decode_args(data, at)
    return BusMessage(time, address, types, args)


def peek(data: bytes, order: Order) -> tuple[Shared, str, int]:
    """Time, address, and where the types begin, for `decode_args`; of a bundle, its elements.

    Raises: RemoteProtocolError.
    """
    end = data.find(0, _TIME_BYTES)
    if end < 0 or not _TIME_BYTES < end <= _TIME_BYTES + MAX_ADDRESS or data[_TIME_BYTES] not in b"/!#":
        raise RemoteProtocolError("a message without a time and an address", ErrorCode.BAD_PAYLOAD)
    (time,) = _TIMES[order].unpack_from(data)
    if not isfinite(time):
        raise RemoteProtocolError(f"a message for the time {time}", ErrorCode.BAD_PAYLOAD)
    return time, data[_TIME_BYTES:end].decode("utf-8", "surrogateescape"), end + 4 & -4


def decode_args(data: bytes, at: int, order: Order) -> tuple[str, tuple[Any, ...]]:
    """Types and arguments of a message; `at` is from `peek`. Raises: RemoteProtocolError."""
    return _CODECS[order].decode_args(data, at)


def find_reading(data: bytes, at: int, order: Order) -> tuple[Reading, int]:
    """How to read the arguments, and where they begin; `at` is from `peek`. Raises: RemoteProtocolError."""
    return _CODECS[order].find_reading(data, at)


def find_args(data: bytes) -> int:
    """Where the arguments of a message begin. Nothing is checked: for an invalid message it may be any number."""
    return data.find(0, data.find(0, _TIME_BYTES) + 4 & -4) + 4 & -4


def _encode_time(time: Shared, order: Order) -> bytes:
    if not isfinite(time):
        raise ValueError(f"a message cannot be for the time {time}")
    return _TIMES[order].pack(time)


@lru_cache(1024)
def _encode_address(address: str) -> bytes:
    if address[:1] not in ("/", "!"):
        raise ValueError(f"an address begins with / or !: {address[:40]!r}")
    data = write_text(address)
    if len(data) > MAX_ADDRESS + 1:
        raise ValueError(f"an address of more than {MAX_ADDRESS:,} bytes: {address[:40]!r}..")
    return data


# Bundles. gandy sends none.


def decode(data: bytes, order: Order) -> BusMessage | BusBundle:
    """Raises: RemoteProtocolError."""
    if len(data) > MAX_BUS_MESSAGE:
        raise RemoteProtocolError(f"a message of {len(data):,} bytes", ErrorCode.TOO_LONG)
    return _decode(data, order, Elements(order), 0)


def _decode(data: bytes, order: Order, elements: "Elements", depth: int) -> BusMessage | BusBundle:
    time, address, at = peek(data, order)
    if address[0] != "#":
        types, args = _CODECS[order].decode_args(data, at)
        return BusMessage(time, address, types, args)
    inner = [_decode(element, order, elements, depth + 1) for element in elements.cut(data, at, depth)]
    return BusBundle(time, address[1:], tuple(inner))


class Elements:
    """Cuts bundles into their elements, and counts them. OSC has the same bundles."""

    def __init__(self, order: Order) -> None:
        self._unpack = _SIZES[order].unpack_from
        self._left = MAX_ELEMENTS

    def cut(self, data: bytes, at: int, depth: int) -> Iterator[bytes]:
        """Raises: RemoteProtocolError."""
        if depth == MAX_BUNDLE_DEPTH:
            raise RemoteProtocolError(f"more than {MAX_BUNDLE_DEPTH} bundles within bundles", ErrorCode.TOO_LONG)
        while at != len(data):
            self._left -= 1
            if self._left < 0:
                raise RemoteProtocolError(f"a bundle of more than {MAX_ELEMENTS:,} messages", ErrorCode.TOO_LONG)
            begin = at + 4
            at = begin + self._unpack(data, at)[0] if begin <= len(data) else begin
            if at > len(data):
                raise RemoteProtocolError("a bundle is cut off", ErrorCode.BAD_PAYLOAD)
            yield data[begin:at]


# TCP


def frame(data: bytes) -> bytes:
    """A message with its length, for TCP."""
    return _LENGTH.pack(len(data)) + data


class Framer:
    """Bytes in by `receive_data`, messages out by `next_message`. An error is final, and is raised again."""

    def __init__(self, limit: int = MAX_BUS_MESSAGE) -> None:
        self.limit = limit  # bytes of a message; it may be changed between two messages
        self._buffer: bytes | bytearray = b""
        self._position = 0  # in the buffer, of the next frame
        self._forgotten = 0  # bytes of the stream before the buffer

    @property
    def unread(self) -> int:
        """Bytes received that were not returned in a message yet."""
        return len(self._buffer) - self._position

    def receive_data(self, data: bytes) -> None:
        self._forgotten += self._position
        if self._position == len(self._buffer):  # the usual case: nothing left over, nothing copied
            self._buffer = data
        else:
            if not isinstance(self._buffer, bytearray):
                self._buffer = bytearray(self._buffer)
            del self._buffer[: self._position]
            self._buffer += data
        self._position = 0

    def next_message(self) -> bytes | None:
        """The next message, or None until more bytes come. No memory is allocated for a length that is only claimed.

        Raises: RemoteProtocolError: the next one is too long.
        """
        buffer, begin = self._buffer, self._position + 4
        if begin > len(buffer):
            return None
        (size,) = _LENGTH.unpack_from(buffer, self._position)
        if size > self.limit:
            text = f"a message of {size:,} bytes is claimed, the limit is {self.limit:,}"
            raise RemoteProtocolError(text, ErrorCode.TOO_LONG, self._forgotten + self._position)
        if begin + size > len(buffer):
            return None
        self._position = begin + size
        return bytes(buffer[begin : self._position])
