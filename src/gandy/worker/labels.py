"""Labels: numbers that processes inherit from their parents, and that show which attempt of which worker started them.

A label is the soft limit on file locks (RLIMIT_LOCKS), which Linux keeps and has not enforced since version 2.4.25. It
survives `fork`, `env -i` and `setsid`. Slot processes import this module, so it imports next to nothing.
"""

import resource
from typing import Final

MARK_BITS: Final = 63  # of the number that each worker chooses for itself
MARK_NAME: Final = "GANDY_WORKER_MARK"  # the same number in the environment of everything that a worker starts
LIMIT: Final = 10  # RLIMIT_LOCKS on every Linux; Python has no name for it

_ATTEMPT_BITS: Final = 33  # of a label; the bits above are from the worker's mark
_ATTEMPT_MASK: Final = (1 << _ATTEMPT_BITS) - 1


def make_label(mark: int, job: int, task: int, attempt: int) -> int:
    """Make the label of an attempt. Two that run at once have the same label with a chance of one in billions."""
    return mark & ~_ATTEMPT_MASK | hash((job, task, attempt)) & _ATTEMPT_MASK


def is_label_of(mark: int, label: int) -> bool:
    """True if the worker with this mark made the label."""
    return label >> _ATTEMPT_BITS == mark >> _ATTEMPT_BITS


def can_label() -> bool:
    """True if this process may set labels. False: the user has set a hard limit, which cannot be raised."""
    return resource.getrlimit(LIMIT)[1] == resource.RLIM_INFINITY


def set_label(label: int) -> None:
    """Label this process and what it starts from now on. Only if `can_label`."""
    resource.setrlimit(LIMIT, (label, resource.RLIM_INFINITY))


def remove_label(pid: int) -> None:
    """Remove the label that another process inherited, if any."""
    try:
        resource.prlimit(pid, LIMIT, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except OSError:  # the process is dead; or the user has set a limit, so that no process here has a label
        return


def read_label(pid: int) -> int | None:
    """Return the label of a process. None: it does not exist, or belongs to another user."""
    try:
        return resource.prlimit(pid, LIMIT)[0]
    except OSError:
        return None
