"""Large arguments of calls, one file each: clients put them here in pieces, workers read them in pieces."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.errors import StoreError
from gandy.foreman.refusal import Refusal

NAME: Final = re.compile(r"[0-9a-f]{32}")
MAX_BYTES: Final = 2 << 30  # of one; a slot process takes no more
MAX_PIECE: Final = 4 << 20  # bytes that are read at once


class Blobs:
    """A folder of them. Who knows a name may read it; names are too long to guess."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        """The next piece, on disk when it is the last.

        Raises: Refusal, StoreError.
        """
        path = self._find(name)
        if not 0 <= offset <= MAX_BYTES - len(data):
            raise Refusal("refused", f"the arguments of one call may have {MAX_BYTES:,} bytes")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, data, offset)
                if is_last:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreError(f"{self._folder}: {error.strerror}", retryable=True) from None

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """A piece; nothing behind the end. Raises: Refusal."""
        path = self._find(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.utime(descriptor)  # it is still needed
                return os.pread(descriptor, min(max(0, limit), MAX_PIECE), max(0, offset))
            finally:
                os.close(descriptor)
        except OSError:
            raise Refusal("not_found", "the arguments of this call are no longer kept") from None

    def drop(self, seconds: float) -> None:
        """Remove what nobody has put or read for so long. What cannot be removed stays until the next time."""
        before = time.time() - seconds
        with suppress(OSError):  # there is no such folder yet
            for path in self._folder.iterdir():
                with suppress(OSError):
                    if path.stat().st_mtime < before:
                        path.unlink()

    def _find(self, name: str) -> Path:
        if NAME.fullmatch(name) is None:
            raise Refusal("bad_request", f"{name!r:.50} is not the name of arguments")
        return self._folder / name
