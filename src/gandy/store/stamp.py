"""A few bytes beside a store that record its last commit, so that a loss of commits is noticed.

SQLite silently ends its log at the first damaged frame. The stamp is written after each commit and not synced: it
survives the death of the foreman, and after a power cut it may be behind the store, never ahead of it.
"""

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from gandy.files import write_all
from gandy.ids import JobId

MAGIC: Final = b"gstp"
SLOT_BYTES: Final = 64  # of one of two slots, which are written in turn: one is always whole
CHUNK_BYTES: Final = 1 << 20  # read at once to compute a checksum
_FIELDS: Final = struct.Struct("<4sQQQ?QI")  # magic, turn, and those of Stamp; then comes a checksum of these
_CHECKSUM: Final = struct.Struct("<I")


class Stamp(NamedTuple):
    """A store after its last commit."""

    commit: int = 0  # the number of the last commit
    job: JobId = JobId(0)  # the highest number that a job was given
    is_closed: bool = False  # nothing was committed since; size and checksum are of the whole file
    size: int = 0
    checksum: int = 0


class StampFile:
    """Two slots, of which the newer one counts. Errors of writing are ignored: then a loss may go unnoticed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = 0
        self._descriptor: int | None = None
        self.last: Stamp | None = None  # None: not known
        with suppress(OSError):
            slots = path.read_bytes()
            found = [_decode(slots[place : place + SLOT_BYTES]) for place in (0, SLOT_BYTES)]
            self._turn, self.last = max((slot for slot in found if slot is not None), default=(0, None))

    def write(self, stamp: Stamp, is_synced: bool = False) -> None:
        with suppress(OSError):
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._turn += 1
            write_all(self._descriptor, _encode(self._turn, stamp), self._turn % 2 * SLOT_BYTES)
            if is_synced:
                os.fsync(self._descriptor)
        self.last = stamp

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def compute_checksum(path: Path) -> tuple[int, int]:
    """Size and checksum of a file. Raises: OSError."""
    size = checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return size, checksum


def _encode(turn: int, stamp: Stamp) -> bytes:
    fields = _FIELDS.pack(MAGIC, turn, stamp.commit, stamp.job, stamp.is_closed, stamp.size, stamp.checksum)
    return (fields + _CHECKSUM.pack(zlib.crc32(fields))).ljust(SLOT_BYTES, b"\0")


def _decode(slot: bytes) -> tuple[int, Stamp] | None:
    fields, rest = slot[: _FIELDS.size], slot[_FIELDS.size : _FIELDS.size + _CHECKSUM.size]
    if len(rest) < _CHECKSUM.size or _CHECKSUM.unpack(rest) != (zlib.crc32(fields),):
        return None
    magic, turn, commit, job, is_closed, size, checksum = _FIELDS.unpack(fields)
    return (turn, Stamp(commit, JobId(job), is_closed, size, checksum)) if magic == MAGIC else None
