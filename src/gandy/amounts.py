"""Durations and sizes as people write them. It knows no default and no limit."""

import re
from typing import Final

# Seconds of each unit that people write.
_UNITS: Final = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_SIZE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)B?")
_TIME: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)")


def parse_seconds(text: str) -> float | None:
    """Parse a duration in seconds; None if the text is not one."""
    found = _TIME.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS:
        return None
    return float(found[1]) * _UNITS[found[2]]


def parse_bytes(text: str) -> int | None:
    """Parse a size in bytes; None if the text is not one."""
    found = _SIZE.fullmatch(text.strip().upper())
    return None if found is None else int(float(found[1]) * 1000 ** " KMGT".index(found[2] or " "))
