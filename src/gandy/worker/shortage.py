"""Recognises errors that mean that the worker is short of something. That is never the fault of a task."""

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
    """Name what is short, for users; None if the error is not about a shortage."""
    if isinstance(error, MemoryError):
        return SHORTAGES[errno.ENOMEM]
    return SHORTAGES.get(error.errno or 0) if isinstance(error, OSError) else None
