"""The limit for calls and for the bus: two processes with blocking sockets, and messages as bytes, in Python and in C.

python -m bench.peers.raw_sockets udp|tcp|unix PORT|PATH echo|count SIZE
"""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.asking import BODY, IN_FLIGHT
from bench.c_programs import compile_c, playing
from bench.contract import Contestant, Place, Work
from bench.processes import running
from bench.workloads.bus import WINDOW

BALL = 28  # bytes, as many as a message of the bus has
ACK = b"ok"
KINDS = {
    "udp": (socket.AF_INET, socket.SOCK_DGRAM),
    "tcp": (socket.AF_INET, socket.SOCK_STREAM),
    "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
}


class Echo:
    """Our side."""

    def __init__(self, link: socket.socket, size: int) -> None:
        self._link = link
        self._ball = bytes(size)

    def play(self, count: int) -> list[float]:
        """Seconds of each round trip."""
        link, ball, times = self._link, self._ball, []
        for _ in range(count):
            begin = time.perf_counter()
            link.send(ball)
            link.recv(65536)
            times.append(time.perf_counter() - begin)
        return times

    def pipeline(self, count: int) -> int:
        """Keeps a number in flight: sends another for each that has come back."""
        left = missing = count
        rest = b""
        under_way = min(count, IN_FLIGHT)
        self._link.sendall(self._ball * under_way)
        left -= under_way
        while missing:
            messages, rest = cut(rest + self._link.recv(65536), len(self._ball))
            missing -= len(messages)
            self._link.sendall(b"".join(messages[:left]))
            left -= min(left, len(messages))
        return count

    def flood(self, count: int) -> int:
        """Messages one way, in windows: UDP loses messages that are not read in time."""
        link, ball = self._link, self._ball
        for number in range(count // WINDOW):
            for _ in range(WINDOW):
                link.send(ball)
            if number:
                link.recv(len(ACK))
        link.recv(len(ACK))
        return count // WINDOW * WINDOW


def serve(kind: str, where: str, task: str, size: int) -> None:
    link = socket.socket(*KINDS[kind])
    link.connect(where if kind == "unix" else ("127.0.0.1", int(where)))
    if kind == "tcp":
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.send(ACK)
    if task == "echo":
        echo_messages(link, size)
    else:
        count_messages(link, WINDOW * size)


def cut(data: bytes, size: int) -> tuple[list[bytes], bytes]:
    """Each complete message, and the rest, which begins the next."""
    end = len(data) // size * size
    return [data[at : at + size] for at in range(0, end, size)], data[end:]


def echo_messages(link: socket.socket, size: int) -> None:
    rest = b""
    while data := link.recv(65536):
        messages, rest = cut(rest + data, size)
        link.sendall(b"".join(messages))


def count_messages(link: socket.socket, window: int) -> None:
    seen = 0
    while data := link.recv(65536):
        before, seen = seen, seen + len(data)
        for _ in range(seen // window - before // window):
            link.send(ACK)


@contextmanager
def pair(place: Place, kind: str, task: str, size: int) -> Iterator[Echo]:
    """Our side; the other side is a process."""
    with socket.socket(*KINDS[kind]) as door:
        door.bind(str(place.folder / "echo.sock") if kind == "unix" else ("127.0.0.1", 0))
        if kind != "udp":
            door.listen()
        where = door.getsockname()
        name = where if kind == "unix" else str(where[1])
        command = (sys.executable, "-m", "bench.peers.raw_sockets", kind, name, task, str(size))
        with running(*command), meet(door, kind) as link:
            yield Echo(link, size)


def meet(door: socket.socket, kind: str) -> socket.socket:
    if kind == "udp":
        door.connect(door.recvfrom(len(ACK))[1])
        return door
    link = door.accept()[0]
    if kind == "tcp":
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.recv(len(ACK))
    return link


@contextmanager
def plays(place: Place, kind: str, size: int) -> Iterator[Work]:
    with pair(place, kind, "echo", size) as echo:
        yield echo.play


@contextmanager
def pipelines(place: Place, kind: str) -> Iterator[Work]:
    with pair(place, kind, "echo", len(BODY)) as echo:
        yield echo.pipeline


@contextmanager
def floods(place: Place, kind: str) -> Iterator[Work]:
    with pair(place, kind, "count", BALL) as echo:
        yield echo.flood


@contextmanager
def plays_in_c(place: Place, kind: str) -> Iterator[Work]:
    with playing(compile_c(place, Path(__file__).with_name("echo.c")), kind) as work:
        yield work


CONTESTANTS = (
    *(
        Contestant("call_latency", f"raw sockets, {kind}", partial(plays, kind=kind, size=len(BODY)))
        for kind in ("tcp", "unix")
    ),
    *(
        Contestant("calls_in_flight", f"raw sockets, {kind}", partial(pipelines, kind=kind), count=200_000)
        for kind in ("tcp", "unix")
    ),
    *(
        Contestant(f"bus_{kind}", "Python, blocking sockets", partial(plays, kind=kind, size=BALL))
        for kind in ("udp", "tcp")
    ),
    *(
        Contestant(f"bus_{kind}", "C, blocking sockets", partial(plays_in_c, kind=kind), programs=("cc",))
        for kind in ("udp", "tcp")
    ),
    *(
        Contestant("bus_one_way", f"Python, blocking sockets, {kind.upper()}", partial(floods, kind=kind))
        for kind in ("udp", "tcp")
    ),
)

if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
