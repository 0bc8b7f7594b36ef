"""Tidies up the folder of a dead worker: kills what still runs, moves output, and saves results of finished tasks.

The watchdog runs this as `python -m gandy.worker.recovery FOLDER` as soon as its worker is dead, and the next worker in
the folder does it again. The process that starts it must hold the lock on the folder.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gandy.clocks import read_monotonic
from gandy.core.model import Cause
from gandy.core.reports import make_result, read_attempt, read_ending, read_identity, read_shard
from gandy.errors import GandyError
from gandy.journal import TABLE_NAME, Journal, Left, lock_folder, read_left
from gandy.wire import payloads
from gandy.wire.messages import TaskResult
from gandy.worker.guardian import find_visible_pid
from gandy.worker.output import OutputFolder, add_output
from gandy.worker.proc import list_members, list_processes, signal_group
from gandy.worker.strays import list_marked
from gandy.worker.table import Row, Rows, read_rows
from gandy.worker.temporary import remove_temporary

SWEEP_SECONDS: Final = 2.0  # killed processes die in milliseconds, unless they hang in the kernel


def claim_folder(folder: Path) -> int:
    """Become the only worker in a folder. Returns a descriptor that holds the lock. Raises: GandyError."""
    lock = lock_folder(folder, find_visible_pid())
    if lock is None:
        raise GandyError(
            f"another worker uses {folder}: stop it, or give this one another name: --name, Worker(name=...)"
        )
    return lock


def recover(folder: Path) -> Left:
    """Tidy up after dead workers. Returns what they left for the foreman, all of which is in the journal by then.

    Raises: OSError. Nothing is lost then, and it can be tried again.
    """
    left = _find_left(folder)
    if left.results:
        Journal(folder, left.ids, [payloads.encode(result) for result in left.results]).close()
    # Only now: before, the results were in this file alone.
    (folder / TABLE_NAME).unlink(missing_ok=True)
    return left


def _find_left(folder: Path) -> Left:
    found = read_rows(folder)
    sweep(found)
    left = read_left(folder)
    known = set(map(read_attempt, left.results))
    ended = [row for row in found.rows if row.ending is not None and row.attempt not in known]
    results = (*left.results, *_make_results(folder, ended))
    return Left(left.ids, tuple(map(_give_back_stopped, results)))


def _give_back_stopped(result: TaskResult) -> TaskResult:
    """Turn "stopped with its worker" into "returned": the foreman would take it to mean that this worker stops too."""
    attempt, ending = read_attempt(result), read_ending(result)
    is_stopped = ending.cause is Cause.WORKER_STOPPED
    returned = replace(ending, cause=Cause.RETURNED)
    if not is_stopped:
        return result
    return make_result(attempt, returned, read_identity(result), read_shard(result))


def sweep(found: Rows) -> None:
    """Kill all processes with a dead worker's mark, also those that left their process groups."""
    deadline = read_monotonic() + SWEEP_SECONDS
    while found.mark and (pids := _list_marked(found.mark)) and read_monotonic() < deadline:
        members = list_members()
        groups = {row.group for row in found.rows if row.ending is None and set(pids) & set(members.get(row.group, ()))}
        for group in groups:
            signal_group(group, signal.SIGKILL)
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _list_marked(mark: int) -> list[int]:
    return [stray.pid for stray in list_marked(mark, list_processes())]


def _make_results(folder: Path, ended: Iterable[Row]) -> Iterator[TaskResult]:
    outputs = OutputFolder(folder, is_rescue=True)
    for row in ended:
        assert row.ending is not None
        kept = outputs.rescue(row.files, row.attempt, row.identity)
        yield make_result(row.attempt, add_output(row.ending, kept), row.identity, row.shard)


if __name__ == "__main__":
    own = Path(sys.argv[1])
    try:
        recover(own)
    finally:
        remove_temporary(own.parent.parent)
