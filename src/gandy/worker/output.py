"""Files that keep what tasks print. Never reads more than it is asked for.

While a task runs it writes to FOLDER/open/N.out and .err; what it wrote moves to FOLDER/JOB/SHARD/TASK.ATTEMPT.out and
.err when it ends. A file that stayed empty stays where it is, for the next task: silent tasks cost no change to the
file system, and leave nothing behind.
"""

import fcntl
import os
import shutil
import signal
from pathlib import Path
from typing import Final, Literal, NamedTuple

from gandy.core.model import AttemptKey

Stream = Literal["out", "err", "result"]

TASKS_PER_SHARD: Final = 1000  # a folder with a million files is slow to list and to remove
TAIL_BYTES: Final = 4096  # of standard error; goes with every ending, so it stays small
FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # with which a task opens its files
OPEN_NAME: Final = "open"


class Piece(NamedTuple):
    """Part of an output. After `is_last` nothing more will come."""

    data: bytes
    is_last: bool


class Kept(NamedTuple):
    """What became of a task's output: its last words on standard error, and what went wrong, if anything."""

    tail: bytes
    problem: str


NOTHING: Final = Kept(b"", "")


class Sheets(NamedTuple):
    """The two files that a running task writes to."""

    out: str
    err: str
    is_ours: bool = True  # so another task can have them; else a slot process counts them


def output_path(folder: Path, attempt: AttemptKey, stream: Stream) -> str:
    """Where output is kept for good."""
    # Not a Path: these are made for every task, and a Path costs more than the system call it is for.
    shard = attempt.task // TASKS_PER_SHARD
    return f"{folder}/{attempt.job}/{shard}/{attempt.task}.{attempt.attempt}.{stream}"


def name_sheets(series: str, number: int) -> Sheets:
    """The files of a slot process: it takes the next two by itself whenever a call has printed something."""
    return Sheets(f"{series}.{number}.out", f"{series}.{number}.err", is_ours=False)


class Outputs:
    """All output of one worker. What a killed worker left open is removed: nobody will ask for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept_bytes = 0  # that were kept since the start
        self._open = folder / OPEN_NAME
        self._free: list[Sheets] = []
        self._count = 0
        shutil.rmtree(self._open, ignore_errors=True)
        self._open.mkdir(parents=True, exist_ok=True)

    def take(self) -> Sheets:
        """Names for a task to write to, with `FLAGS`; its files are empty or do not exist yet."""
        if self._free:
            return self._free.pop()
        self._count += 1
        return Sheets(f"{self._open}/{self._count}.out", f"{self._open}/{self._count}.err")

    def begin_series(self) -> str:
        """For the sheets of a new slot process."""
        self._count += 1
        return f"{self._open}/{self._count}"

    def finish(self, sheets: Sheets, attempt: AttemptKey) -> Kept:
        """Keep what the task wrote, once it has ended."""
        out = self._keep(sheets.out, attempt, "out")
        err = self._keep(sheets.err, attempt, "err")
        if sheets.is_ours:
            self._free.append(sheets)
        return Kept(err.tail, out.problem or err.problem)

    def keep_result(self, attempt: AttemptKey, result: bytes) -> None:
        """A result that is too large to travel with its ending. Raises: OSError."""
        path = Path(output_path(self.folder, attempt, "result"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(result)
        self.kept_bytes += len(result)

    def drop(self, sheets: Sheets) -> None:
        """The task never ran."""
        _remove(sheets.out)
        _remove(sheets.err)
        self._open.mkdir(parents=True, exist_ok=True)
        if sheets.is_ours:
            self._free.append(sheets)

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`; nothing where there is no (more) output."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        try:
            return os.pread(descriptor, limit, offset)
        finally:
            os.close(descriptor)

    def _keep(self, path: str, attempt: AttemptKey, stream: Stream) -> Kept:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the task removed it, and perhaps the folder
            self._open.mkdir(parents=True, exist_ok=True)
            return NOTHING
        tail = b""
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)  # a third of what `fstat` costs
            if size == 0 and _is_unused(descriptor):
                return NOTHING
            if stream == "err":
                tail = os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES))
            if size:
                _move(path, output_path(self.folder, attempt, stream))
            else:
                os.unlink(path)  # noqa: PTH108 (see output_path)
        except OSError as error:
            _remove(path)
            return Kept(tail, f"its output could not be kept: {error.strerror}")
        finally:
            os.close(descriptor)
        self.kept_bytes += size
        return Kept(tail, "")


def _remove(path: str) -> None:
    """Whatever it is. Where it stays, the next task that should write there says so."""
    try:
        Path(path).unlink(missing_ok=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)  # a task made a folder of it


def _move(path: str, kept: str) -> None:
    try:
        os.rename(path, kept)  # noqa: PTH104
    except FileNotFoundError:
        Path(kept).parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, kept)  # noqa: PTH104


def _is_unused(descriptor: int) -> bool:
    """Whether nobody has the file open but us, who are about to close it.

    A process that left its group lives on, and could write into the next output. The kernel tells: it grants a lease
    only where there is no other descriptor. Without a lease we do not know.
    """
    try:
        # Should somebody open it while we have the lease, we get a signal, and this one is ignored unless asked for.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    return True
