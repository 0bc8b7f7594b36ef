"""The Python programs in the how-to pages run as they stand."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.crew import GANDY, PATIENCE
from tests.snippets import Snippet, list_snippets

from gandy import Crew

PROGRAMS = list_snippets("how-to/from-python.md")


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew(slots=2) as crew:
        yield crew


@pytest.mark.parametrize("snippet", PROGRAMS, ids=lambda snippet: snippet.file)
def test_a_program_runs(crew: Crew, snippet: Snippet, tmp_path: Path) -> None:
    path = tmp_path / snippet.file
    path.write_text(snippet.code)
    search = f"{Path(GANDY).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **crew.environment, "PATH": search}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr
