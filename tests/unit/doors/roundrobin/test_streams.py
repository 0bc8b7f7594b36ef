"""Packets of streams, byte for byte as the original's, and what a hostile peer may send instead."""

import zlib
from collections.abc import Iterator
from random import Random

import pytest

from gandy.doors.roundrobin.limits import MAX_LEASE
from gandy.doors.roundrobin.streams import (
    ABORTED,
    BLOCK_TOTAL,
    DEFAULT_LEASE,
    FINISHED,
    MORE,
    PACKET_BYTES,
    RAW,
    ZLIB,
    Packet,
    ServedStream,
    StreamReader,
    StreamWriter,
    check_blocks,
    decode_packet,
    encode_packet,
    make_blocks,
    parse_lease,
)
from gandy.doors.roundrobin.wire import MQS_MORE, RR_STREAM, TRACKEXEC, QueueMessage
from gandy.errors import RemoteProtocolError

HANDLE = bytes.fromhex("c00f00246b7f0000")  # of the capture


def take_all(writer: StreamWriter) -> Iterator[bytes]:
    while (packet := writer.take()) is not None:
        yield packet


def test_packet_begins_as_in_the_capture() -> None:
    block = bytes.fromhex("69000000fc020000") + b"\1" * 764
    packet = Packet(FINISHED, RAW, HANDLE, block)
    assert encode_packet(packet) == b"2R\x08\xc0\x0f\x00$k\x7f\x00\x00i\x00\x00\x00\xfc\x02\x00\x00" + b"\1" * 764
    assert decode_packet(encode_packet(packet)) == packet


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"2",
        b"2R",
        b"2R\x08",
        b"2R\x081234567",
        b"2R\x00data",
        b"3R\x0812345678",
        b"2X\x0812345678",
        b"\x28\x00",
    ],
)
def test_what_is_no_packet_is_refused(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_packet(frame)


def test_small_stream_is_one_packet() -> None:
    writer = StreamWriter(HANDLE)
    writer.write(b"ab")
    assert writer.take() is None  # it is not full, and more may come
    writer.write(b"c")
    assert writer.waiting == 3
    writer.close()
    writer.close()
    assert decode_packet(writer.take() or b"") == Packet(FINISHED, RAW, HANDLE, b"abc")
    assert writer.is_over
    assert writer.take(at_once=True) is None


def test_empty_stream_is_one_empty_packet() -> None:
    writer = StreamWriter(HANDLE)
    writer.close()
    assert writer.take() == b"2R\x08" + HANDLE


def test_large_stream_is_full_packets_and_the_rest() -> None:
    data = Random(1).randbytes(20_000)
    writer = StreamWriter(HANDLE)
    writer.write(data)
    packets = list(take_all(writer))
    assert [len(packet) for packet in packets] == [PACKET_BYTES, PACKET_BYTES]
    writer.close()
    packets += take_all(writer)
    assert [packet[:1] for packet in packets] == [MORE, MORE, FINISHED]
    reader = StreamReader()
    assert b"".join(map(reader.receive, packets)) == data
    assert reader.is_finished
    assert reader.is_over
    assert reader.handle == HANDLE


def test_packet_that_cannot_wait_has_what_there_is() -> None:
    writer = StreamWriter(HANDLE)
    assert writer.take(at_once=True) == b"0R\x08" + HANDLE
    writer.write(b"x")
    assert writer.take(at_once=True) == b"0R\x08" + HANDLE + b"x"
    assert not writer.is_over


def test_aborted_stream_drops_what_waits() -> None:
    writer = StreamWriter(HANDLE)
    writer.write(b"x" * 20_000)
    first = writer.take() or b""
    writer.abort()
    reader = StreamReader()
    assert len(reader.receive(first)) == PACKET_BYTES - 11
    assert reader.receive(writer.take() or b"") == b""
    assert reader.is_aborted
    assert reader.is_over
    assert not reader.is_finished


@pytest.mark.parametrize("max_size", [12, 100, PACKET_BYTES])
def test_packed_stream_is_one_zlib_stream_cut_across_packets(max_size: int) -> None:
    data = b"over and over " * 10_000
    writer = StreamWriter(HANDLE, max_size, ZLIB)
    for at in range(0, len(data), 1000):
        writer.write(data[at : at + 1000])
    writer.close()
    packets = list(take_all(writer))
    assert max(map(len, packets)) <= max_size
    assert zlib.decompress(b"".join(decode_packet(packet).data for packet in packets)) == data
    reader = StreamReader()
    assert b"".join(map(reader.receive, packets)) == data
    assert reader.is_finished


def pack(data: bytes, state: bytes = FINISHED) -> bytes:
    return encode_packet(Packet(state, ZLIB, HANDLE, data))


@pytest.mark.parametrize(
    "frame",
    [
        pack(b"nonsense"),
        pack(zlib.compress(b"text") + b"more"),
        pack(zlib.compress(b"text")[:-1]),
        pack(zlib.compress(b"text"), MORE),
        pack(zlib.compress(bytes(101))),
        pack(b""),
    ],
)
def test_bad_packing_is_refused(frame: bytes) -> None:
    reader = StreamReader(max_unpacked=100)
    with pytest.raises(RemoteProtocolError):
        reader.receive(frame)


def test_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(bytes(100_000_000), 9)
    with pytest.raises(RemoteProtocolError, match="more than 16,777,216 bytes"):
        StreamReader().receive(pack(bomb))


def test_packet_after_the_end_is_refused() -> None:
    reader = StreamReader()
    reader.receive(encode_packet(Packet(FINISHED, RAW, HANDLE)))
    with pytest.raises(RemoteProtocolError, match="after the end"):
        reader.receive(encode_packet(Packet(MORE, RAW, HANDLE)))


@pytest.mark.parametrize(("pack", "handle"), [(RAW, b"12345678"), (ZLIB, HANDLE)])
def test_packet_of_another_stream_is_refused(pack: bytes, handle: bytes) -> None:
    reader = StreamReader()
    reader.receive(encode_packet(Packet(MORE, RAW, HANDLE)))
    with pytest.raises(RemoteProtocolError, match="another stream"):
        reader.receive(encode_packet(Packet(MORE, pack, handle)))


def test_abort_need_not_tell_the_packing() -> None:
    reader = StreamReader()
    reader.receive(pack(zlib.compress(b"text")[:2], MORE))
    assert reader.receive(encode_packet(Packet(ABORTED, RAW, HANDLE))) == b""
    assert reader.is_aborted


@pytest.mark.parametrize(
    ("host_id", "seconds"),
    [
        (b"30:me", 30.0),
        (b"STREAM_ID", DEFAULT_LEASE),
        (b"", DEFAULT_LEASE),
        (b"0:me", DEFAULT_LEASE),
        (b"-5:me", DEFAULT_LEASE),
        (b"99999999999:me", MAX_LEASE),
    ],
)
def test_lease_is_the_number_that_the_host_id_begins_with(host_id: bytes, seconds: float) -> None:
    assert parse_lease(host_id) == seconds


@pytest.mark.parametrize("seed", range(20))
def test_blocks_have_what_was_asked_for(seed: int) -> None:
    blocks = list(make_blocks(BLOCK_TOTAL, Random(seed).randint))
    assert check_blocks(b"".join(blocks)) == len(blocks)


def test_blocks_are_laid_out_as_in_the_original() -> None:
    numbers = iter((1000, 24, 500, 999))
    first, second = make_blocks(BLOCK_TOTAL, lambda _low, _high: next(numbers))
    assert first == bytes.fromhex("18000000 e8030000") + b"\1" * 1000
    assert second == bytes.fromhex("e7030000 18000000") + b"\1" * 24  # clipped


def block(offset: int, count: int, data: bytes) -> bytes:
    return offset.to_bytes(4, "little", signed=True) + count.to_bytes(4, "little", signed=True) + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        block(0, 1024, b"\1" * 1023),
        block(0, 1024, b"\1" * 1023 + b"\2"),
        block(0, 1023, b"\1" * 1023),
        block(1, 1024, b"\1" * 1024),
        block(-1, 1024, b"\1" * 1024),
        block(0, 0, b""),
        block(0, -1, b""),
        block(0, 1025, b"\1" * 1025),
        block(0, 1024, b"\1" * 1024) + block(0, 1, b"\1"),
    ],
)
def test_other_blocks_are_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        check_blocks(data)


# Streams that their readers fetch packet by packet

REQUEST = QueueMessage(TRACKEXEC, b"1234", (RR_STREAM, b"60:me", b"1024"))
ASKED = QueueMessage(TRACKEXEC, b"1235", (MQS_MORE, b"60:me", b"HANDLE78", b"0"))


@pytest.fixture
def stream() -> ServedStream:
    return ServedStream(REQUEST, b"HANDLE78")


def test_the_first_packet_answers_the_request_for_the_stream(stream: ServedStream) -> None:
    assert stream.host_id == b"60:me"
    stream.writer.write(b"data")
    assert stream.take_packet() is None  # it is not full
    assert not stream.has_begun
    assert stream.take_packet(at_once=True) == (REQUEST, b"0R\x08HANDLE78data")
    assert stream.has_begun


def test_a_packet_goes_out_only_when_it_is_asked_for(stream: ServedStream) -> None:
    stream.take_packet(at_once=True)
    stream.writer.write(b"data")
    stream.writer.close()
    assert stream.take_packet(at_once=True) is None
    stream.asked = ASKED
    assert stream.take_packet() == (ASKED, b"2R\x08HANDLE78data")


def test_the_command_gets_credit_as_packets_go_out(stream: ServedStream) -> None:
    stream.owed = 100
    stream.writer.write(bytes(10))
    assert stream.take_credit(limit=10) == 0
    assert [stream.take_credit(limit=11), stream.take_credit(limit=11)] == [100, 0]
