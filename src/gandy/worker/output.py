"""Keeps what tasks print in files that only the worker's user can read.

A running task writes to FOLDER/open/N.out and .err. When it ends, these are moved to FOLDER/JOB/SHARD/TASK.ATTEMPT.out
and .err, or stay until they can be moved. The next task reuses files that are known to be empty, so a silent task
changes nothing in the file system.
"""

import errno
import fcntl
import os
import shutil
import signal
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from gandy.core.model import MISSING, AttemptKey, Ending
from gandy.keys.files import make_private_folder
from gandy.worker.shortage import find_shortage

Stream = Literal["out", "err", "result"]

TASKS_PER_SHARD: Final = 1000  # a folder with a million files is slow to list and to remove
TAIL_BYTES: Final = 4096  # of standard error; sent with every ending, so it is small
FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # with which a task opens its files
# A task may replace its file by a pipe or a link: we neither wait for the pipe nor follow the link.
READ_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
OPEN_NAME: Final = "open"
REPLACED: Final = "the file was replaced"
NAMES: Final = {"out": "standard output", "err": "standard error"}


class OutputPiece(NamedTuple):
    """Part of an output. `is_last`: nothing follows. `is_absent`: there is no such file."""

    data: bytes
    is_last: bool
    is_absent: bool = False


class Kept(NamedTuple):
    """What became of a task's output: bytes of each stream or MISSING, the end of standard error, and any problem."""

    out_bytes: int = 0
    err_bytes: int = 0
    tail: bytes = b""
    problem: str = ""


NOTHING: Final = Kept()


class _Part(NamedTuple):
    """What became of one of the two files. `is_clear`: the next task may use its name."""

    size: int = 0
    tail: bytes = b""
    problem: str = ""
    is_clear: bool = True


_EMPTY: Final = _Part()


class OutputFiles(NamedTuple):
    """The two files that a running task writes to."""

    out: str
    err: str
    is_ours: bool = True  # the next task may reuse them; False for files of a slot process, and for a log

    @property
    def stem(self) -> str:
        """The common part of their names, without the folder."""
        return self.out[self.out.rindex("/") + 1 : -4]


def add_output(ending: Ending, kept: Kept) -> Ending:
    """Return the ending with what became of the task's output."""
    note = "; ".join(filter(None, (ending.note, kept.problem))) if kept.problem else ending.note
    return replace(ending, tail=kept.tail, note=note, out_bytes=kept.out_bytes, err_bytes=kept.err_bytes)


def output_path(folder: Path, attempt: AttemptKey, stream: Stream, identity: int = 0) -> str:
    """Return where output is kept for good. Job numbers may be reused, so the job's identity is part of the path."""
    # Not a Path: this runs for every task, and making a Path costs more than the system call that uses it.
    shard = attempt.task // TASKS_PER_SHARD
    job = f"{attempt.job}-{identity:x}" if identity else attempt.job
    return f"{folder}/{job}/{shard}/{attempt.task}.{attempt.attempt}.{stream}"


def name_output_files(series: str, number: int) -> OutputFiles:
    """Name the files of a slot process, which opens the next two by itself after a task that has printed."""
    return OutputFiles(f"{series}.{number}.out", f"{series}.{number}.err", is_ours=False)


class SlotFiles:
    """The files that one slot process has open, as the worker infers from its answers."""

    def __init__(self, outputs: "OutputFolder") -> None:
        self.series = outputs.begin_series()
        self.current = name_output_files(self.series, 0)
        self._outputs = outputs
        self._count = 0

    def advance(self) -> None:
        """A task has printed and keeps its files, so the process uses the next two."""
        self._count += 1
        self.current = name_output_files(self.series, self._count)

    def drop(self) -> None:
        self._outputs.drop(self.current)


class OutputFolder:
    """All output of one worker. Removes the files that a killed worker left open, unless `is_rescue`."""

    def __init__(self, folder: Path, is_rescue: bool = False) -> None:
        """Raises: OSError."""
        self.folder = folder
        self.kept_bytes = 0  # since the start
        self._open = folder / OPEN_NAME
        self._free: list[OutputFiles] = []
        self._count = 0
        self._unmoved: dict[str, str] = {}  # from where output belongs to where it still is
        make_private_folder(folder)
        with suppress(PermissionError):  # a folder of another user is as private as that user made it
            folder.chmod(0o700)
        if not is_rescue:
            shutil.rmtree(self._open, ignore_errors=True)
        make_private_folder(self._open)

    def take(self) -> OutputFiles:
        """Choose two files for a task, which opens them with `FLAGS`; they are empty or do not exist yet."""
        if self._free:
            return self._free.pop()
        self._count += 1
        return OutputFiles(f"{self._open}/{self._count}.out", f"{self._open}/{self._count}.err")

    def rescue(self, stem: str, attempt: AttemptKey, identity: int) -> Kept:
        """Keep what a task of a dead worker wrote to the files of this name."""
        files = OutputFiles(f"{self._open}/{stem}.out", f"{self._open}/{stem}.err", is_ours=False)
        streams: tuple[tuple[Stream, str], ...] = (("out", files.out), ("err", files.err))
        for stream, path in streams:
            with suppress(FileNotFoundError):  # it exists only if the worker died after moving it
                os.rename(output_path(self.folder, attempt, stream, identity), path)  # noqa: PTH104
        return self.finish(files, attempt, identity)

    def begin_series(self) -> str:
        """Return the common beginning of the names of a new slot process's files."""
        self._count += 1
        return f"{self._open}/{self._count}"

    def restore_folder(self) -> bool:
        """Make the folder of running tasks again if it was removed. False: it exists, or cannot be made."""
        if self._open.is_dir():
            return False
        try:
            make_private_folder(self._open)
        except OSError:
            return False
        return True

    def finish(self, files: OutputFiles, attempt: AttemptKey, identity: int = 0) -> Kept:
        """Keep what a task wrote, after it has ended."""
        out = self._keep(files.out, attempt, "out", identity)
        err = self._keep(files.err, attempt, "err", identity)
        if files.is_ours and out.is_clear and err.is_clear:
            self._free.append(files)
        if out.problem or err.problem:
            return Kept(out.size, err.size, err.tail, "; ".join(filter(None, (out.problem, err.problem))))
        return Kept(out.size, err.size, err.tail)

    def keep_result(self, attempt: AttemptKey, result: bytes, identity: int = 0) -> None:
        """Save a result that is too large to send with its ending: completely or not at all. Raises: OSError."""
        path = Path(output_path(self.folder, attempt, "result", identity))
        part = path.with_suffix(".part")
        make_private_folder(path.parent)
        try:
            _write(part, result)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        self.kept_bytes += len(result)

    def drop(self, files: OutputFiles) -> None:
        """Remove the files of a task that never ran."""
        is_clear = [_remove(files.out), _remove(files.err)]
        if files.is_ours and all(is_clear):
            self._free.append(files)

    def move_rest(self) -> None:
        """Try again to move what could not be moved when its task ended."""
        for kept, path in list(self._unmoved.items()):
            with suppress(OSError):  # tried again the next time
                _move(path, kept)
                del self._unmoved[kept]

    def read_kept(
        self, attempt: AttemptKey, stream: Stream, offset: int, limit: int, identity: int = 0
    ) -> bytes | None:
        """Like `read`, for an attempt that has ended."""
        kept = output_path(self.folder, attempt, stream, identity)
        return self.read(self._unmoved.get(kept, kept), offset, limit)

    def read(self, path: str, offset: int, limit: int) -> bytes | None:
        """Read at most `limit` bytes from `offset`. None: there is no such file. Raises: OSError."""
        try:
            descriptor = os.open(path, READ_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return os.pread(descriptor, limit, offset)
        finally:
            os.close(descriptor)

    def _keep(self, path: str, attempt: AttemptKey, stream: Stream, identity: int) -> _Part:
        try:
            descriptor = os.open(path, READ_FLAGS)
        except OSError as error:
            if find_shortage(error) is None:
                return self._give_up(path, stream, error)
            return self._keep_unread(path, attempt, stream, identity)
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)  # a third of what `fstat` costs
            if size == 0:
                if not _is_unused(descriptor):
                    os.unlink(path)  # noqa: PTH108 (see output_path)
                return _EMPTY
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, REPLACED)
            tail = os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES)) if stream == "err" else b""
        except OSError as error:
            return self._give_up(path, stream, error)
        finally:
            os.close(descriptor)
        return self._put_away(path, output_path(self.folder, attempt, stream, identity), size, tail)

    def _keep_unread(self, path: str, attempt: AttemptKey, stream: Stream, identity: int) -> _Part:
        """Like `_keep`, when we can open no more files. An empty file is removed, as it may still be open elsewhere."""
        try:
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, REPLACED)
            if status.st_size == 0:
                os.unlink(path)  # noqa: PTH108 (see output_path)
                return _EMPTY
        except OSError as error:
            return self._give_up(path, stream, error)
        return self._put_away(path, output_path(self.folder, attempt, stream, identity), status.st_size, b"")

    def _put_away(self, path: str, kept: str, size: int, tail: bytes) -> _Part:
        self.kept_bytes += size
        try:
            _move(path, kept)
        except OSError:  # for instance, no room for another folder
            self._unmoved[kept] = path
            return _Part(size, tail, is_clear=False)
        return _Part(size, tail)

    def _give_up(self, path: str, stream: Stream, error: OSError) -> _Part:
        reason = "the file was removed" if isinstance(error, FileNotFoundError) else error.strerror
        is_clear = _remove(path)
        with suppress(OSError):  # then the next task fails to start, and reports why
            make_private_folder(self._open)
        return _Part(MISSING, b"", f"its {NAMES[stream]} is missing: {reason}", is_clear)


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_bytes(data)


def _remove(path: str) -> bool:
    """Remove a file or a folder. False: something is left."""
    try:
        Path(path).unlink(missing_ok=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)  # a task replaced it by a folder
        return not os.path.lexists(path)
    return True


def _move(path: str, kept: str) -> None:
    try:
        os.rename(path, kept)  # noqa: PTH104
    except FileNotFoundError:
        make_private_folder(Path(kept).parent)
        os.rename(path, kept)  # noqa: PTH104


def _is_unused(descriptor: int) -> bool:
    """True if no other process has the file open. The caller closes it next.

    A process that left its group lives on, and could write into the next task's output. The kernel grants a lease only
    if there is no other descriptor of the file.
    """
    try:
        # If a process opens the file while we have the lease, we get a signal; SIGURG is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    return True
