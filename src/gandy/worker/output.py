"""Files that keep what tasks print: FOLDER/JOB/SHARD/TASK.ATTEMPT.out and .err. Never reads more than it is asked for.

A file that stayed empty is removed when its task ends, so silent tasks leave nothing behind.
"""

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from gandy.core.model import AttemptKey

Stream = Literal["out", "err"]

TASKS_PER_SHARD: Final = 1000  # a folder with a million files is slow to list and to remove
TAIL_BYTES: Final = 4096  # of standard error; goes with every ending, so it stays small
FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


class Piece(NamedTuple):
    """Part of an output. After `is_last` nothing more will come."""

    data: bytes
    is_last: bool


def output_path(folder: Path, attempt: AttemptKey, stream: Stream) -> str:
    # Not a Path: these are made several times per task, and a Path costs more than the system call it is for.
    shard = attempt.task // TASKS_PER_SHARD
    return f"{folder}/{attempt.job}/{shard}/{attempt.task}.{attempt.attempt}.{stream}"


def create_output(folder: Path, attempt: AttemptKey) -> tuple[int, int]:
    """Descriptors for the two streams. Raises: OSError."""
    out = _create(output_path(folder, attempt, "out"))
    try:
        return out, _create(output_path(folder, attempt, "err"))
    except OSError:
        os.close(out)
        raise


def _create(path: str) -> int:
    try:
        return os.open(path, FLAGS, 0o600)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, FLAGS, 0o600)


def finish_output(folder: Path, attempt: AttemptKey) -> bytes:
    """The last words on standard error, once the task has ended."""
    _remove_if_empty(output_path(folder, attempt, "out"))
    err = output_path(folder, attempt, "err")
    return b"" if _remove_if_empty(err) else _read_tail(err)


def _remove_if_empty(path: str) -> bool:
    try:
        is_empty = os.stat(path).st_size == 0  # noqa: PTH116 (see output_path)
        if is_empty:
            os.unlink(path)  # noqa: PTH108
    except OSError:  # the task removed it
        return True
    return is_empty


def _read_tail(path: str) -> bytes:
    try:
        with Path(path).open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
    except OSError:
        return b""


def read_output(folder: Path, attempt: AttemptKey, stream: Stream, offset: int, limit: int) -> bytes:
    """At most `limit` bytes from `offset`; nothing where there is no (more) output."""
    try:
        descriptor = os.open(output_path(folder, attempt, stream), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    try:
        return os.pread(descriptor, limit, offset)
    finally:
        os.close(descriptor)


class Shard(NamedTuple):
    """A folder of output files: what it weighs and when it was last written to."""

    changed: float
    size: int
    path: Path


class KeptFile(NamedTuple):
    """An output file that may be removed."""

    changed: float
    size: int
    path: Path


def trim(
    folder: Path, max_bytes: int | None = None, max_age: float | None = None, keep: Collection[AttemptKey] = ()
) -> int:
    """Remove output older than `max_age` seconds, then the oldest until `max_bytes` are left; how many bytes went.

    What the attempts in `keep` write, and what is written while this runs, stays.
    """
    now = time.time()
    kept = {output_path(folder, attempt, stream) for attempt in keep for stream in ("out", "err")}
    oldest = now if max_age is None else now - max_age
    removed = 0
    if max_age is not None:
        removed += sum(_remove_older(shard, oldest, kept) for shard in _list_shards(folder))
    if max_bytes is not None:
        removed += _remove_oldest(folder, max_bytes, now, kept)
    _remove_empty_folders(folder)
    return removed


def _remove_older(shard: Path, oldest: float, kept: Collection[str]) -> int:
    return sum(_remove(file) for file in _list_files(shard, oldest, kept))


def _remove_oldest(folder: Path, max_bytes: int, now: float, kept: Collection[str]) -> int:
    # Shard by shard: a list of a million files would not be small.
    shards = sorted(_weigh(path) for path in _list_shards(folder))
    excess = sum(shard.size for shard in shards) - max_bytes
    removed = 0
    for shard in shards:
        for file in _list_files(shard.path, now, kept):
            if removed >= excess:
                return removed
            removed += _remove(file)
    return removed


def _remove(file: KeptFile) -> int:
    file.path.unlink(missing_ok=True)
    return file.size


def _weigh(path: Path) -> Shard:
    files = list(_scan(path))
    return Shard(max((file.changed for file in files), default=0.0), sum(file.size for file in files), path)


def _list_files(shard: Path, oldest: float, kept: Collection[str]) -> list[KeptFile]:
    """Oldest first, those that were last written before `oldest`."""
    return sorted(file for file in _scan(shard) if file.changed < oldest and str(file.path) not in kept)


def _scan(shard: Path) -> Iterator[KeptFile]:
    for entry in os.scandir(shard):
        with suppress(FileNotFoundError):  # its task has just ended, and it was empty
            status = entry.stat(follow_symlinks=False)
            yield KeptFile(status.st_mtime, status.st_size, Path(entry.path))


def _list_shards(folder: Path) -> list[Path]:
    return [shard for job in _list_folders(folder) for shard in _list_folders(job)]


def _list_folders(folder: Path) -> list[Path]:
    return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]


def _remove_empty_folders(folder: Path) -> None:
    for path in [*_list_shards(folder), *_list_folders(folder)]:
        with suppress(OSError):  # not empty
            path.rmdir()
