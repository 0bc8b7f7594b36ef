"""How many files this process may open: each link is one."""

import resource
from contextlib import suppress
from typing import Final

FILES_SHARE: Final = 8  # one part in so many of the files that a process may open is for links of one kind of stranger


def limit_by_files(most: int) -> int:
    """So many, or fewer where that would leave no files for others."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // FILES_SHARE))


def allow_many_files() -> None:
    """For a foreman: each link is a file, and a shell allows 1,024 of them unless a program asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
