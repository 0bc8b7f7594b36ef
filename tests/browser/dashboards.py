"""A crew with a dashboard, all of them processes of their own, and tabs of a browser that look at it."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pytest
from tests.browser.devtools import CHROMIUM, Tab
from tests.e2e.crew import PATIENCE, Crew

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: 'make test-browser' installs it"
)

# Where pictures are kept; if it is not set, they go the way of all temporary files.
PICTURES = os.environ.get("GANDY_PICTURES", "")


class Dashboard:
    """The command, and the addresses that it prints: each works once."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._lines: IO[bytes] = process.stdout

    def take_address(self) -> str:
        """The address that was printed last: another one follows when this is used."""
        line = self._lines.readline().decode().strip()
        assert line.startswith("http://127.0.0.1:"), (line, self._process.poll())
        return line

    def show(self, tab: Tab, route: str = "#/") -> None:
        """Open a view, as a person does who follows a link that was shared."""
        tab.open(self.take_address())
        tab.wait_for("window.gandy && gandy.crew.isKnown")
        go(tab, route)


def go(tab: Tab, route: str) -> None:
    """Open another view."""
    tab.run(f"location.hash = {route!r}")
    tab.wait_for(f"location.hash === {route!r}")


class Site:
    """A home with a foreman. Workers and dashboards run until the end."""

    def __init__(self, crew: Crew, running: ExitStack) -> None:
        self.crew = crew
        self._running = running

    def start_worker(self, *words: str) -> None:
        self._running.enter_context(self.crew.running("worker", "run", *words))

    def start_dashboard(self, crew: Crew | None = None, *words: str) -> Dashboard:
        return self._running.enter_context(_dashboard(crew or self.crew, *words))


@contextmanager
def _dashboard(crew: Crew, *words: str) -> Iterator[Dashboard]:
    process = crew.start("dashboard", "--no-open", "--listen", "127.0.0.1:0", *words, stderr=subprocess.DEVNULL)
    try:
        yield Dashboard(process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)


@contextmanager
def open_site(home: Path, *words: str) -> Iterator[Site]:
    """A crew without workers. `words`: of its foreman."""
    crew = Crew(home)
    with ExitStack() as running:
        running.enter_context(crew.running("foreman", "run", *words))
        yield Site(crew, running)


OpenTab = Callable[[], Tab]
