"""Decodes arguments and values of calls, and encodes them as ZeroMQ frames. Peers wrote them: they may be invalid."""

from typing import Any, Final

import msgspec

from gandy.doors.limits import MAX_PAYLOAD_FRAMES
from gandy.wire import calls

encode_value: Final = msgspec.msgpack.Encoder().encode

_decode: Final = msgspec.msgpack.Decoder().decode
_decode_list: Final = msgspec.msgpack.Decoder(list[Any]).decode


def decode_value(body: bytes) -> Any:
    """Raises: ValueError."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def decode_args(body: bytes) -> list[Any]:
    """Raises: ValueError."""
    try:
        return _decode_list(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def find_failure(flags: int, payload: bytes) -> str | None:
    """Why a call failed, according to a RESULT frame. None: it has not failed."""
    if flags & calls.REFUSED:
        return calls.decode_refusal(payload)[1]
    return calls.decode_failure(payload).message if flags & calls.FAILED else None


def encode_payload(value: object) -> tuple[bytes, ...]:
    """The frames of a value: none if it is None or empty, one for bytes, text or an int, and one per item of a list.

    Raises: ValueError: any other value, and empty items: an empty frame would end the message.
    """
    if value is None or value in (b"", ""):
        return ()
    if not isinstance(value, list | tuple):
        return (_encode_frame(value),)
    if len(value) > MAX_PAYLOAD_FRAMES:
        raise ValueError(f"a list of {len(value):,}, the limit is {MAX_PAYLOAD_FRAMES} frames")
    frames = tuple(map(_encode_frame, value))
    if b"" in frames:
        raise ValueError("a list with an empty element: an empty frame would end the message")
    return frames


def _encode_frame(value: object) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode(errors="replace")
        case int() if not isinstance(value, bool):
            return b"%d" % value
        case _:
            text = f"a value of the type {type(value).__name__}: only bytes, texts and whole numbers can be sent"
            raise ValueError(text)
