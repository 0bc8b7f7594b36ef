"""`xargs -P2`: no server, nothing kept."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contract import SLOTS, Contestant, Place, Work


@contextmanager
def shell_tasks(place: Place) -> Iterator[Work]:
    def work(count: int) -> int:
        numbers = "\n".join(map(str, range(count))).encode()
        command = [place.programs["xargs"], f"-P{SLOTS}", "-n1", "sh", "-c", "true"]
        subprocess.run(command, input=numbers, check=True)
        return count

    yield work


CONTESTANTS = (Contestant("shell_tasks", f"xargs -P{SLOTS}", shell_tasks, programs=("xargs",)),)
