"""Whatever is written to a stream comes out of it, and whatever a peer sends, only one kind of error does."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from gandy.doors.roundrobin.streams import (
    RAW,
    ZLIB,
    Packet,
    StreamReader,
    StreamWriter,
    check_blocks,
    decode_packet,
    encode_packet,
)
from gandy.errors import RemoteProtocolError

handles = st.binary(min_size=1, max_size=255)
packets = st.builds(Packet, st.sampled_from([b"0", b"1", b"2"]), st.sampled_from([RAW, ZLIB]), handles, st.binary())


@given(packets)
def test_packets_make_the_round_trip(packet: Packet) -> None:
    assert decode_packet(encode_packet(packet)) == packet


@given(
    pieces=st.lists(st.one_of(st.binary(max_size=300), st.none())),  # None: a reader cannot wait
    room=st.integers(1, 100),
    handle=handles,
    pack=st.sampled_from([RAW, ZLIB]),
)
def test_streams_make_the_round_trip(pieces: list[bytes | None], room: int, handle: bytes, pack: bytes) -> None:
    writer = StreamWriter(handle, 3 + len(handle) + room, pack)
    reader = StreamReader()
    got = b""
    for piece in pieces:
        if piece is not None:
            writer.write(piece)
        while (packet := writer.take()) is not None:
            got += reader.receive(packet)
        if piece is None:
            got += reader.receive(writer.take(at_once=True) or b"")
        assert writer.waiting < room
    writer.close()
    while (packet := writer.take()) is not None:
        assert len(packet) <= 3 + len(handle) + room
        assert not reader.is_over
        got += reader.receive(packet)
    assert got == b"".join(piece for piece in pieces if piece is not None)
    assert writer.is_over
    assert reader.is_finished


@given(st.lists(st.one_of(st.binary(max_size=50), packets.map(encode_packet)), max_size=5))
def test_reader_raises_nothing_else(frames: list[bytes]) -> None:
    reader = StreamReader(max_unpacked=1000)
    with suppress(RemoteProtocolError):
        for frame in frames:
            assert len(reader.receive(frame)) <= max(1000, len(frame))


@given(st.binary(max_size=100))
def test_check_of_blocks_raises_nothing_else(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        check_blocks(data)
