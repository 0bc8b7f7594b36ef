"""The examples run as they stand."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.e2e.test_jobs_command import Crew

EXAMPLES = Path(__file__).parents[2] / "examples"
OF_A_CREW = ["monte_carlo.py", "grid_search.py", "asyncio_client.py"]


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
        ("monte_carlo.py", ["price 7.1", "800,000 paths in 20 calls"]),
        ("grid_search.py", ["16 candidates, each tried on 5 parts", "% right"]),
        ("asyncio_client.py", ["primes below 1,000: 168", "10,000: 1229", "primes below 100,000: 9,592"]),
    ],
)
def test_an_example_runs_on_a_crew(crew: Crew, name: str, texts: list[str]) -> None:
    done = run(name, env=crew.environment)
    assert [text for text in texts if text not in done.stdout] == []
    assert done.stderr == ""  # no bar where nobody looks, and no warnings


@pytest.mark.parametrize("name", OF_A_CREW)
def test_an_example_without_a_crew_says_how_to_start_one(tmp_path: Path, name: str) -> None:
    done = run(name, env=Crew(tmp_path).environment, code=1)
    assert "start one with 'gandy up'" in done.stderr
    assert "Traceback" not in done.stderr
