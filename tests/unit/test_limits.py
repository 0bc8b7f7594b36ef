"""Bounds are in one place for the crew, and in one for each family of protocols, with their reasons."""

import re
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[2] / "src" / "gandy"
BOUND: Final = re.compile(r"^((?:MAX|MIN)_[A-Z0-9_]+)\b.*=", re.MULTILINE)


def test_bounds_are_defined_in_modules_of_limits_only() -> None:
    elsewhere = {
        path.relative_to(SOURCE).as_posix(): found
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "limits.py" and (found := BOUND.findall(path.read_text()))
    }
    assert not elsewhere


def test_every_bound_has_a_reason() -> None:
    """On its own line or above it. A comment may be about a few bounds that follow one another."""
    without = []
    for path in sorted(SOURCE.rglob("limits.py")):
        is_explained = False
        for line in path.read_text().splitlines():
            is_explained = line.startswith("#") or (is_explained and bool(line))
            if BOUND.match(line) and not is_explained and "  # " not in line:
                without.append(f"{path.relative_to(SOURCE)}: {line}")
    assert not without
