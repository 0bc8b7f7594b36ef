"""Type checkers find wrong arguments of functions and options in users' programs, and nothing wrong in right ones."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

PROGRAM: Final = Path(__file__).with_name("typed_program.py")
PATIENCE: Final = 300
PYRIGHT: Final = Path(sysconfig.get_path("scripts")) / "pyright"


def list_wrong() -> set[int]:
    return {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# wrong")}


def check(folder: Path, *command: str) -> set[int]:
    """Run a checker on a copy outside of this project, and return the lines in which it finds errors."""
    copy = folder / "program.py"
    shutil.copy(PROGRAM, copy)
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [*command, copy.name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1, done
    return {int(number) for number in re.findall(r"program\.py:(\d+):[\d: -]* ?error:? ", done.stdout)}


def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    assert check(tmp_path, sys.executable, "-m", "mypy", "--strict") == list_wrong()


@pytest.mark.skipif(shutil.which("node") is None, reason="pyright needs node, and would download it")
def test_pyright_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    assert check(tmp_path, str(PYRIGHT), "--pythonpath", sys.executable) == list_wrong()
