"""The messages of gandy's own extensions between foreman and worker: heartbeats, load, begun tasks, output of tasks."""

from functools import partial
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from gandy.bounds import (
    BROKEN,
    AttemptNumber,
    Count,
    JobNumber,
    Name,
    OptionalName,
    PieceData,
    TaskIndex,
    Text,
    describe,
)
from gandy.core.model import AttemptKey
from gandy.core.shards import Directory, Want
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import (
    MAX_AHEAD,
    MAX_BEGUN,
    MAX_CORES,
    MAX_LOAD,
    MAX_OUTPUTS,
    MAX_PROBLEM,
    MAX_READ_BYTES,
    MAX_RETRACTED,
    MAX_SLOTS,
    MAX_TEXT,
)
from gandy.wire.messages import Extension

T = TypeVar("T")

REFERENCE: Final = b"gandy-arguments:"  # begins the bytes that stand for large arguments; no pickle begins like this

# HEARTBEAT: a PING is answered by a PONG with its number.
PING: Final = 0x20
PONG: Final = 0x21

# HEARTBEAT: a worker uses fewer slots than it has, for lack of something, or all of them again.
CAPACITY: Final = 0x22

# OUTPUT: the foreman asks for a piece of a task's output, the worker answers with the same number.
READ: Final = 0x60
PIECE: Final = 0x61

# OUTPUT, the other way: a worker asks for a piece of large arguments, the foreman answers with the same number.
FETCH: Final = 0x62
ARGUMENTS: Final = 0x63

# OUTPUT: the same for the beginnings of the outputs of many tasks.
READ_MANY: Final = 0x64
PIECES: Final = 0x65

# OUTPUT too: the foreman wants attempts back for good, the worker answers with those that had not begun.
RETRACT: Final = 0x66
RETRACTED: Final = 0x67

# BEGUN: a worker says which attempts it has been running for a while, each once on a link. There is no answer.
BEGUN: Final = 0x68

# SHARDS: the foreman says where all shards are, first after HELLO. There is no answer.
DIRECTORY: Final = 0x70

# SHARDS: the foreman says how many slots its waiting tasks could use. CAPACITY answers it, if something changes.
WANT: Final = 0x71

# LOAD: a worker says how busy its machine is, first after HELLO and then after each change. There is no answer.
LOAD: Final = 0x78

# What a gandy foreman offers; one of a crew with many foremen also offers SHARDS.
FOREMAN_OFFERS: Final = (
    Extension.ATOMIC
    | Extension.HEARTBEAT
    | Extension.UPDATES
    | Extension.CLIENT
    | Extension.CALLS
    | Extension.OUTPUT
    | Extension.TIMED
    | Extension.BEGUN
    | Extension.LOAD
    | Extension.LINKED
)
# What a gandy worker offers.
WORKER_OFFERS: Final = FOREMAN_OFFERS & ~(Extension.CLIENT | Extension.LINKED) | Extension.SHARDS

ReadLimit = Annotated[int, Meta(ge=0, le=MAX_READ_BYTES)]


class Capacity(Struct, frozen=True):
    """How many slots a worker uses for tasks now, how many tasks may wait there, and what it is short of."""

    slots: Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
    ahead: Annotated[int, Meta(ge=0, le=MAX_AHEAD)] = 0
    problem: Annotated[str, Meta(max_length=MAX_PROBLEM, pattern="^[ -~]*$")] = ""


class MachineLoad(Struct, frozen=True, array_like=True):
    """How busy the machine of a worker is: everything that runs there counts."""

    load: Annotated[float, Meta(ge=0, le=MAX_LOAD)]  # processes that run or wait to run, on average over a minute
    cores: Annotated[int, Meta(ge=0, le=MAX_CORES)] = 0  # 0: it is not known; the same for the next two
    memory_bytes: Count = 0  # in use, and not to be had by freeing caches
    memory_total_bytes: Count = 0


class Read(Struct, frozen=True):
    """Which piece of which output."""

    job: JobNumber
    task: TaskIndex
    attempt: AttemptNumber
    stream: OptionalName
    offset: Count
    limit: ReadLimit
    identity: Count = 0  # of the job


class ReadMany(Struct, frozen=True):
    """The output of attempts at tasks of one job, from its beginning. `limit`: bytes of all of them together."""

    job: JobNumber
    stream: OptionalName
    attempts: Annotated[tuple[tuple[TaskIndex, AttemptNumber], ...], Meta(max_length=MAX_OUTPUTS)]
    limit: ReadLimit
    identity: Count = 0  # of the job


class Retraction(Struct, frozen=True):
    """Attempts that are not to begin; in the answer, those that had not and never will."""

    attempts: Annotated[tuple[AttemptKey, ...], Meta(max_length=MAX_RETRACTED)]


class Begun(Struct, frozen=True):
    """Attempts that a worker runs."""

    attempts: Annotated[tuple[AttemptKey, ...], Meta(max_length=MAX_BEGUN)]


class Fetch(Struct, frozen=True):
    """Which piece of which arguments."""

    name: Name
    offset: Count
    limit: ReadLimit


class Piece(Struct, frozen=True):
    """The piece. `is_last`: there is no more, and there will be none. `problem` instead of data, if there is one.

    `is_absent`: the worker has no such file, for example because the task wrote nothing.
    """

    data: PieceData
    is_last: bool
    problem: Text = ""
    is_absent: bool = False


class Pieces(Struct, frozen=True):
    """One for each attempt that was asked for, in order; the first always, the last ones only if they fit the limit."""

    pieces: Annotated[tuple[Piece, ...], Meta(max_length=MAX_OUTPUTS)]


encode: Final = msgspec.msgpack.Encoder().encode


def make_reference(name: str) -> bytes:
    """What stands for large arguments, in the place of the arguments themselves."""
    return REFERENCE + name.encode()


def read_reference(given: bytes) -> str | None:
    """The name of large arguments, if these bytes stand for some."""
    return given[len(REFERENCE) :].decode(errors="replace") if given.startswith(REFERENCE) else None


def make_problem(text: str) -> Piece:
    """What is sent instead of a piece that cannot be read."""
    return Piece(b"", is_last=True, problem=text[:MAX_TEXT] or "unknown")


def _decode(decoder: msgspec.msgpack.Decoder[T], payload: bytes) -> T:
    """Raises: RemoteProtocolError."""
    try:
        return decoder.decode(payload)
    except BROKEN as error:
        raise RemoteProtocolError(f"an extension's payload: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None


decode_read: Final = partial(_decode, msgspec.msgpack.Decoder(Read))
decode_read_many: Final = partial(_decode, msgspec.msgpack.Decoder(ReadMany))
decode_piece: Final = partial(_decode, msgspec.msgpack.Decoder(Piece))
decode_pieces: Final = partial(_decode, msgspec.msgpack.Decoder(Pieces))
decode_fetch: Final = partial(_decode, msgspec.msgpack.Decoder(Fetch))
decode_retraction: Final = partial(_decode, msgspec.msgpack.Decoder(Retraction))
decode_capacity: Final = partial(_decode, msgspec.msgpack.Decoder(Capacity))
decode_load: Final = partial(_decode, msgspec.msgpack.Decoder(MachineLoad))
decode_begun: Final = partial(_decode, msgspec.msgpack.Decoder(Begun))
decode_directory: Final = partial(_decode, msgspec.msgpack.Decoder(Directory))
decode_want: Final = partial(_decode, msgspec.msgpack.Decoder(Want))
