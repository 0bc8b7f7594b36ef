"""Room on the disk that nothing else can take: a reserve inside the file, its write-ahead log, and room to grow into.

A commit writes to the log, and SQLite copies the log into the file later. So the log is made as long as it gets, and
no commit may grow the file by pages that the disk has no room for: what was committed can always be copied. On a full
disk, a blob of zeros inside the file is deleted, and its pages take what must still be kept. A file system that never
writes in place (btrfs, ZFS) promises less.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.store.sqlite_write import transaction

# Bytes. Results of five thousand tasks, or thousands of cancels; more would make the first start slower.
RESERVE_BYTES: Final = 2 << 20

# Bytes. SQLite copies the log when it has 4 MB; as much again is for commits that come before it has done so.
LOG_BYTES: Final = 8 << 20

# Bytes by which the file grows ahead of need, so that not each commit asks the file system.
GROWTH_BYTES: Final = 1 << 20

HAS_RESERVE: Final = "SELECT EXISTS (SELECT 1 FROM reserve)"
ADD_RESERVE: Final = "INSERT INTO reserve (room) VALUES (zeroblob(?))"
FREE_RESERVE: Final = "DELETE FROM reserve"


class Room:
    """Of one file. All methods raise `sqlite3.Error` or OSError if the disk is full."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._log = f"{path}-wal"
        self._descriptor = descriptor
        self._page_bytes = 0  # until there is a reserve
        self.has_reserve = False  # new work is taken only while there is one

    def make_reserve(self, db: sqlite3.Connection) -> None:
        (self._page_bytes,) = db.execute("PRAGMA page_size").fetchone()
        _lengthen(self._log, LOG_BYTES)
        if not db.execute(HAS_RESERVE).fetchone()[0]:
            with transaction(db):
                db.execute(ADD_RESERVE, (RESERVE_BYTES,))
                self.claim_growth(db)
        self.has_reserve = True

    def free_reserve(self, db: sqlite3.Connection) -> None:
        """In the caller's transaction; `has_reserve` is the caller's, too."""
        (before,) = db.execute("PRAGMA secure_delete").fetchone()
        db.execute("PRAGMA secure_delete = OFF")  # zeros need not be overwritten, and there is no room for that
        db.execute(FREE_RESERVE)
        db.execute(f"PRAGMA secure_delete = {before}")

    def claim_growth(self, db: sqlite3.Connection) -> None:
        """At the end of a transaction: either the pages that it added get a place on the disk, or it fails."""
        missing = self._measure_missing(db)
        if missing <= 0:
            return
        with suppress(OSError):
            self._grow(missing + GROWTH_BYTES)
            return
        self._grow(missing)

    def make_room(self, db: sqlite3.Connection) -> None:
        """For new work: pages that are free, or that the file can grow by."""
        (free,) = db.execute("PRAGMA freelist_count").fetchone()
        missing = self._measure_missing(db) + GROWTH_BYTES - free * self._page_bytes
        if missing > 0:
            self._grow(missing)

    def _measure_missing(self, db: sqlite3.Connection) -> int:
        """Bytes by which the file is shorter than SQLite's pages; below 0, how far it has grown ahead."""
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        return int(pages) * self._page_bytes - os.fstat(self._descriptor).st_size

    def _grow(self, count: int) -> None:
        os.posix_fallocate(self._descriptor, os.fstat(self._descriptor).st_size, count)


def _lengthen(path: str, size: int) -> None:
    """Zeros behind the last frame of a log end it, as its checksums show. SQLite has no locks on this file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)
