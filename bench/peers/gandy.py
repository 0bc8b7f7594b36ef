"""gandy: a foreman on SQLite with full sync, and a worker. Workloads that need more than this build on `crew`."""

import operator
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

import gandy
from bench.asking import BODY, IN_FLIGHT, Ask, Way, asking, many_in_flight, one_by_one
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running, wait_until
from gandy.errors import GandyError

GANDY = (sys.executable, "-m", "gandy")
CHUNK = 50
DURABLE = "SQLite, fsync before acknowledge"


@dataclass(frozen=True)
class Crew:
    """A foreman and a worker that is connected to it."""

    address: str
    foreman: int  # its process
    client: gandy.Client
    worker: int = 0  # its process


@contextmanager
def foreman(place: Place, *options: str) -> Iterator[tuple[str, int]]:
    """Its address and its process."""
    home = place.folder / "home"
    os.environ["GANDY_HOME"] = str(home)  # where workers and clients find it, and their keys
    with running(*GANDY, "foreman", "run", *options) as process:
        wait_until((home / "foreman.sock").exists, "the foreman")
        yield f"unix:{home / 'foreman.sock'}", process.pid


@contextmanager
def crew(
    place: Place, slots: int = SLOTS, *, listen: Sequence[str] = (), reach: Sequence[str] = (), url: str = ""
) -> Iterator[Crew]:
    """With options for the foreman, for the worker, and the address for clients if it is not the usual one."""
    with ExitStack() as held:
        address, pid = held.enter_context(foreman(place, *listen))
        client = gandy.Client(url or address)
        held.callback(client.close)
        wait_until(partial(_can_connect, client), "the foreman")
        worker = held.enter_context(running(*GANDY, "worker", "run", "--slots", str(slots), *reach))
        wait_until(client.workers, "the worker")
        yield Crew(url or address, pid, client, worker.pid)


def _can_connect(client: gandy.Client) -> bool:
    try:
        client.connect()
    except GandyError:  # it is not up yet
        return False
    return True


# W1


@contextmanager
def submits(place: Place) -> Iterator[Work]:
    with crew(place) as here, gandy.Executor(here.address) as executor:

        def work(count: int) -> int:
            wait([executor.submit(operator.neg, number) for number in range(count)])
            return count

        yield work


@contextmanager
def maps(place: Place, chunk: int | None) -> Iterator[Work]:
    with crew(place) as here, gandy.Executor(here.address) as executor:

        def work(count: int) -> int:
            assert sum(executor.map(operator.neg, range(count), chunksize=chunk or 1)) <= 0
            return count

        yield work


# W2 and W3


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Ask]:
    async with gandy.AsyncClient(address) as client:
        yield lambda: client.call("echo", BODY)


@contextmanager
def calls(place: Place, way: Way) -> Iterator[Work]:
    with crew(place, IN_FLIGHT) as here, asking(connect(here.address), way) as work:
        yield work


# W4 and W5


@contextmanager
def shell_tasks(place: Place) -> Iterator[Work]:
    with crew(place) as here:

        def work(count: int) -> int:
            here.client.submit(["sh", "-c", "true"], tasks=count).wait()
            return count

        yield work


@contextmanager
def array_submits(place: Place, tasks: int) -> Iterator[Work]:
    with crew(place) as here:

        def work(count: int) -> list[float]:
            return [time_submit(here.client, tasks) for _ in range(count)]

        yield work


def time_submit(client: gandy.Client, tasks: int) -> float:
    begin = time.perf_counter()
    client.submit("true", tasks=tasks, held=True)
    return time.perf_counter() - begin


make = partial(Contestant, packages=("gandy",), durability=DURABLE)

CONTESTANTS = (
    make("functions", "gandy", submits),
    make("functions", "gandy, map", partial(maps, chunk=None)),
    make("functions", f"gandy, map, chunks of {CHUNK}", partial(maps, chunk=CHUNK)),
    make("call_latency", "gandy", partial(calls, way=one_by_one), durability="none"),
    make("calls_in_flight", "gandy", partial(calls, way=many_in_flight), durability="none"),
    make("shell_tasks", "gandy", shell_tasks),
    make("array_submit", "gandy, 1 task", partial(array_submits, tasks=1)),
    make("array_submit", "gandy, 10,000 tasks", partial(array_submits, tasks=10_000)),
    make("array_submit", "gandy, 1,000,000 tasks", partial(array_submits, tasks=1_000_000)),
)
