"""Messages of the ping-pong dialogue as lists of frames: `["", X]`. Jobs and results are opaque bytes.

Messages of workers and of brokers have different decoders: a result may be `EXIT`, and a job `READY`.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct

from gandy.doors.pingpong.limits import MAX_BODY_BYTES, MAX_COUNT_BYTES
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError

READY: Final = b"READY"
PING: Final = b"PING"
PONG: Final = b"PONG"
EXIT: Final = b"EXIT"
WORKER_WORDS: Final = frozenset((READY, PING))  # no result can have these bytes
BROKER_WORDS: Final = frozenset((PONG, EXIT))  # no job can have these bytes


class Ready(Struct, frozen=True):
    """Worker: I am here, and have no job."""


class Ping(Struct, frozen=True):
    """Worker: I am alive. Perhaps with a count."""

    count: bytes | None = None


class Result(Struct, frozen=True):
    """Worker: the result of the job."""

    data: bytes


class Pong(Struct, frozen=True):
    """Broker: I am alive, too. With the count of the PING that it answers, if that had one."""

    count: bytes | None = None


class PingPongJob(Struct, frozen=True):
    """Broker: do this."""

    data: bytes


class Exit(Struct, frozen=True):
    """Broker: leave."""


FromWorker = Ready | Ping | Result
FromBroker = Pong | PingPongJob | Exit


def decode_worker(frames: Sequence[bytes]) -> FromWorker:
    """A message of a worker. Raises: RemoteProtocolError."""
    word, count = _open(frames, PING)
    if word == PING:
        return Ping(count)
    return Ready() if word == READY else Result(word)


def decode_broker(frames: Sequence[bytes]) -> FromBroker:
    """A message of a broker. Raises: RemoteProtocolError."""
    word, count = _open(frames, PONG)
    if word == PONG:
        return Pong(count)
    return Exit() if word == EXIT else PingPongJob(word)


def _open(frames: Sequence[bytes], counted: bytes) -> tuple[bytes, bytes | None]:
    if len(frames) < 2 or frames[0]:
        raise RemoteProtocolError("a message is an empty frame and one more", ErrorCode.BAD_PAYLOAD)
    word, *counts = frames[1:]
    if len(counts) > (word == counted):
        raise RemoteProtocolError(f"a message of {len(frames)} frames", ErrorCode.BAD_PAYLOAD)
    if len(word) > MAX_BODY_BYTES:
        raise RemoteProtocolError(f"{len(word):,} bytes, of {MAX_BODY_BYTES:,} at most", ErrorCode.TOO_LONG)
    if not counts:
        return word, None
    if len(counts[0]) > MAX_COUNT_BYTES:
        raise RemoteProtocolError(f"a count of {len(counts[0]):,} bytes", ErrorCode.TOO_LONG)
    return word, counts[0]


def encode(message: FromWorker | FromBroker) -> list[bytes]:
    """Raises: LocalProtocolError: a job or a result is too long, or is a word of the protocol."""
    match message:
        case Ready():
            return [b"", READY]
        case Ping(count):
            return [b"", PING] if count is None else [b"", PING, count]
        case Pong(count):
            return [b"", PONG] if count is None else [b"", PONG, count]
        case Exit():
            return [b"", EXIT]
        case Result(data):
            return _close(data, WORKER_WORDS)
        case PingPongJob(data):
            return _close(data, BROKER_WORDS)
        case _:
            assert_never(message)


def _close(data: bytes, words: frozenset[bytes]) -> list[bytes]:
    if data in words or len(data) > MAX_BODY_BYTES:
        raise LocalProtocolError(explain_unsendable(data))
    return [b"", data]


def explain_unsendable(data: bytes) -> str:
    """Why these bytes can be neither a job nor a result."""
    if len(data) > MAX_BODY_BYTES:
        return f"{len(data):,} bytes are too many: a job or a result has at most {MAX_BODY_BYTES:,}"
    return f"the bytes {data.decode()} are a word of the protocol, and would be taken for it"


def is_answer(frames: Sequence[bytes]) -> bool:
    """True if a worker meant this for a result, even if it is invalid: too long, or too many frames."""
    return len(frames) >= 2 and not frames[0] and frames[1] not in WORKER_WORDS
