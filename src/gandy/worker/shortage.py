"""What a worker can run short of, and how that is said. A shortage is the worker's trouble, never a task's."""

import errno
from collections.abc import Mapping
from typing import Final

SHORTAGES: Final[Mapping[int, str]] = {
    errno.EMFILE: "open files: raise its limit (ulimit -n), or give it fewer slots",
    errno.ENFILE: "open files: the whole machine has as many as its kernel allows",
    errno.EAGAIN: "processes: raise the limit (ulimit -u, or that of its control group), or give it fewer slots",
    errno.ENOMEM: "memory",
    errno.ENOSPC: "room on the disk",
    errno.EDQUOT: "room on the disk: the quota is used up",
}


def find_shortage(error: BaseException) -> str | None:
    """What is short, in words, where the error says that something is."""
    if isinstance(error, MemoryError):
        return SHORTAGES[errno.ENOMEM]
    return SHORTAGES.get(error.errno or 0) if isinstance(error, OSError) else None
