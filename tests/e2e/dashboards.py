"""`gandy dashboard` as a process of its own."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.crew import PATIENCE, Crew


def read_address(process: subprocess.Popen[bytes]) -> str:
    """The address with a token that a dashboard prints."""
    assert process.stdout is not None
    line = process.stdout.readline().decode().strip()
    assert "/?token=" in line, process.stderr and process.stderr.read()
    return line


@contextmanager
def running_dashboard(crew: Crew, *words: str) -> Iterator[str]:
    """Its address without the token, while it runs."""
    with crew.start("dashboard", "--listen", "127.0.0.1:0", *words) as process:
        try:
            yield read_address(process).partition("?")[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
