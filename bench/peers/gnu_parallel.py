"""GNU parallel, two jobs at a time: no server, nothing kept."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contract import SLOTS, Contestant, Place, Work


@contextmanager
def shell_tasks(place: Place) -> Iterator[Work]:
    def work(count: int) -> int:
        numbers = "\n".join(map(str, range(count))).encode()
        command = [place.programs["parallel"], "--will-cite", f"-j{SLOTS}", "-n1", "sh", "-c", "true"]
        subprocess.run(command, input=numbers, check=True)
        return count

    yield work


CONTESTANTS = (Contestant("shell_tasks", f"GNU parallel -j{SLOTS}", shell_tasks, programs=("parallel",), count=1_000),)
