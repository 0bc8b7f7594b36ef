"""The process in which one contestant runs, in its own environment. It exchanges JSON lines with the harness.

python -m bench.drive MODULE TABLE NAME

It gets {"folder", "programs", "server"}, and says {"versions"} when the contestant is ready. For each {"count"} it says
{"operations", "seconds", "cpu"}, and perhaps {"times"} or {"figures"}. What goes wrong is {"missing"}. It ends with its
input.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from bench.contract import Contestant, Done, Missing, Place, Server, Work
from bench.processes import adopt_orphans, cpu_seconds, kill_descendants


def take_stdout() -> TextIO:
    """Send what libraries print to standard error: it must not come between our lines."""
    ours = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return ours


def decode_server(words: dict[str, Any] | None) -> Server | None:
    return Server(words["url"], words["process"], Path(words["log"])) if words else None


def find_contestant(module: str, table: str, name: str) -> Contestant:
    contestants: Iterable[Contestant] = import_module(module).CONTESTANTS
    return next(found for found in contestants if (found.table, found.name) == (table, name))


def measure(work: Work, count: int) -> dict[str, Any]:
    """Wall time of the work itself, and CPU time of this process and all below it."""
    before = cpu_seconds(os.getpid())
    begin = time.perf_counter()
    done = work(count)
    seconds = time.perf_counter() - begin
    cpu = cpu_seconds(os.getpid()) - before
    return {"seconds": seconds, "cpu": cpu, **encode_done(done)}


def encode_done(done: int | list[float] | Done) -> dict[str, Any]:
    match done:
        case Done():
            return {name: value for name, value in asdict(done).items() if value is not None}
        case int():
            return {"operations": done}
        case _:
            return {"operations": len(done), "times": done}


def drive(contestant: Contestant, place: Place, output: TextIO) -> None:
    def tell(**words: Any) -> None:
        output.write(json.dumps(words) + "\n")

    try:
        versions = {name: version(name) for name in contestant.packages}
        with contestant.start(place) as work:
            tell(versions=versions)
            for line in sys.stdin:
                tell(**measure(work, json.loads(line)["count"]))
    except Missing as reason:
        tell(missing=str(reason))
    except Exception as error:
        tell(missing=f"{type(error).__name__}: {error}")
        raise


def main(module: str, table: str, name: str) -> None:
    output = take_stdout()
    adopt_orphans()
    order = json.loads(sys.stdin.readline())
    place = Place(Path(order["folder"]), order["programs"], decode_server(order.get("server")))
    try:
        drive(find_contestant(module, table, name), place, output)
    finally:
        kill_descendants()


if __name__ == "__main__":
    main(*sys.argv[1:])
