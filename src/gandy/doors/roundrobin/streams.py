"""Streams of the round-robin queue: bytes split into packets, which the reader fetches one by one.

    state ('0' more, '1' aborted, '2' finished) | pack ('R' raw, 'Z' zlib) | length of the handle | handle | data

The first packet answers the request; as long as there is more, MQS_MORE with the handle fetches the next.
"""

import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from gandy.doors.roundrobin.limits import MAX_LEASE, MAX_UNPACKED_BYTES
from gandy.doors.roundrobin.wire import QueueMessage, parse_count
from gandy.errors import ErrorCode, RemoteProtocolError

# State of a packet.
MORE: Final = b"0"
ABORTED: Final = b"1"
FINISHED: Final = b"2"
STATES: Final = frozenset((MORE, ABORTED, FINISHED))

# How the data is packed.
RAW: Final = b"R"
ZLIB: Final = b"Z"  # one zlib stream, cut across packets
PACKS: Final = frozenset((RAW, ZLIB))

# Last argument of MQS_MORE.
GO_ON: Final = b"0"
ABORT: Final = b"1"

HANDLE_BYTES: Final = 8  # a pointer, in the original
PACKET_BYTES: Final = 8192  # bytes with the header, as in the original

DEFAULT_LEASE: Final = 60.0  # seconds that a stream is kept while its reader is silent

BLOCK_TOTAL: Final = 1024  # bytes of an RR_STREAM
BLOCK_BYTE: Final = b"\1"
_BLOCK_HEAD: Final = Struct("<ii")  # offset, count


class Packet(NamedTuple):
    """One packet of a stream."""

    state: bytes
    pack: bytes
    handle: bytes
    data: bytes = b""


def encode_packet(packet: Packet) -> bytes:
    state, pack, handle, data = packet
    return b"%b%b%c%b%b" % (state, pack, len(handle), handle, data)


def decode_packet(frame: bytes) -> Packet:
    """Raises: RemoteProtocolError."""
    state, pack = frame[:1], frame[1:2]
    if state not in STATES or pack not in PACKS:
        raise RemoteProtocolError(f"not a packet of a stream: {frame[:3].hex()}", ErrorCode.BAD_PAYLOAD)
    size = frame[2] if len(frame) > 2 else 0
    if not 0 < size <= len(frame) - 3:
        raise RemoteProtocolError("a packet of a stream without its handle", ErrorCode.BAD_PAYLOAD)
    return Packet(state, pack, frame[3 : 3 + size], frame[3 + size :])


class StreamWriter:
    """Splits bytes into packets. They are full, except for the last one and those that are taken at once."""

    def __init__(self, handle: bytes, max_size: int = PACKET_BYTES, pack: bytes = RAW) -> None:
        self.handle = handle
        self._pack = pack
        self._room = max_size - 3 - len(handle)
        assert self._room > 0, "a packet has room for data"
        self._packer = zlib.compressobj() if pack == ZLIB else None
        self._waiting = bytearray()
        self._is_closed = False
        self._is_aborted = False
        self.is_over = False  # the last packet was taken

    @property
    def waiting(self) -> int:
        """Bytes that wait for packets."""
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        assert not self._is_closed, "nothing is written after the end"
        self._waiting += data if self._packer is None else self._packer.compress(data)

    def close(self) -> None:
        """End the stream."""
        if not self._is_closed:
            self._is_closed = True
            if self._packer is not None:
                self._waiting += self._packer.flush()

    def abort(self) -> None:
        """End the stream early. What waits is dropped."""
        self._is_closed = self._is_aborted = True
        self._waiting.clear()

    def take(self, at_once: bool = False) -> bytes | None:
        """The next packet; None after the last one, and while it would not be full, unless `at_once`."""
        is_full = len(self._waiting) >= self._room
        if self.is_over or not (is_full or self._is_closed or at_once):
            return None
        data = bytes(self._waiting[: self._room])
        del self._waiting[: self._room]
        self.is_over = self._is_closed and not self._waiting
        state = MORE if not self.is_over else ABORTED if self._is_aborted else FINISHED
        return encode_packet(Packet(state, self._pack, self.handle, data))


class ServedStream:
    """The sending side of a stream: its reader asks for one packet at a time.

    The first packet answers the request for the stream itself.
    """

    def __init__(self, request: QueueMessage, handle: bytes) -> None:
        self.host_id = b"".join(request.args[1:2])  # of its reader
        self.writer = StreamWriter(handle)
        self.asked: QueueMessage | None = request  # the next packet answers it
        self.has_begun = False  # the first packet was taken
        self.owed = 0  # credit that we have not granted the command yet

    def take_packet(self, at_once: bool = False) -> tuple[QueueMessage, bytes] | None:
        """The request for a packet and the packet that answers it, if there are both."""
        if self.asked is None or (packet := self.writer.take(at_once)) is None:
            return None
        asked, self.asked, self.has_begun = self.asked, None, True
        return asked, packet

    def take_credit(self, limit: int) -> int:
        """Credit to grant the command that writes the stream; 0 while `limit` bytes or more wait for packets."""
        if self.writer.waiting >= limit:
            return 0
        owed, self.owed = self.owed, 0
        return owed


class StreamReader:
    """Reads the bytes out of packets."""

    def __init__(self, max_unpacked: int = MAX_UNPACKED_BYTES) -> None:
        self.handle = b""  # from the first packet
        self.is_finished = False
        self.is_aborted = False
        self._pack = b""
        self._max_unpacked = max_unpacked
        self._unpacker = zlib.decompressobj()

    @property
    def is_over(self) -> bool:
        """True if there are no more packets to fetch."""
        return self.is_finished or self.is_aborted

    def receive(self, frame: bytes) -> bytes:
        """The bytes in the next packet. Raises: RemoteProtocolError."""
        state, pack, handle, data = decode_packet(frame)
        if self.is_over:
            raise RemoteProtocolError("a packet after the end of its stream", ErrorCode.BAD_STATE)
        if handle != (self.handle or handle) or (pack != (self._pack or pack) and state != ABORTED):
            raise RemoteProtocolError("a packet of another stream", ErrorCode.BAD_STATE)
        self.handle, self._pack = handle, pack
        if state == ABORTED:
            self.is_aborted = True
            return b""
        if pack == ZLIB:
            data = self._unpack(data, state == FINISHED)
        self.is_finished = state == FINISHED
        return data

    def _unpack(self, data: bytes, is_last: bool) -> bytes:
        try:
            made = self._unpacker.decompress(data, self._max_unpacked)
        except zlib.error as error:
            raise RemoteProtocolError(f"a stream cannot be unpacked: {error}", ErrorCode.BAD_PAYLOAD) from None
        if self._unpacker.unconsumed_tail:
            text = f"a packet has more than {self._max_unpacked:,} bytes when it is unpacked"
            raise RemoteProtocolError(text, ErrorCode.TOO_LONG)
        if self._unpacker.unused_data or self._unpacker.eof != is_last:
            raise RemoteProtocolError("a packed stream that ends elsewhere", ErrorCode.BAD_PAYLOAD)
        return made


def parse_lease(host_id: bytes) -> float:
    """Seconds that a reader may be silent: the number at the beginning of its host id, as in `30:name`."""
    seconds = parse_count(host_id)
    return min(float(seconds), MAX_LEASE) if seconds > 0 else DEFAULT_LEASE


def make_blocks(total: int, choose: Callable[[int, int], int]) -> Iterator[bytes]:
    """The blocks of an RR_STREAM, of `total` bytes in all. `choose(first, last)` picks a number, like randint."""
    left = total
    while left > 0:
        count = min(left, choose(1, total))
        offset = choose(0, total - count)
        yield _BLOCK_HEAD.pack(offset, count) + BLOCK_BYTE * count
        left -= count


def check_blocks(data: bytes, total: int = BLOCK_TOTAL) -> int:
    """The number of blocks. Raises: RemoteProtocolError: they are invalid, or not `total` bytes."""
    at = blocks = found = 0
    while at < len(data):
        if len(data) - at < _BLOCK_HEAD.size:
            raise RemoteProtocolError("a block is cut off", ErrorCode.BAD_PAYLOAD)
        offset, count = _BLOCK_HEAD.unpack_from(data, at)
        at += _BLOCK_HEAD.size
        if count < 1 or not 0 <= offset <= total - count:
            raise RemoteProtocolError(f"a block of {count} bytes at {offset}", ErrorCode.BAD_PAYLOAD)
        if data[at : at + count] != BLOCK_BYTE * count:
            raise RemoteProtocolError("a block holds something else, or is cut off", ErrorCode.BAD_PAYLOAD)
        at += count
        blocks += 1
        found += count
    if found != total:
        raise RemoteProtocolError(f"blocks of {found} bytes, and {total} were asked for", ErrorCode.BAD_PAYLOAD)
    return blocks
