"""pyliblo3, which is liblo in C with Python's handlers: round trips between two processes.

python -m bench.peers.pyliblo udp|tcp URL
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.contract import Contestant, Place, Work
from bench.processes import running
from bench.workloads.bus import WINDOW


def make_server(kind: str) -> Any:
    import pyliblo3

    return pyliblo3.Server(proto={"udp": pyliblo3.UDP, "tcp": pyliblo3.TCP}[kind])


@contextmanager
def pair(_place: Place, kind: str) -> Iterator[tuple[Any, Any]]:
    """Our server, which is asked to handle one answer at a time, and the address of the other process."""
    import pyliblo3

    others: list[Any] = []
    server = make_server(kind)
    server.add_method("/hello", "s", lambda _path, args: others.append(pyliblo3.Address(args[0])))
    server.add_method("/ball", "i", lambda _path, _args: None)
    with running(sys.executable, "-m", "bench.peers.pyliblo", kind, server.url):
        while not others:
            server.recv(1000)
        yield server, others[0]


@contextmanager
def plays(place: Place, kind: str) -> Iterator[Work]:
    with pair(place, kind) as (server, other):

        def work(count: int) -> list[float]:
            times = []
            for number in range(count):
                begin = time.perf_counter()
                server.send(other, "/ball", number)
                server.recv()
                times.append(time.perf_counter() - begin)
            return times

        yield work


@contextmanager
def floods(place: Place, kind: str) -> Iterator[Work]:
    with pair(place, kind) as (server, other):

        def work(count: int) -> int:
            for window in range(count // WINDOW):
                for number in range(WINDOW):
                    server.send(other, "/flood", number)
                if window:
                    server.recv()
            server.recv()
            return count // WINDOW * WINDOW

        yield work


def serve(kind: str, url: str) -> None:
    import pyliblo3

    server, other = make_server(kind), pyliblo3.Address(url)

    def on_ball(_path: str, args: list[int]) -> None:
        server.send(other, "/ball", args[0])

    def on_flood(_path: str, args: list[int]) -> None:
        if args[0] == WINDOW - 1:
            server.send(other, "/ball", args[0])

    server.add_method("/ball", "i", on_ball)
    server.add_method("/flood", "i", on_flood)
    server.send(other, "/hello", server.url)
    while True:
        server.recv()


make = partial(Contestant, environment="peers", packages=("pyliblo3",))

CONTESTANTS = (
    make("bus_udp", "pyliblo3", partial(plays, kind="udp")),
    make("bus_tcp", "pyliblo3", partial(plays, kind="tcp")),
    make("bus_one_way", "pyliblo3, UDP", partial(floods, kind="udp")),
    make("bus_one_way", "pyliblo3, TCP", partial(floods, kind="tcp")),
)

if __name__ == "__main__":
    serve(*sys.argv[1:])
