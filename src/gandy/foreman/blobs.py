"""Large arguments of function tasks, one file each: clients write them in pieces, workers read them in pieces."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.core.refusal import Refusal
from gandy.errors import StoreError
from gandy.files import write_all
from gandy.limits import MAX_PICKLE_BYTES, MAX_READ_BYTES
from gandy.moments import Wall

NAME: Final = re.compile(r"[0-9a-f]{32}")
PART: Final = ".part"  # behind the name, until the last piece has come
PART_SECONDS: Final = 3_600.0  # for the next piece; then its client is gone


class Blobs:
    """A folder of such files. A peer that knows a name may read the file; names are too long to guess.

    Until its last piece has come, a file has another name, which no worker can read. What fails is removed at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        """Write the next piece; the first one begins a new file. After the last one, all of it is on disk.

        Raises: Refusal, StoreError.
        """
        path = self._find(name)
        check_size(offset, data)
        part = path.with_suffix(PART)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            _put_piece(part, offset, data, is_last)
            if is_last:
                part.rename(path)
                _sync(self._folder)
        except FileNotFoundError:
            raise Refusal("refused", "the pieces before this one are not there: begin with the first") from None
        except OSError as error:
            part.unlink(missing_ok=True)
            text = f"{self._folder}: there is no place for arguments of a task: {error.strerror}"
            raise StoreError(text, retryable=True) from None

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Read a piece; behind the end, it is empty. Raises: Refusal."""
        path = self._find(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.utime(descriptor)  # so that it is not dropped
                return os.pread(descriptor, min(max(0, limit), MAX_READ_BYTES), max(0, offset))
            finally:
                os.close(descriptor)
        except OSError:
            raise Refusal("not_found", "the arguments of this task are no longer kept") from None

    def drop(self, seconds: float, find_oldest: Callable[[float], Wall]) -> None:
        """Remove what has not been put or read for so long. What cannot be removed stays until the next time.

        `find_oldest` gives the time of day before which everything is older than so many seconds.
        """
        oldest, oldest_part = find_oldest(seconds), find_oldest(min(seconds, PART_SECONDS))
        with suppress(OSError):  # there is no such folder yet
            for path in self._folder.iterdir():
                with suppress(OSError):
                    if Wall(path.stat().st_mtime) < (oldest_part if path.suffix == PART else oldest):
                        path.unlink()

    def _find(self, name: str) -> Path:
        check_name(name)
        return self._folder / name


def check_name(name: str) -> None:
    """Raises: Refusal."""
    if NAME.fullmatch(name) is None:
        raise Refusal("bad_request", f"{name!r:.50} is not the name of arguments")


def check_size(offset: int, data: bytes) -> None:
    """Raises: Refusal."""
    if not 0 <= offset <= MAX_PICKLE_BYTES - len(data):
        raise Refusal("refused", f"the arguments of one task may have {MAX_PICKLE_BYTES:,} bytes")


def _put_piece(part: Path, offset: int, data: bytes, is_last: bool) -> None:
    """Raises: FileNotFoundError, if the pieces before it are not there; OSError."""
    flags = os.O_WRONLY | os.O_CLOEXEC
    descriptor = os.open(part, flags if offset else flags | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        if os.fstat(descriptor).st_size < offset:
            raise FileNotFoundError
        write_all(descriptor, data, offset)
        if is_last:
            os.ftruncate(descriptor, offset + len(data))
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
