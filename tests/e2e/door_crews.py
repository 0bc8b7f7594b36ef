"""A foreman with doors for ZeroMQ, and plain peers that are written here from the facts, without gandy's own code."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import zmq
from tests.e2e.kitchens import SOON, Kitchen
from tests.free_ports import find_port

VERSION = b"LMQv100"
PING, PONG, EXEC, TRACKEXEC, TRACKADDRESS, RESPONSE = (bytes([number]) for number in range(1, 7))
INCREMENT, REGISTER, DEREGISTER, RR_STREAM = b"\x07", b"\x08", b"\x09", b"\x0a"
FAILED = b"\x28\x00"

_names = count(1)


class DoorCrew(Kitchen):
    """A kitchen with both doors open, to every user of this machine."""

    def __init__(self, home: Path, *words: str) -> None:
        self.roundrobin = f"tcp://127.0.0.1:{find_port()}"
        self.pingpong = f"tcp://127.0.0.1:{find_port()}"
        self.context = zmq.Context()
        doors = ("--roundrobin", self.roundrobin, "--pingpong", self.pingpong, "--pingpong-command", "cook")
        super().__init__(home, *doors, "--insecure", *words)

    def end(self) -> None:
        self.context.destroy(linger=0)
        super().end()


@contextmanager
def a_door_crew(home: Path, *words: str) -> Iterator[DoorCrew]:
    crew = DoorCrew(home, *words)
    try:
        yield crew
    finally:
        crew.end()


class Plain:
    """A peer of the round-robin queue, on a DEALER."""

    def __init__(self, crew: DoorCrew, name: str = "", kind: int = zmq.DEALER) -> None:
        self.id = (name or f"{crew.roundrobin}:{next(_names)}").encode()
        self.server = crew.roundrobin.encode()
        self.is_router = kind == zmq.ROUTER
        self.socket = crew.context.socket(kind)
        self.socket.setsockopt(zmq.ROUTING_ID, self.id)
        if self.is_router:
            self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.connect(crew.roundrobin)

    def send(self, *frames: bytes) -> None:
        head = [self.server] if self.is_router else []
        while True:
            try:
                self.socket.send_multipart([*head, *frames])
                return
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                self.socket.poll(1)  # a ROUTER cannot reach its server before their handshake

    def receive(self) -> list[bytes]:
        """The next message but PINGs, which are answered. A ROUTER sees its sender in front: here it is taken off."""
        while True:
            assert self.socket.poll(SOON * 1000), "nothing came"
            frames = self.socket.recv_multipart()
            if self.is_router:
                assert frames.pop(0) == self.server
            if frames[2:3] != [PING]:
                return frames
            self.send(b"", VERSION, PONG, frames[3], b"")

    def hears_nothing(self) -> bool:
        """Everything that was for it before is here: the PONG to this PING comes behind."""
        self.send(b"", VERSION, PING, b"nothing?", b"")
        frames = self.receive()
        return frames[2:4] == [PONG, b"nothing?"]

    def greet(self) -> None:
        self.send(b"", VERSION, PING, b"greeting", b"")
        assert self.receive() == [b"", VERSION, PONG, b"greeting", b""]

    def close(self) -> None:
        self.socket.close(linger=0)


class PlainClient(Plain):
    def ask(self, number: bytes, *args: bytes, track: bool = True) -> None:
        self.send(b"", VERSION, TRACKEXEC if track else EXEC, number, *args, b"")

    def hear(self) -> tuple[bytes, tuple[bytes, ...]]:
        """The id and the payload of a response."""
        frames = self.receive()
        end = frames.index(b"", 1)
        assert frames[:3] == [b"", VERSION, RESPONSE]
        return frames[3], tuple(frames[4:end])


class PlainWorker(Plain):
    def __init__(self, crew: DoorCrew, slots: int = 10, name: str = "", kind: int = zmq.DEALER) -> None:
        super().__init__(crew, name, kind)
        self.count = 0
        self.greet()
        self.register(slots)

    def _take_id(self) -> bytes:
        self.count += 1
        return struct.pack("<I", self.count - 1)

    def register(self, slots: int) -> None:
        number = self._take_id()
        self.send(b"", VERSION, TRACKEXEC, number, REGISTER, b"%d" % slots, b"")
        assert self.receive() == [b"", VERSION, RESPONSE, number, b""]

    def deregister(self) -> None:
        self.send(b"", VERSION, EXEC, b"WORKER", DEREGISTER, b"")

    def increment(self) -> None:
        self.send(b"", VERSION, EXEC, self._take_id(), INCREMENT, b"")

    def answer(self, frames: list[bytes], *payload: bytes) -> None:
        """A response to what was received, the way that it came."""
        end = frames.index(b"", 1)
        self.send(*frames[:end:-1], b"", VERSION, RESPONSE, frames[3], *payload, b"")

    def serve(self) -> list[bytes]:
        """Take a message, answer it if an answer is wanted, and return the slot."""
        frames = self.receive()
        if frames[2] == TRACKEXEC:
            self.answer(frames)
        self.increment()
        return frames


class PlainDealer:
    """A ping-pong worker."""

    def __init__(self, crew: DoorCrew, name: bytes = b"") -> None:
        self._hall = crew
        self._name = name
        self.open()

    def open(self) -> None:
        self.socket = self._hall.context.socket(zmq.DEALER)
        if self._name:
            self.socket.setsockopt(zmq.ROUTING_ID, self._name)
        self.socket.connect(self._hall.pingpong)

    def say(self, *frames: bytes) -> None:
        self.socket.send_multipart([b"", *frames])

    def hear(self) -> list[bytes]:
        assert self.socket.poll(SOON * 1000), "nothing came"
        empty, *frames = self.socket.recv_multipart()
        assert empty == b""
        return frames

    def get_ready(self) -> None:
        self.say(b"READY")
        assert self.hear() == [b"PONG"]

    def hears_nothing(self) -> bool:
        """What was for it before is here: the PONG with this count comes behind."""
        self.say(b"PING", b"nothing?")
        return self.hear() == [b"PONG", b"nothing?"]

    def close(self) -> None:
        self.socket.close(linger=0)
