"""A file that survives the worker: which process groups run for which attempts, and how some attempts ended.

With it, no group outlives its worker for long, and an ending counts even if the worker died before it reported it. A
slot process runs many attempts, so its row has 0 for job, task and attempt. `recovery` reads a dead worker's file.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from gandy.core.model import AttemptKey, Ending
from gandy.core.shards import NO_SHARD
from gandy.files import write_all
from gandy.ids import JobId, TaskNumber
from gandy.journal import TABLE_NAME
from gandy.worker.labels import MARK_BITS

ROW_BYTES: Final = 512  # enough for an ending, with some room for its note
EMPTY_ROW: Final = b"\n".rjust(ROW_BYTES)
# In place of a group's number: in the first row, and in rows whose group is dead, since its number may be reused.
MARK_WORD, ENDED_WORD = b"mark", b"ended"
SLOT_MARK: Final = "GANDY_SLOT_OF"  # in the environment of slot processes and of what they start
NO_ATTEMPT: Final = AttemptKey(JobId(0), TaskNumber(0), 0)

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Ending).decode


class Row(NamedTuple):
    """A process group and the attempt that it runs, or how that attempt ended."""

    group: int
    attempt: AttemptKey
    files: str = ""  # stem of the names of its output files
    identity: int = 0  # of the job
    ending: Ending | None = None
    shard: int = NO_SHARD  # that the task came from


class Rows(NamedTuple):
    """What is in the file: the mark of the worker that wrote it, and the rows that are not empty."""

    mark: int  # 0: there is no valid file
    rows: list[Row]


class GroupTable:
    """The groups of one worker, each with a row of the file. Its folder must be locked. Raises: OSError."""

    def __init__(self, folder: Path) -> None:
        self.mark = secrets.randbits(MARK_BITS)
        self.path = folder / TABLE_NAME
        # A new file: the watchdog of the former worker may still read the old one, and kill what it finds there.
        self.path.unlink(missing_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._free: list[int] = []
        self._stale: list[int] = []  # also free, but not overwritten yet
        self._write(0, b"%s %d" % (MARK_WORD, self.mark))
        self._rows = 1

    def add(self, group: int, attempt: AttemptKey = NO_ATTEMPT) -> int:
        """Add a row. Returns its number, for `end` and `remove`. Raises: OSError, if the disk is full."""
        rows = self._stale or self._free
        row = rows[-1] if rows else self._rows
        self._write(row, b"%d %d %d %d" % (group, *attempt))
        if rows:
            rows.pop()
        else:
            self._rows += 1
        return row

    def end(self, row: int, ended: Row) -> None:
        """Record how an attempt ended, before its output is moved. Raises: OSError."""
        _, attempt, files, identity, ending, shard = ended
        origin = b"%d/%d" % (identity, shard) if shard else b"%d" % identity
        head = b"%s %d %d %d %s %s " % (ENDED_WORD, *attempt, files.encode(), origin)
        text = head + _encode(ending)
        if len(text) >= ROW_BYTES:
            text = head + _encode(replace(ending, note="")) if ending is not None else head
        self._write(row, text)

    def remove(self, row: int) -> None:
        """Free a row. `tidy` must follow; an `add` before that reuses the row, which saves a write."""
        self._stale.append(row)

    def tidy(self) -> None:
        """Overwrite the rows that were removed. If the disk is full, the next call tries again."""
        with suppress(OSError):
            while self._stale:
                write_all(self._file, EMPTY_ROW, self._stale[-1] * ROW_BYTES)
                self._free.append(self._stale.pop())

    def close(self) -> None:
        """Remove the file: nothing runs any more."""
        os.close(self._file)
        self.path.unlink(missing_ok=True)

    def _write(self, row: int, text: bytes) -> None:
        write_all(self._file, text.ljust(ROW_BYTES - 1) + b"\n", row * ROW_BYTES)


def read_rows(folder: Path) -> Rows:
    """Read what a dead worker left in its folder."""
    try:
        lines = (folder / TABLE_NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return Rows(0, [])
    words = lines[0].split() if lines else []
    mark = int(words[1]) if len(words) == 2 and words[0] == MARK_WORD and words[1].isdigit() else 0
    return Rows(mark, [row for row in map(_parse_row, lines[1:]) if row is not None])


def _parse_row(line: bytes) -> Row | None:
    """Parse a row. None: it is empty, or of another version."""
    try:
        group, job, task, attempt, *rest = line.split(maxsplit=6)
        key = AttemptKey(JobId(int(job)), TaskNumber(int(task)), int(attempt))
        if group == ENDED_WORD:
            files, origin, ending = rest
            identity, _, shard = origin.partition(b"/")
            return Row(0, key, files.decode(), int(identity), _decode(ending), int(shard or NO_SHARD))
        return Row(int(group), key)
    except (ValueError, msgspec.DecodeError):
        return None
