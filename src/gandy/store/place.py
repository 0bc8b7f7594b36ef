"""The file of a store: locked under all of its names, and checked at each commit to be still in its place."""

import fcntl
import os
import sys
from pathlib import Path

from gandy.errors import StoreError


class PlacedFile:
    """The file, open and locked for as long as its store is.

    SQLite forgets its own locks when this process closes any other descriptor of the file: release this one last.
    """

    def __init__(self, path: Path) -> None:
        """Makes an empty file if there is none.

        Raises: StoreError: another foreman has it, or it cannot be opened.
        """
        self._path = path
        self._log = Path(f"{path}-wal")
        self._log_identity = (0, 0)  # not known yet
        try:
            # 0600: jobs may carry secrets in their environment.
            self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"{path}: it cannot be opened: {error.strerror}", retryable=True) from error
        self._identity = _identify(os.fstat(self.descriptor))
        try:
            _lock(self.descriptor)
        except OSError:
            os.close(self.descriptor)
            raise StoreError(f"{path}: another foreman uses it under another name; stop that one first") from None

    def release(self) -> None:
        os.close(self.descriptor)

    def note_log(self) -> None:
        """Remember the write-ahead log, which SQLite keeps beside the file as long as it is open."""
        self._log_identity = _identify(self._log.stat())

    @property
    def is_in_place(self) -> bool:
        return _is_at(self._path, self._identity)

    def check(self) -> None:
        """Raises: StoreError: the file or its log was removed or replaced, so that a commit would be lost."""
        for path, identity in ((self._path, self._identity), (self._log, self._log_identity)):
            if not _is_at(path, identity):
                raise StoreError(
                    f"{path}: it was removed or replaced while the foreman used it: put it back; or stop the foreman, "
                    "which records nothing now, and restore a backup",
                    retryable=True,
                )


def _is_at(path: Path, identity: tuple[int, int]) -> bool:
    try:
        return _identify(os.stat(path)) == identity  # noqa: PTH116 - faster, and called for each commit
    except OSError:
        return False


def _identify(state: os.stat_result) -> tuple[int, int]:
    return state.st_dev, state.st_ino


def _lock(descriptor: int) -> None:
    """Raises: OSError. On Linux only: on other systems this lock would conflict with SQLite's own."""
    if sys.platform == "linux":
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
