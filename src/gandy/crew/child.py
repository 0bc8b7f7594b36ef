"""The process of a crew, from its start to its end, and what is left of it then."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, Final

from gandy.crew.options import CrewOptions
from gandy.errors import ConfigError, CrewFailed
from gandy.files import write_all
from gandy.journal import LOCK_NAME, lock_folder

START_SECONDS: Final = 60.0  # for the crew to be ready, on a busy machine with a slow disk
END_SECONDS: Final = 20.0  # for tasks to tidy up and for the crew to end; then it is killed
KILL_SECONDS: Final = 5.0  # for a crew that was killed to be gone
LAST_WORDS_BYTES: Final = 2_000  # of the log, in an error

# Variables that lead to another crew: the tasks of this one must find this one.
FOREIGN: Final = frozenset({"GANDY_FOREMAN", "GANDY_ENSEMBLE", "GANDY_TOKEN"})


class Child:
    """The process of a crew; see `program`. Raises: CrewFailed, ConfigError."""

    def __init__(self, options: CrewOptions, on_end: Callable[[str], None]) -> None:
        """`on_end` is called in another thread if the crew ends by itself, with the reason."""
        self._options = options
        self._on_end = on_end
        self._log = _open_log(options.log)
        self._log_start = os.fstat(self._log.fileno()).st_size
        self._writing = Lock()
        self._report = b""  # its first line, once there is one
        self._has_reported = Event()  # or has ended
        self.is_ready = False
        self._has_ended = False  # and so has its end of the pipe
        self._is_ending = False  # because we want it
        self._obituary = ""  # why it ended
        try:
            self._process, self._input = self._spawn()
        except OSError as error:
            self._log.close()
            raise CrewFailed(f"cannot start a crew with the Python at {sys.executable!r}: {error}") from error
        self._thread = Thread(target=self._watch, name="gandy-crew", daemon=True)
        self._thread.start()

    def _spawn(self) -> tuple[subprocess.Popen[bytes], int]:
        """Raises: OSError."""
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        theirs, ours = os.pipe()
        try:
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", "gandy.crew.program", str(os.getpid()), self._options.format()],
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=self._log,
                bufsize=0,  # a buffer has a lock, which a process that is forked meanwhile would wait for
                env={**environment, "GANDY_HOME": self._options.folder},
                start_new_session=True,  # Ctrl-C is for the program, which then ends its crew
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return process, ours

    @property
    def is_alive(self) -> bool:
        return not self._has_ended

    def wait_ready(self) -> None:
        """Raises: CrewFailed, ConfigError."""
        if not self._has_reported.wait(START_SECONDS):
            raise CrewFailed(f"the crew was not ready within {START_SECONDS:.0f} s{self._quote_log()}")
        if not self._report.endswith(b"\n"):
            self._thread.join(KILL_SECONDS)
            raise CrewFailed(self._obituary)
        found = json.loads(self._report)
        if "error" in found:
            kind = ConfigError if found["error"] == ConfigError.__name__ else CrewFailed
            raise kind(found["text"])
        self.is_ready = True

    def ask_to_end(self) -> None:
        """Let it end. A message and not the end of the pipe: a process that was forked may hold the pipe, too."""
        self._is_ending = True
        with self._writing:
            if not self._has_ended:
                with suppress(OSError):
                    write_all(self._input, b"\n")

    def end(self, *, kill: bool = False) -> None:
        """End it, and wait until it is gone."""
        try:
            self.ask_to_end()
            self._thread.join(0 if kill else END_SECONDS)
        finally:  # also at a second Ctrl-C
            if self._thread.is_alive():
                self._process.kill()
                self._thread.join(KILL_SECONDS)

    def _watch(self) -> None:
        """Take its report, wait for its end, in a thread, and remove what is left."""
        assert self._process.stdout is not None, "it is a pipe"
        with self._process.stdout as output:
            self._report = output.readline()
            self._has_reported.set()
            # The worker holds the pipe, too: if only the guardian was killed, it needs a moment to kill its tasks.
            output.read()
        code = self._process.wait()
        if not self._options.is_kept:
            _remove(Path(self._options.folder))
        self._obituary = f"the crew {_describe(code)}{self._quote_log()}"
        with self._writing:
            self._has_ended = True
            os.close(self._input)
        self._log.close()
        if not self._is_ending:
            self._on_end(self._obituary)

    def _quote_log(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        begin = max(self._log_start, size - LAST_WORDS_BYTES)
        words = os.pread(self._log.fileno(), size - begin, begin).decode(errors="replace").strip()
        return f"; its last words:\n{words}" if words else ""


def _remove(folder: Path) -> None:
    """Remove a folder that the guardian would have removed, if it was not killed."""
    for path in folder.glob(f"*/*/{LOCK_NAME}"):
        with suppress(OSError):
            lock = lock_folder(path.parent)  # when the watchdog of the worker has ended
            if lock is not None:
                os.close(lock)
    shutil.rmtree(folder, ignore_errors=True)


def _describe(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}" if code else "has stopped"


def _open_log(path: str) -> IO[bytes]:
    """Open the log that the user wants; or a file without a name, for last words. Raises: ConfigError."""
    try:
        return open(path, "ab+") if path else tempfile.TemporaryFile()  # noqa: PTH123
    except OSError as error:
        raise ConfigError(f"cannot write the log of the crew{path and f' to {path}'}: {error.strerror}") from None
