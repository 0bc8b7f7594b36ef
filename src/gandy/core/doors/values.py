"""What doors open of calls: arguments and values in msgpack. A peer wrote them, so anything may be in there."""

from typing import Any, Final

import msgspec

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
