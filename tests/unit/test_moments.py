"""Moments of three clocks: the type checker tells them apart, and nothing reads a clock by another way."""

import ast
import re
from pathlib import Path
from typing import Final

from mypy import api
from tests.sources import read_modules

from gandy.moments import LONG_AGO, NEVER, Monotonic, Shared, Wall

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "gandy"
CLOCKS: Final = {"time", "monotonic", "time_ns", "monotonic_ns"}  # of the module `time`

# What the type checker says of each line.
LINES: Final = """\
from gandy.moments import Monotonic, Shared, Wall
def use(now: Monotonic, day: Wall, at: Shared, seconds: float) -> None:
    later: Monotonic = now + seconds
    sooner: Monotonic = now - seconds
    passed: float = later - sooner
    latest: Monotonic = max(later, sooner)
    is_over: bool = now >= latest
    number: float = float(day)
    now - day  # error
    now < at  # error
    day == at  # error
    now + now  # error
    now < seconds  # error
    wrong: Wall = now  # error
    plain: float = now  # error
    late: Shared = day + seconds  # error
"""


def test_the_type_checker_tells_the_clocks_apart(tmp_path: Path) -> None:
    module = tmp_path / "using_moments.py"
    module.write_text(LINES)
    config = ROOT / "pyproject.toml"
    # The cache of `make check`: without one, mypy reads the types of the whole standard library.
    cache = ROOT / ".mypy_cache"
    told, trouble, _ = api.run(["--config-file", str(config), "--cache-dir", str(cache), str(module)])
    assert not trouble
    refused = {int(line) for line in re.findall(r"using_moments\.py:(\d+): error", told)}
    assert refused == {number for number, line in enumerate(LINES.splitlines(), 1) if line.endswith("# error")}, told


def test_a_moment_is_a_float_at_run_time() -> None:
    """So that the wire, the store and users see numbers, and none of it costs time."""
    assert Monotonic is Wall is Shared is float
    assert LONG_AGO < Monotonic(0.0) < NEVER


def test_only_one_module_reads_the_clocks_of_this_machine() -> None:
    """Elsewhere a moment would be a float, and the type checker would take it for any number of seconds."""
    readers = [
        f"{name}:{node.lineno}"
        for name, _, nodes in read_modules()
        if name != "clocks.py"
        for node in nodes
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "time"
            and node.attr in CLOCKS
        )
        or (isinstance(node, ast.ImportFrom) and node.module == "time" and CLOCKS & {name.name for name in node.names})
    ]
    assert not readers
