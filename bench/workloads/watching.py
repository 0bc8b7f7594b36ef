"""W9: what it costs a crew that many viewers look at it while it works."""

import operator
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from typing import Final

import gandy
from bench.contract import Contestant, Done, Place, Table, Work
from bench.peers.gandy import DURABLE, Crew, crew
from bench.processes import own_cpu_seconds

VIEWERS: Final = 100
NO_VIEWERS: Final = "no viewers"

TABLES = (
    Table(
        "watching",
        "W9: Python functions that do nothing, while viewers look",
        unit="tasks",
        count=40_000,
        reference=NO_VIEWERS,
        repeats=15,
        note=f"As in W1. {VIEWERS} viewers watch the crew, each over a link of its own; one process reads all that, "
        "and does not decode it.",
    ),
)


@contextmanager
def unwatched(place: Place) -> Iterator[Work]:
    with crew(place) as here, gandy.Executor(here.address) as executor:
        yield lambda count: observe(here, executor, count)


@contextmanager
def watched(place: Place) -> Iterator[Work]:
    with crew(place) as here, gandy.Executor(here.address) as executor, viewers(here.address) as count_bytes:

        def work(count: int) -> Done:
            count_bytes()
            done = observe(here, executor, count)
            read = count_bytes()
            assert read > 0, "the viewers saw nothing"
            return Done(count, done.seconds, {**done.figures, "viewer_bytes": read / VIEWERS / count})

        yield work


def observe(here: Crew, executor: gandy.Executor, count: int) -> Done:
    foreman, began = own_cpu_seconds(here.foreman), time.perf_counter()
    wait([executor.submit(operator.neg, number) for number in range(count)])
    seconds = time.perf_counter() - began
    return Done(count, seconds, {"foreman_us": (own_cpu_seconds(here.foreman) - foreman) / count * 1e6})


@contextmanager
def viewers(address: str) -> Iterator[Callable[[], int]]:
    """Ask how many bytes they have read since the last time."""
    command = (sys.executable, "-m", "bench.view_crowd", address, str(VIEWERS))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"shown\n"
        yield partial(_ask, process)
        process.stdin.close()


def _ask(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    return int(process.stdout.readline())


CONTESTANTS = (
    Contestant("watching", NO_VIEWERS, unwatched, DURABLE, packages=("gandy",), warm_count=20_000),
    Contestant("watching", f"{VIEWERS} viewers", watched, DURABLE, packages=("gandy",), warm_count=20_000),
)
