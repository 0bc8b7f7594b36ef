"""Opens connections to a file of jobs, refuses other files, and explains SQLite's errors.

A file that is refused is left as it was.
"""

import errno
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from gandy.errors import StoreError, StoreFull
from gandy.store.sqlite_schema import APPLICATION_ID, MIGRATIONS, migrate
from gandy.store.sqlite_write import transaction
from gandy.store.submissions import KeyTaken

# Seconds. Only a user with another program can have locked the file, and the foreman tries again anyway.
_BUSY_TIMEOUT: Final = 0.1

# Errors that may pass, and what a user can do about each.
_TEMPORARY: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_FULL: "the disk is full: make room",
    sqlite3.SQLITE_IOERR: "the disk does not read or write: look at the system's log",
    sqlite3.SQLITE_BUSY: "another program has locked it: close that program",
    sqlite3.SQLITE_LOCKED: "another program has locked it: close that program",
    sqlite3.SQLITE_READONLY: "it cannot be written: look at its permissions and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: look at its permissions and those of its folder",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
}

# Bytes that SQLite needs at least for its index of the log, which is a third file.
INDEX_BYTES: Final = 65_536

MEND: Final = "keep a copy, then put a backup in its place or try `sqlite3 FILE .recover`"

# Durable means: on the disk when a commit returns, also after a power cut.
_SETTINGS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # on macOS a plain fsync does not reach the disk
    "PRAGMA foreign_keys = ON",
    "PRAGMA cache_size = -32000",  # in KiB: rows of unfinished tasks stay in memory
)


def open_writer(path: Path) -> sqlite3.Connection:
    """Open a file of jobs, which may be empty, and bring it up to date."""
    with _connected(path) as db:
        version = _get_version(db, path)
        _set_wal(db, path)
        if version < len(MIGRATIONS):
            db.execute("PRAGMA foreign_keys = OFF")
            with transaction(db):
                migrate(db, version)
            db.execute("PRAGMA foreign_keys = ON")
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """A second connection, so that a long listing does not hold up commits."""
    with _connected(path) as db:
        db.execute("PRAGMA query_only = ON")
    return db


def is_full(error: BaseException) -> bool:
    """True if the disk is full, or the user's share of it."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raises: StoreError: in place of an error of SQLite, the decoders or the system."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(error, path) from error
    except (msgspec.MsgspecError, zlib.error) as error:
        raise StoreError(f"{path}: damaged ({error}): {MEND}") from error
    except OSError as error:
        if is_full(error):
            raise StoreFull(f"{path}: {_TEMPORARY[sqlite3.SQLITE_FULL]}") from error
        raise StoreError(f"{path}: {error}", retryable=True) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises: StoreError: what was read was never written, such as an unknown state, or text for a number."""
    try:
        yield
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise StoreError(f"{path}: damaged ({type(error).__name__}: {error}): {MEND}") from error


def _explain(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest are details
    if code == sqlite3.SQLITE_IOERR and _has_no_room(path):  # SQLite reports so if it cannot make its index of the log
        code = sqlite3.SQLITE_FULL
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"{path}: {_TEMPORARY[code]} ({error})")
    if code in _TEMPORARY:
        return StoreError(f"{path}: {_TEMPORARY[code]} ({error})", retryable=True)
    if "jobs.submission" in str(error):
        return KeyTaken(str(path))
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{path}: not a file of jobs ({error}): name another file")
    if code == sqlite3.SQLITE_CORRUPT or "Could not decode" in str(error):  # the latter is Python's own
        return StoreError(f"{path}: damaged ({error}): {MEND}")
    return StoreError(f"{path}: {error}")


def _has_no_room(path: Path) -> bool:
    try:
        state = os.statvfs(path.parent)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < INDEX_BYTES


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection, which is closed if the block raises."""
    db = sqlite3.connect(path, timeout=_BUSY_TIMEOUT, isolation_level=None)
    try:
        for setting in _SETTINGS:
            db.execute(setting)
        yield db
    except BaseException:
        db.close()
        raise


def _get_version(db: sqlite3.Connection, path: Path) -> int:
    version = _read_int(db, "PRAGMA user_version")
    if _read_int(db, "PRAGMA application_id") != APPLICATION_ID and _read_int(db, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(f"{path}: an SQLite file, but not one of jobs: name another file")
    if version > len(MIGRATIONS):
        raise StoreError(f"{path}: version {version} is of a newer gandy; this one knows up to {len(MIGRATIONS)}")
    return version


def _set_wal(db: sqlite3.Connection, path: Path) -> None:
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"{path}: its file system cannot keep a write-ahead log: put it on a local disk")


def _read_int(db: sqlite3.Connection, query: str) -> int:
    (value,) = db.execute(query).fetchone()
    return int(value)
