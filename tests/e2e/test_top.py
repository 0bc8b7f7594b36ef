"""`gandy top` in a real terminal of 80 columns and 24 rows, beside a real crew."""

import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.crew import GANDY, PATIENCE, Crew
from tests.free_ports import find_port
from tests.terminals import COLUMNS, ROWS, Terminal, a_terminal

ESCAPE, ENTER, TAB, DOWN, BACKSPACE = "\x1b", "\r", "\t", "\x1b[B", "\x7f"


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        yield crew


@contextmanager
def a_top(crew: Crew, *words: str) -> Iterator[Terminal]:
    with a_terminal(GANDY, "top", *words, environment=crew.environment) as terminal:
        yield terminal


def find_row(lines: list[str], job: str) -> list[str]:
    """The cells of a job in the list."""
    found = (line.removeprefix("▸").split() for line in lines)
    return next((cells for cells in found if cells[:1] == [job]), [])


def test_numbers_are_right_while_a_job_runs(crew: Crew, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = crew.submit("--name", "gated", "--tasks", "5", f"while [ ! -e {gate} ]; do sleep 0.05; done")
    with a_top(crew) as top:
        lines = top.wait_shown("2 running, 0 assigned, 3 waiting", "2 of 2")
        assert len(lines) == ROWS
        assert find_row(lines, job) == [job, "running", "0", "%", "5", "0", "gated"]
        gate.touch()
        lines = top.wait_until(lambda lines: "finished" in find_row(lines, job))
        assert find_row(lines, job) == [job, "finished", "██████████", "100", "%", "5", "0", "gated"]
        top.wait_shown("0 running, 0 assigned, 0 waiting")
        top.press("q")
        assert top.wait_ended() == 0


def test_failed_task_is_explained_and_retried(crew: Crew, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    job = crew.submit(
        "--name",
        "planets",
        "--tasks",
        "30",
        f"[ {{task}} != 17 ] || [ -e {mended} ] || {{ echo no planet {{task}} >&2; exit 3; }}",
    )
    crew.run("job", "wait", job, code=1)
    with a_top(crew) as top:
        top.wait_shown(f"Job {job}: 1 of 30 tasks failed.")
        top.press(ENTER)
        lines = top.wait_shown("exit code 3: no planet 17  (task 17)")
        assert f"Job {job} planets is failed" in lines[1]
        assert "30 tasks: 29 finished, 1 failed" in lines
        assert "█" * 16 + "✗" + "█" * 13 in lines
        top.press("r")
        top.wait_shown(f"Retry job {job}? y/n")
        mended.touch()
        top.press("y")
        top.wait_shown(f"Job {job} planets is finished", "30 tasks: 30 finished", "█" * 30)
        top.press("q")
        assert top.wait_ended() == 0


def test_job_is_held_released_and_cancelled(crew: Crew) -> None:
    job = crew.submit("--name", "endless", "--tasks", "4", "sleep 1000")
    with a_top(crew) as top:
        top.wait_until(lambda lines: find_row(lines, job)[1:2] == ["running"])
        top.press("h")
        top.wait_shown(f"Hold job {job}? y/n")
        top.press("n")
        top.wait_gone("y/n")
        assert not crew.show("job", "show", job)[0]["held"]
        top.press("h", "y")
        top.wait_shown(f"job {job} is held")
        top.wait_until(lambda lines: find_row(lines, job)[1:2] == ["held"])
        assert crew.show("job", "show", job)[0]["held"]
        top.press("h", "y")
        top.wait_until(lambda lines: find_row(lines, job)[1:2] == ["running"])
        top.press("c", "y")
        top.wait_until(lambda lines: find_row(lines, job)[1:2] == ["cancelled"])
        top.press("c")
        top.wait_shown(f"job {job} has ended")
        top.press("q")
        assert top.wait_ended() == 0


def test_keys_go_from_view_to_view(crew: Crew) -> None:
    job = crew.submit("--name", "needle", "true")
    crew.run("job", "wait", job)
    with a_top(crew) as top:
        top.wait_until(lambda lines: find_row(lines, job))
        top.press("3")
        top.wait_shown("[3 Workers]", "0 of 2 slots", "60 s ago")
        top.press("4")
        top.wait_shown("[4 Calls]", "echo")
        top.press(TAB)
        top.wait_shown("[5 Foremen]", "foreman.sock", "asked")
        top.press(ESCAPE)
        top.wait_shown("[1 Overview]")
        top.press("?")
        top.wait_shown("retry the tasks of a job")
        top.press("j")
        top.wait_gone("retry the tasks of a job")
        top.press("/", *"need")
        lines = top.wait_shown("filter: need")
        assert len([line for line in lines if "finished" in line]) == 1
        top.press(BACKSPACE, *"zzz", ENTER)
        top.wait_shown("No job here has this")
        top.press(ESCAPE)
        top.wait_until(lambda lines: find_row(lines, job))
        top.press("2")
        top.wait_shown(f"Job {job} needle is finished")
        top.press("q")
        assert top.wait_ended() == 0


def has_keys_below(lines: list[str]) -> bool:
    """The last line of the screen, and no other, says what keys do."""
    return [line.startswith("↑↓ move ") for line in lines] == [False] * (len(lines) - 1) + [True]


def test_screen_follows_the_size_of_the_terminal(crew: Crew) -> None:
    with a_top(crew) as top:
        top.wait_shown("q quit")
        for rows, columns in ((40, 120), (10, 40), (ROWS, COLUMNS)):
            top.resize(rows, columns)
            lines = top.wait_until(has_keys_below)
            assert (len(lines), max(map(len, lines)) <= columns) == (rows, True)
        top.press("q")
        assert top.wait_ended() == 0


# The terminal afterwards


def check_left(top: Terminal) -> None:
    assert top.is_as_before
    assert top.written.count(b"\x1b[?1049h") == top.written.count(b"\x1b[?1049l")
    assert top.written.endswith(b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l")


@contextmanager
def a_shell(crew: Crew) -> Iterator[Terminal]:
    """A shell with its prompt, in which `gandy top` is started."""
    environment = {**crew.environment, "PS1": "prompt> ", "GANDY": GANDY}
    with a_terminal("/bin/bash", "--norc", "-i", environment=environment) as shell:
        shell.wait_shown("prompt>")
        shell.press("$GANDY top; echo exit code $?", ENTER)
        shell.wait_shown("[1 Overview]", "slots")
        yield shell


def test_q_leaves_the_screen_as_it_was(crew: Crew) -> None:
    with a_shell(crew) as shell:
        assert "prompt>" not in shell.text
        shell.press("q")
        lines = shell.wait_shown("exit code 0")
        assert lines[0] == "prompt> $GANDY top; echo exit code $?"
        assert "Overview" not in shell.text
        assert shell.is_as_before
        shell.press("echo typed", ENTER)  # keys are echoed again
        shell.wait_shown("prompt> echo typed")


def test_ctrl_c_leaves_the_screen_as_it_was(crew: Crew) -> None:
    with a_top(crew) as top:
        top.wait_shown("q quit")
        top.press("\x03")
        assert top.wait_ended() == 130
        check_left(top)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_the_screen_as_it_was(crew: Crew, number: signal.Signals) -> None:
    with a_top(crew) as top:
        top.wait_shown("q quit")
        os.kill(top.process.pid, number)
        assert top.wait_ended() == 128 + number
        check_left(top)


def test_terminal_gets_its_modes_back(crew: Crew) -> None:
    shell = f"{GANDY} top; echo exit code $?; read line"
    with a_terminal("/bin/sh", "-c", shell, environment=crew.environment) as top:
        top.wait_shown("q quit")
        assert not top.read_modes()[3] & termios.ECHO
        top.press("q")
        top.wait_shown("exit code 0")
        assert top.read_modes() == top.modes


def test_ctrl_z_without_a_shell_changes_nothing(crew: Crew) -> None:
    with a_top(crew) as top:
        top.wait_shown("q quit")
        top.press("\x1a", "3")
        top.wait_shown("[3 Workers]", "q quit")
        top.press("q")
        assert top.wait_ended() == 0
        check_left(top)


def test_ctrl_z_gives_the_terminal_back_until_fg(crew: Crew) -> None:
    with a_shell(crew) as shell:
        for _ in range(2):
            shell.press("\x1a")
            shell.wait_shown("Stopped")
            assert shell.is_as_before
            shell.press("fg", ENTER)
            shell.wait_shown("[1 Overview]", "q quit")
        shell.press("3")
        shell.wait_shown("[3 Workers]")
        shell.press("q")
        shell.wait_gone("[3 Workers]")
        assert shell.is_as_before


def test_exception_leaves_the_screen_as_it_was() -> None:
    lines = (
        "import os",
        "from gandy.cli.top.lines import make_line",
        "from gandy.cli.top.terminal import TopTerminal",
        "with TopTerminal(os.environ) as terminal:",
        "    terminal.draw([make_line('drawn')])",
        "    raise ValueError('wrong')",
    )
    with a_terminal(sys.executable, "-c", "\n".join(lines)) as terminal:
        assert terminal.wait_ended() == 1
        assert "drawn" in terminal.written.decode()
        assert "ValueError: wrong" in terminal.text
        assert "drawn" not in terminal.text
        assert terminal.is_as_before


# Without a terminal


def test_pipe_gets_one_screen_as_text(crew: Crew) -> None:
    job = crew.submit("--name", "piped", "true")
    crew.run("job", "wait", job)
    for words in (("top",), ("top", "--once")):
        done = crew.run(*words)
        assert done.stderr == b""
        assert b"\x1b" not in done.stdout
        assert find_row(done.stdout.decode().splitlines(), job)[1:2] == ["finished"]


def test_reader_may_stop_early(crew: Crew) -> None:
    done = subprocess.run(
        f"{GANDY} top | head -n 1", shell=True, env=crew.environment, capture_output=True, timeout=PATIENCE, check=True
    )
    assert done.stderr == b""
    assert len(done.stdout.splitlines()) == 1


def test_terminal_that_cannot_move_its_cursor_gets_text(crew: Crew) -> None:
    with a_terminal("/usr/bin/env", "TERM=dumb", GANDY, "top", environment=crew.environment) as terminal:
        assert terminal.wait_ended() == 0
        assert b"\x1b" not in terminal.written


def test_without_colours_states_are_told_by_words_and_marks(crew: Crew) -> None:
    environment = {**crew.environment, "NO_COLOR": "1"}
    with a_terminal(GANDY, "top", environment=environment) as top:
        top.wait_shown("q quit")
        top.press("q")
        assert top.wait_ended() == 0
        codes = {code for found in re.findall(rb"\x1b\[([\d;]*)m", top.written) for code in found.split(b";")}
        assert codes <= {b"0", b"1", b"2", b"7"}


def test_terminal_without_unicode_gets_ascii(crew: Crew) -> None:
    words = ("LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", GANDY, "top")
    with a_terminal("/usr/bin/env", *words, environment=crew.environment) as top:
        top.wait_shown("q quit")
        top.press("q")
        assert top.wait_ended() == 0
        assert top.written.isascii()


# Foremen that are away, and keys that may only look


def test_foreman_that_is_away_is_said_and_comes_back(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with a_top(crew) as top:
        top.wait_shown("Trying again: ")
        with crew.start("foreman", "run", stdout=subprocess.DEVNULL) as foreman:
            top.wait_gone("Trying again: ")
            first = crew.submit("--name", "first", "true")
            top.wait_until(lambda lines: find_row(lines, first)[1:2] == ["waiting"])
            foreman.kill()
            foreman.communicate(timeout=PATIENCE)
            top.wait_shown("Trying again: ")
        with crew.running("foreman", "run"), crew.running("worker", "run"):
            top.wait_gone("Trying again: ")
            top.wait_until(lambda lines: find_row(lines, first)[1:2] == ["finished"])
            top.press("q")
            assert top.wait_ended() == 0


def test_without_a_foreman_a_pipe_gets_an_error(tmp_path: Path) -> None:
    done = Crew(tmp_path).run("top", code=1)
    assert done.stdout == b""
    assert b"gandy: " in done.stderr


def test_observer_is_offered_no_changes(tmp_path: Path) -> None:
    crew, other = Crew(tmp_path / "first"), Crew(tmp_path / "second")
    with crew.running("foreman", "run", "--listen", f"tcp://127.0.0.1:{find_port()}"):
        job = crew.submit("true")
        token = crew.run("invite", "--observer", "--output", "quiet").stdout
        other.run("join", "-", data=token)
        with a_top(other) as top:
            lines = top.wait_until(lambda lines: find_row(lines, job))
            assert "hold" not in lines[-1]
            top.press("c")
            top.wait_shown("this key may look, and change nothing")
            top.press("q")
            assert top.wait_ended() == 0
