"""Frames of calls, in whatever pieces they come, and the few payloads that are opened."""

import tracemalloc
from math import inf, nan

import msgspec
import pytest
from tests.builders import a_task
from tests.crews import Frame, read_all

from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import (
    MAX_CALL_PAYLOAD,
    MAX_COMMAND_NAME,
    MAX_COMMANDS,
    MAX_OFFER_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_PIECE_BYTES,
    MAX_SLOTS,
)
from gandy.wire import calls, v2
from gandy.wire.calls import Announcement, CallFailure, Offer
from gandy.wire.messages import Extended, Job
from gandy.wire.payloads import encode as encode_payload
from gandy.wire.stream import MAGIC

EVERY_FRAME = [
    Frame(calls.CALL, calls.STREAM | calls.PICKLED, 7, 2_500, calls.encode_target("add") + b"\x92\x01\x02"),
    Frame(calls.CALL, calls.DIRECT | calls.MORE, 8, 0, calls.encode_target("add", "hut-1")),
    Frame(calls.CALL, calls.AT, 9, 0, calls.encode_target("add") + calls.encode_time(1e9 + 0.25) + b"\x90"),
    Frame(calls.BODY, calls.LAST, 8, 0, b"more"),
    Frame(calls.RESULT, calls.WHOLE, 7, 0, b"\x03"),
    Frame(calls.RESULT, calls.LAST | calls.FAILED, 7, 0, calls.encode_failure(CallFailure("ValueError", "no"))),
    Frame(calls.CREDIT, 0, 8, 0xFFFF_FFFF),
    Frame(calls.CANCEL, 0, 0xFFFF_FFFF),
    Frame(calls.ANNOUNCE, 0, 0, 0, calls.encode_announcement(4, 1, [Offer("add", 2)])),
    Frame(calls.YIELD, 0, 3, 2),
    Frame(calls.YIELDED, 0, 3, 1),
]
STREAM = b"".join(calls.encode(*frame) for frame in EVERY_FRAME)
HEAD = v2.HEADER.size


def read(data: bytes | bytearray, at: int = 0) -> tuple[list[Frame], int]:
    frames: list[Frame] = []
    end = calls.read_frames(data, at, lambda *frame: frames.append(Frame(*frame)))
    return frames, end


def claim(kind: int, size: int) -> bytes:
    """A header, and nothing behind it."""
    return v2.HEADER.pack(MAGIC, kind, 0, 1, 0, size)


# Frames


@pytest.mark.parametrize("frame", EVERY_FRAME, ids=lambda frame: f"{frame.kind:#x}")
def test_every_frame_comes_back_as_it_went(frame: Frame) -> None:
    assert read_all(calls.encode(*frame)) == [frame]


@pytest.mark.parametrize("frame", EVERY_FRAME, ids=lambda frame: f"{frame.kind:#x}")
def test_a_frame_is_a_v2_frame_of_the_extension(frame: Frame) -> None:
    decoder = v2.V2Decoder()
    decoder.allow(v2.KNOWN_EXTENSIONS)
    decoder.receive_data(calls.encode(*frame))
    assert decoder.next_message() == (frame.seq, Extended(frame.kind, frame.payload))


def test_frames_that_stand_one_behind_the_other_are_told_in_one_go() -> None:
    assert read(STREAM) == (EVERY_FRAME, len(STREAM))
    assert read(b"before" + STREAM, 6) == (EVERY_FRAME, 6 + len(STREAM))


def test_byte_by_byte_each_frame_is_told_when_it_is_complete() -> None:
    frames: list[Frame] = []
    at = 0
    for end in range(len(STREAM) + 1):
        before = at
        at = calls.read_frames(STREAM[:end], at, lambda *frame: frames.append(Frame(*frame)))
        assert at in (before, end)
    assert (frames, at) == (EVERY_FRAME, len(STREAM))


@pytest.mark.parametrize("rest", [b"\x47", STREAM[: HEAD - 1], STREAM[:HEAD], STREAM[: HEAD + 3]], ids=len)
def test_a_part_of_a_frame_is_left(rest: bytes) -> None:
    assert read(STREAM + rest) == (EVERY_FRAME, len(STREAM))


def test_payloads_from_a_buffer_that_grows_are_bytes_of_their_own() -> None:
    data = bytearray(STREAM)
    frames, end = read(data)
    data.clear()  # no view of it is left
    assert (frames, end) == (EVERY_FRAME, len(STREAM))
    assert {type(frame.payload) for frame in frames} == {bytes}


@pytest.mark.parametrize(
    "head", [claim(calls.ANNOUNCE, MAX_PAYLOAD_BYTES), claim(v2.Type.JOB, MAX_PAYLOAD_BYTES)], ids=["ours", "another"]
)
def test_a_large_frame_is_not_copied_before_it_is_complete(head: bytes) -> None:
    data = bytearray(head + bytes(MAX_PAYLOAD_BYTES // 2))
    tracemalloc.start()
    assert read(data) == ([], 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1024


@pytest.mark.parametrize(
    "other",
    [
        bytes(HEAD),
        v2.encode(3, Job((a_task(),))),
        v2.encode(0, Extended(0x3F, b"")),
        v2.encode(0, Extended(0x60, b"")),
        claim(v2.Type.JOB, 0xFFFF_FFFF),
    ],
    ids=["bad magic", "job", "extension before", "extension behind", "length of another"],
)
def test_whatever_is_no_call_stops_it(other: bytes) -> None:
    assert read(STREAM + other + STREAM) == (EVERY_FRAME, len(STREAM))


@pytest.mark.parametrize("kind", [kind for kind in calls.KINDS if kind != calls.ANNOUNCE])
def test_a_piece_that_claims_too_much_is_refused_from_its_header(kind: int) -> None:
    assert read(claim(kind, MAX_CALL_PAYLOAD)) == ([], 0)
    with pytest.raises(RemoteProtocolError, match="claims") as caught:
        read(claim(kind, MAX_CALL_PAYLOAD + 1))
    assert caught.value.code is ErrorCode.TOO_LONG


def test_an_announcement_may_be_as_long_as_a_payload() -> None:
    assert read(claim(calls.ANNOUNCE, MAX_PAYLOAD_BYTES)) == ([], 0)
    with pytest.raises(RemoteProtocolError) as caught:
        read(claim(calls.ANNOUNCE, MAX_PAYLOAD_BYTES + 1))
    assert caught.value.code is ErrorCode.TOO_LONG


def test_the_longest_names_and_a_whole_piece_fit() -> None:
    target = calls.encode_target("n" * MAX_COMMAND_NAME, "w" * MAX_COMMAND_NAME)
    frame = Frame(calls.CALL, calls.DIRECT, 1, 0, target + bytes(MAX_PIECE_BYTES))
    assert read_all(calls.encode(*frame)) == [frame]


def test_what_a_listener_raises_passes_through() -> None:
    def refuse(*_frame: object) -> None:
        raise RemoteProtocolError("no", ErrorCode.BAD_SEQ)

    with pytest.raises(RemoteProtocolError, match="no"):
        calls.read_frames(STREAM, 0, refuse)


# Plain frames

PLAIN = Frame(calls.RESULT, calls.LAST | calls.WHOLE, 5, 0, b"\xc0")


def test_heads_of_plain_frames_are_those_of_the_frames() -> None:
    call = calls.encode(calls.CALL, 0, 7, 9, b"four")
    assert calls.PLAIN_HEADER.unpack_from(call) == (calls.PLAIN_CALL, 7, 9, 4)
    assert calls.PLAIN_HEADER.unpack_from(calls.encode(*PLAIN)) == (calls.PLAIN_RESULT, 5, 0, 1)
    assert calls.PLAIN_HEADER.size == HEAD


@pytest.mark.parametrize("is_growing", [False, True])
def test_plain_frames_take_the_short_way_and_all_others_are_told(is_growing: bool) -> None:
    plain = calls.encode(*PLAIN)
    data = plain + plain + STREAM + plain + STREAM[:3]
    frames: list[Frame] = []
    taken: list[int] = []

    def take(data: bytes, at: int) -> int:
        assert type(data) is bytes
        while data.startswith(plain, at):
            taken.append(at)
            at += len(plain)
        return at

    end = calls.read_frames(
        bytearray(data) if is_growing else data, 0, lambda *frame: frames.append(Frame(*frame)), take
    )
    assert end == len(data) - 3
    first = [PLAIN] if is_growing else []  # until it is known that a frame is complete, nothing is copied
    assert frames == first + EVERY_FRAME
    assert len(taken) == 3 - len(first)


# Names


@pytest.mark.parametrize("name", ["a", "größe", "n" * MAX_COMMAND_NAME])
def test_a_name_comes_back(name: str) -> None:
    target = calls.encode_target(name)
    assert calls.read_name(target + b"body") == (name.encode(), len(target))


def test_the_worker_stands_behind_the_command() -> None:
    target = calls.encode_target("add", "hut-1")
    name, end = calls.read_name(target)
    assert (name, calls.read_name(target, end)) == (b"add", (b"hut-1", len(target)))


@pytest.mark.parametrize("name", ["", "n" * (MAX_COMMAND_NAME + 1), "ö" * 128])
def test_a_name_has_1_to_255_bytes(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 255 bytes"):
        calls.encode_target(name)
    with pytest.raises(RemoteProtocolError):
        calls.read_name(b"\x00" + name.encode())


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00abc", b"\x04abc", b"\xff"])
def test_a_name_that_is_not_there_is_the_peers_mistake(payload: bytes) -> None:
    for at in (0, 2):
        with pytest.raises(RemoteProtocolError, match="without the name") as caught:
            calls.read_name(b"\x01a"[:at] + payload, at)
        assert caught.value.code is ErrorCode.BAD_PAYLOAD


# Refusals and failures


def test_a_refusal_comes_back() -> None:
    assert calls.decode_refusal(calls.encode_refusal(calls.BUSY, "später")) == (calls.BUSY, "später")


def test_a_refusal_can_be_made_and_read_whatever_is_in_it() -> None:
    assert calls.decode_refusal(calls.encode_refusal(calls.LOST, "\ud800")) == (calls.LOST, "?")
    assert calls.decode_refusal(b"\x09\xff") == (9, "\ufffd")
    assert calls.decode_refusal(b"") == (0, "")


@pytest.mark.parametrize(
    "failure", [CallFailure("ValueError", "no"), CallFailure("E", "größer", "Traceback", b"\x80pickle")]
)
def test_a_failure_comes_back(failure: CallFailure) -> None:
    assert calls.decode_failure(calls.encode_failure(failure)) == failure


def test_a_failure_can_be_told_whatever_its_texts_are() -> None:
    failure = CallFailure("E\udcff", "no file \udcfe", "in \ud800", b"\xff")
    told = CallFailure("E\\udcff", "no file \\udcfe", "in \\ud800", b"\xff")
    assert calls.decode_failure(calls.encode_failure(failure)) == told


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\x91\xa1E", b"\x92\xa1E\xa1\xff", b"\x92\x01\x02", b"\x95" + 4 * b"\xa0" + b"\x91" * 100_000],
    ids=["nothing", "no msgpack", "too short", "no text", "numbers", "deep"],
)
def test_a_failure_that_is_none_is_still_a_failure(payload: bytes) -> None:
    assert calls.decode_failure(payload) == CallFailure(
        "Exception", "the command failed, and gave no reason that can be read"
    )


# Announcements


@pytest.mark.parametrize(
    "said",
    [
        Announcement(0, 0),
        Announcement(1, 1, (Offer("ping"),)),
        Announcement(MAX_SLOTS, MAX_SLOTS, (Offer("größe", MAX_SLOTS), Offer("n" * MAX_COMMAND_NAME))),
        Announcement(1, 0, tuple(Offer(f"c{number}") for number in range(MAX_COMMANDS))),
    ],
    ids=["nothing", "one", "large", "many"],
)
def test_an_announcement_comes_back(said: Announcement) -> None:
    assert calls.decode_announcement(calls.encode_announcement(*_fields(said))) == said


def _fields(said: Announcement) -> tuple[int, int, tuple[Offer, ...]]:
    return said.slots, said.reserved, said.offers


@pytest.mark.parametrize(
    "said",
    [
        Announcement(-1, 0),
        Announcement(1, -1),
        Announcement(1, 2),
        Announcement(MAX_SLOTS + 1, 0),
        Announcement(1, 0, (Offer(""),)),
        Announcement(1, 0, (Offer("n" * (MAX_COMMAND_NAME + 1)),)),
        Announcement(1, 0, (Offer("é" * (MAX_COMMAND_NAME // 2 + 1)),)),
        Announcement(1, 0, (Offer("a\nb"),)),
        Announcement(1, 0, (Offer("a", 0),)),
        Announcement(1, 0, (Offer("a", 2),)),
        Announcement(1, 0, tuple(Offer(f"c{number}") for number in range(MAX_COMMANDS + 1))),
    ],
    ids=lambda said: f"{said.slots} {said.reserved} {str(said.offers[:1])[:30]}",
)
def test_an_announcement_that_makes_no_sense_is_refused(said: Announcement) -> None:
    with pytest.raises(RemoteProtocolError, match="an announcement") as caught:
        calls.decode_announcement(calls.encode_announcement(*_fields(said)))
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        encode_payload([1]),
        encode_payload(["1", 0]),
        encode_payload([1, 0, [["a", 1, 1]]]),
        b"\x93\x01\x00\x91\x92\xa1\xff\x01",
        b"\x93\x01\x00\x91\x92\xa3\xed\xa0\x80\x01",
        b"\x94\x01\x00\x90" + b"\x91" * 100_000,
        b"\x93\x01\x00\xdd\xff\xff\xff\xff",
    ],
    ids=["nothing", "no msgpack", "too short", "text", "long offer", "no text", "surrogate", "deep", "billions"],
)
def test_an_announcement_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="an announcement: ") as caught:
        calls.decode_announcement(payload)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


def test_the_names_of_all_commands_have_a_limit_together() -> None:
    size, rest = 200, MAX_OFFER_BYTES % 200
    offers = [Offer(f"{number:0{size}}") for number in range(MAX_OFFER_BYTES // size)]
    fitting = [*offers, Offer("x" * rest)]
    assert len(calls.decode_announcement(calls.encode_announcement(1, 0, fitting)).offers) == len(fitting)
    with pytest.raises(RemoteProtocolError, match="is not valid"):
        calls.decode_announcement(calls.encode_announcement(1, 0, [*offers, Offer("x" * (rest + 1))]))


def test_an_announcement_of_a_younger_worker_may_say_more() -> None:
    assert calls.decode_announcement(encode_payload([2, 1, [["a", 1]], False, "more"])) == Announcement(
        2, 1, (Offer("a"),)
    )


# Times


def test_a_time_stands_behind_the_names_and_comes_back_to_the_microsecond() -> None:
    names = calls.encode_target("add", "hut-1")
    payload = names + calls.encode_time(1_794_000_000.123456) + b"body"
    assert calls.read_time(payload, len(names)) == (1_794_000_000.123456, len(payload) - 4)


@pytest.mark.parametrize("data", [b"", bytes(7), calls.encode_time(inf), calls.encode_time(nan)])
def test_a_call_without_the_time_that_it_claims_is_the_peers_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        calls.read_time(b"head" + data, 4)
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


def test_an_announcement_says_whether_the_worker_knows_the_time() -> None:
    assert calls.decode_announcement(calls.encode_announcement(1, 0, [], knows_time=True)).knows_time
    assert not calls.decode_announcement(msgspec.msgpack.encode((1, 0, ()))).knows_time  # of an older worker
