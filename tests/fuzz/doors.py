"""Doors among strangers: frames of any kind in any order, from three routing ids, while time goes by.

Bytes become lists of frames: each frame is a byte for its length and then its data, or one of the words that matter.
Nothing may come out of a door, the switchboard stays sound, and what a door sends is whole.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from tests.roundrobin import DoorHarness, read_message

from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.doors.pingpong import wire as pingpong
from gandy.doors.pingpong.door import PingPongDoor
from gandy.doors.roundrobin import streams
from gandy.doors.roundrobin import wire as roundrobin
from gandy.doors.roundrobin.wire import INCREMENT, MQS_MORE, ONGOING, PING, REGISTER, RESPONSE, TRACKEXEC, VERSION
from gandy.errors import RemoteProtocolError

PEERS: Final = (b"one", b"two", b"three")
WORDS: Final = (
    *(b"", VERSION, PING, b"\x02", b"\x03", TRACKEXEC, b"\x05", RESPONSE, INCREMENT, REGISTER, b"\x09", b"\x0a"),
    *(MQS_MORE, ONGOING, b"10", b"1", b"id", b"60:me", b"1024", *PEERS, b"\x20", b"0"),
    *(b"READY", b"PING", b"PONG", b"EXIT"),
)
MESSAGE_ENDS: Final = 0xFF  # then a byte says who, and perhaps that time goes by
FIRST_WORD: Final = 0x80  # bytes from here on are words, those below lengths


def cut_messages(data: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Who says which frames. The highest bit of who: five seconds go by."""
    at = 0
    frames: list[bytes] = []
    while at < len(data):
        byte = data[at]
        at += 1
        if byte == MESSAGE_ENDS:
            yield data[at] if at < len(data) else 0, frames
            at, frames = at + 1, []
        elif byte >= FIRST_WORD:
            frames.append(WORDS[(byte - FIRST_WORD) % len(WORDS)])
        else:
            frames.append(data[at : at + byte])
            at += byte
    yield 0, frames


def join_messages(messages: list[tuple[int, list[bytes]]]) -> bytes:
    """The bytes that are cut into these; for seeds."""
    data = bytearray()
    for who, frames in messages:
        for frame in frames:
            word = WORDS.index(frame) if frame in WORDS else None
            data += bytes([FIRST_WORD + word]) if word is not None else bytes([len(frame)]) + frame
        data += bytes([MESSAGE_ENDS, who])
    return bytes(data)


def fuzz_roundrobin(data: bytes) -> None:
    """What is decoded is encoded to the same frames."""
    for _, frames in cut_messages(data):
        with suppress(RemoteProtocolError):
            assert roundrobin.encode(roundrobin.decode(frames)) == frames


def fuzz_stream(data: bytes) -> None:
    reader = streams.StreamReader()
    with suppress(RemoteProtocolError):
        for _, frames in cut_messages(data):
            for frame in frames:
                reader.receive(frame)


def fuzz_pingpong(data: bytes) -> None:
    for _, frames in cut_messages(data):
        for read in (pingpong.decode_worker, pingpong.decode_broker):
            with suppress(RemoteProtocolError):
                assert pingpong.encode(read(frames)) == frames


def fuzz_roundrobin_door(data: bytes) -> None:
    harness = DoorHarness()
    native = harness.native_worker()
    for who, frames in cut_messages(data):
        if who & 0x80:
            harness.pass_time(5.0)
        harness.say(PEERS[who % len(PEERS)], frames)
        for call in native.take():
            native.end(call)
    for _, message in harness.log:
        read_message(message.frames)


class _Registry:
    def add(self, info: WorkerInfo) -> KnownWorker:
        return KnownWorker(info, connected=True)

    def remove(self, worker: str) -> None: ...

    def on_heard(self, worker: KnownWorker) -> None: ...


def fuzz_pingpong_door(data: bytes) -> None:
    board = Switchboard(0.0)
    door = PingPongDoor(board, _Registry(), "cook")
    now = 100.0
    for who, frames in cut_messages(data):
        now += 5.0 if who & 0x80 else 0.0
        board.now = now
        door.on_time(now)
        door.on_message([PEERS[who % len(PEERS)], *frames], now)
        for peer in list(board.touched):
            board.touched.discard(peer)
            out = b"".join(peer.out)
            peer.out.clear()
            if peer.on_out is not None:
                peer.on_out(peer, out, now)
        board.dispatcher.check()
        door.workers.check()


_REGISTERED: Final = [b"", VERSION, TRACKEXEC, b"id", REGISTER, b"10", b""]
_PING: Final = [b"", VERSION, TRACKEXEC, b"id", PING, b""]
_TALK: Final = join_messages(
    [
        (0, _REGISTERED),
        (1, _PING),
        (0, [b"two", b"", VERSION, RESPONSE, b"id", b""]),
        (0, [b"", VERSION, b"\x03", b"id", INCREMENT, b""]),
        (1, [b"", VERSION, TRACKEXEC, b"id", b"\x0a", b"60:me", b"1024", b""]),
        (0x80, [b"", VERSION, b"\x03", b"id", b"\x09", b""]),
        (1, [b"one", b"", VERSION, TRACKEXEC, b"id", MQS_MORE, b"60:me", b"handle88", b"0", b""]),
    ]
)
_DIALOGUE: Final = join_messages(
    [(0, [b"", b"READY"]), (1, [b"", b"PING", b"17"]), (0x80, [b"", b"result"]), (0, [b"", b"PING"])]
)
SEEDS: Final = {
    "roundrobin": [_TALK],
    "roundrobin_door": [_TALK, join_messages([(0, _PING), (1, _PING), (2, _REGISTERED)])],
    "stream": [join_messages([(0, [b"0R\x08handle88first", b"2R\x08handle88last"])])],
    "pingpong": [_DIALOGUE],
    "pingpong_door": [_DIALOGUE],
}
