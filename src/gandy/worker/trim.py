"""Removes old output of tasks. Leaves alone what running tasks write."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Weight(NamedTuple):
    """A kept file, or a folder of them: when it was last written to, and its bytes."""

    changed: float
    size: int
    path: Path


def weigh(folder: Path) -> int:
    """How many bytes are kept there."""
    return sum(_weigh_shard(shard).size for shard in _list_shards(folder))


def trim(folder: Path, max_bytes: int) -> int:
    """Remove the oldest output until `max_bytes` are left. Gives how many bytes went."""
    # Shard by shard: a list of a million files would not be small.
    shards = sorted(_weigh_shard(shard) for shard in _list_shards(folder))
    excess = sum(shard.size for shard in shards) - max_bytes
    removed = 0
    for shard in shards:
        for file in sorted(_list_files(shard.path)):
            if removed >= excess:
                break
            with suppress(OSError):  # what cannot be removed stays, and something younger goes
                file.path.unlink(missing_ok=True)
                removed += file.size
    _remove_empty_folders(folder)
    return removed


def _weigh_shard(path: Path) -> Weight:
    files = list(_list_files(path))
    return Weight(max((file.changed for file in files), default=0.0), sum(file.size for file in files), path)


def _list_files(shard: Path) -> Iterator[Weight]:
    with suppress(FileNotFoundError):
        for entry in os.scandir(shard):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield Weight(status.st_mtime, status.st_size, Path(entry.path))


def _list_shards(folder: Path) -> list[Path]:
    return [shard for job in _list_numbered(folder) for shard in _list_numbered(job)]


def _list_numbered(folder: Path) -> list[Path]:
    """Folders of jobs or of shards; the names of other things that a worker keeps do not begin with a number.

    None where the folder itself is gone.
    """
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.name[:1].isdigit() and entry.is_dir()]
    except FileNotFoundError:
        return []


def _remove_empty_folders(folder: Path) -> None:
    for path in [*_list_shards(folder), *_list_numbered(folder)]:
        with suppress(OSError):  # not empty
            path.rmdir()
