"""Messages of the round-robin queue: frames as its programs sent them, and those that no program should send."""

from typing import NamedTuple

import pytest

from gandy.doors.limits import MAX_FRAMES
from gandy.doors.roundrobin import wire as roundrobin
from gandy.doors.roundrobin.limits import MAX_ID_BYTES
from gandy.doors.roundrobin.wire import (
    EXEC,
    FAILED,
    FAILURE,
    PING,
    PONG,
    RESPONSE,
    SUCCESS,
    TRACKADDRESS,
    TRACKEXEC,
    QueueMessage,
    decode,
    encode,
    encode_status,
    make_reply,
    parse_count,
)
from gandy.errors import ErrorCode, RemoteProtocolError

WORKER = b"tcp://127.0.0.1:6714:234595"
CLIENT = b"tcp://127.0.0.1:6714:62939"
PACKET = bytes.fromhex("325208c00f00246b7f000069000000fc020000") + b"\1" * 764


class Seen(NamedTuple):
    """Frames that an original program and a ROUTER exchanged, and what they mean."""

    frames: list[bytes]
    message: QueueMessage


# From a capture of the original client and worker, each kind once; the first frame is the ROUTER's peer.
CAPTURE = {
    "PING of a worker": Seen(
        [WORKER, b"", b"LMQv100", b"\x01", bytes.fromhex("0300000000000000"), b""],
        QueueMessage(PING, bytes.fromhex("0300000000000000"), (), (WORKER,)),
    ),
    "PONG": Seen(
        [WORKER, b"", b"LMQv100", b"\x02", bytes.fromhex("0300000000000000"), b""],
        QueueMessage(PONG, bytes.fromhex("0300000000000000"), (), (WORKER,)),
    ),
    "REGISTER": Seen(
        [WORKER, b"", b"LMQv100", b"\x04", bytes.fromhex("00000000"), b"\x08", b"10", b""],
        QueueMessage(TRACKEXEC, bytes(4), (roundrobin.REGISTER, b"10"), (WORKER,)),
    ),
    "REGISTER response": Seen(
        [WORKER, b"", b"LMQv100", b"\x06", bytes.fromhex("00000000"), b""],
        QueueMessage(RESPONSE, bytes(4), (), (WORKER,)),
    ),
    "TRACKEXEC PING of a client": Seen(
        [CLIENT, b"", b"LMQv100", b"\x04", bytes.fromhex("0400000000000000"), b"\x01", b""],
        QueueMessage(TRACKEXEC, bytes.fromhex("0400000000000000"), (PING,), (CLIENT,)),
    ),
    "its dispatch": Seen(
        [WORKER, b"", b"LMQv100", b"\x04", bytes.fromhex("0400000000000000"), b"\x01", b"", CLIENT],
        QueueMessage(TRACKEXEC, bytes.fromhex("0400000000000000"), (PING,), (WORKER,), (CLIENT,)),
    ),
    "its response, from the worker": Seen(
        [WORKER, CLIENT, b"", b"LMQv100", b"\x06", bytes.fromhex("0400000000000000"), b""],
        QueueMessage(RESPONSE, bytes.fromhex("0400000000000000"), (), (WORKER, CLIENT)),
    ),
    "its response, to the client": Seen(
        [CLIENT, b"", b"LMQv100", b"\x06", bytes.fromhex("0400000000000000"), b"", WORKER],
        QueueMessage(RESPONSE, bytes.fromhex("0400000000000000"), (), (CLIENT,), (WORKER,)),
    ),
    "INCREMENT": Seen(
        [WORKER, b"", b"LMQv100", b"\x03", bytes.fromhex("01000000"), b"\x07", b""],
        QueueMessage(EXEC, bytes.fromhex("01000000"), (roundrobin.INCREMENT,), (WORKER,)),
    ),
    "EXEC PING of a client": Seen(
        [CLIENT, b"", b"LMQv100", b"\x03", bytes.fromhex("0b00000000000000"), b"\x01", b""],
        QueueMessage(EXEC, bytes.fromhex("0b00000000000000"), (PING,), (CLIENT,)),
    ),
    "RR_STREAM": Seen(
        [CLIENT, b"", b"LMQv100", b"\x04", bytes(4), b"\n", b"STREAM_ID", b"1024", b""],
        QueueMessage(TRACKEXEC, bytes(4), (roundrobin.RR_STREAM, b"STREAM_ID", b"1024"), (CLIENT,)),
    ),
    "RR_STREAM response": Seen(
        [WORKER, CLIENT, b"", b"LMQv100", b"\x06", bytes(4), PACKET, b""],
        QueueMessage(RESPONSE, bytes(4), (PACKET,), (WORKER, CLIENT)),
    ),
    "DEREGISTER": Seen(
        [WORKER, b"", b"LMQv100", b"\x03", b"WORKER", b"\t", b""],
        QueueMessage(EXEC, b"WORKER", (roundrobin.DEREGISTER,), (WORKER,)),
    ),
    "TRACKADDRESS": Seen(
        [CLIENT, b"", b"LMQv100", b"\x05", bytes(4), b"tcp://127.0.0.1:6714", b""],
        QueueMessage(TRACKADDRESS, bytes(4), (b"tcp://127.0.0.1:6714",), (CLIENT,)),
    ),
}


@pytest.mark.parametrize("seen", CAPTURE.values(), ids=CAPTURE)
def test_frames_of_the_original_are_read_and_written_alike(seen: Seen) -> None:
    assert decode(seen.frames) == seen.message
    assert encode(seen.message) == seen.frames


def test_reply_goes_back_the_way_that_the_message_came() -> None:
    dispatch = decode([b"", b"LMQv100", TRACKEXEC, b"1234", b"\x01", b"", b"first", b"second"])
    assert make_reply(dispatch) == QueueMessage(RESPONSE, b"1234", (), (b"second", b"first"))
    assert make_reply(dispatch, PONG, b"a", b"b") == QueueMessage(PONG, b"1234", (b"a", b"b"), (b"second", b"first"))


@pytest.mark.parametrize("size", [1, 4, 8, MAX_ID_BYTES])
def test_ids_may_have_1_to_511_bytes(size: int) -> None:
    assert decode([b"", b"LMQv100", PING, b"x" * size, b""]).id == b"x" * size


GOOD = [b"", b"LMQv100", PING, b"1234", b""]

MALFORMED = {
    "no frames": ([], ErrorCode.BAD_PAYLOAD),
    "one frame": ([b""], ErrorCode.BAD_PAYLOAD),
    "two frames": ([b"", b""], ErrorCode.BAD_MAGIC),
    "three frames": ([b"", b"LMQv100", b""], ErrorCode.BAD_MAGIC),
    "no first empty frame": (GOOD[1:], ErrorCode.BAD_PAYLOAD),
    "no second empty frame": (GOOD[:-1], ErrorCode.BAD_PAYLOAD),
    "no empty frame": (GOOD[1:-1], ErrorCode.BAD_PAYLOAD),
    "another version": ([b"", b"LMQv101", PING, b"1234", b""], ErrorCode.BAD_MAGIC),
    "no version": ([b"", PING, b"1234", b"arg", b""], ErrorCode.BAD_MAGIC),
    "no id": ([b"", b"LMQv100", PING, b""], ErrorCode.BAD_MAGIC),
    "an empty id": ([b"", b"LMQv100", PING, b"", b""], ErrorCode.BAD_MAGIC),
    "an id of 512 bytes": ([b"", b"LMQv100", PING, b"x" * 512, b""], ErrorCode.TOO_LONG),
    "an unknown command": ([b"", b"LMQv100", b"\x07", b"1234", b""], ErrorCode.UNKNOWN_TYPE),
    "a long command": ([b"", b"LMQv100", b"\x01" * 1000, b"1234", b""], ErrorCode.UNKNOWN_TYPE),
    "an empty frame among the senders": ([*GOOD, b"client", b""], ErrorCode.BAD_PAYLOAD),
    "too many frames": ([b"hop"] * (MAX_FRAMES - 4) + GOOD, ErrorCode.TOO_LONG),
}


@pytest.mark.parametrize(("frames", "code"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_messages_are_refused(frames: list[bytes], code: ErrorCode) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frames)
    assert caught.value.code is code


def test_longest_message_is_taken() -> None:
    assert len(decode([b"hop"] * (MAX_FRAMES - 5) + GOOD).to) == MAX_FRAMES - 5


@pytest.mark.parametrize(
    ("frame", "number"),
    [
        (b"10", 10),
        (b"10\0", 10),
        (b"  7 slots", 7),
        (b"-3", -3),
        (b"+4", 4),
        (b"", 0),
        (b"-", 0),
        (b"many", 0),
        (b"1.5", 1),
        (b"9" * 1000, int("9" * 20)),
    ],
)
def test_counts_are_read_as_the_original_reads_them(frame: bytes, number: int) -> None:
    assert parse_count(frame) == number


def test_status_frames_are_those_of_the_original() -> None:
    assert encode_status(SUCCESS) == bytes.fromhex("1400")
    assert encode_status(FAILURE) == FAILED == bytes.fromhex("2800")


@pytest.mark.parametrize(
    ("number", "varint"),
    [
        (0, "00"),
        (-1, "01"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_numbers_are_zigzag_varints(number: int, varint: str) -> None:
    assert encode_status(number, 5) == bytes.fromhex(varint + "0a")
    assert encode_status(-5, number) == bytes.fromhex("09" + varint)
