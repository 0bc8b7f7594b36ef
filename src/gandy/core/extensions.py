"""The messages of gandy's own extensions between foreman and worker: heartbeats and the output of tasks."""

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.wire.messages import Extension

T = TypeVar("T")

REFERENCE: Final = b"gandy-arguments:"

# HEARTBEAT: a PING is answered by a PONG with its number.
PING: Final = 0x20
PONG: Final = 0x21

# OUTPUT: the foreman asks for a piece of a task's output, the worker answers with the same number.
READ: Final = 0x60
PIECE: Final = 0x61

# OUTPUT, the other way: a worker asks for a piece of large arguments, the foreman answers with the same number.
FETCH: Final = 0x62
ARGUMENTS: Final = 0x63

# What a gandy foreman offers.
FOREMAN_OFFERS: Final = (
    Extension.ATOMIC
    | Extension.HEARTBEAT
    | Extension.UPDATES
    | Extension.CLIENT
    | Extension.CALLS
    | Extension.OUTPUT
    | Extension.TIMED
)
# What a gandy worker offers.
WORKER_OFFERS: Final = FOREMAN_OFFERS & ~Extension.CLIENT


class Read(Struct, frozen=True):
    """Which piece of which output."""

    job: JobId
    task: TaskNumber
    attempt: int
    stream: str
    offset: int
    limit: int


class Fetch(Struct, frozen=True):
    """Which piece of which arguments."""

    name: str
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
_fetches: Final = msgspec.msgpack.Decoder(Fetch)


def decode_read(payload: bytes) -> Read:
    """Raises: RemoteProtocolError."""
    return _decode(_reads, payload)


def decode_fetch(payload: bytes) -> Fetch:
    """Raises: RemoteProtocolError."""
    return _decode(_fetches, payload)


def make_reference(name: str) -> bytes:
    """What stands for large arguments, in the place of the arguments themselves. No pickle begins like this."""
    return REFERENCE + name.encode()


def read_reference(given: bytes) -> str | None:
    """The name of large arguments, if these bytes stand for some."""
    return given[len(REFERENCE) :].decode(errors="replace") if given.startswith(REFERENCE) else None


def decode_piece(payload: bytes) -> Piece:
    """Raises: RemoteProtocolError."""
    return _decode(_pieces, payload)


def _decode(decoder: msgspec.msgpack.Decoder[T], payload: bytes) -> T:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"an extension's payload: {error}", ErrorCode.BAD_PAYLOAD) from None
