"""Frames of the CALLS extension: calls of commands, their results, and workers' announcements. Decodes no values.

Calls are not requests in the sense of docs/protocol/v2.md: each has its own number on each link (`seq`), any number of
calls may run at once, and they end in any order. Large arguments and results are sent in pieces, as the other side
grants credit.
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
CREDIT: Final = 0x43  # either way: how many more bytes may be sent, in the padding
CANCEL: Final = 0x44  # caller to worker: the result is no longer wanted
ANNOUNCE: Final = 0x45  # worker to foreman: what it offers from now on
YIELD: Final = 0x46  # foreman to worker: slots that tasks of jobs should leave to calls, in the padding
YIELDED: Final = 0x47  # worker to foreman: slots that tasks of jobs leave to calls now, in the padding

# Subtype of CALL.
CAST: Final = 1  # the caller wants no result
STREAM: Final = 2  # the caller wants values as they come
MORE: Final = 4  # BODY has more arguments
PICKLED: Final = 8  # arguments and values are pickles
DIRECT: Final = 16  # for one worker only, whose id follows the command's name
PATIENT: Final = 32  # it waits even if no worker offers the command
AT: Final = 64  # TIMED: it begins at a shared time, which follows the names as a double

# Subtype of BODY and RESULT.
LAST: Final = 1  # nothing follows
FAILED: Final = 2  # RESULT: the command raised; the payload says what
REFUSED: Final = 4  # RESULT: the call was refused and is over; the payload is a code and a text
WHOLE: Final = 8  # RESULT: this piece completes a value

WINDOW_BYTES: Final = 256 * 1024  # that may be sent for a call, either way, before the first credit
FRAME_COST: Final = 64  # bytes of credit that a frame takes beside its payload: many small values cost memory too

# Codes of a refusal.
UNKNOWN: Final = 1
BUSY: Final = 2
LOST: Final = 3
EXPIRED: Final = 4
NO_CLOCK: Final = 5

OnFrame = Callable[[int, int, int, int, bytes], None]  # kind, subtype, seq, padding, payload
# Handles the plain frames from an offset on. Returns the offset of the first frame that is not plain or not complete.
TakePlain = Callable[[bytes, int], int]

# A header as four numbers; the first one alone shows if a frame is plain. Calls without options, with small arguments
# and values, consist of plain frames only, for which client, foreman and worker have a fast path.
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
    """Everything that a worker offers, its slots, and how many of them are `reserved` for calls.

    `knows_time`: it can begin calls and tasks at a shared time.
    """

    slots: Slots
    reserved: Slots
    offers: Annotated[tuple[Offer, ...], Meta(max_length=MAX_COMMANDS)] = ()
    knows_time: bool = False


class CallFailure(Struct, frozen=True, array_like=True):
    """What a command raised. `pickled` is empty unless the caller asked for pickles."""

    kind: Text
    message: Text
    trace: Annotated[str, Meta(max_length=MAX_TRACE)] = ""
    pickled: Annotated[bytes, Meta(max_length=MAX_VALUE_BYTES)] = b""


def encode(kind: int, subtype: int, seq: int, padding: int = 0, payload: bytes = b"") -> bytes:
    return _pack(MAGIC, kind, subtype, seq, padding, len(payload)) + payload


def read_frames(data: bytes | bytearray, at: int, on_frame: OnFrame, take_plain: TakePlain | None = None) -> int:
    """Handle consecutive frames of calls. Returns the offset of the first frame that is incomplete or of another kind.

    `take_plain` handles plain frames, and `on_frame` the others. Raises: RemoteProtocolError.
    """
    # It makes no list of frames: thousands of short-lived objects would keep the garbage collector busy.
    end = len(data)
    is_growing = type(data) is bytearray  # a large frame that came in pieces; its slices would not be bytes
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
    """Encode what precedes the arguments: the command, and the worker if one is named. Raises: ValueError."""
    data = _encode_name(name)
    return data + _encode_name(worker) if worker else data


def _encode_name(name: str) -> bytes:
    data = name.encode()
    if not 0 < len(data) <= MAX_COMMAND_NAME:
        raise ValueError(f"a command's name has 1 to {MAX_COMMAND_NAME} bytes: {name[:40]!r} has {len(data)}")
    return bytes((len(data),)) + data


def read_name(payload: bytes, at: int = 0) -> tuple[bytes, int]:
    """Return a name and where it ends. Raises: RemoteProtocolError."""
    end = at + 1 + payload[at] if at < len(payload) else 0
    if not at + 1 < end <= len(payload):
        raise RemoteProtocolError("a call without the name of a command", ErrorCode.BAD_PAYLOAD)
    return payload[at + 1 : end], end


def encode_time(at: Shared) -> bytes:
    return _TIME.pack(at)


def read_time(payload: bytes, at: int) -> tuple[Shared, int]:
    """Return the shared time of a call and where it ends. Raises: RemoteProtocolError."""
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
    """Encode an announcement. A peer that has not agreed to TIMED ignores `knows_time`."""
    return _encoder.encode(Announcement(slots, reserved, tuple(offers), knows_time))


def decode_announcement(payload: bytes) -> Announcement:
    """Raises: RemoteProtocolError."""
    try:
        found = _announcements.decode(payload)
    except BROKEN as error:
        raise RemoteProtocolError(f"an announcement: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
    names = [len(offer.name.encode()) for offer in found.offers]
    are_short = max(names, default=0) <= MAX_COMMAND_NAME and sum(names) <= MAX_OFFER_BYTES
    can_run = all(offer.slots <= found.slots for offer in found.offers)
    if found.reserved > found.slots or not are_short or not can_run:
        raise RemoteProtocolError("an announcement is not valid", ErrorCode.BAD_PAYLOAD)
    return found


def encode_failure(failure: CallFailure) -> bytes:
    """Encode a failure. Its texts are cut and escaped: they may be of any length, and have names that are not UTF-8."""
    kind, message = (_make_text(text)[:MAX_TEXT] for text in (failure.kind, failure.message))
    trace = _make_text(failure.trace)[-MAX_TRACE:]  # it ends with what went wrong
    return _encoder.encode(CallFailure(kind, message, trace, failure.pickled))


def _make_text(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def decode_failure(payload: bytes) -> CallFailure:
    """Decode a failure. For bytes that are not one, return a failure that says so."""
    try:
        return _failures.decode(payload)
    except BROKEN:
        return CallFailure("Exception", "the command failed, and gave no reason that can be read")
