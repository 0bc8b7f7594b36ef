"""The tables of a history in SQLite, and the statements that use them. It opens no file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

from gandy.core.samples import KEPT, Level, StoredSample
from gandy.limits import MAX_HISTORY_BYTES, MAX_SECONDS
from gandy.moments import Wall

# The table of each level. Numbers of rows follow one another, in the order in which samples came.
TABLES: Final = {Level.SAMPLE: "samples", Level.KEYFRAME: "keyframes", Level.HOURLY: "hourly"}

MAKE_TABLE: Final = (
    """
    CREATE TABLE {table} (
        id INTEGER PRIMARY KEY,
        shard INTEGER NOT NULL,
        number INTEGER NOT NULL,
        run INTEGER NOT NULL,
        base INTEGER NOT NULL,
        at REAL NOT NULL,
        packed BLOB NOT NULL
    )
    """,
    "CREATE INDEX {table}_by_number ON {table} (shard, number)",
    "CREATE INDEX {table}_by_time ON {table} (shard, at)",
)

ADD: Final = "INSERT INTO {table} (id, shard, number, run, base, at, packed) VALUES (?, ?, ?, ?, ?, ?, ?)"

# The first and the last row, and the bytes of all.
MEASURE: Final = "SELECT min(id), max(id), coalesce(sum(length(packed)), 0) FROM {table}"

GET_BYTES: Final = "SELECT length(packed) FROM {table} WHERE id = ?"
DROP: Final = "DELETE FROM {table} WHERE id = ?"

# When the oldest row was made, if older ones were dropped.
GET_SINCE: Final = "SELECT at FROM {table} WHERE id = (SELECT min(id) FROM {table}) AND id > 1"

LIST_SHARDS: Final = "SELECT DISTINCT shard FROM {table}"

# The last sample of each run in each step. SQLite takes the other columns from the row with the greatest time.
LIST_STEPS: Final = """
SELECT shard, number, run, base, at, packed, max(at) FROM {table} WHERE shard = ?1 AND at BETWEEN ?2 AND ?3
GROUP BY run, CAST((at - ?2) / ?4 AS INTEGER)
"""

# A shard's last sample up to a time.
FIND_UP_TO: Final = """
SELECT shard, number, run, base, at, packed FROM {table} WHERE shard = ? AND at <= ?
ORDER BY at DESC, number DESC LIMIT 1
"""

# A shard's last sample by number.
FIND_LAST: Final = """
SELECT shard, number, run, base, at, packed FROM {table} WHERE shard = ? ORDER BY number DESC LIMIT 1
"""

# A shard's samples between two times.
LIST_TIMES: Final = """
SELECT shard, number, run, base, at, packed FROM {table} WHERE shard = ? AND at BETWEEN ? AND ?
"""

# A shard's samples between two numbers.
LIST_NUMBERS: Final = """
SELECT shard, number, run, base, at, packed FROM {table} WHERE shard = ? AND number BETWEEN ? AND ?
"""

# All samples behind one.
READ_PAGE: Final = """
SELECT shard, number, run, base, at, packed FROM {table} WHERE (at, shard, number) > (?, ?, ?)
ORDER BY at, shard, number LIMIT ?
"""


class TableSize(NamedTuple):
    """What a table has: its first and last row, and the bytes of all samples in it."""

    first: int
    last: int
    bytes: int


EMPTY: Final = TableSize(1, 0, 0)
EMPTY_NOW: Final = TableSize(2, 1, 0)  # one that had rows


def query(db: sqlite3.Connection, statement: str, level: Level, *values: object) -> list[tuple[Any, ...]]:
    with closing(db.execute(statement.format(table=TABLES[level]), values)) as cursor:
        return cursor.fetchall()


def list_rows(db: sqlite3.Connection, statement: str, level: Level, *values: object) -> Iterator[StoredSample]:
    """The samples of a statement, but for damaged rows."""
    for shard, number, run, base, at, packed, *_ in query(db, statement, level, *values):
        is_whole = all(isinstance(each, int) and each >= 0 for each in (shard, number, run, base))
        if is_whole and isinstance(packed, bytes) and isinstance(at, float) and abs(at) <= MAX_SECONDS:
            yield StoredSample(shard, number, run, base, level, Wall(at), packed)


def to_row(sample: StoredSample) -> tuple[int, int, int, int, float, bytes]:
    return sample.shard, sample.number, sample.run, sample.base, float(sample.at), sample.packed


def measure(db: sqlite3.Connection, level: Level) -> TableSize:
    ((first, last, count),) = query(db, MEASURE, level)
    return TableSize(first or 1, last or 0, count)


def trim(db: sqlite3.Connection, level: Level, size: TableSize) -> TableSize:
    """Drop the oldest samples of a table that has too many."""
    first, last, left = size
    while last - first >= KEPT[level] or left > MAX_HISTORY_BYTES:
        ((count,),) = query(db, GET_BYTES, level, first)
        query(db, DROP, level, first)
        first, left = first + 1, left - count
    return TableSize(first, last, left)
