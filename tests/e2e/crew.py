"""A home, and gandy's commands that are run in it as processes of their own."""

import json
import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.forks import run_command

GANDY = str(Path(sysconfig.get_path("scripts")) / "gandy")

# Seconds until a process that does not answer counts as hung. Nothing here is measured.
PATIENCE = 60


class Crew:
    """A home, and commands that are run in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {**os.environ, "GANDY_HOME": str(home), "TERM": "xterm", "COLUMNS": "150"}
        self.environment.pop("GANDY_FOREMAN", None)

    def run(self, *words: str, data: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        done = run_command([GANDY, *words], data, self.environment, PATIENCE)
        assert done.returncode == code, (words, done)
        assert b"Traceback" not in done.stderr
        return done

    def show(self, *words: str) -> list[dict[str, Any]]:
        """What a command prints as JSON."""
        return [json.loads(line) for line in self.run(*words, "--output", "json").stdout.splitlines()]

    def submit(self, *words: str, data: bytes = b"") -> str:
        """The number of a new job."""
        return self.run("submit", "--output", "quiet", *words, data=data).stdout.decode().strip()

    def start(self, *words: str, **streams: Any) -> subprocess.Popen[bytes]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        return subprocess.Popen([GANDY, *words], env=self.environment, preexec_fn=_restore_interrupt, **streams)

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A long-running command, from its first word on standard error until it is interrupted."""
        with self.start(*words, stdout=subprocess.DEVNULL) as process:
            try:
                assert process.stderr is not None
                assert process.stderr.readline()
                yield process
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=PATIENCE)


def _restore_interrupt() -> None:
    """A shell that runs the tests in the background has them ignore SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
