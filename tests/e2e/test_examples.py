"""The examples run as they stand."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.waiting import until

from gandy import Client

EXAMPLES = Path(__file__).parents[2] / "examples"
OF_A_CREW = ["monte_carlo.py", "grid_search.py", "asyncio_client.py"]
OF_A_KITCHEN = ["kitchen_guest.py", "kitchen_asyncio.py", "kitchen_stream.py"]


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        # Until the worker is there as well: joblib wants to know how many slots there are.
        crew.run("submit", "--wait", "true")
        yield crew


def run(
    name: str, *arguments: str, env: Mapping[str, str] | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == code, done
    return done


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("demo.py", [], "200 of 200 tasks ran, 0 of them more than once."),
        ("simulated_crew.py", ["7"], "8 tasks done in 8 runs, 0 recorded twice, 0 lost;"),
    ],
)
def test_an_example_runs(name: str, arguments: list[str], text: str) -> None:
    assert text in run(name, *arguments).stdout


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("monte_carlo.py", ["price 7.1", "800,000 paths in 20 tasks"]),
        ("grid_search.py", ["16 candidates, each tried on 5 parts", "% right"]),
        ("asyncio_client.py", ["primes below 1,000: 168", "10,000: 1229", "primes below 100,000: 9,592"]),
    ],
)
def test_an_example_runs_on_a_crew(crew: Crew, name: str, texts: list[str]) -> None:
    done = run(name, env=crew.environment)
    assert [text for text in texts if text not in done.stdout] == []
    assert done.stderr == ""  # no bar without a terminal, and no warnings


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A foreman, and the worker among the examples."""
    crew = Crew(tmp_path_factory.mktemp("home"))
    command = [sys.executable, str(EXAMPLES / "kitchen.py")]
    with (
        crew.running("foreman", "run"),
        Client(f"unix:{crew.home}/foreman.sock") as client,
        subprocess.Popen(command, env=crew.environment, stderr=subprocess.PIPE) as worker,
    ):
        try:
            until(lambda: any("cook" in row.commands for row in client.workers()))
            yield crew
        finally:
            worker.send_signal(signal.SIGTERM)
            _, said = worker.communicate(timeout=PATIENCE)
    assert (worker.returncode, b"Traceback" in said) == (0, False)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "kitchen_guest.py",
            [
                "1 + 2 = 3",
                "here comes one soup",
                "sum of squares: 332833500",
                "kitchen says pong",
                "the kitchen says TypeError",
                "the roast takes too long",
            ],
        ),
        (
            "kitchen_asyncio.py",
            ["the sum of a thousand sums is 999000", "here comes one soup", "no roast today"],
        ),
        (
            "kitchen_stream.py",
            ["served: one soup, one roast, one cake", "10 MB in 306 pieces", "that is enough at 999999995"],
        ),
    ],
)
def test_an_example_calls_the_kitchen(kitchen: Crew, name: str, lines: list[str]) -> None:
    done = run(name, env=kitchen.environment)
    assert (done.stdout.splitlines(), done.stderr) == (lines, "")


def test_the_kitchen_serves_the_command_line_too(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    crew.environment["PYTHONPATH"] = str(EXAMPLES)
    with crew.running("foreman", "run"), crew.running("worker", "run", "--commands", "kitchen"):
        assert crew.run("call", "add", "1", "2").stdout == b"3\n"
        assert crew.run("call", "--stream", "countdown", "3").stdout == b"3\n2\n1\n"


@pytest.mark.parametrize("name", [*OF_A_CREW, *OF_A_KITCHEN])
def test_an_example_without_a_crew_says_how_to_start_one(tmp_path: Path, name: str) -> None:
    done = run(name, env=Crew(tmp_path).environment, code=1)
    assert "start one with 'gandy up'" in done.stderr
    assert "Traceback" not in done.stderr
