"""A command that is run as a fork does what its script does: the tests of commands rely on it."""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.crew import GANDY
from tests.forks import Forks, run_command
from tests.processes import list_descendants
from tests.waiting import until

from gandy.terminal.exits import ExitCode
from gandy.wire import v2
from gandy.wire.messages import Ok

Done = subprocess.CompletedProcess[bytes]
Run = Callable[..., Done]

PATIENCE = 60  # seconds
FRAME = v2.encode(2, Ok(17, 5)).hex().encode()

# A module with commands, which a worker imports when it starts.
PROBE = """
import json, os, signal, sys

def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

umask = os.umask(0)
files = {number: os.fstat(number).st_mode for number in range(3, 100) if is_open(number)}
seen = {
    "arguments": [sys.argv, sys.orig_argv[1:]],
    "path": sys.path,
    "folder": os.getcwd(),
    "umask": umask,
    "variables": dict(os.environ),
    "files": files,
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)],
    "tests": [name for name in sys.modules if name.partition(".")[0] in ("tests", "pytest")],
}
os.write(1, json.dumps(seen).encode())
os._exit(7)
"""


def run_script(words: list[str], data: bytes = b"", **variables: str) -> Done:
    environment = {**os.environ, **variables}
    return subprocess.run([GANDY, *words], input=data, capture_output=True, env=environment, check=False)


def run_fork(words: list[str], data: bytes = b"", **variables: str) -> Done:
    return run_command([GANDY, *words], data, {**os.environ, **variables}, PATIENCE)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--version", ExitCode.DONE),
        ("job --help", ExitCode.DONE),
        ("wire decode -", ExitCode.DONE),
        ("job list", ExitCode.FAILED),  # no foreman is there
        ("job dance", ExitCode.USAGE),
    ],
)
def test_a_fork_writes_what_the_script_writes_and_ends_like_it(tmp_path: Path, words: str, code: int) -> None:
    done, fork = (run(words.split(), FRAME, GANDY_HOME=str(tmp_path)) for run in (run_script, run_fork))
    assert (fork.returncode, fork.stdout, fork.stderr) == (done.returncode, done.stdout, done.stderr)
    assert fork.returncode == code


@pytest.fixture
def _another_folder_and_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_another_folder_and_umask")
def test_a_fork_finds_what_the_script_finds(tmp_path: Path) -> None:
    """Arguments, folder, umask, variables, open files, and signals."""
    (tmp_path / "probe.py").write_text(PROBE)

    def look(run: Run) -> dict[str, Any]:
        words = ["worker", "run", "--commands", "probe"]
        done = run(words, PYTHONPATH=str(tmp_path), GANDY_HOME=str(tmp_path), LINE="a b")
        assert done.returncode == 7, done
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    assert look(run_fork) == look(run_script)


@pytest.fixture
def _fewer_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_fewer_files")
def test_a_command_that_inherits_another_limit_than_the_server_is_run_by_its_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Forks, "run", None)
    assert run_fork(["--version"]).returncode == ExitCode.DONE


def test_a_command_with_other_settings_of_python_is_run_by_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forks, "run", None)
    assert b"import time:" in run_fork(["--version"], PYTHONPROFILEIMPORTTIME="1").stderr


def test_a_fork_that_is_killed_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    done = run_fork(["worker", "run", "--commands", "dies"], PYTHONPATH=str(tmp_path), GANDY_HOME=str(tmp_path))
    assert done.returncode == -signal.SIGKILL


def test_a_fork_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import signal; signal.pause()")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GANDY_HOME": str(tmp_path)}
    with closing(Forks()) as forks:
        with pytest.raises(subprocess.TimeoutExpired):
            forks.run([GANDY, "worker", "run", "--commands", "hangs"], b"", environment, timeout=0.1)
        until(lambda: not list_descendants(forks.pid))
