"""python-osc: round trips between two processes by UDP, both in handlers.

python -m bench.peers.python_osc PORT
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.contract import Contestant, Place, Work
from bench.processes import running
from bench.workloads.bus import WINDOW


def make_server(handlers: dict[str, Callable[..., None]]) -> Any:
    from pythonosc.dispatcher import Dispatcher
    from pythonosc.osc_server import BlockingOSCUDPServer

    dispatcher = Dispatcher()
    for address, handler in handlers.items():
        dispatcher.map(address, handler)
    return BlockingOSCUDPServer(("127.0.0.1", 0), dispatcher)


def make_client(port: int) -> Any:
    from pythonosc.udp_client import SimpleUDPClient

    return SimpleUDPClient("127.0.0.1", port)


@contextmanager
def pair(_place: Place) -> Iterator[tuple[Any, Any]]:
    """A client of the other process, and our server, which is asked to handle one answer at a time."""
    ports: list[int] = []
    server = make_server({"/hello": lambda _address, port: ports.append(port), "/ball": lambda *_: None})
    with server, running(sys.executable, "-m", "bench.peers.python_osc", str(server.server_address[1])):
        server.handle_request()
        yield make_client(ports[0]), server


@contextmanager
def plays(place: Place) -> Iterator[Work]:
    with pair(place) as (client, server):

        def work(count: int) -> list[float]:
            times = []
            for number in range(count):
                begin = time.perf_counter()
                client.send_message("/ball", number)
                server.handle_request()
                times.append(time.perf_counter() - begin)
            return times

        yield work


@contextmanager
def floods(place: Place) -> Iterator[Work]:
    with pair(place) as (client, server):

        def work(count: int) -> int:
            for window in range(count // WINDOW):
                for number in range(WINDOW):
                    client.send_message("/flood", number)
                if window:
                    server.handle_request()
            server.handle_request()
            return count // WINDOW * WINDOW

        yield work


def serve(port: int) -> None:
    client = make_client(port)

    def on_ball(_address: str, number: int) -> None:
        client.send_message("/ball", number)

    def on_flood(_address: str, number: int) -> None:
        if number == WINDOW - 1:
            client.send_message("/ball", number)

    server = make_server({"/ball": on_ball, "/flood": on_flood})
    client.send_message("/hello", server.server_address[1])
    server.serve_forever()


make = partial(Contestant, environment="peers", packages=("python-osc",))

CONTESTANTS = (make("bus_udp", "python-osc", plays), make("bus_one_way", "python-osc, UDP", floods))

if __name__ == "__main__":
    serve(int(sys.argv[1]))
