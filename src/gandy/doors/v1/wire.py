"""Bytes of the first generation (docs/protocol/v1.md): a 12-byte header without sequence numbers."""

import struct
from enum import IntEnum
from typing import Final, assert_never

from gandy.errors import LocalProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES
from gandy.wire import payloads
from gandy.wire.messages import Error, Job, Ok, Stop, Update
from gandy.wire.payloads import Payload
from gandy.wire.stream import MAGIC, Decoder, Format

# magic, type, padding, arg0
HEADER: Final = struct.Struct("<HHII")

# The messages of v1. OK has one number only, and JOB one task.
V1Message = Ok | Job | Update | Stop | Error


class V1Type(IntEnum):
    """The original's numbers. It has none for ERROR; 5 is gandy's."""

    OK = 1
    JOB = 2
    UPDATE = 3
    STOP = 4
    ERROR = 5


SIZED: Final = frozenset(map(int, (V1Type.JOB, V1Type.UPDATE)))
PLAIN: Final = frozenset(map(int, V1Type)) - SIZED


def _unpack(buffer: Payload, offset: int) -> tuple[int, int, int, int, int, int]:
    magic, kind, padding, arg0 = HEADER.unpack_from(buffer, offset)
    return magic, kind, 0, 0, padding, arg0


FORMAT: Final = Format(HEADER.size, _unpack, V1Type, PLAIN, SIZED)


class V1Decoder(Decoder[V1Message]):
    """Decodes messages; v1 has no sequence numbers."""

    def __init__(self, payload_limit: int = MAX_PAYLOAD_BYTES) -> None:
        super().__init__(FORMAT, payload_limit)

    def open_frame(self, kind: int, _subtype: int, _seq: int, _padding: int, arg0: int, payload: Payload) -> V1Message:
        return _open(V1Type(kind), arg0, payload)


def _open(kind: V1Type, arg0: int, payload: Payload) -> V1Message:
    match kind:
        case V1Type.OK:
            return Ok(arg0)
        case V1Type.JOB:
            return Job((payloads.decode_task(payload),))
        case V1Type.UPDATE:
            return Update(payloads.decode_result(payload))
        case V1Type.STOP:
            return Stop(arg0)
        case V1Type.ERROR:
            return Error(arg0)
        case _:
            assert_never(kind)


def encode(message: V1Message) -> bytes:
    """The frame of a message.

    Raises: LocalProtocolError: v1 has no such message.
    """
    try:
        return _encode(message)
    except (struct.error, UnicodeEncodeError, OverflowError) as error:
        raise LocalProtocolError(f"{type(message).__name__} does not fit a v1 frame: {error}") from None


def _encode(message: V1Message) -> bytes:
    match message:
        case Ok(nproc, 0):
            return _plain(V1Type.OK, nproc)
        case Job((task,)):
            return _sized(V1Type.JOB, payloads.encode(task))
        case Update(result) if result is not None:
            return _sized(V1Type.UPDATE, payloads.encode(result))
        case Stop(count):
            return _plain(V1Type.STOP, count)
        case Error(code, 0):
            return _plain(V1Type.ERROR, code)
        case _:
            raise LocalProtocolError(f"v1 cannot say {type(message).__name__}")


def _plain(kind: V1Type, arg0: int) -> bytes:
    return HEADER.pack(MAGIC, kind, 0, arg0)


def _sized(kind: V1Type, payload: bytes) -> bytes:
    return HEADER.pack(MAGIC, kind, 0, len(payload)) + payload
