"""How many slots a worker can have with the number of files that it may open."""

import resource
from typing import Final

from gandy.errors import ConfigError

FILES_PER_SLOT: Final = 4  # of a function task: its process, its link, and both ends of its box; a shell task has one
OWN_FILES: Final = 28  # of a worker that runs nothing, 22 of them: loop, link, tables, watchdog; and some for a moment


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
