"""gandy over PostgreSQL: some foremen, each with a home of its own, and workers that know all of them."""

import operator
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gandy
from bench.contract import SLOTS, Contestant, Place, Work
from bench.peers import gandy as sqlite
from bench.processes import running, wait_until
from bench.queues import CHUNK, DURABLE, Queue, get_server, measure

GANDY = (sys.executable, "-m", "gandy")
SQLITE = "SQLite, fsync"


@dataclass(frozen=True)
class Crew:
    """Foremen over one database, and workers that are connected to each of them."""

    addresses: Sequence[str]
    foremen: Sequence[int]  # their processes
    workers: Sequence[int]

    @property
    def processes(self) -> dict[str, Sequence[int]]:
        return {"foreman": self.foremen, "worker": self.workers}


@contextmanager
def crew(place: Place, foremen: int = 1, workers: int = 1, slots: int = SLOTS) -> Iterator[Crew]:
    os.environ["GANDY_HOME"] = str(place.folder / "client")
    store = get_server(place).url
    with ExitStack() as held:
        homes = [place.folder / f"foreman-{number}" for number in range(foremen)]
        pids = [held.enter_context(foreman(home, store)) for home in homes]
        addresses = [f"unix:{home / 'foreman.sock'}" for home in homes]
        os.environ["GANDY_FOREMAN"] = ",".join(addresses)
        started = [held.enter_context(worker(place, number, slots)) for number in range(workers)]
        for address in addresses:
            wait_for_workers(address, workers)
        yield Crew(addresses, pids, started)


@contextmanager
def foreman(home: Path, store: str) -> Iterator[int]:
    """Its process."""
    command = (*GANDY, "foreman", "run", "--store", store)
    with running(*command, env={"GANDY_HOME": str(home)}) as process:
        wait_until((home / "foreman.sock").exists, "the foreman")
        yield process.pid


@contextmanager
def worker(place: Place, number: int, slots: int) -> Iterator[int]:
    command = (*GANDY, "worker", "run", "--slots", str(slots), "--name", f"worker-{number}")
    with running(*command, env={"GANDY_HOME": str(place.folder / f"worker-{number}")}) as process:
        yield process.pid


def wait_for_workers(address: str, count: int) -> None:
    with gandy.Client(address) as client:
        wait_until(lambda: sum(row.connected for row in client.workers()) == count, "the last worker")


# W8


@contextmanager
def on_postgres(place: Place, chunk: int = 0, foremen: int = 1) -> Iterator[Work]:
    with crew(place, foremen) as here, ExitStack() as held:
        executors = [held.enter_context(gandy.Executor(address)) for address in here.addresses]
        yield measure(make_queue(executors, chunk, here.processes), place)


@contextmanager
def on_sqlite(place: Place, chunk: int = 0) -> Iterator[Work]:
    with sqlite.crew(place) as here, gandy.Executor(here.address) as executor:
        yield measure(make_queue([executor], chunk, {"foreman": [here.foreman], "worker": [here.worker]}), place)


def make_queue(executors: Sequence[gandy.Executor], chunk: int, processes: dict[str, Sequence[int]]) -> Queue:
    run_many = partial(map_all, chunk) if chunk else submit_all
    return Queue(partial(run_many, executors), lambda: executors[0].submit(operator.neg, 1).result(), processes)


def submit_all(executors: Sequence[gandy.Executor], count: int) -> None:
    """Each task on its own, with all executors in turn."""
    submitted: list[Future[Any]] = []
    for number in range(count // len(executors)):
        submitted += [executor.submit(operator.neg, number) for executor in executors]
    wait(submitted)


def map_all(chunk: int, executors: Sequence[gandy.Executor], count: int) -> None:
    assert sum(executors[0].map(operator.neg, range(count), chunksize=chunk)) <= 0


make = partial(Contestant, packages=("gandy",), durability=DURABLE, stays=False)
make_batches = partial(make, "durable_batches", count=50_000)

CONTESTANTS = (
    make("durable", "gandy", on_postgres),
    make("durable", "gandy, two foremen", partial(on_postgres, foremen=2)),
    make("durable", "gandy, SQLite", on_sqlite, durability=SQLITE),
    make_batches("gandy", partial(on_postgres, chunk=CHUNK)),
    make_batches("gandy, no chunks", partial(on_postgres, chunk=1), count=10_000),
    make_batches("gandy, SQLite", partial(on_sqlite, chunk=CHUNK), durability=SQLITE),
)
