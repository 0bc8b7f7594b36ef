"""The messages of gandy's own extensions between foreman and worker: heartbeats and the output of tasks."""

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.wire.messages import Extension

T = TypeVar("T")

# HEARTBEAT: a PING is answered by a PONG with its number.
PING: Final = 0x20
PONG: Final = 0x21

# OUTPUT: the foreman asks for a piece of a task's output, the worker answers with the same number.
READ: Final = 0x60
PIECE: Final = 0x61

# What a gandy foreman offers.
FOREMAN_OFFERS: Final = Extension.ATOMIC | Extension.HEARTBEAT | Extension.UPDATES | Extension.CLIENT | Extension.OUTPUT
# What a gandy worker offers.
WORKER_OFFERS: Final = Extension.ATOMIC | Extension.HEARTBEAT | Extension.UPDATES | Extension.OUTPUT


class Read(Struct, frozen=True):
    """Which piece of which output."""

    job: JobId
    task: TaskNumber
    attempt: int
    stream: str
    offset: int
    limit: int


class Piece(Struct, frozen=True):
    """The piece. `is_last`: there is no more, and there will be none. `problem` instead of data, where there is one."""

    data: bytes
    is_last: bool
    problem: str = ""


encode: Final = msgspec.msgpack.Encoder().encode
_reads: Final = msgspec.msgpack.Decoder(Read)
_pieces: Final = msgspec.msgpack.Decoder(Piece)


def decode_read(payload: bytes) -> Read:
    """Raises: RemoteProtocolError."""
    return _decode(_reads, payload)


def decode_piece(payload: bytes) -> Piece:
    """Raises: RemoteProtocolError."""
    return _decode(_pieces, payload)


def _decode(decoder: msgspec.msgpack.Decoder[T], payload: bytes) -> T:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"an extension's payload: {error}", ErrorCode.BAD_PAYLOAD) from None
