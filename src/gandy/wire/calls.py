"""Frames of the CALLS extension: calls of commands, their results, and who offers what. Opens no values.

Calls are no requests in the sense of docs/protocol/v2.md: each has a number of its own on each link (`seq`), any number
may be under way, and they end in any order. Pieces of large arguments and results are sent as the other
side grants credit.
"""

from collections.abc import Callable, Iterable
from math import inf, isfinite
from struct import Struct as Layout
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from gandy.bounds import BROKEN, CommandName, Slots, Text, describe
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import (
    MAX_CALL_PAYLOAD,
    MAX_COMMAND_NAME,
    MAX_COMMANDS,
    MAX_OFFER_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_SLOTS,
    MAX_TEXT,
    MAX_TRACE,
    MAX_VALUE_BYTES,
)
from gandy.moments import Shared
from gandy.wire.messages import Extension
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import EXTENSION_TYPES, HEADER

KINDS: Final = EXTENSION_TYPES[Extension.CALLS]
FIRST_KIND: Final = KINDS.start
END_KIND: Final = KINDS.stop

CALL: Final = 0x40  # caller to worker: a command, and the beginning of its arguments; padding: ms to its deadline, or 0
BODY: Final = 0x41  # caller to worker: more of the arguments
RESULT: Final = 0x42  # worker to caller: (a piece of) a value, or how the call ended without one
CREDIT: Final = 0x43  # either way: so many bytes more may be sent, in the padding
CANCEL: Final = 0x44  # caller to worker: the result is not wanted any more
ANNOUNCE: Final = 0x45  # worker to foreman: what it offers from now on
YIELD: Final = 0x46  # foreman to worker: slots that tasks of jobs should leave to calls, in the padding
YIELDED: Final = 0x47  # worker to foreman: slots that they have left, in the padding

# Subtype of CALL.
CAST: Final = 1  # no result is wanted
STREAM: Final = 2  # values are wanted as they come
MORE: Final = 4  # arguments go on in BODY
PICKLED: Final = 8  # arguments and values are pickles
DIRECT: Final = 16  # for one worker only, whose id follows the command's name
PATIENT: Final = 32  # it waits also where no worker offers the command
AT: Final = 64  # TIMED: it begins at a shared time, which follows the names as a double

# Subtype of BODY and RESULT.
LAST: Final = 1  # nothing follows
FAILED: Final = 2  # RESULT: the command raised; the payload says what
REFUSED: Final = 4  # RESULT: from the foreman, and the call is over; see `Refusal`
WHOLE: Final = 8  # RESULT: with this piece a value is complete

WINDOW_BYTES: Final = 256 * 1024  # that may be sent for a call, either way, before the first credit
FRAME_COST: Final = 64  # bytes of credit that a frame takes beside its payload: many small values cost memory too

# Codes of a refusal.
UNKNOWN: Final = 1
BUSY: Final = 2
LOST: Final = 3
EXPIRED: Final = 4
NO_CLOCK: Final = 5

OnFrame = Callable[[int, int, int, int, bytes], None]  # kind, subtype, seq, padding, payload
# Takes plain frames from a place in the data on. Returns where the first one begins that is not plain, or not complete.
TakePlain = Callable[[bytes, int], int]

# A header as four numbers, of which the first shows at one look if a frame is plain. Calls without options, with
# small arguments and values, are made of plain frames only, and client, foreman and worker have a short way for these.
PLAIN_HEADER: Final = Layout("<IIII")  # magic with kind and subtype, seq, padding, size
PLAIN_CALL: Final = MAGIC | CALL << 16
PLAIN_RESULT: Final = MAGIC | RESULT << 16 | (LAST | WHOLE) << 24

_pack: Final = HEADER.pack
_unpack_from: Final = HEADER.unpack_from
_HEAD: Final = HEADER.size
_TIME: Final = Layout("<d")


class Offer(NamedTuple):
    """A command that a worker has installed, and the slots that a call of it takes."""

    name: CommandName
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = 1


class Announcement(Struct, frozen=True, array_like=True):
    """All that a worker offers, and its slots: those that it has, and those of them that are for calls alone.

    `knows_time`: it can begin calls and tasks at a shared time.
    """

    slots: Slots
    reserved: Slots
    offers: Annotated[tuple[Offer, ...], Meta(max_length=MAX_COMMANDS)] = ()
    knows_time: bool = False


class CallFailure(Struct, frozen=True, array_like=True):
    """What a command raised. `pickled` only where the caller asked for pickles."""

    kind: Text
    message: Text
    trace: Annotated[str, Meta(max_length=MAX_TRACE)] = ""
    pickled: Annotated[bytes, Meta(max_length=MAX_VALUE_BYTES)] = b""


def encode(kind: int, subtype: int, seq: int, padding: int = 0, payload: bytes = b"") -> bytes:
    return _pack(MAGIC, kind, subtype, seq, padding, len(payload)) + payload


def read_frames(data: bytes | bytearray, at: int, on_frame: OnFrame, take_plain: TakePlain | None = None) -> int:
    """Pass on the frames of calls that follow one another. Returns where something else begins, or an incomplete frame.

    `take_plain` gets them first, and `on_frame` those that it leaves. Raises: RemoteProtocolError.
    """
    # No list of frames: thousands of small objects that live for a moment make the garbage collector run and run.
    end = len(data)
    is_growing = type(data) is bytearray  # a large frame that came in pieces; slices of it would not be bytes
    while True:
        if take_plain is not None and not is_growing:
            at = take_plain(data, at)  # type: ignore[arg-type]
        body = at + _HEAD
        if body > end:
            return at
        magic, kind, subtype, seq, padding, size = _unpack_from(data, at)
        if magic != MAGIC or not FIRST_KIND <= kind < END_KIND:
            return at
        if size > MAX_CALL_PAYLOAD and (kind != ANNOUNCE or size > MAX_PAYLOAD_BYTES):
            raise RemoteProtocolError(f"a piece of a call claims {size} bytes", ErrorCode.TOO_LONG)
        stop = body + size
        if stop > end:
            return at
        if is_growing:  # once, and only when a frame is complete
            data, is_growing = bytes(data), False
        on_frame(kind, subtype, seq, padding, data[body:stop])  # type: ignore[arg-type]
        at = stop


def encode_target(name: str, worker: str = "") -> bytes:
    """What goes before the arguments: the command, and perhaps the worker. Raises: ValueError."""
    data = _encode_name(name)
    return data + _encode_name(worker) if worker else data


def _encode_name(name: str) -> bytes:
    data = name.encode()
    if not 0 < len(data) <= MAX_COMMAND_NAME:
        raise ValueError(f"a command's name has 1 to {MAX_COMMAND_NAME} bytes: {name[:40]!r} has {len(data)}")
    return bytes((len(data),)) + data


def read_name(payload: bytes, at: int = 0) -> tuple[bytes, int]:
    """A name, and where it ends. Raises: RemoteProtocolError."""
    end = at + 1 + payload[at] if at < len(payload) else 0
    if not at + 1 < end <= len(payload):
        raise RemoteProtocolError("a call without the name of a command", ErrorCode.BAD_PAYLOAD)
    return payload[at + 1 : end], end


def encode_time(at: Shared) -> bytes:
    return _TIME.pack(at)


def read_time(payload: bytes, at: int) -> tuple[Shared, int]:
    """The shared time of a call, and where it ends. Raises: RemoteProtocolError."""
    end = at + _TIME.size
    time: Shared = _TIME.unpack_from(payload, at)[0] if end <= len(payload) else Shared(inf)
    if not isfinite(time):
        raise RemoteProtocolError("a call without the time that it should have", ErrorCode.BAD_PAYLOAD)
    return time, end


def encode_refusal(code: int, text: str) -> bytes:
    return bytes((code,)) + text.encode(errors="replace")


def decode_refusal(payload: bytes) -> tuple[int, str]:
    return (payload[0], payload[1:].decode(errors="replace")) if payload else (0, "")


_encoder: Final = msgspec.msgpack.Encoder()
_announcements: Final = msgspec.msgpack.Decoder(Announcement)
_failures: Final = msgspec.msgpack.Decoder(CallFailure)


def encode_announcement(slots: int, reserved: int, offers: Iterable[Offer], knows_time: bool = False) -> bytes:
    """A peer that has not agreed to TIMED skips `knows_time`."""
    return _encoder.encode(Announcement(slots, reserved, tuple(offers), knows_time))


def decode_announcement(payload: bytes) -> Announcement:
    """Raises: RemoteProtocolError."""
    try:
        said = _announcements.decode(payload)
    except BROKEN as error:
        raise RemoteProtocolError(f"an announcement: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
    names = [len(offer.name.encode()) for offer in said.offers]
    are_short = max(names, default=0) <= MAX_COMMAND_NAME and sum(names) <= MAX_OFFER_BYTES
    if said.reserved > said.slots or not are_short or not all(1 <= offer.slots <= said.slots for offer in said.offers):
        raise RemoteProtocolError("an announcement is not valid", ErrorCode.BAD_PAYLOAD)
    return said


def encode_failure(failure: CallFailure) -> bytes:
    """Messages of exceptions may be of any length, and contain file names that are not UTF-8."""
    kind, message = (_make_text(text)[:MAX_TEXT] for text in (failure.kind, failure.message))
    trace = _make_text(failure.trace)[-MAX_TRACE:]  # it ends with what went wrong
    return _encoder.encode(CallFailure(kind, message, trace, failure.pickled))


def _make_text(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def decode_failure(payload: bytes) -> CallFailure:
    """Also of bytes that are none: then it says so."""
    try:
        return _failures.decode(payload)
    except BROKEN:
        return CallFailure("Exception", "the command failed, and gave no reason that can be read")
