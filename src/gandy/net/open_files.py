"""How many files this process may open: each link is one, and each task of a worker. Tasks keep the user's limit."""

import resource
from contextlib import suppress
from typing import Final

FILES_SHARE: Final = 8  # one in so many of the files that a process may open is for links of one kind of stranger

_before: list[tuple[int, int]] = []  # the limits of this process, from before they were raised


def limit_by_files(most: int) -> int:
    """`most`, or fewer if that would leave no files for anything else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // FILES_SHARE))


def allow_many_files() -> None:
    """Raise the limit as far as allowed: a shell allows 1,024 unless a program asks for more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = limits
    if soft != hard and not _before:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _before.append(limits)


def find_limits_of_tasks() -> tuple[int, int] | None:
    """The user's own limits, if they were raised: many programs slow down or break with a million files."""
    return _before[0] if _before else None
