"""Formats numbers, durations and texts as people read them. It reads no clock and prints nothing."""

import shlex
from collections.abc import Sequence
from typing import Final

from gandy.moments import Wall

# Two units that are shown together, and each in seconds.
_PAIRS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))

_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def format_seconds(seconds: float) -> str:
    """Format a duration in its two largest units: 0.3 s, 12 s, 3 min 5 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for size, unit, small_size, small_unit in _PAIRS:
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size:,} {unit} {rest} {small_unit}" if rest else f"{whole // size:,} {unit}"
    return f"{whole} s"


def format_age(then: Wall, now: Wall) -> str:
    return f"{format_seconds(now - then)} ago"


def format_count(count: int) -> str:
    return f"{count:,}"


def format_bytes(size: int) -> str:
    for unit, name in _SIZES:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def format_command(command: str | Sequence[str]) -> str:
    """Format a command as it would be typed."""
    return command if isinstance(command, str) else shlex.join(command)


def make_printable(text: str) -> str:
    """Return the text with control characters as escapes: it cannot move the cursor or change a colour."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _spell(letter) for letter in text)


def _spell(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
