"""A wall clock that a test can step, for real processes: see wall_clock.c."""

import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).with_name("wall_clock.c")
DAY: Final = 86_400.0


@cache
def build_library() -> Path:
    """Skips the test where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: install cc to step the wall clock of processes")
    library = Path(tempfile.mkdtemp(prefix="gandy-wall-clock-")) / "wall_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, SOURCE], check=True)
    return library


class WallClock:
    """What every process with this environment takes for the time of day. It begins right."""

    def __init__(self, folder: Path) -> None:
        library = build_library()
        self._file = folder / "wall-clock"
        self._file.write_bytes(bytes(8))
        self._offset = 0.0
        self.environment = {"LD_PRELOAD": str(library), "GANDY_TEST_WALL_CLOCK": str(self._file)}

    def step(self, seconds: float) -> None:
        """Ahead, or back if below zero; for all processes at once."""
        self._offset += seconds
        with self._file.open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("=q", round(self._offset * 1e9)))
