"""Words become commands, and whatever is none is named."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gandy.doors.roundrobin.console.screen import Screen
from gandy.doors.roundrobin.console.shell import INTERRUPTED, ConsoleCommand, Shell, run_console
from gandy.doors.roundrobin.console.waiting import SIGNALS
from gandy.doors.roundrobin.console.words import Words


class Stage:
    """A shell with two commands."""

    def __init__(self, *lines: str, is_terminal: bool = False) -> None:
        self.done: list[object] = []
        rest: Iterator[str] = iter(lines)
        self.screen = Screen(1)
        words = Words(lambda: next(rest, None), is_terminal)
        commands = {
            "wink": ConsoleCommand(lambda: self.done.append("wink"), "Close an eye."),
            "jump": ConsoleCommand(self.done.append, "Leave the ground.", needs_count=True),
            "stop": ConsoleCommand(self._stop, "Be interrupted."),
        }
        self.shell = Shell(self.screen, words, commands)

    def _stop(self) -> None:
        signal.raise_signal(signal.SIGINT)

    def run(self) -> int:
        code = self.shell.run()
        self.screen.flush()
        return code


def test_commands_run_until_quit_and_not_behind_it() -> None:
    stage = Stage("wink wink\n", "jump 3 quit wink")
    assert stage.run() == 0
    assert stage.done == ["wink", "wink", 3]


def test_end_of_input_is_quit() -> None:
    assert Stage().run() == 0


def test_unknown_words_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    Stage("da\x1bce wink " + "x" * 100).run()
    assert capfd.readouterr().err == f"unknown command: da?ce; try help\nunknown command: {'x' * 40}; try help\n"


@pytest.mark.parametrize("word", ["0", "-3", "many", "100001", "9" * 30, "1e2", "\u0661"])
def test_number_that_makes_no_sense_is_named(capfd: pytest.CaptureFixture[str], word: str) -> None:
    stage = Stage(f"jump {word} wink")
    assert stage.run() == 0
    assert capfd.readouterr().err == f"jump needs a number from 1 to 100,000, as in: jump 100; {word} is not one\n"
    assert stage.done == ["wink"]


def test_missing_number_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    stage = Stage("jump wink jump")
    assert stage.run() == 0
    assert capfd.readouterr().err == "jump needs a number, as in: jump 100\n" * 2
    assert stage.done == ["wink"]


def test_help_has_a_line_for_each_command(capfd: pytest.CaptureFixture[str]) -> None:
    Stage("help").run()
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["wink", "jump", "stop", "help", "quit"]
    assert lines[1] == "  jump N      Leave the ground."


@pytest.fixture
def signals() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    SIGNALS.install()
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_interrupt_ends_a_command_at_a_terminal_and_the_rest_of_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    stage = Stage("stop wink\n", "jump 1\n", is_terminal=True)
    assert stage.run() == 0
    assert stage.done == [1]
    assert capfd.readouterr().err == "\nstop was interrupted\n"


@pytest.mark.usefixtures("signals")
def test_interrupt_ends_a_console_over_a_pipe() -> None:
    stage = Stage("stop wink\n", "wink")
    assert stage.run() == INTERRUPTED
    assert stage.done == []


class Broken:
    """A console that ends while it starts."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    @property
    def commands(self) -> dict[str, ConsoleCommand]:
        raise RuntimeError("no commands")

    def close(self) -> None:
        self._log.append("closed")


@pytest.mark.usefixtures("signals")
def test_console_is_closed_whatever_happens(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.raises(RuntimeError):
        run_console("CLIENT", 0, str(tmp_path), lambda _screen: Broken(log))
    assert log == ["closed"]
