"""W7: what a task costs as the store, the crew and the queue grow; what it takes to start, and to do nothing.

The workers are a crowd in one process and end every task at once, so that only the foreman's cost is left.
"""

import asyncio
import operator
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import gandy
from bench.contract import Contestant, Done, Kind, Place, Table, Work
from bench.history import copy_job, finish_tasks
from bench.peers.gandy import DURABLE, Crew, crew, foreman
from bench.processes import list_tree, memory_kib, own_cpu_seconds, running, wait_until

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)  # tasks in the store
CROWDS: Final = (1, 10, 100, 1_000)  # workers
QUEUES: Final = (10, 1_000, 10_000)  # jobs that wait
MODEL: Final = 100  # tasks of the job whose rows fill a store
FEW: Final = 10  # workers, in workloads that do not vary them
IN_FLIGHT: Final = 500  # submits at a time

NOTE: Final = "Workers end every task at once. CPU per task and peak memory are the foreman's alone."
make_table = partial(Table, unit="tasks", note=NOTE)

TABLES = (
    make_table("growth_finished", "W7: functions, after so many tasks", count=2_000, reference="1,000 done", repeats=7),
    make_table("growth_waiting", "W7: an array, beside one that waits", count=5_000, reference="1,000 wait", repeats=7),
    make_table("growth_workers", "W7: an array, with so many workers", count=20_000, reference="10 workers", repeats=9),
    make_table("growth_jobs", "W7: jobs of one task, so many in the queue", count=2_000, reference="10 jobs"),
    Table("growth_start", "W7: from nothing", "starts", 5, "python -c pass", Kind.TIMES),
    Table(
        "growth_idle",
        "W7: nothing to do",
        "seconds",
        5,
        "gandy, two slots",
        Kind.TIMES,
        "CPU per second: 10,000 would be 1 % of a core. Of a crew, or of a foreman alone.",
    ),
)


def observe(here: Crew, operations: int, run: Callable[[], object]) -> Done:
    """Wall time, and what it cost the foreman."""
    before = own_cpu_seconds(here.foreman)
    begin = time.perf_counter()
    run()
    seconds = time.perf_counter() - begin
    cpu = own_cpu_seconds(here.foreman) - before
    figures = {"foreman_us": cpu / operations * 1e6, "foreman_mib": memory_kib(here.foreman) / 1024}
    return Done(operations, seconds, figures)


@contextmanager
def crew_of(place: Place, workers: int) -> Iterator[Crew]:
    """A foreman, which continues the jobs in its store, and a crowd of workers."""
    crowd = (sys.executable, "-m", "bench.task_crowd")
    with foreman(place) as (address, pid), gandy.Client(address) as client, running(*crowd, address, str(workers)):
        wait_until(lambda: len(client.workers()) == workers, "the last worker")
        yield Crew(address, pid, client)


def get_home(place: Place) -> Path:
    return place.folder / "home"


# How much is in the store


@contextmanager
def after_many(place: Place, tasks: int) -> Iterator[Work]:
    """Function tasks, each submitted on its own, in a store with this many finished tasks."""
    with crew_of(place, 1) as here, gandy.Executor(here.address) as executor:
        call(executor, MODEL)
    copy_job(get_home(place), tasks // MODEL - 1)
    with crew_of(place, FEW) as here, gandy.Executor(here.address) as executor:
        yield lambda count: observe(here, count, partial(call, executor, count))


def call(executor: gandy.Executor, count: int) -> None:
    wait([executor.submit(operator.neg, number) for number in range(count)])


@contextmanager
def beside_array(place: Place, tasks: int, workers: int = FEW) -> Iterator[Work]:
    """The tasks of an array, while this many tasks of another one wait for a worker that never comes."""
    with crew_of(place, workers) as here:
        here.client.submit("true", tasks=tasks, tags=["nobody"])
        yield lambda count: observe(here, count, partial(run_array, here, count))


def run_array(here: Crew, count: int) -> None:
    here.client.submit("true", tasks=count).wait()


# More workers, and more jobs


@contextmanager
def with_workers(place: Place, workers: int) -> Iterator[Work]:
    with crew_of(place, workers) as here:
        yield lambda count: observe(here, count, partial(run_array, here, count))


@contextmanager
def with_jobs(place: Place, jobs: int) -> Iterator[Work]:
    """Many jobs wait in the queue, and are then done. Submitting them is not counted."""
    with crew_of(place, FEW) as here:

        def work(count: int) -> Done:
            queue = min(jobs, count)
            return add_up([run_queue(here, queue) for _ in range(count // queue)])

        yield work


def run_queue(here: Crew, jobs: int) -> Done:
    gate = here.client.submit("true", held=True)
    last = asyncio.run(submit_all(here.address, jobs, gate.id))

    def run() -> None:
        gate.release()
        here.client.job(last).wait()
        wait_until(lambda: here.client.status().jobs == 0, "the last job")

    return observe(here, jobs, run)


async def submit_all(address: str, jobs: int, gate: int) -> int:
    """Submit jobs that wait for the job `gate`. Returns the number of the last one."""
    last = 0
    async with gandy.AsyncClient(address) as client:
        for begin in range(0, jobs, IN_FLIGHT):
            some = range(begin, min(jobs, begin + IN_FLIGHT))
            added = await asyncio.gather(*(client.submit("true", after=[gate]) for _ in some))
            last = max(last, *(job.id for job in added))
    return last


def add_up(parts: list[Done]) -> Done:
    count = len(parts)
    figures = {name: sum(part.figures[name] for part in parts) / count for name in parts[0].figures}
    return Done(sum(part.operations for part in parts), sum(part.seconds for part in parts), figures)


# Starting


@contextmanager
def commands(place: Place, arguments: str) -> Iterator[Work]:
    """A command from its start to its end, with a foreman that it may connect to."""
    program = (str(Path(sys.executable).with_name("gandy")), *arguments.split())
    with foreman(place):
        yield partial(time_commands, program)


@contextmanager
def bare_pythons(_place: Place) -> Iterator[Work]:
    yield partial(time_commands, (sys.executable, "-c", "pass"))


def time_commands(command: tuple[str, ...], count: int) -> list[float]:
    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return [time_it(run) for _ in range(count)]


def time_it(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


@contextmanager
def ups(place: Place) -> Iterator[Work]:
    """`gandy up` in a new home, until a task is done that was submitted as soon as the foreman listened."""

    def work(count: int) -> list[float]:
        return [time_up(Place(place.folder / str(time.monotonic_ns()), {})) for _ in range(count)]

    yield work


def time_up(place: Place) -> float:
    socket = get_home(place) / "foreman.sock"
    begin = time.perf_counter()
    with running(
        str(Path(sys.executable).with_name("gandy")), "up", "--slots", "2", env={"GANDY_HOME": str(get_home(place))}
    ):
        while not socket.exists():
            time.sleep(0.001)
        with gandy.Client(f"unix:{socket}") as client:
            client.submit("true").wait()
            return time.perf_counter() - begin


@contextmanager
def restarts(place: Place, tasks: int) -> Iterator[Work]:
    """The start of a foreman, until it answers, with an array of this many tasks that is half done."""
    with crew_of(place, 1) as here:
        array = here.client.submit("true", tasks=tasks, held=True)
        model = here.client.submit("true", tasks=MODEL)
        model.wait()
    finish_tasks(get_home(place), array.id, model.id, tasks // MODEL // 2)

    def run() -> None:
        with foreman(place) as (address, _), gandy.Client(address) as client:
            assert client.job(array.id).status().counts.finished == tasks // 2

    yield lambda count: [time_it(run) for _ in range(count)]


# Nothing to do


@contextmanager
def idle_crew(place: Place) -> Iterator[Work]:
    """A foreman and a worker with two slots."""
    with crew(place) as here:
        run_array(here, MODEL)
        yield lambda count: idle(count, list_tree(os.getpid())[1:])


@contextmanager
def idle_foreman(place: Place, workers: int, jobs: int) -> Iterator[Work]:
    """A foreman with idle workers, and with jobs that no worker can run."""
    with crew_of(place, workers) as here:
        asyncio.run(submit_all(here.address, jobs, here.client.submit("true", held=True).id))
        yield lambda count: idle(count, [here.foreman])


def idle(seconds: int, processes: list[int]) -> list[float]:
    """CPU seconds of these processes in a second."""
    before = sum(map(own_cpu_seconds, processes))
    time.sleep(seconds)
    return [(sum(map(own_cpu_seconds, processes)) - before) / seconds]


make = partial(Contestant, packages=("gandy",), durability=DURABLE)
make_start = partial(make, "growth_start", warm_count=1)

CONTESTANTS = (
    *(make("growth_finished", f"{size:,} done", partial(after_many, tasks=size)) for size in SIZES),
    *(make("growth_waiting", f"{size:,} wait", partial(beside_array, tasks=size)) for size in SIZES),
    *(make("growth_workers", f"{size:,} workers", partial(with_workers, workers=size)) for size in CROWDS),
    make("growth_workers", "1,000 workers, 1,000,000 wait", partial(beside_array, tasks=SIZES[-1], workers=1_000)),
    *(make("growth_jobs", f"{size:,} jobs", partial(with_jobs, jobs=size), count=max(size, 2_000)) for size in QUEUES),
    make_start("python -c pass", bare_pythons),
    *(make_start(f"gandy {text}", partial(commands, arguments=text)) for text in ("--help", "submit true")),
    make_start("gandy up, and a task", ups),
    make_start("gandy foreman run, 1,000,000 tasks", partial(restarts, tasks=SIZES[-1]), count=2),
    make("growth_idle", "gandy, two slots", idle_crew, warm_count=1),
    make("growth_idle", "foreman with 1,000 workers", partial(idle_foreman, workers=1_000, jobs=0), warm_count=1),
    make("growth_idle", "foreman with 10,000 jobs", partial(idle_foreman, workers=FEW, jobs=10_000), warm_count=1),
)
