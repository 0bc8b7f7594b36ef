"""The file in which a worker keeps results until the foreman has them, and the lock on the worker's folder.

It survives kill -9 of the worker. Nothing is synced, so a crash of the machine may lose the end of it. It may hold
results that the foreman already has; the foreman recognises them by the number of the attempt. Sends nothing.
"""

import fcntl
import logging
import os
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from gandy.bounds import BROKEN
from gandy.clocks import read_monotonic
from gandy.files import write_all
from gandy.limits import MAX_BATCH, MAX_FORMER
from gandy.processes import is_dead
from gandy.wire import payloads
from gandy.wire.messages import TaskResult

log = logging.getLogger("gandy.journal")

NAME: Final = "results"
LOCK_NAME: Final = "lock"
TABLE_NAME: Final = "running"  # of the file that lists what runs; a worker that leaves nothing behind removes it
# Bytes at which the file is rewritten with unacknowledged results only: every few thousand tasks of a busy worker.
REWRITE_BYTES: Final = 1_000_000
# Bytes of acknowledged results that may stay in the file. More are truncated, which costs as much as ten writes.
STALE_BYTES: Final = 16_384

WATCHDOG_SECONDS: Final = 20.0  # for a dead worker's watchdog to tidy up; it usually takes a fraction of a second

_HEAD: Final = struct.Struct("<III")  # of a record: bytes of its body, generation, checksum of generation and body
_GENERATION: Final = struct.Struct("<I")
_encode: Final = msgspec.msgpack.Encoder().encode


class WorkerIds(Struct, frozen=True, array_like=True):
    """The first record: ids of the worker and of former workers in the folder, the oldest first."""

    ids: tuple[str, ...]


_decode_ids: Final = msgspec.msgpack.Decoder(WorkerIds).decode


class Left(NamedTuple):
    """What dead workers left behind: their ids, the oldest first, and results that the foreman may not have."""

    ids: tuple[str, ...] = ()
    results: tuple[TaskResult, ...] = ()


class Journal:
    """The file of one worker, open for writing. Its folder must be locked.

    A full disk makes no task fail: results are then kept in memory only, and a warning is logged.
    """

    def __init__(self, folder: Path, ids: Sequence[str], packed: Sequence[bytes]) -> None:
        """`ids`: of former workers and this one; `packed`: results that are not acknowledged. Raises: OSError."""
        self._path = folder / NAME
        self._ids = WorkerIds(tuple(ids[-MAX_FORMER:]))
        self._file = -1
        self._start = self._end = self._limit = 0  # bytes: of the first record, of all, and until `is_large`
        self._generation = 0
        self.is_behind = False  # results are missing because the disk was full; `compact` may add them later
        self.rewrite(packed)

    @property
    def is_large(self) -> bool:
        """True if `rewrite` should be called."""
        return self._end > self._limit

    def add(self, packed: Sequence[bytes]) -> None:
        """Append results in one write. Unless `is_behind`, they are safe from kill -9 when this returns."""
        if self.is_behind:
            return
        data = self._make_records(packed)
        try:
            write_all(self._file, data, self._end)
        except OSError as error:
            self._complain(error)
            return
        self._end += len(data)

    def forget(self) -> None:
        """Drop all results: they are acknowledged. Writes nothing: the next record overwrites the first."""
        self.is_behind = False
        if self._end == self._start:
            return
        if self._end > self._start + STALE_BYTES:
            os.ftruncate(self._file, self._start)
        self._end = self._start
        # Old records may follow the new ones in the file, so a reader stops where the generation changes.
        self._generation = (self._generation + 1) & 0xFFFF_FFFF

    def rewrite(self, packed: Sequence[bytes]) -> None:
        """Replace the file with one that has these results only. Raises: OSError."""
        new = self._path.with_suffix(".new")
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        head = self._make_record(_encode(self._ids))
        body = self._make_records(packed)
        try:
            write_all(file, head + body)
            new.rename(self._path)
        except OSError:
            os.close(file)
            with suppress(OSError):
                new.unlink()
            raise
        self.close()
        self.is_behind = False
        self._file, self._start, self._end = file, len(head), len(head) + len(body)
        self._limit = max(REWRITE_BYTES, 2 * self._end)

    def compact(self, packed: Sequence[bytes]) -> None:
        """Like `rewrite`, but log a warning if it fails."""
        try:
            self.rewrite(packed)
        except OSError as error:
            self._complain(error)
            self._limit *= 2

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _make_records(self, packed: Sequence[bytes]) -> bytes:
        parts = (packed[begin : begin + MAX_BATCH] for begin in range(0, len(packed), MAX_BATCH))
        return b"".join(self._make_record(payloads.join(part)) for part in parts)

    def _make_record(self, body: bytes) -> bytes:
        number = _GENERATION.pack(self._generation)
        return _HEAD.pack(len(body), self._generation, zlib.crc32(body, zlib.crc32(number))) + body

    def _complain(self, error: OSError) -> None:
        if not self.is_behind:
            self.is_behind = True
            log.warning("%s: %s; a kill -9 of this worker may lose results", self._path, error.strerror)


def read_left(folder: Path) -> Left:
    """Read what dead workers left in their folder. Ignores an incomplete record at the end."""
    try:
        data = (folder / NAME).read_bytes()
    except OSError:
        return Left()
    ids, at, _ = _read_record(data, 0)
    try:
        return Left(_decode_ids(ids).ids, tuple(_read_results(data, at)))
    except BROKEN:  # not a journal of this version
        return Left()


def _read_results(data: bytes, at: int) -> Iterable[TaskResult]:
    generation = None
    while at < len(data):
        body, at, found = _read_record(data, at)
        if not body or generation not in (None, found):
            return  # incomplete, or left over from before `forget`
        generation = found
        yield from payloads.decode_results(body)


def _read_record(data: bytes, at: int) -> tuple[bytes, int, int]:
    """Return a record's body, the offset of the next record, and the generation. An incomplete record has no body."""
    if len(data) - at < _HEAD.size:
        return b"", len(data), 0
    size, generation, check = _HEAD.unpack_from(data, at)
    begin = at + _HEAD.size
    body = data[begin : begin + size]
    if len(body) < size or zlib.crc32(body, zlib.crc32(_GENERATION.pack(generation))) != check:
        return b"", len(data), 0
    return body, begin + size, generation


def lock_folder(folder: Path, owner: int | None = None) -> int | None:
    """Lock a worker's folder. Returns a descriptor that holds the lock, or None if another worker has it.

    `owner`: the process that users see as this worker, if it is not the current one. Waits while the watchdog of a dead
    worker holds the lock, since that is about to end.
    """
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = read_monotonic() + WATCHDOG_SECONDS
    while not _try_lock(descriptor, fcntl.LOCK_EX):
        if not _is_abandoned(descriptor) or read_monotonic() > deadline:
            os.close(descriptor)
            return None
        time.sleep(0.01)
    write_all(descriptor, b"%20d\n" % (owner or os.getpid()), 0)
    return descriptor


def read_abandoned(folder: str) -> Left | None:
    """Read what dead workers left. None: not all of it is in the journal yet, or a process uses their folder.

    If the watchdog was killed too, only the next worker in the folder can find out what ended and kill what runs.
    """
    if not Path(folder).is_absolute():  # the worker keeps nothing
        return Left()
    try:
        descriptor = os.open(Path(folder) / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # the folder was removed, or is in another container
        return Left()
    try:
        is_tidy = _try_lock(descriptor, fcntl.LOCK_SH) and not (Path(folder) / TABLE_NAME).exists()
        return read_left(Path(folder)) if is_tidy else None
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_abandoned(lock: int) -> bool:
    """True if the worker that took the lock is dead."""
    pid = os.pread(lock, 32, 0).strip()
    return not pid or is_dead(int(pid))
