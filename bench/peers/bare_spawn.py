"""The limit for shell tasks: posix_spawn, two at a time; nothing is kept, watched or reported."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.c_programs import compile_c
from bench.contract import SLOTS, Contestant, Place, Work


@contextmanager
def in_python(_place: Place) -> Iterator[Work]:
    def work(count: int) -> int:
        for number in range(count):
            if number >= SLOTS:
                os.wait()
            os.posix_spawn("/bin/sh", ["sh", "-c", "true"], os.environ)
        for _ in range(min(SLOTS, count)):
            os.wait()
        return count

    yield work


@contextmanager
def in_c(place: Place) -> Iterator[Work]:
    program = compile_c(place, Path(__file__).with_name("spawn.c"))

    def work(count: int) -> int:
        subprocess.run([program, str(count), str(SLOTS)], check=True)
        return count

    yield work


CONTESTANTS = (
    Contestant("shell_tasks", "bare posix_spawn, Python", in_python),
    Contestant("shell_tasks", "bare posix_spawn, C", in_c, programs=("cc",)),
)
