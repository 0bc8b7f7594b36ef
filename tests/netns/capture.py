"""Everything that goes through a network card, as an eavesdropper sees it."""

import socket
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from threading import Thread
from typing import Final, NamedTuple

from tests.netns.namespaces import Namespace
from tests.netns.programs import SOON

ETH_P_ALL: Final = 3
SO_RCVBUFFORCE: Final = 33
SOL_PACKET: Final = 263
PACKET_STATISTICS: Final = 6
BUFFER_BYTES: Final = 64 << 20
MAX_FRAME: Final = 1 << 17  # cards of namespaces hand over many segments at once
POLL_SECONDS: Final = 0.05

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
TCP: Final = 6
SYN: Final = 0x02

# Who says something to whom: addresses and ports.
Way = tuple[bytes, int, bytes, int]


class Segment(NamedTuple):
    way: Way
    number: int  # of its first byte
    is_first: bool
    data: bytes


class Capture:
    """Frames, from `listening` on."""

    def __init__(self, sock: socket.socket) -> None:
        self.frames: list[bytes] = []
        self._socket = sock
        self._is_ending = False
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                self.frames.append(self._socket.recv(MAX_FRAME))
            except TimeoutError:
                if self._is_ending:  # and nothing waits to be read
                    return

    def end(self) -> None:
        self._is_ending = True
        self._thread.join(SOON)
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        assert dropped == 0, "the kernel had no room for all frames"

    def holds(self, text: bytes) -> bool:
        """Whether it was said: in a frame, or in what one end of a TCP connection said from its beginning on."""
        return any(text in said for said in chain(self.frames, self.list_streams()))

    def list_streams(self) -> list[bytes]:
        """What each end of each TCP connection said."""
        ways: defaultdict[Way, list[Segment]] = defaultdict(list)
        for frame in self.frames:
            if (segment := parse_segment(frame)) is not None:
                ways[segment.way].append(segment)
        return [join_segments(segments) for segments in ways.values()]

    def until_heard(self, text: bytes) -> None:
        deadline = time.monotonic() + SOON
        while not any(text in frame for frame in list(self.frames)):
            assert time.monotonic() < deadline, f"no packet contained {text!r}"
            time.sleep(POLL_SECONDS)


@contextmanager
def listening(namespace: Namespace, card: str) -> Iterator[Capture]:
    with namespace.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        except PermissionError:  # in a user namespace; what the machine allows will do for a test
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        sock.bind((card, ETH_P_ALL))
        sock.settimeout(POLL_SECONDS)
        capture = Capture(sock)
        try:
            yield capture
        finally:
            capture.end()


def parse_segment(frame: bytes) -> Segment | None:
    """What a frame holds of a TCP connection."""
    (kind,) = struct.unpack_from(">H", frame, 12)
    packet = frame[14:]
    if kind == IPV4 and packet[9] == TCP:
        length = (packet[0] & 0xF) * 4
        segment, ends = packet[length : int.from_bytes(packet[2:4], "big") or None], (packet[12:16], packet[16:20])
    elif kind == IPV6 and packet[6] == TCP:
        segment, ends = packet[40:], (packet[8:24], packet[24:40])
    else:
        return None
    source, target, number = struct.unpack_from(">HHI", segment)
    return Segment(
        (ends[0], source, ends[1], target), number, bool(segment[13] & SYN), segment[(segment[12] >> 4) * 4 :]
    )


def join_segments(segments: list[Segment]) -> bytes:
    """In the order of their numbers, and each byte once. What is missing is left out."""
    first = next((each.number for each in segments if each.is_first), segments[0].number)
    said = bytearray()
    at = 0
    for offset, data in sorted(((each.number + each.is_first - first) & 0xFFFF_FFFF, each.data) for each in segments):
        said += data[max(0, at - offset) :]
        at = max(at, offset + len(data))
    return bytes(said)
