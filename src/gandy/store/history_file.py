"""The history beside a file of jobs, in a file of its own: neither its damage nor its growth can touch the jobs.

It is made with the first sample. If it is damaged, it is set aside, and a new one begins. Written without waiting for
the disk: after a power cut the last seconds may be missing.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf, nextafter
from pathlib import Path
from typing import Final, TypeVar

from gandy.core.samples import ALWAYS, Extent, LastSample, Level, StoredSample
from gandy.errors import StoreError
from gandy.limits import MIN_HISTORY_ROOM
from gandy.moments import Wall
from gandy.store.history import NEAR, choose_last, choose_samples, find_first, get_age
from gandy.store.history_tables import (
    ADD,
    EMPTY,
    EMPTY_NOW,
    FIND_LAST,
    FIND_UP_TO,
    GET_SINCE,
    LIST_NUMBERS,
    LIST_SHARDS,
    LIST_STEPS,
    LIST_TIMES,
    MAKE_TABLE,
    READ_PAGE,
    TABLES,
    TableSize,
    list_rows,
    measure,
    query,
    to_row,
    trim,
)
from gandy.store.sqlite_open import explained
from gandy.store.sqlite_write import transaction

log = logging.getLogger("gandy.store")

T = TypeVar("T")

# "GANH": tells these files from others.
APPLICATION_ID: Final = 0x47414E48
VERSION: Final = 1

# Seconds. Only a user with another program can have locked the file.
BUSY_TIMEOUT: Final = 1.0


class HistoryFile:
    """The file. It is opened when it is needed, by the only thread that uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None
        self._sizes: dict[Level, TableSize] = {}
        self._shards: set[int] = set()

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    # Opening

    def _open(self) -> sqlite3.Connection:
        """Raises: sqlite3.Error; StoreError: it is no history, or one of a newer gandy."""
        if self._db is None:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite takes its mode
            db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None)
            try:
                self._prepare(db)
                self._sizes = {level: measure(db, level) for level in Level}
                self._shards = {shard for level in Level for (shard,) in query(db, LIST_SHARDS, level)}
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _prepare(self, db: sqlite3.Connection) -> None:
        (application,), (version,) = (
            db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION_ID:
            raise StoreError(f"{self.path}: an SQLite file, but not one of history: move it away")
        if version > VERSION:
            raise StoreError(f"{self.path}: version {version} is of a newer gandy; this one knows up to {VERSION}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            with transaction(db):
                for statement in (each.format(table=table) for table in TABLES.values() for each in MAKE_TABLE):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {VERSION}")

    def _use(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """Raises: StoreError. A damaged file is set aside, and the next one is empty."""
        with explained(self.path):
            try:
                return do(self._open())
            except sqlite3.DatabaseError as error:
                self._sizes.clear()
                if not _is_damage(error):
                    raise
                self._set_aside(error)
            return do(self._open())

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        self.close()
        aside = Path(f"{self.path}.damaged")
        os.replace(self.path, aside)  # noqa: PTH105 - it replaces one that was set aside before
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").unlink()
        log.warning("%s: damaged (%s): it is now %s, and a new history begins", self.path, error, aside)

    # Writing

    def add(self, samples: Sequence[StoredSample]) -> None:
        state = os.statvfs(self.path.parent)
        if state.f_bavail * state.f_frsize < MIN_HISTORY_ROOM:
            raise StoreError(f"{self.path}: the disk is nearly full, and the rest of it is for jobs", retryable=True)
        self._use(lambda db: self._add(db, samples))

    def note_dropped(self, level: Level) -> None:
        """The first row of an empty table gets the number 2: so it says that there was another one."""

        def note(db: sqlite3.Connection) -> None:
            sizes = {each: measure(db, each) for each in Level}
            if sizes[level] == EMPTY:
                self._sizes = {**sizes, level: EMPTY_NOW}

        self._use(note)

    def _add(self, db: sqlite3.Connection, samples: Sequence[StoredSample]) -> None:
        sizes = self._sizes or {level: measure(db, level) for level in Level}
        self._sizes = {}  # measured again, if this fails
        with transaction(db):
            for level in Level:
                new = [sample for sample in samples if sample.level is level]
                before, count = sizes[level], sum(len(sample.packed) for sample in new)
                rows = ((number, *to_row(sample)) for number, sample in enumerate(new, before.last + 1))
                db.executemany(ADD.format(table=TABLES[level]), rows)
                grown = TableSize(before.first, before.last + len(new), before.bytes + count)
                sizes[level] = trim(db, level, grown)
        self._sizes = sizes
        self._shards.update(sample.shard for sample in samples)

    # Reading

    def find_last(self, shard: int) -> LastSample | None:
        found = self._read(lambda db: [row for level in Level for row in list_rows(db, FIND_LAST, level, shard)])
        if not found:
            return None
        hourly = (sample.at for sample in found if sample.level is Level.HOURLY)
        return LastSample(max(found, key=lambda sample: sample.number), next(hourly, None))

    def get_extent(self) -> Extent:
        def get(db: sqlite3.Connection) -> Extent:
            first, second, third = (next((at for (at,) in query(db, GET_SINCE, level)), ALWAYS) for level in Level)
            return Extent((first, second, third), len(self._shards))

        return self._use(get) if self._is_there() else Extent()

    def list_samples(self, level: Level, begin: Wall, end: Wall, step: float) -> list[StoredSample]:
        levels = [each for each in Level if each >= level]

        def get(db: sqlite3.Connection) -> list[StoredSample]:
            values = float(begin), float(end), step
            samples = [
                sample
                for shard in self._shards
                for each in levels
                for sample in list_rows(db, LIST_STEPS, each, shard, *values)
            ]
            before = [
                sample
                for shard in self._shards
                for each in Level
                for sample in list_rows(db, FIND_UP_TO, each, shard, nextafter(begin, -inf))
            ]
            return choose_samples(samples, before, begin, step)

        return self._read(get)

    def find_samples(self, at: Wall) -> list[StoredSample]:
        return self._read(
            lambda db: [each for shard in sorted(self._shards) for each in self._find_chain(db, shard, at)]
        )

    def _find_chain(self, db: sqlite3.Connection, shard: int, at: Wall) -> list[StoredSample]:
        """A shard's last sample up to a time, behind those that it builds on."""
        found = [each for level in Level for each in list_rows(db, FIND_UP_TO, level, shard, float(at))]
        if not found:
            return []
        newest = max(found, key=get_age)
        span = float(newest.at) - NEAR, float(newest.at)
        near = [each for level in Level for each in list_rows(db, LIST_TIMES, level, shard, *span)]
        last = choose_last(near)
        numbers = find_first(last), last.number
        found = [each for level in Level for each in list_rows(db, LIST_NUMBERS, level, shard, *numbers)]
        return sorted(found, key=lambda sample: sample.number)

    def read_samples(self, level: Level, after: StoredSample | None, limit: int) -> list[StoredSample]:
        place = (ALWAYS, -1, -1) if after is None else (after.at, after.shard, after.number)
        return self._read(lambda db: list(list_rows(db, READ_PAGE, level, float(place[0]), *place[1:], limit)))

    def _read(self, do: Callable[[sqlite3.Connection], list[StoredSample]]) -> list[StoredSample]:
        """Read from the file, if there is one."""
        return self._use(do) if self._is_there() else []

    def _is_there(self) -> bool:
        return self._db is not None or self.path.exists()


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest are details
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "Could not decode" in str(error)
