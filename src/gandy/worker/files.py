"""How many files a worker may have open, and how many slots that is enough for. Tasks keep the limit of the user."""

import resource
from contextlib import suppress
from typing import Final

from gandy.errors import ConfigError

FILES_PER_SLOT: Final = 4  # of a Python call: its process, the link to it, and both ends of its box; of a command: one
OWN_FILES: Final = 28  # of a worker that runs nothing, 22 of them: loop, link, tables, watchdog; and some for a moment

_before: list[tuple[int, int]] = []  # the limits of this process, from before they were raised


def allow_many_files() -> None:
    """Raise the limit of this process as far as it may. What tasks get stays as it was."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = limits
    if soft != hard and not _before:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _before.append(limits)


def find_limits_of_tasks() -> tuple[int, int] | None:
    """What the user had, where it was raised: many programs slow down or break with a million files."""
    return _before[0] if _before else None


def fit_slots(wanted: int) -> int:
    """How many slots there are files for, at most as many as wanted. Raises: ConfigError."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    fitting = (soft - OWN_FILES) // FILES_PER_SLOT
    if fitting < 1:
        least = OWN_FILES + FILES_PER_SLOT
        raise ConfigError(f"a worker needs {least} open files, and may have {soft} here: raise it with ulimit -n")
    return min(wanted, fitting)
