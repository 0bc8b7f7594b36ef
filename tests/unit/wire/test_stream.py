"""What both generations' decoders promise about pieces, limits and errors."""

import tracemalloc
from typing import TypeVar

import pytest
from tests.builders import a_result, a_task, some_tasks

from gandy.doors.v1 import wire as v1
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.wire import v2
from gandy.wire.messages import Job, Message, Ok, Update
from gandy.wire.stream import SMALL_REST, Decoder

M = TypeVar("M")

V2_FRAMES: list[tuple[int, Message]] = [
    (2, Ok(2, 0)),
    (3, Job(some_tasks(3))),
    (3, Ok(0, 3)),
    (4, Update(a_result())),
]
V2_STREAM = b"".join(v2.encode(seq, message) for seq, message in V2_FRAMES)
V1_FRAMES: list[v1.V1Message] = [Ok(4), Job((a_task(),)), Update(a_result())]
V1_STREAM = b"".join(map(v1.encode, V1_FRAMES))


def drain(decoder: Decoder[M]) -> list[M]:
    messages = []
    while (message := decoder.next_message()) is not None:
        messages.append(message)
    return messages


def feed(stream: bytes, size: int) -> list[tuple[int, Message]]:
    decoder, messages = v2.V2Decoder(), []
    for begin in range(0, len(stream), size):
        decoder.receive_data(stream[begin : begin + size])
        messages += drain(decoder)
    return messages


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 100, 10_000])
def test_any_split_gives_the_same_messages(size: int) -> None:
    assert feed(V2_STREAM, size) == V2_FRAMES


def test_v1_byte_by_byte() -> None:
    decoder, messages = v1.V1Decoder(), []
    for byte in V1_STREAM:
        decoder.receive_data(bytes([byte]))
        messages += drain(decoder)
    assert messages == V1_FRAMES


def test_bytes_may_come_in_before_the_last_ones_were_taken_out() -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(V2_STREAM[:60])
    assert decoder.next_message() == V2_FRAMES[0]
    decoder.receive_data(V2_STREAM[60:])
    assert drain(decoder) == V2_FRAMES[1:]
    assert (decoder.offset, decoder.unread) == (len(V2_STREAM), 0)


@pytest.mark.parametrize("size", [100, SMALL_REST - 1, SMALL_REST, SMALL_REST + 1, 10 * SMALL_REST])
def test_a_large_frame_grows_where_it_is(size: int) -> None:
    large = (5, Update(a_result(status="x" * 20 * SMALL_REST)))
    stream = V2_STREAM + v2.encode(*large) + V2_STREAM
    assert feed(stream, size) == [*V2_FRAMES, large, *V2_FRAMES]


def test_another_reader_may_read_from_the_buffer_between_two_frames() -> None:
    decoder = v2.V2Decoder()
    told: list[bytes] = []

    def take_until_frame(data: bytes | bytearray, at: int) -> int:
        end = data.index(b"\x47\xc0", at)
        told.append(bytes(data[at:end]))
        return end

    decoder.receive_data(b"foreign" + V2_STREAM)
    decoder.take_with(take_until_frame)
    decoder.take_with(take_until_frame)
    assert (told, decoder.offset, decoder.unread) == ([b"foreign", b""], 7, len(V2_STREAM))
    assert drain(decoder) == V2_FRAMES


def test_another_reader_may_read_what_is_not_received_yet_unless_a_part_of_a_frame_waits() -> None:
    decoder = v2.V2Decoder()
    assert decoder.bypass(b"foreign" + V2_STREAM, lambda data, at: data.index(b"\x47\xc0", at)) == 7
    decoder.receive_data(V2_STREAM[:20])
    assert drain(decoder) == V2_FRAMES[:1]
    assert decoder.bypass(V2_STREAM[20:], lambda data, _at: len(data)) == 0
    decoder.receive_data(V2_STREAM[20:])
    assert drain(decoder) == V2_FRAMES[1:]
    assert (decoder.offset, decoder.unread) == (7 + len(V2_STREAM), 0)


def test_unread_counts_the_bytes_of_an_incomplete_frame() -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(V2_STREAM[:20])
    drain(decoder)
    assert (decoder.offset, decoder.unread) == (16, 4)


def test_messages_before_a_bad_frame_are_given_out_first() -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(V2_STREAM + b"\x00" * 16)
    messages = [decoder.next_message() for _ in V2_FRAMES]
    assert messages == V2_FRAMES
    with pytest.raises(RemoteProtocolError, match="bad magic 0x0000") as caught:
        decoder.next_message()
    assert (caught.value.code, caught.value.offset) == (ErrorCode.BAD_MAGIC, len(V2_STREAM))


def test_an_error_is_final() -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(b"\x00" * 16)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            decoder.next_message()
        decoder.receive_data(V2_STREAM)


@pytest.mark.parametrize("kind", [0, 6, 10, 0x20, 0xFF])
def test_unknown_types_are_named(kind: int) -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(v2.HEADER.pack(0xC047, kind, 0, 0, 0, 0))
    with pytest.raises(RemoteProtocolError, match=f"0x{kind:02x}") as caught:
        decoder.next_message()
    assert caught.value.code == ErrorCode.UNKNOWN_TYPE


def test_a_claimed_length_above_the_limit_is_refused_from_the_header_alone() -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(v2.HEADER.pack(0xC047, v2.Type.JOB, 0, 1, 0, 0xFFFF_FFFF))
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError, match="4294967295 bytes") as caught:
        decoder.next_message()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.code == ErrorCode.TOO_LONG
    assert peak < 64 * 1024


def test_the_limit_itself_is_allowed() -> None:
    frame = v2.encode(4, Update(a_result()))
    decoder = v2.V2Decoder(payload_limit=len(frame) - 16)
    decoder.receive_data(frame)
    assert decoder.next_message() == (4, Update(a_result()))


def test_a_bad_payload_is_told_with_its_message_and_place() -> None:
    decoder = v2.V2Decoder()
    decoder.receive_data(V2_STREAM + v2.HEADER.pack(0xC047, v2.Type.JOB, 0, 5, 0, 1) + b"\xc0")
    for _ in V2_FRAMES:
        decoder.next_message()
    with pytest.raises(RemoteProtocolError, match="JOB: Expected `array`") as caught:
        decoder.next_message()
    assert (caught.value.code, caught.value.offset) == (ErrorCode.BAD_PAYLOAD, len(V2_STREAM))
