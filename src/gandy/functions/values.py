"""Encodes arguments and values of commands: as msgpack, or as pickles if the caller asked for them."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
_decode_list: Final = msgspec.msgpack.Decoder(list[Any]).decode


def encode_value(value: Any, is_pickled: bool = False) -> bytes:
    """Raises: TypeError, if msgpack cannot encode the value; NotPicklable."""
    if is_pickled:
        from gandy.functions.tasks import pack_value

        return pack_value(value)
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise TypeError(f"cannot be sent as msgpack ({error}); ask for pickles, or make it bytes") from None


def decode_value(data: bytes, is_pickled: bool = False) -> Any:
    """Raises: ValueError, if the bytes are not an encoded value; with pickles, anything."""
    if is_pickled:
        from gandy.functions.tasks import open_result

        return open_result(data)
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a value: {error}") from None


def decode_args(data: bytes, is_pickled: bool = False) -> Sequence[Any]:
    """Raises: ValueError; with pickles, anything."""
    if is_pickled:
        from gandy.functions.tasks import open_result

        return tuple(open_result(data))
    try:
        return _decode_list(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the arguments are not valid: {error}") from None
