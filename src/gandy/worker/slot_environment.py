"""What surrounds a function task: environment, folder, output, children, memory. Runs in slot processes only.

Slot processes start after every crash and for every fresh task, so this module imports next to nothing.
"""

import ctypes
import io
import os
import resource
import sys
from contextlib import suppress
from typing import Final

from gandy.files import write_all
from gandy.worker.frames import Setting
from gandy.worker.labels import MARK_NAME, can_label, make_label, set_label

# As in gandy.worker.output, which would import far more than this process needs.
FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
RESET_PEAK: Final = b"5"  # written to /proc/PID/clear_refs, it resets the peak memory to what is used now
MEASURED_SECONDS: Final = 0.001  # tasks that run for less are not measured: that would cost too much

NUMBER_DIGITS: Final = 20  # of a number of 64 bits

LIBC: Final = ctypes.PyDLL(None)


def _add_path(folders: str) -> None:
    """Let tasks import modules from the folders of the client's program, after those of the task's folder."""
    for folder in reversed(folders.split(os.pathsep)):
        if folder and folder not in sys.path:
            sys.path.insert(1, folder)


class EnvironmentNumber:
    """A number in the environment that changes with each task.

    The C library never frees the value of a variable, as C code may still point to it: that would leak 64 bytes per
    task. So this variable has a buffer of its own, which is overwritten.
    """

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._text = ctypes.create_string_buffer(len(name) + NUMBER_DIGITS + 2)

    def set(self, value: int) -> None:
        digits = b"%d" % value
        known: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined] # Python's own copy of the environment
        if known.get(self._name) != digits:
            self._text.value = b"%s=%s" % (self._name, digits)
            LIBC.putenv(self._text)
            known[self._name] = digits


class TaskEnvironment:
    """Sets the environment variables and the folder of a task, and restores them."""

    def __init__(self) -> None:
        self._home = os.open(".", os.O_PATH | os.O_CLOEXEC)
        self._base = dict(os.environ)
        self._setting: Setting | None = None  # of the last task, if it could begin
        self._task, self._attempt = EnvironmentNumber("GANDY_TASK"), EnvironmentNumber("GANDY_ATTEMPT")
        self._path = ""
        self._mark = int(os.environ.get(MARK_NAME, "0")) if can_label() else 0

    def enter(self, setting: Setting, task: int, attempt: int) -> None:
        """Raises: OSError, ValueError."""
        if setting.cwd:
            try:
                os.chdir(setting.cwd)
            except OSError as error:
                raise OSError(f"cannot change to {setting.cwd}: {error.strerror}") from error
        # Consecutive tasks are usually of the same job, so little changes between them.
        if setting is not self._setting:
            self._change(setting)
        _add_path(self._path)
        self._task.set(task)
        self._attempt.set(attempt)
        if self._mark:
            set_label(make_label(self._mark, setting.job, task, attempt))

    def leave(self) -> None:
        os.fchdir(self._home)

    def _change(self, setting: Setting) -> None:
        before, self._setting = self._setting, None
        if before is None or setting.job != before.job or setting.env.keys() != before.env.keys():
            self._restore()
            before = None
        for name, value in setting.env.items():
            if before is None or before.env[name] != value:
                os.environ[name] = value
        self._setting, self._path = setting, setting.env.get("GANDY_PATH", "")

    def _restore(self) -> None:
        """Set all variables to what they were at the start, also those that functions changed."""
        for name in os.environ.keys() - self._base.keys():
            del os.environ[name]
        for name, value in self._base.items():
            if os.environ.get(name) != value:
                os.environ[name] = value


class SlotOutput:
    """Descriptors 1 and 2, and Python's streams on top of them. After a task that prints nothing, the next one reuses
    its files.

    The process starts with the files of its first task as descriptors 1 and 2; the next files are named by
    `gandy.worker.output.name_output_files`.
    """

    def __init__(self, series: str) -> None:
        self._series = series
        self._count = 0  # pairs of files that were given up
        self._null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self._files = [os.dup(1), os.dup(2)]
        self._texts = [_open_text(1), _open_text(2)]
        self._set_streams()

    def open(self) -> None:
        """Open the next files, unless files are open. Raises: OSError."""
        if not self._files:
            try:
                self._open_files()
            except FileNotFoundError:
                self._restore_folder()
                self._open_files()

    def _open_files(self) -> None:
        for stream in ("out", "err"):
            self._files.append(os.open(f"{self._series}.{self._count}.{stream}", FLAGS, 0o600))

    def _restore_folder(self) -> None:
        """Make the worker's folder of output again, which was removed, for its user alone."""
        folder, _, _ = self._series.rpartition("/")
        for path in (folder.rpartition("/")[0], folder):
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)  # noqa: PTH102 - this module does not import pathlib

    def begin(self) -> None:
        # The last task may have closed, replaced or redirected any of these.
        for number, file in enumerate(self._files, 1):
            os.dup2(file, number)
            if self._texts[number - 1].closed:
                self._texts[number - 1] = _open_text(number)
        self._set_streams()

    def print_error(self, text: str) -> None:
        """Print text to the task's standard error."""
        self._flush()
        data = text.encode(errors="backslashreplace")
        with suppress(OSError):  # a full disk
            write_all(2, data)

    def end(self) -> bool:
        """True if the task has printed; then its files are given up."""
        self._flush()
        out, err = self._files
        has_printed = os.lseek(out, 0, os.SEEK_END) > 0 or os.lseek(err, 0, os.SEEK_END) > 0
        if has_printed:
            self.give_up()
        return has_printed

    def give_up(self) -> None:
        self._count += 1
        self._close()
        for number in (1, 2):
            os.dup2(self._null, number)

    def _flush(self) -> None:
        for text in (sys.stdout, sys.stderr):
            try:  # noqa: SIM105 - `suppress` takes as long as the rest of the method
                text.flush()
            except Exception:  # noqa: BLE001, S110 - a function may have replaced the stream by anything
                pass
        LIBC.fflush(None)  # what C code printed

    def _set_streams(self) -> None:
        sys.stdout, sys.stderr = self._texts
        sys.__stdout__, sys.__stderr__ = self._texts  # type: ignore[misc]

    def _close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


def _open_text(number: int) -> io.TextIOWrapper:
    # Line-buffered, so that output can be followed, and is in the file even after a crash or a kill.
    return open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)


class TaskMemory:
    """Measures the peak memory of each task, if the kernel lets us reset the peak between tasks."""

    def __init__(self) -> None:
        try:
            self._reset: int | None = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._reset = None
        self.begin()
        self._floor = _read_peak()  # Linux starts our peak at what the worker used when it spawned this process

    @property
    def can_measure(self) -> bool:
        return self._reset is not None

    def begin(self) -> None:
        if self._reset is not None:
            write_all(self._reset, RESET_PEAK)

    def read(self) -> int:
        """Return the peak in bytes. 0: it is not known, or less than what the worker used when it started us."""
        if self._reset is None:
            return 0
        peak = _read_peak()
        return peak * 1024 if peak > self._floor else 0


def _read_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def has_children() -> bool:
    """True if this process has children, alive or dead and not waited for."""
    # Not os.waitid: it raises when there are no children, which is the usual case and costs five times as much.
    return bool(LIBC.waitid(os.P_ALL, 0, None, os.WEXITED | os.WNOHANG | os.WNOWAIT) == 0)
