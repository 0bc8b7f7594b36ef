"""Machines of a crew: a namespace each, and homes in which gandy's own commands run."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from tests.e2e.crew import Crew
from tests.netns.namespaces import Namespace
from tests.waiting import PATIENCE, until

import gandy

ROOT: Final = Path(__file__).parents[2]
PORT: Final = 5429
SETTINGS: Final = ("GANDY_FOREMAN", "GANDY_TOKEN", "GANDY_ENSEMBLE")


class Home(Crew):
    """A home on a machine. What still runs there ends with it."""

    def __init__(self, machine: Namespace, home: Path, **environment: str) -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        super().__init__(home)
        self.machine = machine
        for name in SETTINGS:
            self.environment.pop(name, None)
        self.environment |= {"PYTHONPATH": str(ROOT), **environment}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, *words: str, data: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        with self.machine.inside():
            return super().run(*words, data=data, code=code)

    def start(self, *words: str, **streams: Any) -> subprocess.Popen[bytes]:
        with self.machine.inside():
            return super().start(*words, **streams)

    def run_python(self, program: str) -> str:
        """What a program of a user prints."""
        with self.machine.inside():
            done = subprocess.run(
                [sys.executable, "-c", program], env=self.environment, capture_output=True, text=True, timeout=PATIENCE
            )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def join(self, token: str, *words: str) -> None:
        self.run("join", token, *words)

    # Where a foreman is at home

    def run_foreman(self, *words: str) -> "Running":
        running = self.launch("foreman", "foreman", "run", *words)
        until(lambda: "the foreman listens at" in running.said)
        return running

    def invite(self, *words: str) -> str:
        """A token."""
        return self.run("invite", "--output", "quiet", *words).stdout.decode().strip()

    def make_token(self, role: str, *addresses: str, uses: int = 1) -> str:
        """The same without a process for it."""
        with gandy.Client(f"unix:{self.home}/foreman.sock") as client:
            return client.invite(role, PATIENCE, uses, addresses).token

    def list_workers(self) -> list[str]:
        """Names of those that are here, as the foreman sees it."""
        with gandy.Client(f"unix:{self.home}/foreman.sock") as client:
            return sorted(row.name for row in client.workers() if row.connected)

    def until_working(self, *names: str) -> None:
        until(lambda: self.list_workers() == sorted(names))

    # Programs that stay

    def launch(self, name: str, *words: str) -> "Running":
        return self._stack.enter_context(Running(self, name, words))

    def run_worker(self, name: str, *words: str) -> "Running":
        return self.launch(name, "worker", "run", "--name", name, "--slots", "1", *words)


class Running:
    """A command in the background. What it says on standard error goes to a file."""

    def __init__(self, home: Home, name: str, words: tuple[str, ...]) -> None:
        self._log = home.home / f"{name}.log"
        with self._log.open("wb") as log:
            self.process = home.start(*words, stdout=subprocess.DEVNULL, stderr=log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def said(self) -> str:
        return self._log.read_text()

    def until_said(self, text: str) -> None:
        until(lambda: text in self.said)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            finally:
                self.process.kill()
                self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        """How it ended."""
        return self.process.wait(PATIENCE)
