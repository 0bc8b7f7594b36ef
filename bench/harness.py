"""Runs the contestants of a table: each in a driver of its own, in turns, one at a time."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any, Final

from bench import programs
from bench.catalogue import Entry
from bench.contract import Contestant, Missing, Server, Table
from bench.environments import ROOT, STORE, find_python, prepare
from bench.figures import Row, Sample, add_ratios, summarize
from bench.processes import cpu_seconds, kill_descendants, signal_tree, stolen_seconds
from bench.servers import create_database, run_postgres

START_PATIENCE: Final = 120.0  # seconds
WORK_PATIENCE: Final = 180.0
STOP_PATIENCE: Final = 15.0
MOMENT: Final = 1.0  # seconds; a shorter time does not show how busy a contestant is
REASON_LETTERS: Final = 160


@dataclass
class Outcome:
    """The results of a table."""

    table: Table
    repeats: int
    rows: dict[str, Row] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    stolen_percent: float = 0.0  # of all cores, by the host of a virtual machine


class Driver:
    """A contestant's process. Everything that it starts is below it, and ends with it."""

    def __init__(self, entry: Entry, folder: Path, server: Server | None = None) -> None:
        self.contestant = entry.contestant
        self.versions: dict[str, str] = {}
        self.idle_share = 0.0  # of a core, the most that it used between two turns
        self._rest: tuple[float, float] | None = None  # when its last turn ended, and its CPU time then
        paths = find_needs(self.contestant)
        self._log = (folder / "log").open("w+")
        command = [find_python(self.contestant.environment), "-m", "bench.drive"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*command, entry.module, self.contestant.table, self.contestant.name],
            stdin=pipe,
            stdout=pipe,
            stderr=self._log,
            cwd=ROOT,
            env=programs.environ(),
            start_new_session=True,  # Ctrl-C is for the harness, which then ends all drivers
        )
        self._send(folder=str(folder), programs=paths, server=encode_server(server))

    def wait_ready(self, patience: float = 0.0) -> None:
        """Raises: Missing."""
        self.versions = self._receive(START_PATIENCE + patience)["versions"]
        self.versions |= {name: programs.read_version(programs.find(name)) for name in self.contestant.programs}

    def measure(self, count: int, patience: float = 0.0) -> Sample:
        """Raises: Missing."""
        self._send(count=count)
        return Sample(**self._receive(WORK_PATIENCE + patience))

    def rest(self) -> None:
        """Called while other contestants are measured."""
        if self.contestant.spins:
            signal_tree(self._process.pid, signal.SIGSTOP)
        self._rest = time.monotonic(), cpu_seconds(self._process.pid)

    def go_on(self) -> None:
        if self._rest is not None:
            begin, before = self._rest
            used = cpu_seconds(self._process.pid) - before
            self.idle_share = max(self.idle_share, used / max(MOMENT, time.monotonic() - begin))
            self._rest = None
        if self.contestant.spins:
            signal_tree(self._process.pid, signal.SIGCONT)

    def ask_to_end(self) -> None:
        self.go_on()
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def stop(self) -> None:
        self.ask_to_end()
        try:
            self._process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            kill_descendants(self._process.pid)  # while they can be found below it
            self._process.kill()
            self._process.wait()
        finally:
            self._log.close()

    def _send(self, **words: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise Missing(self._read_last_line()) from None

    def _receive(self, patience: float) -> Any:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], patience)[0]:
            raise Missing(f"it did not answer within {patience:.0f} seconds")
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"missing": self._read_last_line()}
        if "missing" in answer:
            raise Missing(format_reason(answer["missing"]))
        return answer

    def _read_last_line(self) -> str:
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        return format_reason(lines[-1]) if lines else "its process ended without a message"


class Stage:
    """The drivers of a table, each started at its first turn. Most stay until the end."""

    def __init__(self, table: Table, folder: Path, server: Server | None = None) -> None:
        self._table = table
        self._folder = folder
        self._server = server
        self._drivers: dict[str, Driver] = {}
        self._numbers = count(1)

    def take_turn(self, entry: Entry) -> tuple[Sample, Row]:
        """Measure once. Also returns the contestant's row.

        Raises: Missing.
        """
        contestant = entry.contestant
        driver = self._drivers.get(contestant.name) or self._start(entry)
        driver.go_on()
        try:
            sample = driver.measure(contestant.count or self._table.count, self._table.patience)
        except BaseException:
            self._stop(contestant.name)
            raise
        driver.rest()
        if not contestant.stays:
            self._stop(contestant.name)
        return sample, {
            "durability": contestant.durability,
            "versions": driver.versions,
            "note": contestant.note,
            "idle_percent": round(driver.idle_share * 100, 1),
        }

    def _start(self, entry: Entry) -> Driver:
        contestant = entry.contestant
        place = self._folder / str(next(self._numbers))
        place.mkdir()
        server = create_database(self._server, f"contestant_{place.name}") if self._server else None
        driver = self._drivers[contestant.name] = Driver(entry, place, server)
        try:
            driver.wait_ready(self._table.patience)
            driver.measure(contestant.warm_count or max(1, (contestant.count or self._table.count) // 5))
        except BaseException:
            self._stop(contestant.name)
            raise
        return driver

    def _stop(self, name: str) -> None:
        self._drivers.pop(name).stop()

    def close(self) -> None:
        for driver in self._drivers.values():
            driver.ask_to_end()
        while self._drivers:
            self._stop(next(iter(self._drivers)))


def run_table(table: Table, entries: Sequence[Entry], repeats: int) -> Outcome:
    """All of them in turns. A contestant that fails is reported as missing, and the others go on."""
    outcome = Outcome(table, repeats)
    samples: dict[str, list[Sample]] = {}
    notes: dict[str, Row] = {}
    begin, stolen = time.monotonic(), stolen_seconds()
    with ExitStack() as held:
        folder = held.enter_context(temporary_folder())
        try:
            server = held.enter_context(open_server(table, folder))
        except Missing as reason:
            outcome.missing = {entry.contestant.name: str(reason) for entry in entries}
            return outcome
        stage = held.enter_context(closing(Stage(table, folder, server)))
        for turn, entry in product(range(repeats), entries):
            name = entry.contestant.name
            if name in outcome.missing:
                continue
            _say(f"{table.key}, {turn + 1} of {repeats}: {name}")
            try:
                sample, notes[name] = stage.take_turn(entry)
                samples.setdefault(name, []).append(sample)
            except Missing as reason:
                outcome.missing[name] = str(reason)
                samples.pop(name, None)
    cores = os.cpu_count() or 1
    outcome.stolen_percent = round((stolen_seconds() - stolen) / (time.monotonic() - begin) / cores * 100, 1)
    outcome.rows = {name: {**summarize(table.kind, taken), **notes[name]} for name, taken in samples.items()}
    add_ratios(outcome.rows, table.reference)
    return outcome


@contextmanager
def open_server(table: Table, folder: Path) -> Iterator[Server | None]:
    """The server that all contestants of the table share, if it names one.

    Raises: Missing.
    """
    if not table.server:
        yield None
        return
    with run_postgres(folder / "postgres", programs.find("initdb"), programs.find("postgres")) as server:
        yield server


def encode_server(server: Server | None) -> dict[str, Any] | None:
    return {"url": server.url, "process": server.process, "log": str(server.log)} if server else None


def find_needs(contestant: Contestant) -> Mapping[str, str]:
    """The programs that it needs.

    Raises: Missing, also if a package is missing.
    """
    if contestant.environment:
        lacking = prepare(contestant.environment)
        for name in contestant.packages:
            if name in lacking:
                raise Missing(f"{name}: {lacking[name]}")
    return {name: programs.find(name) for name in contestant.programs}


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """On the disk where the project is, as jobs would be. Other users may read it: PostgreSQL never runs as root."""
    STORE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=STORE))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def format_reason(text: str) -> str:
    """One line, without paths: results are published, and must not show the folders of this machine."""
    lines = text.strip().splitlines()
    return re.sub(r"/[\w.~/-]*/", "", lines[0] if lines else "no reason")[:REASON_LETTERS]


def _say(text: str) -> None:
    if os.isatty(sys.stderr.fileno()):
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
