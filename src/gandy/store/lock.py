"""Lets one process use a file. The kernel releases the lock when the process ends, however it ends."""

import fcntl
import os
from pathlib import Path

from gandy.errors import StoreError
from gandy.files import write_all


class FileLock:
    """A lock on a file beside `path`, which holds the id of its process.

    That file is never removed: a second process could lock a new one while the first still holds the old one.
    """

    def __init__(self, path: Path, user: str = "foreman") -> None:
        """`user`: what we are. Raises: StoreError: another process holds it, or there is no such folder."""
        beside = path.with_name(path.name + ".lock")
        try:
            self._file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"{path}: cannot be locked: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._file, 0)
            write_all(self._file, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = os.pread(self._file, 20, 0).decode(errors="replace") or "unknown"
            os.close(self._file)
            raise StoreError(f"{path}: another {user} uses it (process {holder}); stop that one first") from None
        except OSError as error:
            os.close(self._file)
            raise StoreError(f"{path}: cannot be locked: {error}", retryable=True) from error

    def release(self) -> None:
        os.close(self._file)
