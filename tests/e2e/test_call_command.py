"""`gandy call`, and commands of workers from the command line, with real processes."""

import json
import os
import pty
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.kitchens import SOON, Kitchen, a_kitchen, read_lines
from tests.waiting import until

import gandy
from gandy.terminal.exits import ExitCode


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kitchen]:
    with a_kitchen(tmp_path_factory.mktemp("home"), slots=4) as kitchen:
        yield kitchen


# What is printed


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["ping"], b"pong\n"),
        (["--json", "ping"], b'"pong"\n'),
        (["add", "1", "2"], b"3\n"),
        (["add", "one", "two"], b"onetwo\n"),
        (["add", '"1"', '"2"'], b"12\n"),
        (["add", "[1]", '[{"a": null}]'], b'[1, {"a": null}]\n'),
        (["echo", "--", "-5"], b"-5\n"),
        (["echo", "--", "--json"], b"--json\n"),
        (["echo", "ü"], "ü\n".encode()),
        (["--json", "echo", "ü"], '"ü"\n'.encode()),
        (["echo", "null"], b"null\n"),
        (["echo", "[" * 100_000], b"[" * 100_000 + b"\n"),  # no JSON, but a text
        (["make", "3"], b"xxx"),
        (["make", "3", "--json"], b'"eHh4"\n'),
        (["square", "3", "--timeout", "1min"], b"[9, "),
        (["--stream", "count", "3"], b"0\n1\n2\n"),
        (["--stream", "count", "0"], b""),
        (["--stream", "stream", "5"], b"\1" * 5),
        (["--stream", "--json", "stream", "5"], b'"AQEBAQE="\n'),
        (["--all", "add", "1", "2"], b"w1: 3\n"),
        (["--all", "ping"], b'w1: "pong"\n'),
        (["--cast", "add", "1", "2"], b""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_value_is_printed(kitchen: Kitchen, words: list[str], printed: bytes) -> None:
    done = kitchen.run("call", *words)
    assert done.stdout.startswith(printed) if printed == b"[9, " else done.stdout == printed
    assert done.stderr == b""


ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b1m"
SPELLED = rb"\x1b[2J\x1b]0;title\x07\x9b1m"


def read_terminal(kitchen: Kitchen, *words: str) -> bytes:
    """What a command prints to a terminal."""
    ours, theirs = pty.openpty()
    try:
        with kitchen.start(*words, stdout=theirs, stderr=theirs) as process:
            process.wait(PATIENCE)
        return os.read(ours, 65_536)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    "words",
    [
        ("call", "echo", ESCAPES),
        ("call", "--stream", "echo", ESCAPES),
        ("call", "fail", ESCAPES),
        ("call", "--all", "fail", ESCAPES),
        ("call", "no\x1b[2J\x1b]0;title\x07\x9b1m"),
    ],
    ids=["value", "stream", "error", "errors of all", "name"],
)
def test_no_terminal_obeys_what_a_worker_says(kitchen: Kitchen, words: tuple[str, ...]) -> None:
    printed = read_terminal(kitchen, *words)
    assert SPELLED in printed
    assert b"\x1b[2J" not in printed


def test_a_pipe_gets_values_as_they_are(kitchen: Kitchen) -> None:
    assert kitchen.run("call", "echo", ESCAPES).stdout == ESCAPES.encode() + b"\n"


def test_cast_runs(kitchen: Kitchen, tmp_path: Path) -> None:
    book = tmp_path / "book"
    kitchen.run("call", "--cast", "write", str(book), "was here")
    until(lambda: read_lines(book) == ["was here"])


def test_all_tells_each_worker(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen:
        kitchen.hire("w2")
        first, second = kitchen.workers
        told = f"w1: {first.busy_pid}\nw2: {second.busy_pid}\n"
        assert kitchen.run("call", "--all", "get_pid").stdout.decode() == told
        failed = kitchen.run("call", "--all", "fail", "no", code=1)
        assert failed.stderr == b"gandy: w1: ValueError: no\ngandy: w2: ValueError: no\n"


def test_stream_is_printed_as_it_comes(kitchen: Kitchen, tmp_path: Path) -> None:
    """And ends on the worker when its reader goes."""
    book = tmp_path / "book"
    with kitchen.start("call", "--stream", "--json", "endless", str(book), "3") as reader:
        assert reader.stdout is not None
        assert [reader.stdout.readline() for _ in range(3)] == [b'"eHh4"\n'] * 3
        reader.stdout.close()
        assert reader.wait(PATIENCE) == ExitCode.CLOSED_PIPE
    until(lambda: read_lines(book)[-1:] == ["closed"])


def test_interrupt_ends_the_call(kitchen: Kitchen, tmp_path: Path) -> None:
    book = tmp_path / "book"
    with kitchen.start("call", "hold_async", str(book), str(tmp_path / "never")) as caller:
        until(lambda: read_lines(book) == ["began"])
        caller.send_signal(signal.SIGINT)
        _, said = caller.communicate(timeout=PATIENCE)
        assert (caller.returncode, b"Traceback" in said) == (ExitCode.INTERRUPTED, False)
    until(lambda: read_lines(book) == ["began", "cancelled", "ended"])


# What goes wrong


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["fail", "no"], 1, "gandy: ValueError: no\n"),
        (["add", "1"], 1, "missing 1 required positional argument"),
        (["count", "3"], 1, "gandy: TypeError: count returns a stream: use stream()\n"),
        (["crash"], 1, "its process died"),
        (["give_object"], 1, "the value of give_object cannot be sent as msgpack"),
        (["--timeout", "0.2", "hold_async", "{tmp}/book", "{tmp}/never"], 1, "gandy: hold_async did not end in time\n"),
        (["--foreman", "unix:{tmp}/nobody", "ping"], 1, "start one with 'gandy up'"),
        (["--stream", "--cast", "ping"], 2, "--stream, --cast and --all exclude each other"),
        (["--all", "--cast", "ping"], 2, "exclude each other"),
        (["--timeout", "soon", "ping"], 2, "'soon' is not a time"),
        (["--wiat", "ping"], 2, "No such option"),
        ([], 2, "Missing argument 'NAME'"),
        ([""], 2, "a command's name has 1 to 255 bytes"),
        (["x" * 256], 2, "a command's name has 1 to 255 bytes"),
        (["echo", "9" * 30], 2, "cannot be sent"),
        (["echo", '"\\ud800"'], 2, "cannot be sent"),
        (["echo", os.fsdecode(b"dish-\xe9")], 2, "cannot be sent"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_goes_wrong_is_told_in_one_line(
    kitchen: Kitchen, tmp_path: Path, words: list[str], code: int, told: str
) -> None:
    done = kitchen.run("call", *(word.replace("{tmp}", str(tmp_path)) for word in words), code=code)
    assert done.stdout == b""
    assert told in done.stderr.decode()


def test_error_in_a_stream_comes_after_its_values(kitchen: Kitchen) -> None:
    done = kitchen.run("call", "--stream", "count_and_fail", "3", code=1)
    assert (done.stdout, done.stderr) == (b"0\n1\n2\n", b"gandy: ValueError: no more\n")


# Workers


def test_list_of_workers_tells_commands_and_calls(kitchen: Kitchen, tmp_path: Path) -> None:
    book, path = tmp_path / "book", tmp_path / "go"
    (row,) = kitchen.show("worker", "list")
    assert {"ping", "echo", "stream", "add", "square"} <= set(row["commands"])
    assert row["commands"] == sorted(row["commands"])
    kitchen.run("call", "--cast", "hold", str(book), str(path))
    until(lambda: read_lines(book) == ["began"])
    assert [row["calls"] for row in kitchen.show("worker", "list")] == [1]
    path.touch()
    until(lambda: [row["calls"] for row in kitchen.show("worker", "list")] == [0])
    table = kitchen.run("worker", "list").stdout.decode()
    assert "COMMANDS" in table
    assert "count_async" in table


MODULES = {
    "menu": "import gandy\nlunch = gandy.Worker()\n@lunch.command\ndef soup(): return 'soup'\n",
    "two": (
        "import gandy\nlunch, dinner = gandy.Worker(), gandy.Worker()\n"
        "@lunch.command\ndef soup(): return 'soup'\n@dinner.command\ndef rice(): return 'rice'\n"
    ),
    "same": "from menu import lunch\nalso = lunch\n",
    "without": "worker = 1\n",
    "broken": "def (:\n",
    "raising": "1 / 0\n",
    "importing": "import nothing_of_the_kind\n",
    "wrong": "import gandy\nworker = gandy.Worker()\nworker.command(slots=0)(print)\n",
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("places", "offered"),
    [
        (["menu"], ["soup"]),
        (["menu:lunch"], ["soup"]),
        (["same"], ["soup"]),
        (["two:dinner", "menu"], ["rice", "soup"]),
        ([], []),
    ],
    ids=str,
)
def test_worker_offers_the_commands_of_modules(
    tmp_path: Path, modules: Path, places: list[str], offered: list[str]
) -> None:
    with a_kitchen(tmp_path) as kitchen:
        kitchen.environment["PYTHONPATH"] = str(modules)
        words = [word for place in places for word in ("--commands", place)]
        with kitchen.running("worker", "run", "--name", "w1", *words):
            kitchen.until_offered("ping")
            assert set(kitchen.list_offers("w1")) == {"ping", "echo", "stream", "rr_stream", *offered}
            for name in offered:
                assert kitchen.run("call", name).stdout.decode() == f"{name}\n"


def test_modules_are_found_where_the_worker_is_started(tmp_path: Path, modules: Path) -> None:
    """Also by its processes."""
    with a_kitchen(tmp_path) as kitchen, gandy.Client(kitchen.address) as client:
        text = "import gandy\nw = gandy.Worker()\n@w.command(isolate=True)\ndef alone():\n    return 'alone'\n"
        (tmp_path / "local.py").write_text(text)
        del kitchen.environment["PYTHONPATH"]
        said = ("worker", "run", "--name", "w1", "--commands", "local")
        with kitchen.start(*said, cwd=tmp_path) as worker:
            try:
                assert client.call("alone", timeout=SOON) == "alone"
            finally:
                worker.terminate()
                worker.communicate(timeout=PATIENCE)


def test_up_offers_commands_too(tmp_path: Path, modules: Path) -> None:
    crew = Crew(tmp_path)
    crew.environment["PYTHONPATH"] = str(modules)
    with crew.running("up", "--slots", "2", "--reserve", "1", "--commands", "menu"):
        assert crew.run("call", "soup").stdout == b"soup\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--commands", "nothing_of_the_kind"], 1, "cannot import nothing_of_the_kind"),
        (["--commands", "importing"], 1, "cannot import importing: No module named 'nothing_of_the_kind'"),
        (["--commands", "without"], 1, "without has no gandy.Worker"),
        (["--commands", "without:worker"], 1, "without has no gandy.Worker called worker"),
        (["--commands", "two"], 1, "two has several workers (dinner, lunch): say MODULE:NAME"),
        (["--commands", "two:lynch"], 1, "two has no gandy.Worker called lynch"),
        (["--commands", "wrong"], 1, "a call takes at least one slot, not 0"),
        (["--commands", "broken"], 1, "cannot import broken: "),
        (["--commands", "raising"], 1, "cannot import raising: "),
        (["--commands", ""], 1, "cannot import"),
        (["--commands", "..menu"], 1, "cannot import"),
        (["--slots", "2", "--reserve", "2"], 1, "can reserve 0 to 1 of them for calls, not 2"),
        (["--reserve", "-1"], 2, "Invalid value for '--reserve'"),
    ],
    ids=str,
)
def test_worker_that_cannot_offer_its_commands_says_why(
    kitchen: Kitchen, modules: Path, words: list[str], code: int, told: str
) -> None:
    before = kitchen.environment["PYTHONPATH"]
    kitchen.environment["PYTHONPATH"] = str(modules)
    try:
        assert told in kitchen.run("worker", "run", *words, code=code).stderr.decode()
    finally:
        kitchen.environment["PYTHONPATH"] = before


def test_values_are_json_that_programs_can_read(kitchen: Kitchen) -> None:
    lines = kitchen.run("call", "--stream", "--json", "count_async", "3").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [0, 1, 2]
    assert sys.maxsize == json.loads(kitchen.run("call", "echo", str(sys.maxsize)).stdout)


@pytest.mark.parametrize("words", [["--all"], ["--stream"], []], ids=str)
def test_command_that_no_worker_offers_is_reported(kitchen: Kitchen, words: list[str]) -> None:
    done = kitchen.run("call", *words, "dance", code=1)
    assert (done.stdout, done.stderr) == (b"", b"gandy: no worker offers the command dance\n")
