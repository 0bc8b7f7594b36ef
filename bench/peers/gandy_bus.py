"""gandy's bus: round trips between two processes.

python -m bench.peers.gandy_bus ENSEMBLE [private]
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import Any

from bench.contract import Contestant, Place, Work
from bench.processes import running
from bench.workloads.bus import WINDOW
from gandy.bus import Ensemble


class Pinger:
    """Our side."""

    def __init__(self, band: Ensemble) -> None:
        self._band = band
        self._times: list[float] = []
        self._wanted = 0
        self._begin = 0.0
        self._is_reliable = False
        self._is_over = Event()
        self._answers: SimpleQueue[int] = SimpleQueue()
        ping = band.service("ping")
        ping.add(self._on_ball, "/ball", "i")
        ping.add(self._answers.put, "/answer", "i")

    def play(self, count: int, is_reliable: bool) -> list[float]:
        """Seconds of each round trip. Both ends answer in handlers."""
        self._times, self._wanted, self._is_reliable = [], count, is_reliable
        self._throw(0)
        self._is_over.wait()
        self._is_over.clear()
        return self._times

    def ask(self, count: int, is_reliable: bool) -> list[float]:
        """The same from this thread, which waits for the answer that the ensemble's thread receives."""
        times, path = [], "!pong/ask-tcp" if is_reliable else "!pong/ask-udp"
        for number in range(count):
            begin = time.perf_counter()
            self._band.send(path, number, reliable=is_reliable)
            self._answers.get()
            times.append(time.perf_counter() - begin)
        return times

    def flood(self, count: int, is_reliable: bool) -> int:
        """Messages one way, in windows: UDP loses messages that are not read in time."""
        for number in range(count // WINDOW):
            for at in range(WINDOW):
                self._band.send("!pong/flood", at, reliable=is_reliable)
            if number:
                self._answers.get()
        self._answers.get()
        return count // WINDOW * WINDOW

    def _throw(self, number: int) -> None:
        path = "!pong/tcp" if self._is_reliable else "!pong/udp"
        self._begin = time.perf_counter()
        self._band.send(path, number, reliable=self._is_reliable)

    def _on_ball(self, number: int) -> None:
        self._times.append(time.perf_counter() - self._begin)
        if len(self._times) < self._wanted:
            self._throw(number + 1)
        else:
            self._is_over.set()


PLAIN: dict[str, Any] = {"insecure": True, "ip": "127.0.0.1"}  # as in the original


def serve(ensemble: str, *, is_private: bool) -> None:
    with Ensemble(ensemble, **({} if is_private else PLAIN)) as band:
        pong = band.service("pong")

        @pong.on("/udp", "i")
        def return_by_udp(number: int) -> None:
            band.send("!ping/ball", number, reliable=False)

        @pong.on("/tcp", "i")
        def return_by_tcp(number: int) -> None:
            band.send("!ping/ball", number)

        @pong.on("/ask-udp", "i")
        def answer_by_udp(number: int) -> None:
            band.send("!ping/answer", number, reliable=False)

        @pong.on("/ask-tcp", "i")
        def answer_by_tcp(number: int) -> None:
            band.send("!ping/answer", number)

        @pong.on("/flood", "i")
        def count(number: int) -> None:
            if number == WINDOW - 1:
                band.send("!ping/answer", number)

        Event().wait()


@contextmanager
def pair(place: Place, *, is_private: bool = False) -> Iterator[Pinger]:
    """Our side; the other side is a process."""
    os.environ["GANDY_HOME"] = str(place.folder / "home")  # keys are made there, for both
    ensemble = f"bench-{os.getpid()}"
    command = [sys.executable, "-m", "bench.peers.gandy_bus", ensemble, *(["private"] if is_private else [])]
    with Ensemble(ensemble, **({} if is_private else PLAIN)) as band, running(*command):
        pinger = Pinger(band)
        band.wait_for("pong")
        pinger.ask(100, is_reliable=True)
        yield pinger


@contextmanager
def plays(place: Place, *, is_reliable: bool, is_private: bool) -> Iterator[Work]:
    with pair(place, is_private=is_private) as pinger:
        yield partial(pinger.play, is_reliable=is_reliable)


@contextmanager
def asks(place: Place, *, is_reliable: bool) -> Iterator[Work]:
    with pair(place) as pinger:
        yield partial(pinger.ask, is_reliable=is_reliable)


@contextmanager
def floods(place: Place, *, is_reliable: bool) -> Iterator[Work]:
    with pair(place) as pinger:
        yield partial(pinger.flood, is_reliable=is_reliable)


# They end after each repeat: there are five discovery ports, and each process takes one.
make = partial(Contestant, packages=("gandy",), stays=False)


def list_round_trips(kind: str, *, is_reliable: bool) -> tuple[Contestant, ...]:
    table = f"bus_{kind}"
    return (
        make(table, "gandy", partial(plays, is_reliable=is_reliable, is_private=False)),
        make(table, "gandy, private", partial(plays, is_reliable=is_reliable, is_private=True)),
        make(table, "gandy, asked by another thread", partial(asks, is_reliable=is_reliable)),
    )


CONTESTANTS = (
    *list_round_trips("udp", is_reliable=False),
    *list_round_trips("tcp", is_reliable=True),
    make("bus_one_way", "gandy, UDP", partial(floods, is_reliable=False)),
    make("bus_one_way", "gandy, TCP", partial(floods, is_reliable=True)),
)

if __name__ == "__main__":
    serve(sys.argv[1], is_private="private" in sys.argv)
