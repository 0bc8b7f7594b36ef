"""What a worker can run short of, in words. A shortage is a problem of the worker, never of a task."""

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
    """What is short, in words; None where the error is not about a shortage."""
    if isinstance(error, MemoryError):
        return SHORTAGES[errno.ENOMEM]
    return SHORTAGES.get(error.errno or 0) if isinstance(error, OSError) else None
