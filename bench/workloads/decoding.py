"""How fast v2 frames become messages, beside a loop that does nothing but `struct` and msgspec."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from bench.contract import Contestant, Place, Table, Work
from gandy.ids import JobId, TaskNumber
from gandy.wire import v2
from gandy.wire.messages import Job, JobDescription, Ok, Status, Task, TaskPair, TaskResult, Update
from gandy.wire.payloads import HelloData

ROUNDS = 10_000  # of JOB, OK, UPDATE, OK: the messages for one task
FRAMES = 4 * ROUNDS
READ_BYTES = 64 * 1024  # what one read of a socket returns


def make_stream() -> bytes:
    job = JobDescription(JobId(3), "test_job", 13, "/home/foo", "/home/foo/logs", "/bin/echo", Status.RUNNING)
    round_ = (
        (1, Job((Task(TaskNumber(6), job),))),
        (1, Ok(0, 1)),
        (2, Update(TaskResult(JobId(3), TaskNumber(6), True, "done"))),
        (2, Ok(1, 0)),
    )
    return b"".join(v2.encode(seq, message) for _ in range(ROUNDS) for seq, message in round_)


def bare_loop(stream: bytes) -> Callable[[], int]:
    """The physical limit of plain Python: no checks, no pieces, no messages."""
    decoders = {
        int(v2.Type.HELLO): msgspec.msgpack.Decoder(HelloData).decode,
        int(v2.Type.JOB): msgspec.msgpack.Decoder(tuple[Task, ...]).decode,
        int(v2.Type.UPDATE): msgspec.msgpack.Decoder(TaskResult).decode,
        int(v2.Type.CANCEL): msgspec.msgpack.Decoder(tuple[TaskPair, ...]).decode,
    }
    unpack = v2.HEADER.unpack_from

    def run() -> int:
        position, frames, end = 0, 0, len(stream)
        while position < end:
            _magic, kind, _subtype, _seq, _padding, arg0 = unpack(stream, position)
            position += 16
            decode = decoders.get(kind)
            if decode is not None:
                decode(stream[position : position + arg0])
                position += arg0
            frames += 1
        return frames

    return run


def gandy_decoder(stream: bytes) -> Callable[[], int]:
    reads = [stream[begin : begin + READ_BYTES] for begin in range(0, len(stream), READ_BYTES)]

    def run() -> int:
        decoder, frames = v2.V2Decoder(), 0
        next_message = decoder.next_message
        for data in reads:
            decoder.receive_data(data)
            while next_message() is not None:
                frames += 1
        return frames

    return run


@contextmanager
def decoding(_place: Place, make: Callable[[bytes], Callable[[], int]]) -> Iterator[Work]:
    decode = make(make_stream())

    def work(count: int) -> int:
        return sum(decode() for _ in range(count // FRAMES))

    yield work


LIMIT = "bare struct and msgspec loop"

TABLES = (Table("decoding", "Decoding v2 frames", "frames", 5 * FRAMES, LIMIT),)

CONTESTANTS = (
    Contestant("decoding", LIMIT, partial(decoding, make=bare_loop), packages=("msgspec",)),
    Contestant("decoding", "gandy, in 64 KiB reads", partial(decoding, make=gandy_decoder), packages=("gandy",)),
)
