"""Reads and writes files with secrets: whole or not at all, and readable by this user only."""

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gandy.errors import ConfigError

LOCK: Final = ".lock"


def make_private_folder(path: Path) -> None:
    """Make a folder and its missing parents, with mode 0700 whatever the umask is. Raises: OSError."""
    try:
        path.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        make_private_folder(path.parent)
        path.mkdir(0o700, exist_ok=True)


def make_folder(folder: Path, must_be_hidden: bool = True) -> None:
    """Make a folder, or check one that exists.

    Raises: ConfigError: it cannot be made, or other users can replace it or, if it must be hidden, look into it.
    """
    try:
        make_private_folder(folder)
        refuse_writable(folder.parent)
        state = folder.stat()
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder}: {error.strerror}") from None
    mode = stat.S_IMODE(state.st_mode)
    if not must_be_hidden:
        return
    if mode & 0o077:
        raise ConfigError(f"other users can read {folder}, which holds keys (mode {mode:04o}). Run: chmod 700 {folder}")
    if state.st_uid != os.geteuid():
        raise ConfigError(f"{folder}, which holds keys, belongs to another user")


def refuse_writable(folder: Path) -> None:
    """Raises: ConfigError: other users can write there, and replace our keys by their own; OSError."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:  # as in /tmp, where users cannot move files of other users
        raise ConfigError(
            f"other users can write into {folder}, which holds keys (mode {mode:04o}). Run: chmod go-w {folder}"
        )


@contextmanager
def lock_folder(folder: Path, *, waits: bool = True) -> Iterator[None]:
    """Keep other processes out of the folder; the kernel unlocks it when this process ends.

    Raises: ConfigError; BlockingIOError, if it is locked and `waits` is False.
    """
    make_folder(folder)
    try:
        number = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot save keys in {folder}: {error}") from None
    try:
        fcntl.flock(number, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(number)


def read_secret(path: Path) -> bytes:
    """Raises: ConfigError: other users can read or change it; FileNotFoundError."""
    refuse_readable(path)
    return path.read_bytes()


def refuse_readable(path: Path) -> None:
    """Raises: ConfigError: other users can read or change it; FileNotFoundError."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(
            f"other users can read or change the secret key {path} (mode {mode:04o}). Run: chmod 600 {path}. "
            "If it may have been read, make a new key and revoke this one."
        )


def create(path: Path, data: bytes) -> None:
    """Write a whole file, unless it exists: two processes that start at once get the same one."""
    _write(path, data, lambda name: os.link(name, path))  # unlike a rename, a link never replaces a file


def replace(path: Path, data: bytes) -> None:
    """Write a whole file, in the place of the old one if there is one. It is on disk when this returns."""
    _write(path, data, lambda name: os.replace(name, path))  # noqa: PTH105
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(path: Path, data: bytes, move: Callable[[str], None]) -> None:
    number, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)  # 0600
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            move(name)
    finally:
        Path(name).unlink(missing_ok=True)
