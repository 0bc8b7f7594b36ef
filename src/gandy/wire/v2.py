"""The second generation, and gandy's native wire: a 16-byte header with a sequence number.

Its own types follow docs/protocol/v2.md to the byte. Extensions use types from 0x20 up, which a decoder accepts only
after both sides agreed: the offer is in the padding of HELLO, the agreement in the padding of its OK.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Final, assert_never

from gandy.errors import LocalProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES, MAX_SLOTS
from gandy.wire import payloads
from gandy.wire.messages import (
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    Message,
    Ok,
    Reset,
    Stop,
    Update,
    pack_pair,
    unpack_pair,
)
from gandy.wire.payloads import HelloData, Payload
from gandy.wire.stream import MAGIC, Decoder, Format

# magic, type, subtype, seq, padding, arg0
HEADER: Final = struct.Struct("<HBBIII")


class Type(IntEnum):
    """Numbers of the original's last version. It reserves 6 (LIST), but never sends it and does not accept it."""

    OK = 1
    HELLO = 2
    JOB = 3
    UPDATE = 4
    CANCEL = 5
    STOP = 7
    ERROR = 8
    RESET = 9


SIZED: Final = frozenset(map(int, (Type.HELLO, Type.JOB, Type.UPDATE, Type.CANCEL)))
PLAIN: Final = frozenset(map(int, Type)) - SIZED

FORMAT: Final = Format(HEADER.size, HEADER.unpack_from, Type, PLAIN, SIZED)

FIRST_EXTENDED: Final = 0x20
# Type numbers of each extension. All of them carry a payload of arg0 bytes.
EXTENSION_TYPES: Final[Mapping[Extension, range]] = {
    Extension.HEARTBEAT: range(0x20, 0x28),
    Extension.UPDATES: range(0x28, 0x30),
    Extension.CLIENT: range(0x30, 0x40),
    Extension.CALLS: range(0x40, 0x60),
    Extension.OUTPUT: range(0x60, 0x68),
    Extension.BEGUN: range(0x68, 0x70),
    Extension.SHARDS: range(0x70, 0x78),
    Extension.LOAD: range(0x78, 0x7C),
}


@cache
def list_types(extensions: Extension) -> frozenset[int]:
    """List the types of these extensions' messages."""
    return frozenset().union(*(types for owner, types in EXTENSION_TYPES.items() if owner in extensions))


# UPDATES: a batch of results, acknowledged by its number when all of them are recorded; and the foreman's request to
# give back tasks that have not begun.
RESULTS: Final = 0x28
RECORDED: Final = 0x29
RECALL: Final = 0x2A

# The high half of a padding that names extensions: "G?" offers and "G!" agrees. Any other padding is ignored: v2.md
# leaves it unused, and a peer that only echoes our own padding has not agreed to anything.
OFFER: Final = 0x3F47
AGREEMENT: Final = 0x2147
KNOWN_EXTENSIONS: Final = ~Extension.NONE


class V2Decoder(Decoder[tuple[int, Message]]):
    """Returns each message with its sequence number."""

    def __init__(self, payload_limit: int = MAX_PAYLOAD_BYTES) -> None:
        super().__init__(FORMAT, payload_limit)
        self.offered = Extension.NONE  # in the last HELLO, even if its payload was invalid

    def allow(self, extensions: Extension) -> None:
        """From the next frame on, accept the types of these extensions and of no others."""
        self._sized = SIZED | list_types(extensions)

    def open_frame(
        self, kind: int, subtype: int, seq: int, padding: int, arg0: int, payload: Payload
    ) -> tuple[int, Message]:
        # The four kinds that make up most of the traffic of jobs come first.
        if kind >= FIRST_EXTENDED:
            return seq, Extended(kind, bytes(payload))
        if kind == _OK and not padding:
            return seq, Ok(arg0 >> 16, arg0 & 0xFFFF)
        if kind == _UPDATE:
            return seq, Update(payloads.decode_result(payload) if payload else None)
        if kind == _JOB:
            return seq, Job(payloads.decode_tasks(payload))
        if kind == Type.HELLO:
            self.offered = _extensions(padding, OFFER)
        return seq, _open_rare(kind, subtype, padding, arg0, payload)


_OK, _UPDATE, _JOB = int(Type.OK), int(Type.UPDATE), int(Type.JOB)


def _open_rare(kind: int, subtype: int, padding: int, arg0: int, payload: Payload) -> Message:
    match kind:
        case Type.OK:
            return Ok(*unpack_pair(arg0), _extensions(padding, AGREEMENT))
        case Type.HELLO:
            return _open_hello(padding, payload)
        case Type.CANCEL:
            return Cancel(payloads.decode_pairs(payload))
        case Type.STOP:
            return Stop(arg0)
        case Type.ERROR:
            return Error(subtype, arg0)
        case _:
            return Reset(arg0)


def _open_hello(padding: int, payload: Payload) -> Hello:
    extensions = _extensions(padding, OFFER)
    if not payload:  # v2.md: where no task runs, arg0 is 0. It does not say how many processors there are.
        return Hello(0, (), extensions)
    hello = payloads.decode_hello(payload)
    return Hello(hello.num_procs, hello.running or (), extensions, hello.about)


def encode(seq: int, message: Message) -> bytes:
    """Encode a message as a frame.

    Raises: LocalProtocolError, if a number or text does not fit its field.
    """
    try:
        match message:
            case Extended(kind, payload):
                return _sized(kind, seq, payload)
            case Ok(nproc, nrun, extensions):
                if not (0 <= nproc <= 0xFFFF and 0 <= nrun <= 0xFFFF):
                    raise LocalProtocolError(f"OK has 16 bits for each of {nproc} and {nrun}")
                padding = pack_pair(AGREEMENT, extensions) if extensions else 0
                return HEADER.pack(MAGIC, _OK, 0, seq, padding, nproc << 16 | nrun)
            case Update(result):
                return _sized(_UPDATE, seq, payloads.encode(result) if result is not None else b"")
            case Job(tasks, packed):
                return _sized(_JOB, seq, payloads.join(packed) if packed else payloads.encode(tasks))
            case Hello(nproc, running, extensions, about):
                if not 0 <= nproc <= MAX_SLOTS or len(running) > MAX_SLOTS:
                    raise LocalProtocolError(f"a worker has at most {MAX_SLOTS} processors")
                padding = pack_pair(OFFER, extensions) if extensions else 0
                return _sized(Type.HELLO, seq, payloads.encode(HelloData(nproc, running, about)), padding)
            case _:
                return _encode_rare(seq, message)
    except (struct.error, UnicodeEncodeError, OverflowError) as error:
        raise LocalProtocolError(
            f"{type(message).__name__} with number {seq} does not fit a v2 frame: {error}"
        ) from None


def _encode_rare(seq: int, message: Cancel | Stop | Error | Reset) -> bytes:
    match message:
        case Cancel(pairs):
            return _sized(Type.CANCEL, seq, payloads.encode(pairs))
        case Stop(count):
            return HEADER.pack(MAGIC, Type.STOP, 0, seq, 0, count)
        case Error(code, detail):
            return HEADER.pack(MAGIC, Type.ERROR, code, seq, 0, detail)
        case Reset(last_reply):
            return HEADER.pack(MAGIC, Type.RESET, 0, seq, 0, last_reply)
        case _:
            assert_never(message)


def _sized(kind: int, seq: int, payload: bytes, padding: int = 0) -> bytes:
    return HEADER.pack(MAGIC, kind, 0, seq, padding, len(payload)) + payload


def _extensions(padding: int, mark: int) -> Extension:
    found_mark, bits = unpack_pair(padding)
    return Extension(bits & KNOWN_EXTENSIONS) if found_mark == mark else Extension.NONE
