"""Removes old output of tasks. Does not touch files of running tasks."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from gandy.moments import Wall
from gandy.worker.output import OutputFolder

log = logging.getLogger("gandy.worker")

TRIMMED: Final = 0.9  # share of the limit that trimming leaves, so that it is not needed again soon
LOOK_PERIOD: Final = 10.0  # seconds between two checks of how much output there is


async def keep_trimmed(outputs: OutputFolder, max_bytes: int) -> None:
    """Remove the oldest output whenever there is too much of it, until cancelled.

    It reads the disk at the start and for each trimming; in between it only counts.
    """
    before: int | None = None  # bytes that were kept before `outputs` began to count
    while True:
        try:
            if before is None:
                before = await _run_in_thread(weigh, outputs.folder) - outputs.kept_bytes
            if before + outputs.kept_bytes > max_bytes:
                before -= await _run_in_thread(trim, outputs.folder, int(max_bytes * TRIMMED))
        except (OSError, RuntimeError) as error:  # RuntimeError: no more threads can be started
            log.warning("old output cannot be removed now: %s", error)
        await asyncio.sleep(LOOK_PERIOD)


async def _run_in_thread(act: Callable[..., int], *args: object) -> int:
    # In a new thread, which ends: the kernel would wake an idle one whenever a task ends while the next is spawned.
    threads = ThreadPoolExecutor(1)
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, act, *args)
    finally:
        threads.shutdown(wait=False)


class Weight(NamedTuple):
    """A kept file, or a folder of them: when it was last written to, and its bytes."""

    changed: Wall
    size: int
    path: Path


def weigh(folder: Path) -> int:
    """Count the bytes of output that are kept in the folder."""
    return sum(_weigh_shard(shard).size for shard in _list_shards(folder))


def trim(folder: Path, max_bytes: int) -> int:
    """Remove the oldest output until `max_bytes` are left. Returns how many bytes were removed."""
    # Shard by shard: a list of a million files would be large.
    shards = sorted(_weigh_shard(shard) for shard in _list_shards(folder))
    excess = sum(shard.size for shard in shards) - max_bytes
    removed = 0
    for shard in shards:
        for file in sorted(_list_files(shard.path)):
            if removed >= excess:
                break
            with suppress(OSError):  # what cannot be removed stays, and newer output is removed instead
                file.path.unlink(missing_ok=True)
                removed += file.size
    _remove_empty_folders(folder)
    return removed


def _weigh_shard(path: Path) -> Weight:
    files = list(_list_files(path))
    return Weight(max((file.changed for file in files), default=Wall(0.0)), sum(file.size for file in files), path)


def _list_files(shard: Path) -> Iterator[Weight]:
    with suppress(FileNotFoundError):
        for entry in os.scandir(shard):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                yield Weight(Wall(status.st_mtime), status.st_size, Path(entry.path))


def _list_shards(folder: Path) -> list[Path]:
    return [shard for job in _list_numbered(folder) for shard in _list_numbered(job)]


def _list_numbered(folder: Path) -> list[Path]:
    """List the folders of jobs or of shards: only their names begin with a digit. Empty if the folder is gone."""
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.name[:1].isdigit() and entry.is_dir()]
    except FileNotFoundError:
        return []


def _remove_empty_folders(folder: Path) -> None:
    for path in [*_list_shards(folder), *_list_numbered(folder)]:
        with suppress(OSError):  # not empty
            path.rmdir()
