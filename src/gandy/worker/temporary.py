"""Homes that end with their crew. By a mark in it, the last process of the crew knows that it may remove the home."""

import shutil
from pathlib import Path
from typing import Final

MARK: Final = "temporary"  # a file in the home, with the path of the home


def mark_temporary(home: Path) -> None:
    """Raises: OSError."""
    (home / MARK).write_text(str(home.absolute()))


def remove_temporary(home: Path) -> None:
    """Remove a home, if it has the mark; one that was moved or copied stays."""
    try:
        is_marked = (home / MARK).read_text() == str(home.absolute())
    except (OSError, ValueError):
        return
    if is_marked:
        shutil.rmtree(home, ignore_errors=True)
