"""The three consoles as real processes, on terminals and over pipes: the example of the original, and failures."""

import os
import re
import signal
import socket
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from pexpect.popen_spawn import PopenSpawn

GANDY = str(Path(sysconfig.get_path("scripts")) / "gandy")

# Seconds until a console that does not answer counts as hung. Nothing here is measured.
PATIENCE = 60

ROW = re.compile(r"worker_table\[ *(\d+)\] = \{ address = (\S+) free_slots = (\d+) \}")

# Python 3.12 and newer do not like terminals in a process that has threads, and these tests do nothing else.
pytestmark = pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")


class Console:
    """One of them, with a terminal to type and read."""

    def __init__(self, home: Path, words: list[str], on_terminal: bool) -> None:
        self._on_terminal = on_terminal
        self._marks = 0
        environment: Any = {**os.environ, "GANDY_HOME": str(home), "TERM": "xterm", "COLUMNS": "150"}
        command = [GANDY, "console", *words]
        if on_terminal:
            self.process: Any = pexpect.spawn(
                command[0], command[1:], env=environment, encoding="utf-8", timeout=PATIENCE, dimensions=(50, 200)
            )
            self.process.delaybeforesend = None
        else:
            # SIGINT is ignored in what a shell started in the background, and children inherit that.
            restore: Callable[[], Any] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
            self.process = PopenSpawn(command, env=environment, encoding="utf-8", timeout=PATIENCE, preexec_fn=restore)

    def expect(self, pattern: str) -> "re.Match[str]":
        """Wait for it to be written."""
        self.process.expect(pattern)
        match: re.Match[str] = self.process.match
        return match

    def say(self, line: str) -> None:
        self.process.send(line + "\n")

    def ask(self, line: str) -> str:
        """What is written until the commands of a line are done."""
        self._marks += 1
        self.say(f"{line} end{self._marks}")
        self.expect(f"unknown command: end{self._marks}; try help")
        written: str = self.process.before
        return written

    def list_workers(self) -> list[tuple[str, int]]:
        rows = ROW.findall(self.ask("workers"))
        assert [int(at) for at, _, _ in rows] == list(range(len(rows)))
        return [(address, int(free)) for _, address, free in rows]

    def until_workers(self, count: int) -> None:
        """Until so many are there, and have all their slots: those come back a moment after the responses."""
        deadline = time.monotonic() + PATIENCE
        while [free for _, free in self.list_workers()] != [10] * count:
            assert time.monotonic() < deadline, self.list_workers()

    def wait(self) -> int:
        """Until it ends by itself; gives the exit code."""
        self.until_end()
        if self._on_terminal:
            self.process.close()
            assert self.process.signalstatus is None
            return int(self.process.exitstatus)
        return self._close_pipes()

    def until_end(self) -> str:
        self.process.expect(pexpect.EOF)
        written: str = self.process.before
        assert "Traceback" not in written
        return written

    def end(self) -> None:
        """Whatever state it is in."""
        if self._on_terminal:
            self.process.close(force=True)
        else:
            self.process.proc.kill()
            self._close_pipes()

    def _close_pipes(self) -> int:
        with self.process.proc as proc:  # closes the pipes, and waits
            pass
        return int(proc.returncode)

    def interrupt(self, pattern: str) -> None:
        """Ctrl-C, until this is written. One that comes in the moment when Python begins to read is not heard."""
        for _ in range(6):
            self.process.sendintr()
            if self.process.expect([pattern, pexpect.TIMEOUT], timeout=PATIENCE / 6) == 0:
                return
        raise AssertionError(f"Ctrl-C was not heard: {self.process.before}")

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.process.pid, number)


class Stage:
    """Consoles that find each other."""

    def __init__(self, home: Path, on_terminal: bool = False) -> None:
        self.home = home
        self._on_terminal = on_terminal
        self._consoles: list[Console] = []
        self.address = "tcp://127.0.0.1:0"

    def start(self, role: str, level: int = 1, *words: str) -> Console:
        console = Console(self.home, [role, "-d", str(level), "--address", self.address, *words], self._on_terminal)
        self._consoles.append(console)
        return console

    def start_server(self, level: int = 1) -> Console:
        server = self.start("server", level, "--insecure")
        self.address = server.expect(r"SERVER: Listening at (\S+)")[1]
        server.expect("SERVER: Up and running!")
        return server

    def start_all(self, level: int = 1) -> tuple[Console, Console, Console]:
        return self.start_server(level), self.start("worker", level), self.start("client", level)

    def end(self) -> None:
        for console in self._consoles:
            console.end()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Over pipes."""
    stage = Stage(tmp_path)
    yield stage
    stage.end()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, on_terminal=True)
    yield stage
    stage.end()


def walk_through(server: Console, worker: Console, client: Console) -> None:
    """The example in the document of the original, line by line."""
    worker.say("register")
    worker.expect("WORKER: Registered with server")
    assert [free for _, free in server.list_workers()] == [10]

    client.say("pingt")
    number = client.expect(r"CLIENT: Successfully received ID: (\S+)")[1]
    worker.expect(f"WORKER: PING id = {re.escape(number)}")
    worker.expect("WORKER: Sending INCREMENT message...")
    client.say("ping")
    worker.expect("WORKER: Sending INCREMENT message...")

    worker.say("bulk")
    worker.expect("WORKER: Creating 10 worker threads for bulk test...")
    for child in range(1, 11):
        worker.expect(f"WORKER #{child:05d} REPORTING IN")
    worker.expect("WORKER: Minions created!")
    server.until_workers(11)  # ten children and their parent
    assert len(set(server.list_workers())) == 11

    check_bulk_ping(client)
    check_bulk_data(client)
    server.until_workers(11)

    worker.say("endbulk")
    worker.expect("WORKER: Shutting down all bulk worker threads...")
    worker.expect("WORKER: Done with bulk test.")
    server.until_workers(1)
    worker.say("deregister")
    worker.expect("WORKER: Deregistered")
    assert "No workers are registered." in server.ask("workers")

    for console, role in ((worker, "WORKER"), (server, "SERVER"), (client, "CLIENT")):
        console.say("quit")
        console.expect(f"{role}: Shutting down...")
        console.expect(f"{role}: Finished.")
        assert console.wait() == 0


def check_bulk_ping(client: Console) -> None:
    written = client.ask("bulkping 100").replace("\r\n", "\n")
    assert "CLIENT: Starting bulk PING test\nCLIENT: 100 tests\nCLIENT: 1 of 100 completed" in written
    assert f"CLIENT: 91 of 100 completed{'-' * 20}\nCLIENT: Submitted all PING jobs; opque holds 9\n" in written
    assert f"CLIENT: PING 100 of 100 completed{'-' * 20}\n" in written
    summary = "type\t# total\t# success\n----\t-------\t---------\nPING\t    100\t      100\n"
    assert f"CLIENT: BULK TEST DONE - RESULTS:\n{summary}" in written


def check_bulk_data(client: Console) -> None:
    written = client.ask("bulkdata 100").replace("\r\n", "\n")
    assert "CLIENT: Starting bulk STREAM test\nCLIENT: 100 tests\nCLIENT: Submitted all STREAM jobs" in written
    assert f"CLIENT: STREAM 100 of 100 completed{'-' * 18}\n" in written
    summary = "type\t# total\t# success\n----\t-------\t---------\nSTREAM\t    100\t      100\n"
    assert f"CLIENT: BULK TEST DONE - RESULTS:\n{summary}" in written


def test_walkthrough_of_seed_002_on_terminals(terminals: Stage) -> None:
    consoles = terminals.start_all()
    for console in consoles:
        console.expect("> ")
    walk_through(*consoles)


def test_walkthrough_of_seed_002_over_pipes(stage: Stage) -> None:
    server, worker, client = stage.start_all()
    walk_through(server, worker, client)


def test_higher_levels_tell_of_messages_and_connections(stage: Stage) -> None:
    server, worker, client = stage.start_all(level=5)
    worker.say("register bulk")
    worker.expect("Minions created")
    client.say("bulkping 22 data quit")
    client.expect("CLIENT: out '' \\| LMQv100 \\| 04 \\| [0-9a-f]{16} \\| 01 \\| ''")
    client.expect("CLIENT: Successfully received 1024 bytes")
    client.expect("Command Stats for")
    client.expect("TRACKEXEC: +0 +23\r?\n")
    client.expect("RESPONSE: +23 +0\r?\n")
    worker.say("endbulk quit")
    written = worker.until_end()
    assert written.count("Command Stats for") == 11
    assert written.count("TRACKEXEC:        2           1") + written.count("TRACKEXEC:        3           1") == 11
    server.say("quit")
    server.expect("Command Stats for")
    assert server.wait() == 0


def test_line_that_comes_while_the_user_types_leaves_what_was_typed(terminals: Stage) -> None:
    server = terminals.start_server()
    server.expect("> ")
    server.process.send("work")
    server.expect("work")
    worker = terminals.start("worker")
    worker.say("register")
    server.expect("SERVER: Registered worker .*\r\n> work")
    server.say("ers")
    server.expect(ROW.pattern)


def test_interrupt_is_for_what_was_typed_or_runs_and_then_for_the_console(terminals: Stage) -> None:
    terminals.start_server()
    client = terminals.start("client")
    client.expect("> ")
    client.process.send("pingt")
    client.expect("pingt")
    client.interrupt("> ")
    client.say("bulkping 5")  # there is no worker: it would take its time
    client.expect("opque holds 5")
    client.process.sendintr()
    client.expect("bulkping was interrupted\r\n")
    client.expect("> ")
    client.interrupt("CLIENT: Finished.")
    assert client.wait() == 130


def test_lines_are_remembered_for_the_next_console(terminals: Stage) -> None:
    for line in ("nothing", "\x10"):  # Ctrl-P
        client = terminals.start("client", 0)
        client.expect("> ")
        client.say(line)
        client.expect("unknown command: nothing")
        client.expect("> ")
        client.process.sendeof()
        assert client.wait() == 0


@pytest.mark.parametrize("role", ["server", "worker", "client"])
def test_end_of_input_is_quit_and_unknown_words_are_named(stage: Stage, role: str) -> None:
    console = stage.start_server() if role == "server" else stage.start(role)
    console.say("dance help")
    console.expect("unknown command: dance; try help")
    console.expect("help +Show this list")
    console.process.sendeof()
    console.expect(f"{role.upper()}: Finished.")
    assert console.wait() == 0


def test_words_count_and_not_lines(stage: Stage) -> None:
    _, worker, client = stage.start_all(level=1)
    worker.say("register")
    worker.expect("WORKER: Registered")
    client.say("bulkping\n\n  3 bulkping quit")
    client.expect("PING\t      3\t        3")
    client.expect("bulkping needs a number, as in: bulkping 100")
    assert client.wait() == 0


def test_bulk_needs_a_registered_parent_and_can_be_done_again(stage: Stage) -> None:
    server, worker = stage.start_server(), stage.start("worker")
    assert "Parent worker needs to be registered first." in worker.ask("bulk")
    assert "There are no bulk worker threads" in worker.ask("endbulk")
    assert "Not registered." in worker.ask("deregister")
    worker.say("register")
    for _ in range(2):
        assert "Minions created!" in worker.ask("bulk")
        assert "there already" in worker.ask("bulk")
        server.until_workers(11)
        assert "Done with bulk test." in worker.ask("endbulk")
        server.until_workers(1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_worker_that_leaves_deregisters_with_its_children(stage: Stage, number: signal.Signals) -> None:
    server, worker = stage.start_server(), stage.start("worker")
    worker.ask("register bulk")
    server.until_workers(11)
    worker.kill(number)
    assert worker.wait() == (130 if number == signal.SIGINT else 0)
    server.until_workers(0)


def test_worker_registers_again_by_itself_with_the_next_server(stage: Stage) -> None:
    server, worker, client = stage.start_all()
    worker.ask("register bulk")
    server.until_workers(11)
    server.kill()
    server.until_end()
    server = stage.start_server()
    worker.expect("WORKER: Registered again with server")
    server.until_workers(11)
    client.say("pingt")
    client.expect("Successfully received ID")


def test_messages_wait_for_a_worker(stage: Stage) -> None:
    server, worker, client = stage.start_all()
    client.say("bulkdata 2")
    server.expect(r"SERVER: No workers registered. Message added to queue. Current queue length = 2")
    worker.say("register")
    client.expect("STREAM\t      2\t        2")


@pytest.fixture
def held() -> Iterator[socket.socket]:
    """A port that no other program gets."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def test_server_says_that_its_address_is_taken(stage: Stage, held: socket.socket) -> None:
    held.listen()
    stage.address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
    server = stage.start("server", 1, "--insecure")
    server.expect("gandy: cannot listen at tcp://127.0.0.1:[0-9]+: another program does")
    assert server.wait() == 1


def test_without_a_server_everything_ends_with_a_clear_sentence(stage: Stage, held: socket.socket) -> None:
    stage.address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
    client, worker = (stage.start(role, 0, "--timeout", "0.5s") for role in ("client", "worker"))
    for line, name in (("pingt", "PING"), ("ping", "PING"), ("data", "RR_STREAM"), ("bulkping 3", "PING")):
        client.say(line)
        told = f"CLIENT: Failed sending {name} request to server at {stage.address} - error = 20"
        client.expect(re.escape(f"{told}: no server answered there within 0.5 s."))
    worker.say("register")
    worker.expect("WORKER: Failed sending REGISTER request to server at .*: no answer came within 0.5 s.")
    assert "Parent worker needs to be registered first." in worker.ask("bulk")
    for console in (client, worker):
        console.say("quit")
        assert console.wait() == 0


def test_failure_is_told_with_its_reason(stage: Stage) -> None:
    """A request that no worker takes in time."""
    stage.start_server()
    client = stage.start("client", 0, "--timeout", "0.5s")
    while "Failed" in client.ask("ping"):  # until it has found the server
        pass
    assert "error = 20: no answer came in time" in client.ask("pingt")
    written = client.ask("bulkdata 3")
    assert "STREAM\t      3\t        0" in written
    assert "CLIENT: 3 failed, 3 of them like this: no answer came in time" in written


def test_level_is_required(stage: Stage) -> None:
    for words in ([], ["-d"], ["-d", "loud"], ["-d", "-1"]):
        console = Console(stage.home, ["client", *words], on_terminal=False)
        assert console.wait() == 2
