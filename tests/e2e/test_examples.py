"""The examples run as they stand."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("demo.py", [], "200 of 200 tasks ran, 0 of them more than once."),
        ("simulated_crew.py", ["7"], "8 tasks done in 8 runs, 0 recorded twice, 0 lost;"),
    ],
)
def test_an_example_runs(name: str, arguments: list[str], text: str) -> None:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert text in result.stdout
