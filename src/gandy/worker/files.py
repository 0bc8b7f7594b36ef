"""How many slots a worker can have with the number of files that it is allowed to open."""

import resource
from typing import Final

from gandy.errors import ConfigError

FILES_PER_SLOT: Final = 4  # of a function task: its process, its channel, and both ends of its box; a shell task has 1
OWN_FILES: Final = 28  # 22 that an idle worker has open: loop, link, tables, watchdog; and 6 that are open briefly


def fit_slots(wanted: int) -> int:
    """Return how many of the wanted slots there are files for. Raises: ConfigError, if there are too few for one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    fitting = (soft - OWN_FILES) // FILES_PER_SLOT
    if fitting < 1:
        least = OWN_FILES + FILES_PER_SLOT
        raise ConfigError(f"a worker needs {least} open files, and may have {soft} here: raise it with ulimit -n")
    return min(wanted, fitting)
