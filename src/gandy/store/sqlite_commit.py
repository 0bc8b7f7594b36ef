"""Commits records to a file of jobs: it numbers commits, checks that none is lost, and copes with a full disk.

Only the writer's thread uses it. `problems` has what it finds wrong when the file is opened.
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gandy.core.model import AttemptKey
from gandy.core.records import Claimed, JobAdded, JobForgotten, LinesAdded, Record, TasksAdded
from gandy.errors import StoreError
from gandy.ids import JobId
from gandy.store.place import PlacedFile
from gandy.store.sqlite_forget import forget_in_steps, list_half_forgotten
from gandy.store.sqlite_open import MEND, is_full
from gandy.store.sqlite_room import Room
from gandy.store.sqlite_write import apply, transaction
from gandy.store.stamp import Stamp, StampFile, compute_checksum

# Records that are refused when the disk is full. All others may use the reserve.
NEEDS_ROOM: Final = (Claimed, TasksAdded, JobAdded, LinesAdded)

GET_COMMIT: Final = "SELECT number FROM last_commit"
SET_COMMIT: Final = "UPDATE last_commit SET number = ?"
GET_LAST_JOB: Final = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'jobs'"

# For a file that was not closed, and for one that has changed since it was closed; the latter checks indexes, too.
QUICK_CHECK: Final = "PRAGMA quick_check(1)"
FULL_CHECK: Final = "PRAGMA integrity_check(1)"


class SqliteCommitter:
    """Commits to one open file."""

    def __init__(self, path: Path, place: PlacedFile) -> None:
        self._path = path
        self._place = place
        self._room = Room(path, place.descriptor)
        self._stamps = StampFile(Path(f"{path}.stamp"))
        self._commit = 0
        self._job = JobId(0)
        self._is_open = False
        self.problems: list[str] = []  # what is wrong with the file, in sentences
        self._has_changed = self._is_other_file()

    @property
    def next_job(self) -> JobId:
        """A number that no job ever had, even if the file has lost some."""
        return JobId(self._job + 1)

    def open(self, db: sqlite3.Connection) -> None:
        """To be called when the schema is up to date. Raises: StoreError: the file is damaged."""
        self._check_structure(db)
        self._find_last(db)
        self._place.note_log()
        # Before the first change: the checksum of the whole file will no longer be right.
        self._stamps.write(Stamp(self._commit, self._job), is_synced=True)
        self._is_open = True
        try:
            forget_in_steps(db, list_half_forgotten(db))
            self._room.make_reserve(db)
        except (sqlite3.Error, OSError) as error:
            if not is_full(error):
                raise

    def close(self) -> None:
        """To be called when all connections are closed."""
        is_whole = not Path(f"{self._path}-wal").exists()  # else another program has it open
        if self._is_open and is_whole and self._place.is_in_place:
            size, checksum = compute_checksum(self._path)
            self._stamps.write(Stamp(self._commit, self._job, True, size, checksum))
        self._stamps.close()

    def commit(self, db: sqlite3.Connection, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """Commit all of the records or none. Returns the claims that were lost."""
        self._place.check()
        needs_room = any(isinstance(record, NEEDS_ROOM) for record in records)
        if needs_room and not self._room.has_reserve:
            self._room.make_reserve(db)
        try:
            return self._write(db, records)
        except (sqlite3.Error, OSError) as error:
            if needs_room or not is_full(error):
                raise
        forgotten = [record.job for record in records if isinstance(record, JobForgotten)]
        if forgotten:
            forget_in_steps(db, forgotten)
        return self._write_with_reserve(db, records)

    def _write_with_reserve(self, db: sqlite3.Connection, records: Sequence[Record]) -> frozenset[AttemptKey]:
        try:
            return self._write(db, records)
        except (sqlite3.Error, OSError) as error:
            if not self._room.has_reserve or not is_full(error):
                raise
        lost = self._write(db, records, frees_reserve=True)
        self._room.has_reserve = False
        return lost

    def prepare(self, db: sqlite3.Connection) -> None:
        """Make room for new work. Raises: StoreError, sqlite3.Error, OSError."""
        self._place.check()
        self._room.make_reserve(db)
        self._room.make_room(db)
        self._write(db, ())

    def _write(
        self, db: sqlite3.Connection, records: Sequence[Record], frees_reserve: bool = False
    ) -> frozenset[AttemptKey]:
        number = self._commit + 1
        with transaction(db):
            if frees_reserve:
                self._room.free_reserve(db)
            lost = apply(db, records)
            db.execute(SET_COMMIT, (number,))
            self._room.claim_growth(db)
        self._commit = number
        self._job = max([self._job, *(record.job for record in records if isinstance(record, JobAdded))])
        self._stamps.write(Stamp(number, self._job))
        return lost

    # Opening

    def _is_other_file(self) -> bool:
        """True if the file is not the one that the last foreman closed. Raises: OSError."""
        last = self._stamps.last
        return last is not None and last.is_closed and compute_checksum(self._path) != (last.size, last.checksum)

    def _check_structure(self, db: sqlite3.Connection) -> None:
        last = self._stamps.last
        if last is None or (last.is_closed and not self._has_changed):
            return
        (answer,) = db.execute(FULL_CHECK if last.is_closed else QUICK_CHECK).fetchone()
        if answer != "ok":
            raise StoreError(f"{self._path}: damaged ({answer}): {MEND}")

    def _find_last(self, db: sqlite3.Connection) -> None:
        """Find the last commit and the last job, in the file or in the stamp, and report what the file lacks."""
        (commit,), (job,) = db.execute(GET_COMMIT).fetchone(), db.execute(GET_LAST_JOB).fetchone()
        last = self._stamps.last or Stamp()
        self._commit, self._job = max(commit, last.commit), max(JobId(job), last.job)
        if commit < last.commit:
            self.problems.append(self._describe_loss(last.commit - commit, job + 1, last.job))
        elif self._has_changed:
            self.problems.append(
                f"{self._path}: it has changed since the foreman closed it, by another program or by damage; "
                "its structure is sound, but what was changed in it is not known"
            )

    def _describe_loss(self, commits: int, first: int, last: int) -> str:
        jobs = "no job among them"
        if first <= last:
            jobs = f"with them job {first}" if first == last else f"with them jobs {first} to {last}"
        return (
            f"{self._path}: the last {commits:,} commits are gone, by damage or because an older copy was put in its "
            f"place, {jobs}; tasks whose results were in them run again. Numbers of jobs go on at {last + 1}"
        )
