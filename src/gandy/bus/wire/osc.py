"""The bytes of OSC 1.0, which many music programs speak: messages and bundles, big-endian, with times as in NTP.

    message: address, padded | types, padded | arguments
    bundle:  "#bundle" | time | { int32 length | message or bundle }*

Its types are those of the bus, but t is a time tag, r is a color of 4 bytes, and there is no B and no vector. On TCP it
has the frames of the bus. Bundles are only decoded: gandy sends none.
"""

from struct import Struct
from typing import Any, Final, NamedTuple

from gandy.bus.limits import MAX_ADDRESS, MAX_BUS_MESSAGE
from gandy.bus.wire.messages import Elements
from gandy.bus.wire.types import CODES
from gandy.bus.wire.values import NUMBERS, Codec, write_text
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.moments import Wall

IMMEDIATELY: Final = 1  # the time tag for "at once"

_BUNDLE: Final = b"#bundle\0"
_TAG: Final = Struct(">Q")

_CODEC: Final = Codec(">", {**NUMBERS, "t": "Q"}, CODES - {"B"} | {"r"}, frozenset())

# NTP counts seconds from 1900 and wraps in 2036: a tag that looks like a time before 1968 is after that.
_EPOCH: Final = 2_208_988_800  # seconds from 1900 to 1970
_ERA: Final = 1 << 32
_FIRST_SECOND: Final = (1 << 31) - _EPOCH
_LAST_SECOND: Final = _FIRST_SECOND + _ERA - 1


class OscMessage(NamedTuple):
    """Typed values for an address. A time tag among them is an int."""

    address: str
    types: str = ""
    args: tuple[Any, ...] = ()


class OscBundle(NamedTuple):
    """Messages for one time, which is a time tag."""

    time: int
    elements: tuple["OscMessage | OscBundle", ...] = ()


def encode(message: OscMessage) -> bytes:
    """Raises: ValueError."""
    data = _encode_address(message.address) + _CODEC.encode_args(message.types, message.args)
    if len(data) > MAX_BUS_MESSAGE:
        raise ValueError(f"a message of {len(data):,} bytes, the limit is {MAX_BUS_MESSAGE:,}")
    return data


def _encode_address(address: str) -> bytes:
    data = write_text(address)
    if address[:1] != "/" or len(data) > MAX_ADDRESS + 1:
        raise ValueError(f"an address begins with / and has up to {MAX_ADDRESS:,} bytes: {address[:40]!r}")
    return data


def decode(data: bytes) -> OscMessage | OscBundle:
    """Raises: RemoteProtocolError."""
    if len(data) > MAX_BUS_MESSAGE:
        raise RemoteProtocolError(f"a message of {len(data):,} bytes", ErrorCode.TOO_LONG)
    return _decode(data, Elements(">"), 0)


def _decode(data: bytes, elements: Elements, depth: int) -> OscMessage | OscBundle:
    if not data.startswith(_BUNDLE):
        return _decode_message(data)
    if len(data) < 16:
        raise RemoteProtocolError("a bundle is cut off", ErrorCode.BAD_PAYLOAD)
    (time,) = _TAG.unpack_from(data, len(_BUNDLE))
    inner = [_decode(element, elements, depth + 1) for element in elements.cut(data, 16, depth)]
    return OscBundle(time, tuple(inner))


def _decode_message(data: bytes) -> OscMessage:
    end = data.find(0)
    if data[:1] != b"/" or not 0 < end <= MAX_ADDRESS:
        raise RemoteProtocolError("a message without an address", ErrorCode.BAD_PAYLOAD)
    address = data[:end].decode("utf-8", "surrogateescape")
    at = end + 4 & -4
    if at == len(data):  # old programs send no types if there are no arguments
        return OscMessage(address)
    return OscMessage(address, *_CODEC.decode_args(data, at))


# Time tags


def wall_to_tag(wall: Wall) -> int:
    """A time tag for seconds since 1970; 0.0 means at once, as on the bus. Raises: ValueError."""
    seconds = float(wall)
    if seconds == 0.0:
        return IMMEDIATELY
    if not _FIRST_SECOND <= seconds < _LAST_SECOND + 1:
        raise ValueError(f"no time between 1968 and 2104: {seconds}")
    whole = int(seconds // 1)
    tag = (whole + _EPOCH << 32) + int((seconds - whole) * _ERA)
    return tag % (1 << 64)  # the fraction of a number just below 0 is rounded to 1


def tag_to_wall(tag: int) -> Wall:
    """Seconds since 1970 for a time tag; 0.0 means at once. So does the tag 0: no program means 1900."""
    if tag <= IMMEDIATELY:
        return Wall(0.0)
    seconds = (tag >> 32) - _EPOCH
    if seconds < _FIRST_SECOND:
        seconds += _ERA
    return Wall(seconds + (tag & _ERA - 1) / _ERA)
