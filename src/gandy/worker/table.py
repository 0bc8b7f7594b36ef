"""Which process groups run for which attempts, in a file, so that none outlives its worker for long.

A slot process runs for many attempts, so its row has the worker's mark instead, with 0 for job and task.
One worker per folder: the table holds a lock on it. What a killed worker left running there is killed first.
"""

import fcntl
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Final, NamedTuple

from gandy.core.model import AttemptKey
from gandy.errors import GandyError
from gandy.ids import JobId, TaskNumber
from gandy.worker.groups import is_dead, list_members, signal_group

ROW_BYTES: Final = 96  # four numbers of 20 digits, spaces and a newline, rounded up
EMPTY_ROW: Final = b"\n".rjust(ROW_BYTES)
SLOT_MARK: Final = "GANDY_SLOT_OF"  # in the environment of slot processes and of what they start
SWEEP_SECONDS: Final = 2.0  # killed processes are dead in milliseconds, unless the kernel is stuck in a disk


class Row(NamedTuple):
    """A process group and the attempt that it runs, or (0, 0, mark)."""

    group: int
    attempt: AttemptKey


class GroupTable:
    """The running groups of one worker, a row of the file for each.

    Raises: GandyError where another worker uses the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = _lock_folder(folder)
        self.mark = secrets.randbits(63)
        self.path = folder / "running"
        self.swept = _sweep(self.path)
        # A new file, since the watchdog of the former worker may still read the old one and kill what it finds there.
        self.path.unlink(missing_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._free: list[int] = []
        self._stale: list[int] = []  # free too, and not yet written over
        self._rows = 0

    def add(self, group: int, attempt: AttemptKey) -> int:
        """The number of the row, for `remove`. Raises: OSError where the disk is full."""
        rows = self._stale or self._free
        row = rows[-1] if rows else self._rows
        text = b"%d %d %d %d" % (group, *attempt)
        os.pwrite(self._file, text.ljust(ROW_BYTES - 1) + b"\n", row * ROW_BYTES)
        if rows:
            rows.pop()
        else:
            self._rows += 1
        return row

    def add_slot(self, group: int) -> int:
        """As `add`, for a slot process that was started with `SLOT_MARK` set to the mark."""
        return self.add(group, AttemptKey(JobId(0), TaskNumber(0), self.mark))

    def remove(self, row: int) -> None:
        """The group is gone. `tidy` must follow: until then an `add` may write over the row, and saves a write."""
        self._stale.append(row)

    def tidy(self) -> None:
        while self._stale:
            os.pwrite(self._file, EMPTY_ROW, self._stale[-1] * ROW_BYTES)
            self._free.append(self._stale.pop())

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)


def _lock_folder(folder: Path) -> int:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise GandyError(
            f"another worker uses {folder}: stop it, or give this one another name: --name, Worker(name=...)"
        ) from None
    return descriptor


def _sweep(path: Path) -> list[AttemptKey]:
    """Kill what the table of a dead worker lists; the attempts that still ran."""
    rows = _read_rows(path)
    if not rows:
        return []
    members = list_members()
    found = [row for row in rows if any(_runs(pid, row.attempt) for pid in members.get(row.group, ()))]
    for row in found:
        signal_group(row.group, signal.SIGKILL)
    _wait_until_dead([row.group for row in found])
    return [row.attempt for row in found if row.attempt.job]


def _read_rows(path: Path) -> list[Row]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [_parse_row(line) for line in lines if line.strip()]


def _parse_row(line: str) -> Row:
    group, job, task, attempt = (int(word) for word in line.split())
    return Row(group, AttemptKey(JobId(job), TaskNumber(task), attempt))


def _runs(pid: int, attempt: AttemptKey) -> bool:
    """Whether the process was started for the attempt: by now its number may belong to something else."""
    try:
        environment = set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return False
    if not attempt.job:
        return b"%s=%d" % (SLOT_MARK.encode(), attempt.attempt) in environment
    wanted = {b"GANDY_JOB=%d" % attempt.job, b"GANDY_TASK=%d" % attempt.task, b"GANDY_ATTEMPT=%d" % attempt.attempt}
    return wanted <= environment


def _wait_until_dead(groups: list[int]) -> None:
    deadline = time.monotonic() + SWEEP_SECONDS
    while not all(map(is_dead, groups)) and time.monotonic() < deadline:
        time.sleep(0.005)
