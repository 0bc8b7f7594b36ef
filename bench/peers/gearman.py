"""gearmand with the client and the worker of gear, whose sockets have TCP_NODELAY set.

python -m bench.peers.gearman PORT
"""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench import servers
from bench.asking import BODY, IN_FLIGHT
from bench.contract import Contestant, Place, Work
from bench.processes import running

NAME = "echo"


def connect(link: Any, port: int) -> None:
    link.addServer("127.0.0.1", port)
    link.waitForServer()
    for connection in link.active_connections:
        connection.conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextmanager
def client(place: Place) -> Iterator["Caller"]:
    with servers.gearmand(place) as port, running(sys.executable, "-m", "bench.peers.gearman", str(port)):
        yield Caller(port)


class Caller:
    """Sends jobs, and learns from a thread of gear when each is done."""

    def __init__(self, port: int) -> None:
        import gear

        done = self._done = threading.Semaphore(0)
        self._make_job = partial(gear.Job, NAME, BODY)

        class Client(gear.Client):  # type: ignore[misc]
            def handleWorkComplete(self, packet: Any) -> None:  # noqa: N802
                super().handleWorkComplete(packet)
                done.release()

        self._client = Client()
        connect(self._client, port)

    def call_each(self, count: int) -> list[float]:
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            self._client.submitJob(self._make_job())
            self._done.acquire()
            times.append(time.perf_counter() - begin)
        return times

    def call_many(self, count: int) -> int:
        """Sends a new job for each that is done."""
        for number in range(count + IN_FLIGHT):
            if number >= IN_FLIGHT:
                self._done.acquire()
            if number < count:
                self._client.submitJob(self._make_job())
        return count


@contextmanager
def one_by_one(place: Place) -> Iterator[Work]:
    with client(place) as caller:
        yield caller.call_each


@contextmanager
def many_in_flight(place: Place) -> Iterator[Work]:
    with client(place) as caller:
        yield caller.call_many


def serve(port: int) -> None:
    import gear

    worker = gear.Worker("worker")
    connect(worker, port)
    worker.registerFunction(NAME)
    while True:
        job = worker.getJob()
        job.sendWorkComplete(job.arguments)


make = partial(Contestant, environment="peers", packages=("gear",), programs=("gearmand",))

CONTESTANTS = (
    make("call_latency", "gearman, gear", one_by_one, count=1_000),
    make("calls_in_flight", "gearman, gear", many_in_flight, count=5_000, warm_count=2_000),
)

if __name__ == "__main__":
    serve(int(sys.argv[1]))
