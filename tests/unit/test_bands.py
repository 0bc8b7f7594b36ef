"""The bands are enforced: a pure module that learns about I/O, or an import that points up, fails `make check`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def plant(folder: Path, module: str, line: str) -> None:
    path = folder / "src" / "gandy" / module
    path.write_text(path.read_text() + f"\n{line}\n")


def test_the_bands_hold(copy: Path) -> None:
    assert lint(copy).returncode == 0


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("wire/v2.py", "import socket"),
        ("talk/exchange.py", "import time"),
        ("talk/worker.py", "import asyncio"),
        ("wire/payloads.py", "from gandy.talk import law"),
        ("errors.py", "import random"),
    ],
)
def test_a_broken_band_is_caught(copy: Path, module: str, line: str) -> None:
    plant(copy, module, line)
    result = lint(copy)
    assert result.returncode != 0
    assert "BROKEN" in result.stdout
