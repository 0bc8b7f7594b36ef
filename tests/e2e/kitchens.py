"""A foreman, and workers that offer the commands of `dishes`: real processes, for the tests of calls."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.members import Member
from tests.waiting import until

import gandy

T = TypeVar("T")

# Seconds until what should happen at once counts as never. Nothing here is measured.
SOON = 20

ROOT = Path(__file__).parents[2]


class Kitchen(Crew):
    """A home, its foreman, and the workers that were hired."""

    def __init__(self, home: Path, *words: str) -> None:
        super().__init__(home)
        self.environment["PYTHONPATH"] = str(ROOT)
        self.address = f"unix:{home}/foreman.sock"
        self.foreman = Member(self, "foreman", "foreman", "run", *words)
        self.workers: list[Member] = []
        until(self._is_listening)

    def _is_listening(self) -> bool:
        return b"listens at" in self.foreman.log.read_bytes()

    def restart_foreman(self) -> None:
        self.foreman.log.write_bytes(b"")
        self.foreman.start()
        until(self._is_listening)

    def hire(self, name: str = "w1", slots: int = 2, *words: str, commands: str = "tests.e2e.dishes") -> Member:
        """A worker whose commands the foreman knows already."""
        said = ("worker", "run", "--name", name, "--slots", str(slots), "--commands", commands, *words)
        self.workers.append(Member(self, name, *said))
        self.until_offered("ping", name)
        return self.workers[-1]

    def list_offers(self, worker: str) -> tuple[str, ...]:
        with gandy.Client(self.address) as client:
            return next((tuple(row.commands) for row in client.workers() if row.name == worker and row.connected), ())

    def until_offered(self, command: str, worker: str = "w1") -> None:
        until(lambda: command in self.list_offers(worker))

    def count_calls(self) -> int:
        """Calls that workers have, as the foreman sees it."""
        with gandy.Client(self.address) as client:
            return sum(row.calls for row in client.workers())

    def start_program(self, text: str) -> subprocess.Popen[bytes]:
        """A Python program in a process of its own. It tells by lines how far it came."""
        return subprocess.Popen(
            [sys.executable, "-c", text], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def talk(self, work: Callable[[gandy.AsyncClient], Awaitable[T]]) -> T:
        """What a user does with an asynchronous client; a test that hangs fails."""

        async def go() -> T:
            async with gandy.AsyncClient(self.address) as client:
                return await work(client)

        return asyncio.run(asyncio.wait_for(go(), PATIENCE))

    def end(self) -> None:
        for member in (*self.workers, self.foreman):
            if member.process.poll() is None:
                member.end()


@contextmanager
def a_kitchen(home: Path, slots: int = 0, *words: str) -> Iterator[Kitchen]:
    """With one worker, where slots are told."""
    kitchen = Kitchen(home)
    try:
        if slots:
            kitchen.hire("w1", slots, *words)
        yield kitchen
    finally:
        kitchen.end()


def read_lines(path: Path) -> list[str]:
    """What commands noted."""
    return path.read_text().splitlines() if path.exists() else []
