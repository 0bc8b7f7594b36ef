"""The limit for the bus in Python: two processes with plain blocking sockets, and messages as bytes.

python -m bench.echoes udp|tcp PORT
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

BALL = bytes(27)  # with its mark as many as a message of the bus has
ACK = b"ok"
WINDOW = 50  # messages after which the other end says that it has them; twice as many may be under way
KINDS = {"udp": socket.SOCK_DGRAM, "tcp": socket.SOCK_STREAM}


class Echo:
    """Our end. It plays round trips, or sends without a pause."""

    def __init__(self, ours: socket.socket) -> None:
        self._ours = ours

    def play(self, count: int) -> list[float]:
        """Seconds of each round trip."""
        ours, times = self._ours, []
        for _ in range(count):
            begin = time.perf_counter()
            ours.send(b"<" + BALL)
            ours.recv(65536)
            times.append(time.perf_counter() - begin)
        return times

    def flood(self, count: int) -> int:
        """So many messages one way, in windows: UDP loses what nobody reads in time."""
        ours = self._ours
        for number in range(count // WINDOW):
            for _ in range(WINDOW):
                ours.send(b">" + BALL)
            if number:
                ours.recv(len(ACK))
        ours.recv(len(ACK))
        return count // WINDOW * WINDOW


def serve(kind: str, port: int) -> None:
    ours = socket.socket(socket.AF_INET, KINDS[kind])
    ours.connect(("127.0.0.1", port))
    ours.send(ACK)
    size, seen = len(BALL) + 1, 0
    while data := ours.recv(65536):
        if data[:1] == b"<":
            ours.send(data)
            continue
        before, seen = seen, seen + len(data)
        for _ in range(seen // (WINDOW * size) - before // (WINDOW * size)):
            ours.send(ACK)


@contextmanager
def start(kind: str) -> Iterator[Echo]:
    """Our end of a pair; the other one is a process."""
    door = socket.socket(socket.AF_INET, KINDS[kind])
    door.bind(("127.0.0.1", 0))
    if kind == "tcp":
        door.listen()
    command = [sys.executable, "-m", "bench.echoes", kind, str(door.getsockname()[1])]
    with door, subprocess.Popen(command) as program:
        ours = door
        if kind == "udp":
            door.connect(door.recvfrom(len(ACK))[1])
        else:
            ours = door.accept()[0]
            ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ours.recv(len(ACK))
        with ours:
            yield Echo(ours)
        program.kill()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
