"""Debian's libo2, whose two processes poll all the time, and so are paused while other contestants are measured."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.c_programs import compile_c, playing
from bench.contract import Contestant, Place, Work


@contextmanager
def plays(place: Place, kind: str) -> Iterator[Work]:
    program = compile_c(place, Path(__file__).with_name("o2_echo.c"), "-lo2")
    with playing(program, f"bench-o2-{os.getpid()}", kind) as work:
        yield work


CONTESTANTS = tuple(
    Contestant(
        f"bus_{kind}", "libo2, which spins", partial(plays, kind=kind), programs=("cc",), spins=True, stays=False
    )
    for kind in ("udp", "tcp")
)
