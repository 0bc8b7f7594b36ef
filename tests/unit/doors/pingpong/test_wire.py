"""Frames of the ping-pong dialogue: what they mean, to the byte, and what makes no sense."""

import pytest

from gandy.doors.pingpong import wire as pingpong
from gandy.doors.pingpong.limits import MAX_BODY_BYTES, MAX_COUNT_BYTES
from gandy.doors.pingpong.wire import (
    Exit,
    FromBroker,
    FromWorker,
    Ping,
    PingPongJob,
    Pong,
    Ready,
    Result,
    decode_broker,
    decode_worker,
    encode,
    is_answer,
)
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError

BY_WORKER: list[tuple[list[bytes], FromWorker]] = [
    ([b"", b"READY"], Ready()),
    ([b"", b"PING"], Ping()),
    ([b"", b"PING", b"17"], Ping(b"17")),
    ([b"", b"PING", b""], Ping(b"")),
    ([b"", b"PING", bytes(MAX_COUNT_BYTES)], Ping(bytes(MAX_COUNT_BYTES))),
    ([b"", b"done"], Result(b"done")),
    ([b"", b""], Result(b"")),
    ([b"", b"ping"], Result(b"ping")),
    ([b"", b"READY "], Result(b"READY ")),
    ([b"", b"PONG"], Result(b"PONG")),
    ([b"", b"EXIT"], Result(b"EXIT")),
    ([b"", bytes(MAX_BODY_BYTES)], Result(bytes(MAX_BODY_BYTES))),
]
BY_BROKER: list[tuple[list[bytes], FromBroker]] = [
    ([b"", b"PONG"], Pong()),
    ([b"", b"PONG", b"17"], Pong(b"17")),
    ([b"", b"PONG", b""], Pong(b"")),
    ([b"", b"EXIT"], Exit()),
    ([b"", b"work"], PingPongJob(b"work")),
    ([b"", b""], PingPongJob(b"")),
    ([b"", b"PING"], PingPongJob(b"PING")),
    ([b"", b"READY"], PingPongJob(b"READY")),
]


@pytest.mark.parametrize(("frames", "message"), BY_WORKER, ids=range(len(BY_WORKER)))
def test_what_a_worker_says(frames: list[bytes], message: FromWorker) -> None:
    assert decode_worker(frames) == message
    assert encode(message) == frames


@pytest.mark.parametrize(("frames", "message"), BY_BROKER, ids=range(len(BY_BROKER)))
def test_what_a_broker_says(frames: list[bytes], message: FromBroker) -> None:
    assert decode_broker(frames) == message
    assert encode(message) == frames


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([], ErrorCode.BAD_PAYLOAD),
        ([b""], ErrorCode.BAD_PAYLOAD),
        ([b"PING"], ErrorCode.BAD_PAYLOAD),
        ([b"x", b"PING"], ErrorCode.BAD_PAYLOAD),
        ([b"", b"READY", b"1"], ErrorCode.BAD_PAYLOAD),
        ([b"", b"EXIT", b"1"], ErrorCode.BAD_PAYLOAD),
        ([b"", b"PING", b"1", b"2"], ErrorCode.BAD_PAYLOAD),
        ([b"", b"PONG", b"1", b"2"], ErrorCode.BAD_PAYLOAD),
        ([b"", b"result", b"more"], ErrorCode.BAD_PAYLOAD),
        ([b"", bytes(MAX_BODY_BYTES + 1)], ErrorCode.TOO_LONG),
    ],
    ids=range(10),
)
def test_what_makes_no_sense(frames: list[bytes], code: ErrorCode) -> None:
    for decode in (decode_worker, decode_broker):
        with pytest.raises(RemoteProtocolError) as error:
            decode(frames)
        assert error.value.code is code


def test_counts_are_short() -> None:
    long = bytes(MAX_COUNT_BYTES + 1)
    with pytest.raises(RemoteProtocolError, match="a count of 65 bytes"):
        decode_worker([b"", b"PING", long])
    with pytest.raises(RemoteProtocolError, match="a count of 65 bytes"):
        decode_broker([b"", b"PONG", long])


def test_only_the_side_whose_word_it_is_counts() -> None:
    for decode, word in ((decode_worker, b"PONG"), (decode_broker, b"PING")):
        with pytest.raises(RemoteProtocolError, match="a message of 3 frames"):
            decode([b"", word, b"1"])


@pytest.mark.parametrize("message", [Result(b"READY"), Result(b"PING"), PingPongJob(b"PONG"), PingPongJob(b"EXIT")])
def test_a_body_that_would_be_taken_for_a_word_is_not_sent(message: Result | PingPongJob) -> None:
    with pytest.raises(LocalProtocolError, match="a word of the protocol"):
        encode(message)


@pytest.mark.parametrize("kind", [Result, PingPongJob])
def test_a_body_that_is_too_long_is_not_sent(kind: type[Result] | type[PingPongJob]) -> None:
    with pytest.raises(LocalProtocolError, match="too many"):
        encode(kind(bytes(MAX_BODY_BYTES + 1)))


def test_what_was_meant_for_a_result() -> None:
    assert is_answer([b"", b"part one", b"part two"])
    assert is_answer([b"", b"x"])
    for frames in ([], [b""], [b"x", b"y"], [b"", b"PING", b"1", b"2"], [b"", b"READY", b""]):
        assert not is_answer(frames)


def test_words_are_those_of_the_seed() -> None:
    assert (pingpong.READY, pingpong.PING, pingpong.PONG, pingpong.EXIT) == (b"READY", b"PING", b"PONG", b"EXIT")
