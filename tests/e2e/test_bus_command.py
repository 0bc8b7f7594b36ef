"""`gandy bus` with real processes over pipes, each test in a network of its own."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from uuid import uuid4

import pexpect
import pytest
from tests.forks import run_command
from tests.own_network import own_network
from tests.waiting import PATIENCE

from gandy.bus import Ensemble
from gandy.config import find_home
from gandy.errors import UnknownService
from gandy.terminal.exits import ExitCode

GANDY = str(Path(sysconfig.get_path("scripts")) / "gandy")

# Python 3.12 and newer do not like terminals in a process that has threads, and these tests do nothing else.
pytestmark = pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")


class Command:
    """One that goes on until it is told to end."""

    def __init__(self, ensemble: str, *words: str) -> None:
        self.name = ""  # on the bus, if it was heard
        self.process = subprocess.Popen(
            [GANDY, "bus", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=make_environment(ensemble),
            text=True,
            # SIGINT is ignored in what a shell started in the background, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self._lines: Queue[str] = Queue()
        self._complaints: Queue[str] = Queue()
        self._threads = [
            Thread(target=self._read, args=(self.process.stdout, self._lines)),
            Thread(target=self._read, args=(self.process.stderr, self._complaints)),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(pipe: Any, queue: "Queue[str]") -> None:
        for line in pipe:
            queue.put(line.rstrip("\n"))

    def next_line(self) -> str:
        return self._lines.get(timeout=PATIENCE)

    def next_complaint(self) -> str:
        return self._complaints.get(timeout=PATIENCE)

    def next_object(self, **wanted: Any) -> dict[str, Any]:
        """The next JSON object that has these."""
        while True:
            value: dict[str, Any] = json.loads(self.next_line())
            if wanted.items() <= value.items():
                return value

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join()
        return code

    def list_complaints(self) -> list[str]:
        """After its end: what it said beyond what was read."""
        return [self._complaints.get() for _ in range(self._complaints.qsize())]


def make_environment(ensemble: str) -> dict[str, str]:
    return {**os.environ, "GANDY_ENSEMBLE": ensemble}


class Stage:
    """An ensemble of commands. In 1.1, a process finds those that were there before it at once."""

    def __init__(self) -> None:
        self.ensemble = uuid4().hex
        self.key = Path(find_home(os.environ, sys.platform)) / "keys" / "ensemble.key"
        self.commands: list[Command] = []

    def start(self, *words: str) -> Command:
        return self.start_plain(*words, "--dialect", "1.1")

    def start_plain(self, *words: str) -> Command:
        command = Command(self.ensemble, *words)
        self.commands.append(command)
        return command

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [GANDY, "bus", *words]
        command[3:3] = ["--dialect", "1.1"]
        return subprocess.run(
            command, env=make_environment(self.ensemble), capture_output=True, text=True, timeout=PATIENCE
        )

    def listen(self, service: str = "kitchen") -> Command:
        command = self.start("listen", service, "--json")
        line = command.next_complaint()
        command.name = line.split()[1]
        assert line == f"gandy: {command.name} offers {service} in {self.ensemble}; Ctrl-C ends it"
        return command

    def send(self, *words: str) -> None:
        done = self.run("send", "--wait", str(PATIENCE), *words)
        assert (done.returncode, done.stdout, done.stderr) == (ExitCode.DONE, "", "")

    def close(self) -> None:
        for command in self.commands:
            if command.process.poll() is None:
                command.process.kill()
            command.wait()
            for pipe in (command.process.stdout, command.process.stderr):
                assert pipe is not None
                pipe.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    with own_network():
        stage = Stage()
        try:
            yield stage
        finally:
            stage.close()


# Listen and send


def test_values_come_as_they_were_typed(stage: Stage) -> None:
    kitchen = stage.listen()
    stage.send("/kitchen/cook", "3", "soup", "2.5", '[1, "x"]', "true", "null", "5000000000", "--", "-1")
    message = kitchen.next_object()
    assert message["address"] == "/kitchen/cook"
    assert message["types"] == "isd[is]TNhi"
    assert message["values"] == [3, "soup", 2.5, [1, "x"], True, None, 5000000000, -1]
    assert message["time"] is message["arrived"] is None
    assert kitchen.interrupt() == ExitCode.INTERRUPTED
    assert kitchen.list_complaints() == []


def test_types_can_be_told(stage: Stage) -> None:
    kitchen = stage.listen()
    words = ["3", "4", "5", "6", "7", "8", "9", "x", "aGVsbG8=", "01020304", "true", "[1, 2]", "[3, 4]", "[[5], 6.5]"]
    stage.send("/kitchen/all", "--types", "ihfdtsScbmBTFNI[ii]vd[[i]d]", *words)
    message = kitchen.next_object(types="ihfdtsScbmBTFNI[ii]vd[[i]d]")
    assert message["values"] == [
        *(3, 4, 5.0, 6.0, 7.0, "8", "9", "x", "aGVsbG8=", "AQIDBA==", True),
        *(True, False, None, "infinitum", [1, 2], [3.0, 4.0], [[5], 6.5]),
    ]


def test_message_goes_by_udp_too(stage: Stage) -> None:
    kitchen = stage.listen()
    stage.send("!kitchen/bell", "--udp", "1")
    assert kitchen.next_object()["address"] == "!kitchen/bell"


def test_lines_for_people(stage: Stage) -> None:
    kitchen = stage.start("listen", "kitchen")
    kitchen.next_complaint()
    stage.send("/kitchen/cook", "3", "soup \x9b31m", "2.5")
    stage.send("/kitchen/bell")
    assert kitchen.next_line() == r'/kitchen/cook ,isd 3 "soup \x9b31m" 2.5'
    assert kitchen.next_line() == "/kitchen/bell ,"


def test_the_seeds_dialect_is_the_default(stage: Stage) -> None:
    kitchen = stage.start_plain("listen", "kitchen", "--json")
    kitchen.next_complaint()
    sender = stage.start_plain("send", "--wait", str(PATIENCE), "/kitchen/cook", "3")
    assert kitchen.next_object()["values"] == [3]
    assert sender.wait() == ExitCode.DONE


def test_timed_message_waits_for_its_time(stage: Stage) -> None:
    stage.start("clock", "--lead")
    kitchen = stage.listen()
    stage.send("/kitchen/bell", "--at", "+0.3", "1")
    message = kitchen.next_object(values=[1])
    assert message["arrived"] >= message["time"]
    stage.send("/kitchen/bell", "--at", "0.001", "2")  # long ago
    assert kitchen.next_object(values=[2])["time"] == 0.001
    stage.send("/kitchen/bell", "--at", str(message["arrived"] + 1.0), "3")
    message = kitchen.next_object(values=[3])
    assert message["arrived"] >= message["time"]


def test_nothing_is_timed_without_a_clock(stage: Stage) -> None:
    stage.listen()
    done = stage.run("send", "--wait", "3", "/kitchen/bell", "--at", "+0.3")
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == f"gandy: no process leads the clock of {stage.ensemble}: 'gandy bus clock --lead' does\n"


def test_send_to_a_service_that_no_process_offers(stage: Stage) -> None:
    done = stage.run("send", "--wait", "0.5", "/kitchen/cook", "3")
    assert done.returncode == ExitCode.FAILED
    told = f"gandy: no process in {stage.ensemble} offers the service kitchen, even after 0.5 s"
    assert done.stderr == f"{told}; only processes that have the key in {stage.key} are seen\n"
    done = stage.run("send", "/kitchen/cook", "--wait", "0.1", "--insecure")
    assert done.stderr.endswith("; only processes that are --insecure too are seen\n")


def test_service_that_comes_in_time_is_waited_for(stage: Stage) -> None:
    sender = stage.start("send", "--wait", str(PATIENCE), "/kitchen/cook", "3")
    kitchen = stage.listen()
    assert kitchen.next_object()["values"] == [3]
    assert sender.wait() == ExitCode.DONE


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["kitchen/cook"], "'kitchen/cook' is not an address: write /service/path, or !service/path"),
        (["/kitchen/cook", "--types", "i", "x"], "argument 1: 'x' is not of type 'i'"),
        (["/kitchen/cook", "--types", "ii", "1"], "'ii' needs 2 values, and 1 are given"),
        (["/kitchen/cook", "--types", "z", "1"], "unknown type 'z'"),
        (["/kitchen/cook", "--types", "m", "12"], "argument 1:"),
        (["/kitchen/cook", "--types", "b", "?"], "base64"),
        (["/kitchen/cook", "{}"], "argument 1: dict has no type on the bus"),
        (["/kitchen/cook", "--at", "soon"], "'soon' is not a time; write +5, +2min, 14:00"),
    ],
    ids=str,
)
def test_invalid_values_are_refused_before_the_ensemble_is_joined(stage: Stage, words: list[str], reason: str) -> None:
    done = stage.run("send", *words)
    assert done.returncode == ExitCode.USAGE
    assert reason.lower() in done.stderr.lower()


def test_one_of_two_that_offer_the_same_is_told(stage: Stage) -> None:
    one, other = sorted((stage.listen(), stage.listen()), key=lambda command: command.name)
    assert one.next_complaint() == f"gandy: {other.name} offers kitchen too, and gets its messages"


def test_reader_that_goes_away_ends_it(stage: Stage) -> None:
    script = f"{GANDY} bus listen kitchen --dialect 1.1 | head -n 1; echo ${{PIPESTATUS[0]}}"
    with subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=make_environment(stage.ensemble)
    ) as piped:
        assert piped.stdout is not None
        with Ensemble(stage.ensemble, dialect="1.1") as band:
            assert band.wait_for("kitchen", PATIENCE)
            while piped.poll() is None:
                with suppress(UnknownService, subprocess.TimeoutExpired):
                    band.send("/kitchen/cook")
                    piped.wait(0.01)
        assert piped.stdout.read() == b"/kitchen/cook ,\n%d\n" % ExitCode.CLOSED_PIPE


def test_listener_whose_reader_sleeps_can_be_ended(stage: Stage) -> None:
    command = [GANDY, "bus", "listen", "kitchen", "--dialect", "1.1"]
    restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    with subprocess.Popen(
        command,
        env=make_environment(stage.ensemble),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=restore,
    ) as listener:
        with Ensemble(stage.ensemble, dialect="1.1") as band:
            assert band.wait_for("kitchen", PATIENCE)
            for number in range(20_000):  # far more than the pipe and the queue hold
                band.send("/kitchen/cook", number)
        listener.send_signal(signal.SIGINT)
        written, _ = listener.communicate(timeout=PATIENCE)
    assert listener.returncode == ExitCode.INTERRUPTED
    lines = written.splitlines()
    assert lines == [b"/kitchen/cook ,i %d" % number for number in range(len(lines))]


# Status


def test_status_tells_processes_services_and_the_clock(stage: Stage) -> None:
    leader = stage.start("clock", "--lead", "--json")
    leader.next_object(leads=True)
    stage.listen()
    done = stage.run("status", "--output", "json")
    assert done.returncode == ExitCode.DONE
    view = json.loads(done.stdout)
    assert view["ensemble"] == stage.ensemble
    kitchen, clock = view["services"]["kitchen"], view["services"]["_cs"]
    processes = {process.pop("process"): process for process in view["processes"]}
    assert processes == {
        kitchen: {"state": processes[kitchen]["state"], "services": ["kitchen"]},
        clock: {"state": "ok", "services": ["_cs"]},
    }
    assert processes[kitchen]["state"] in ("ok", "no_clock")
    assert view["clock"]["leader"] == clock
    assert not view["clock"]["leads"]
    assert all(view["clock"][key] >= 0 for key in ("time", "round_trip", "error"))

    done = stage.run("status")
    assert done.returncode == ExitCode.DONE
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["PROCESS", "STATE", "SERVICES"]
    assert [clock, "ok", "_cs"] in rows
    assert ["ensemble", f"{stage.ensemble}:", "2", "other", "processes"] in rows
    assert ["clock", clock, "leads", "it"] in rows

    done = stage.run("status", "--output", "quiet")
    assert done.stdout.split() == sorted([kitchen, clock])


def test_status_of_an_empty_ensemble(stage: Stage) -> None:
    done = stage.run("status", "--wait", "0.1")
    assert done.returncode == ExitCode.DONE
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["ensemble", f"{stage.ensemble}:", "no", "other", "processes"],
        ["clock", "no", "process", "leads", "it"],
    ]
    assert done.stderr == f"only processes that have the key in {stage.key} are seen\n"


def test_status_can_be_watched(stage: Stage) -> None:
    watch = stage.start("status", "--watch", "--output", "json")
    assert watch.next_object()["processes"] == []
    stage.listen()
    while "kitchen" not in watch.next_object()["services"]:
        pass
    assert watch.interrupt() == ExitCode.INTERRUPTED
    assert watch.list_complaints() == []


def test_status_is_drawn_on_a_terminal(stage: Stage) -> None:
    stage.listen()
    environment: Any = {**make_environment(stage.ensemble), "TERM": "xterm", "COLUMNS": "150"}
    words = ["bus", "status", "--watch", "--dialect", "1.1"]
    screen = pexpect.spawn(GANDY, words, env=environment, encoding="utf-8", timeout=PATIENCE, dimensions=(50, 150))
    screen.expect(r"no clock +kitchen")
    screen.expect("1 other process")
    screen.sendintr()
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == ExitCode.INTERRUPTED


# The clock


def test_one_leads_the_clock_and_others_follow(stage: Stage) -> None:
    leader = stage.start("clock", "--lead", "--json")
    told = leader.next_object(leads=True)
    follower = stage.start("clock", "--json")
    while (followed := follower.next_object())["time"] is None:
        assert not followed["leads"]
    assert followed["leader"] == told["leader"]
    assert followed["error"] >= 0
    assert followed["round_trip"] >= 0
    # Both are on this machine: they go by the same monotonic clock, so the truth is known.
    assert abs(followed["offset"] - told["offset"]) <= followed["error"] + 0.001  # two reads of clocks, not at once
    for command in (follower, leader):
        assert command.interrupt() == ExitCode.INTERRUPTED
        assert command.list_complaints() == []


def test_clock_in_words(stage: Stage) -> None:
    leader = stage.start("clock", "--lead")
    assert leader.next_line() == "no process leads it"
    while not (line := leader.next_line()).endswith(": this process leads it"):
        assert line == "no process leads it"
    follower = stage.start("clock")
    while not (line := follower.next_line()).endswith("leads it") or "error" not in line:
        pass
    assert line.split()[1:3] == ["s,", "offset"]


# Those who come and go


def test_monitor_tells_who_comes_and_goes(stage: Stage) -> None:
    monitor = stage.start("monitor", "--json")
    assert f"looks at {stage.ensemble}" in monitor.next_complaint()
    kitchen = stage.listen()
    process = monitor.next_object(event="process_found")["process"]
    found = monitor.next_object(event="service_found")
    assert (found["service"], found["process"]) == ("kitchen", process)
    assert kitchen.interrupt() == ExitCode.INTERRUPTED
    assert monitor.next_object(event="service_lost")["service"] == "kitchen"
    assert monitor.next_object(event="process_lost")["process"] == process
    assert monitor.interrupt() == ExitCode.INTERRUPTED
    assert monitor.list_complaints() == []


def test_monitor_tells_of_those_that_are_killed(stage: Stage) -> None:
    kitchen = stage.listen()
    clock = stage.start("clock", "--lead")
    monitor = stage.start("monitor")
    while not (line := monitor.next_line()).endswith(" is known"):
        pass
    leader = line.split()[-3]
    for command in (clock, kitchen):
        command.process.kill()
    gone = {monitor.next_line().split(maxsplit=1)[1] for _ in range(5)}
    assert {"service kitchen went", "service _cs went", f"clock of {leader} went; ours goes on"} <= gone
    assert f"process {leader} went" in gone


# Help


@pytest.mark.parametrize("words", [[], ["status"], ["send"], ["listen"], ["clock"], ["monitor"]], ids=str)
def test_help_has_examples_and_exit_codes(words: list[str]) -> None:
    done = run_command([GANDY, "bus", *words, "--help"], b"", os.environ, PATIENCE)
    text = done.stdout.decode()
    assert done.returncode == ExitCode.DONE
    assert f"\n    {' '.join(['gandy', 'bus', *words])}" in text.partition("Examples:")[2]
    assert "Exit codes:" in text
    assert "130  Ctrl-C" in text


@pytest.mark.parametrize("words", [["--help"], ["bus", "--help"], ["bus", "send", "--help"]], ids=str)
def test_help_does_not_load_the_bus(words: list[str]) -> None:
    code = (
        f"import sys; from gandy.cli.main import program; program({words}, standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    loaded = done.stdout.splitlines()[-1].split()
    assert not {"gandy.bus", "gandy.bus.wire.messages", "rich"} & set(loaded)
