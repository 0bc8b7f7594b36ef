"""The fixture `gandy_crew` as its users have it: in a pytest of their own."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from tests.e2e.crew import PATIENCE
from tests.snippets import list_snippets


def run_tests(folder: Path, *options: str, code: int = 0) -> str:
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-q", *options]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    environment.pop("PYTEST_ADDOPTS", None)
    (folder / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=3 * PATIENCE, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert list((folder / "tmp").glob("gandy-*")) == []
    return done.stdout


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    snippets = list_snippets("how-to/test-your-program.md")
    for snippet in snippets:
        (tmp_path / snippet.file).write_text(snippet.code)
    (tmp_path / "pytest.ini").touch()
    assert f"{sum(snippet.code.count('def test_') for snippet in snippets)} passed" in run_tests(tmp_path)
    assert (tmp_path / "crew.log").exists()


TESTS = """
import os
import signal

import pytest
from gandy import Client, Executor
from gandy.errors import CrewFailed
from helper import double

seen = []


class Trouble(Exception):
    pass


def fail():
    raise Trouble("on purpose")


def test_a_crew_is_there(gandy_crew):
    seen.append((gandy_crew.address, gandy_crew.submit("sleep 600").id))
    assert gandy_crew.run(double, 2).result() == 4
    with Executor() as executor, pytest.raises(Trouble):
        executor.submit(fail).result()
    gandy_crew.run(os.system, "sleep 600")


def test_the_next_test_gets_it_without_jobs(gandy_crew):
    with Client() as client:
        assert client.address == seen[0][0]
        assert list(client.jobs()) == []
        assert client.submit("true").id > seen[0][1]
    assert gandy_crew.map(len, ["ab"]).__next__() == 2


def test_it_may_be_killed(gandy_crew):
    os.kill(gandy_crew.status().pid, signal.SIGKILL)
    with pytest.raises(CrewFailed):
        gandy_crew.submit("true").wait()


def test_then_there_is_a_new_one(gandy_crew):
    assert gandy_crew.status().slots == 2
    assert gandy_crew.run(double, 2).result() == 4


def test_other_tests_do_not_see_it():
    assert "GANDY_FOREMAN" not in os.environ
"""


def write_tests(folder: Path) -> None:
    (folder / "tests").mkdir()
    (folder / "src").mkdir()
    (folder / "src" / "helper.py").write_text("def double(number): return 2 * number\n")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    (folder / "tests" / "test_crew.py").write_text(TESTS)


def test_tests_share_a_crew_and_leave_nothing_to_one_another(tmp_path: Path) -> None:
    write_tests(tmp_path)
    assert "5 passed" in run_tests(tmp_path)


def test_it_does_not_matter_how_pytest_imports_modules(tmp_path: Path) -> None:
    write_tests(tmp_path)
    assert "5 passed" in run_tests(tmp_path, "--import-mode=importlib")


def test_a_run_that_does_not_use_it_imports_next_to_nothing_of_gandy(tmp_path: Path) -> None:
    assert [each.value for each in entry_points(group="pytest11", name="gandy")] == ["gandy.pytest_plugin"]
    (tmp_path / "test_imports.py").write_text(
        "import sys\n\n\ndef test_imports():\n"
        "    assert {name for name in sys.modules if name.startswith('gandy')} == {'gandy', 'gandy.pytest_plugin'}\n"
        "    assert not {'asyncio', 'msgspec', 'cloudpickle', 'uvloop'} & set(sys.modules)\n"
    )
    assert "1 passed" in run_tests(tmp_path, "-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:schemathesis")
