"""Reserves room on the disk for a file of jobs: inside the file, in its write-ahead log, and to grow into.

A commit writes to the log, and SQLite copies the log into the file later. So the log has its full length from the
beginning, and a commit fails if the disk has no room for the pages that it adds: what was committed can always be
copied. On a full disk, a blob of zeros inside the file is deleted, and its pages take what must still be kept. File
systems that never write in place (btrfs, ZFS) promise less.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.store.sqlite_write import transaction

# Bytes. Results of five thousand tasks, or thousands of cancels; more would make the first start slower.
RESERVE_BYTES: Final = 2 << 20

# Bytes. SQLite copies the log when it has 4 MB; as much again is for commits until it has done so.
LOG_BYTES: Final = 8 << 20

# Bytes by which the file grows ahead of need, so that few commits need to grow it.
GROWTH_BYTES: Final = 1 << 20

HAS_RESERVE: Final = "SELECT EXISTS (SELECT 1 FROM reserve)"
ADD_RESERVE: Final = "INSERT INTO reserve (room) VALUES (zeroblob(?))"
FREE_RESERVE: Final = "DELETE FROM reserve"


class Room:
    """The room that one file has. All methods raise `sqlite3.Error` or OSError if the disk is full."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._log = f"{path}-wal"
        self._descriptor = descriptor
        self._page_bytes = 0  # not known until there is a reserve
        self.has_reserve = False  # new work is accepted only while there is one

    def make_reserve(self, db: sqlite3.Connection) -> None:
        (self._page_bytes,) = db.execute("PRAGMA page_size").fetchone()
        _lengthen(self._log, LOG_BYTES)
        if not db.execute(HAS_RESERVE).fetchone()[0]:
            with transaction(db):
                db.execute(ADD_RESERVE, (RESERVE_BYTES,))
                self.claim_growth(db)
        self.has_reserve = True

    def free_reserve(self, db: sqlite3.Connection) -> None:
        """In the caller's transaction. The caller sets `has_reserve` when that has succeeded."""
        (before,) = db.execute("PRAGMA secure_delete").fetchone()
        db.execute("PRAGMA secure_delete = OFF")  # zeros need not be overwritten, and there is no room for that
        db.execute(FREE_RESERVE)
        db.execute(f"PRAGMA secure_delete = {before}")

    def claim_growth(self, db: sqlite3.Connection) -> None:
        """At the end of a transaction: get room on the disk for the pages that it added, or fail."""
        missing = self._measure_missing(db)
        if missing <= 0:
            return
        with suppress(OSError):
            self._grow(missing + GROWTH_BYTES)
            return
        self._grow(missing)

    def make_room(self, db: sqlite3.Connection) -> None:
        """Make sure that there is room for new work, in free pages or by growing the file."""
        (free,) = db.execute("PRAGMA freelist_count").fetchone()
        missing = self._measure_missing(db) + GROWTH_BYTES - free * self._page_bytes
        if missing > 0:
            self._grow(missing)

    def _measure_missing(self, db: sqlite3.Connection) -> int:
        """Bytes by which the file is shorter than its pages; negative if it has grown ahead."""
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        return int(pages) * self._page_bytes - os.fstat(self._descriptor).st_size

    def _grow(self, count: int) -> None:
        os.posix_fallocate(self._descriptor, os.fstat(self._descriptor).st_size, count)


def _lengthen(path: str, size: int) -> None:
    """Zeros after the last frame of a log end it, as they have no valid checksum. SQLite has no locks on this file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, 0, size)
    finally:
        os.close(descriptor)
