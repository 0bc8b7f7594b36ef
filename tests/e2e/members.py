"""Foremen and workers in processes of their own, which tests kill and start again."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.e2e.crew import PATIENCE, Crew
from tests.processes import find_busy, list_descendants
from tests.waiting import until

# How long an absent worker keeps its tasks: enough for a foreman to start and be found on a busy machine.
GRACE = "5s"


class Member:
    """A foreman or a worker, which can be killed and started again. What it says goes to a file."""

    def __init__(self, crew: Crew, name: str, *words: str) -> None:
        self.name = name
        self.log = crew.home / f"{name}.log"
        self.killed: dict[int, float] = {}  # what were parents of tasks in former lives, and when each was killed
        self._crew = crew
        self._words = words
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = self._crew.start(*self._words, stdout=subprocess.DEVNULL, stderr=log)

    @property
    def busy_pid(self) -> int:
        """The process that works: a worker has a guardian, which is the one that people see."""
        return find_busy(self.process.pid) if self._words[0] == "worker" else self.process.pid

    def stop(self) -> None:
        """Let it stand still."""
        os.kill(self.busy_pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.busy_pid, signal.SIGCONT)

    def kill(self) -> None:
        self.killed[self.busy_pid] = time.time()
        self.process.kill()
        assert self.process.wait(PATIENCE) == -signal.SIGKILL, self.log.read_text()

    def end(self) -> None:
        for pid in (*list_descendants(self.process.pid), self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()


class Site(Crew):
    """A foreman and workers in processes of their own."""

    def __init__(self, home: Path, workers: int, grace: str = GRACE, slots: int = 2) -> None:
        super().__init__(home)
        self.foreman = Member(self, "foreman", "foreman", "run", "--grace", grace)
        until(self.is_listening)
        self.workers = [
            Member(self, name, "worker", "run", "--name", name, "--slots", str(slots))
            for name in (f"w{number}" for number in range(1, workers + 1))
        ]

    def is_listening(self) -> bool:
        return b"listens at" in self.foreman.log.read_bytes()

    def restart_foreman(self) -> None:
        self.foreman.log.write_bytes(b"")
        self.foreman.start()
        until(self.is_listening)

    def end(self) -> None:
        for member in (*self.workers, self.foreman):
            member.end()


@contextmanager
def a_site(home: Path, workers: int, grace: str = GRACE, slots: int = 2) -> Iterator[Site]:
    site = Site(home, workers, grace, slots)
    try:
        yield site
    finally:
        site.end()
