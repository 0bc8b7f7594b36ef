"""Bad input and input that is too much: a clear sentence, the right exit code, and a foreman that goes on."""

import hashlib
import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.crew import GANDY, PATIENCE, Crew
from tests.processes import read_memory

MEGABYTE = 1_000_000
LONG_LINE = 100 * MEGABYTE


class Pair(Crew):
    """A foreman and a worker, each in a process of its own."""

    foreman: subprocess.Popen[bytes]
    worker: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("home"))
    with pair.running("foreman", "run") as pair.foreman, pair.running("worker", "run", "--slots", "2") as pair.worker:
        yield pair


def read_error(crew: Crew, *words: str, code: int, data: bytes = b"") -> str:
    """What a command that fails says, without click's hints on usage."""
    done = crew.run(*words, code=code, data=data)
    assert done.stdout == b""
    return done.stderr.decode().splitlines()[-1]


# Options


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("submit",), "Missing COMMAND"),
        (("submit", "--tasks", "0", "true"), "'--tasks'"),
        (("submit", "--tasks", "many", "true"), "'--tasks'"),
        (("submit", "--tasks", "2", "--each-line", "-", "true"), "exclude each other"),
        (("submit", "--retries", "-1", "true"), "'--retries'"),
        (("submit", "--timeout", "soon", "true"), "'soon' is not a time"),
        (("submit", "--limit", "0", "true"), "'--limit'"),
        (("submit", "--slots", "0", "true"), "'--slots'"),
        (("submit", "--env", "X", "true"), "'X' is not of the form NAME=VALUE"),
        (("submit", "--after", "yesterday", "true"), "'--after'"),
        (("submit", "--output", "xml", "true"), "'xml' is not one of"),
        (("submit", "--colour", "true"), "--colour"),
        (("job", "show", "seven"), "'seven' is not a valid job number"),
        (("job", "show", "0"), "0 is not in the range"),
        (("job", "wait"), "Missing argument 'JOB...'"),
        (("job", "fly", "7"), "No such command 'fly'"),
        (("worker", "run", "--slots", "0"), "'--slots'"),
        (("worker", "run", "--slots", "70000"), "'--slots'"),
        (("foreman", "run", "--grace", "soon"), "'soon' is not a time"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_option_is_a_usage_error(tmp_path: Path, words: tuple[str, ...], error: str) -> None:
    assert error in read_error(Crew(tmp_path), *words, code=2)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("foreman", "run", "--store", "postgres:x"), "no store is called 'postgres:x'"),
        (("foreman", "run", "--store", "sqlite:/nowhere/jobs"), "/nowhere/jobs: cannot be locked"),
        (("foreman", "run", "--listen", "plain://127.0.0.1:0"), "--insecure"),
        (("foreman", "run", "--listen", "a/b", "--insecure"), "'a/b' is not an address"),
        (("foreman", "run", "--v1-listen", "tcp://127.0.0.1:0"), "--insecure"),
        (("worker", "run", "--foreman", "plain://127.0.0.1:1"), "--insecure"),
        (("worker", "run", "--foreman", "h:1"), "there is no key for tcp://h:1"),
        (("foreman", "run", "--v1-listen", "h:1"), "every program that reaches it can run commands"),
        (("worker", "run", "--foreman", "a/b"), "'a/b' is not an address"),
        (("status", "--foreman", "tcp://127.0.0.1:99999"), "is not an address"),
        (("up", "--store", "postgres:x"), "no store is called 'postgres:x'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_address_or_store_is_told(tmp_path: Path, words: tuple[str, ...], error: str) -> None:
    assert error in read_error(Crew(tmp_path), *words, code=1)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--tasks", "200000000", "true"), "1 to 100,000,000 tasks"),
        (("--slots", "70000", "true"), "1 to 65,534 slots"),
        (("--retries", "20000", "true"), "0 to 10,000"),
        (("--timeout", "0", "true"), "timeout"),
        (("--after", "9999", "true"), "there is no job 9999"),
        (("--", "true", "x" * 120_000, *["y" * 120_000] * 15), ""),
    ],
    ids=["tasks", "slots", "retries", "timeout", "after", "a long command"],
)
def test_job_beyond_the_limits_is_refused(pair: Pair, words: tuple[str, ...], error: str) -> None:
    if error:
        assert error in read_error(pair, "submit", *words, code=1)
    else:
        pair.submit("--wait", *words)
    pair.submit("--wait", "true")


@pytest.mark.parametrize("megabytes", [3, 9])
def test_command_that_is_too_long_to_run_keeps_no_other_from_it(tmp_path: Path, megabytes: int) -> None:
    """The kernel takes no such argument, and twice nine megabytes fit no frame. The crew must not choke on it."""
    crew = Crew(tmp_path)
    path = tmp_path / "job.toml"
    path.write_text(f'command = "true {"x" * megabytes * MEGABYTE}"\n')
    with crew.running("up", "--slots", "2"), crew.start("submit", "--wait", "--file", str(path)) as waiting:
        try:
            _, error = waiting.communicate(timeout=PATIENCE)
            assert (waiting.returncode, b"Traceback" in error) == (1, False)
            crew.submit("--wait", "true")
        finally:
            waiting.kill()


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("missing", None, "cannot read {}: No such file or directory"),
        ("folder/", None, "cannot read {}: Is a directory"),
        ("latin1", b"a\n\xe4\n", "{}, line 2: not UTF-8"),
        ("empty", b"", "{} is empty: there would be no tasks"),
    ],
    ids=["missing", "folder", "not UTF-8", "empty"],
)
def test_unreadable_lines_are_told(tmp_path: Path, name: str, content: bytes | None, error: str) -> None:
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    found = read_error(Crew(tmp_path), "submit", "--each-line", str(path), "true", code=2)
    assert found == f"Error: {error.format(path)}"


# Stores and sockets that others use


def test_second_foreman_on_a_store_is_refused(pair: Pair, tmp_path: Path) -> None:
    other = Crew(tmp_path)
    expected = f"gandy: {pair.home}/{{}}: another foreman uses it (process {pair.foreman.pid}); stop that one first"
    found = read_error(other, "foreman", "run", "--store", f"sqlite:{pair.home}/jobs.sqlite", code=1)
    assert found == expected.format("jobs.sqlite")
    assert read_error(pair, "foreman", "run", code=1) == expected.format("foreman.sock")
    assert read_error(pair, "foreman", "run", "--store", "memory:", code=1) == expected.format("foreman.sock")
    assert read_error(pair, "up", code=1) == expected.format("foreman.sock")
    pair.submit("--wait", "true")


def test_second_foreman_does_not_take_the_socket_of_the_first(tmp_path: Path) -> None:
    """With a store of its own, no lock of a store keeps it from being there."""
    crew = Crew(tmp_path)
    with crew.running("foreman", "run") as first, crew.start("foreman", "run", "--store", "memory:") as second:
        assert second.stderr is not None
        said = second.stderr.readline().decode()
        if not said.startswith("gandy: "):
            second.send_signal(signal.SIGINT)
        second.communicate(timeout=PATIENCE)
        assert f"{tmp_path}/foreman.sock" in said
        assert said.startswith("gandy: ")
        assert second.returncode == 1
        assert crew.show("status")[0]["pid"] == first.pid


def test_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        error = read_error(Crew(tmp_path), "foreman", "run", "--listen", url, code=1)
    assert error.startswith(f"gandy: cannot listen at {url}")


def test_home_that_is_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    crew = Crew(tmp_path / ("x" * 100))
    for words in (("foreman", "run"), ("up",), ("worker", "run"), ("status",)):
        assert "set GANDY_HOME to a shorter folder" in read_error(crew, *words, code=1)


def test_store_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    path = tmp_path / "jobs.sqlite"
    with crew.running("foreman", "run"):
        crew.submit("true")
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    before = path.read_bytes()
    assert f"{path}: version 999 is of a newer gandy" in read_error(crew, "foreman", "run", code=1)
    assert path.read_bytes() == before


def test_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    path.write_bytes(b"Dear diary, " * 1000)
    assert f"{path}: not a file of jobs" in read_error(Crew(tmp_path), "foreman", "run", code=1)
    assert path.read_bytes() == b"Dear diary, " * 1000


# Output and jobs of any size


def test_every_byte_of_output_comes_through(pair: Pair, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000 + b"\xc3"  # ends within a character
    path = tmp_path / "data"
    path.write_bytes(data)
    job = pair.submit("--wait", f"cat {path}; cat {path} >&2")
    assert pair.run("job", "output", job).stdout == data
    assert pair.run("job", "output", job, "--task", "1", "--stderr").stdout == data
    assert pair.run("job", "output", job, "--task", "1", "-f").stdout == data


def test_bytes_of_a_failed_task_do_not_break_the_tables(pair: Pair) -> None:
    job = pair.run("submit", "--output", "quiet", "--wait", r"printf '\377\033[2J\000' >&2; exit 1", code=1).stdout
    for words in (("explain",), ("show",), ("show", "--tasks"), ("show", "--tasks", "--output", "json")):
        shown = pair.run("job", *words, job.decode().strip()).stdout
        assert shown.decode()
        assert b"\x1b" not in shown


@pytest.mark.parametrize("stream", ["out", "err"])
def test_line_of_a_hundred_megabytes_does_not_fill_the_foreman(pair: Pair, stream: str) -> None:
    sink = " >&2" if stream == "err" else ""
    job = pair.submit("--wait", f"head -c {LONG_LINE} /dev/zero | tr '\\0' x{sink}")
    words = [GANDY, "job", "output", job, *(("--task", "1", "--stderr") if stream == "err" else ())]
    count, digest = 0, hashlib.sha256()
    with subprocess.Popen(words, env=pair.environment, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        while piece := reader.stdout.read(MEGABYTE):
            count += len(piece)
            digest.update(piece)
    assert reader.returncode == 0
    assert count == LONG_LINE
    assert digest.digest() == hashlib.sha256(b"x" * LONG_LINE).digest()
    assert read_memory(pair.foreman.pid, "VmHWM") < 200 * MEGABYTE
    assert read_memory(pair.worker.pid, "VmHWM") < 200 * MEGABYTE
    pair.run("job", "show", job, "--tasks")


def test_million_tasks_take_little_memory(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run") as foreman:
        crew.submit("--hold", "true")
        before = read_memory(foreman.pid, "VmRSS")
        job = crew.submit("--tasks", "1000000", "true")
        assert read_memory(foreman.pid, "VmRSS") - before < 50 * MEGABYTE
        (row,) = crew.show("job", "show", job)
        assert (row["tasks"], row["waiting"]) == (1_000_000, 1_000_000)
        crew.run("job", "cancel", job)
        assert crew.show("job", "show", job)[0]["cancelled"] == 1_000_000
        assert read_memory(foreman.pid, "VmHWM") - before < 50 * MEGABYTE


def test_million_tasks_are_taken_up_by_the_next_foreman(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run") as first:
        job = crew.submit("--tasks", "1000000", "true")
        first.kill()
        first.wait(PATIENCE)
        with crew.running("foreman", "run") as second:
            assert crew.show("job", "show", job)[0]["waiting"] == 1_000_000
            assert read_memory(second.pid, "VmHWM") < 100 * MEGABYTE


def test_reader_that_goes_away_is_met_quietly(pair: Pair) -> None:
    job = pair.submit("--wait", f"head -c {MEGABYTE} /dev/zero")
    line = f"{GANDY} job output {job} | head -c 1"
    done = subprocess.run(["sh", "-c", line], env=pair.environment, capture_output=True, timeout=PATIENCE, check=True)
    assert (done.stdout, done.stderr) == (b"\0", b"")


def test_environment_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    crew = Crew(path / "home")
    assert f"cannot make the folder {path}/home" in read_error(crew, "foreman", "run", code=1)
    crew.environment["GANDY_FOREMAN"] = f"unix:{os.devnull}"
    assert "gandy: no foreman is running at" in read_error(crew, "status", code=1)
