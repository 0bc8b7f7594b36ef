"""Prints for the user: answers on standard output, and everything else, up to a level, on standard error.

Any thread may print, and none waits for a stopped terminal: a thread of its own writes. A line that is printed while
the user types goes above the prompt, and what the user has typed stays.
"""

import logging
import os
import sys
from collections import deque
from collections.abc import Callable
from itertools import groupby
from threading import Condition, Thread
from typing import Final, TextIO

from gandy.doors.roundrobin.console.waiting import SIGNALS, STEP
from gandy.doors.roundrobin.limits import MAX_WAITING_LINES
from gandy.files import write_all

PROMPT: Final = "> "

# Levels (-d), as in the original: 0 has answers and errors only.
BASIC: Final = 1
STATS: Final = 2
FRAMES: Final = 5

CLOSE_SECONDS: Final = 1.0  # to print what is left; a stopped terminal would take forever

_WIPE: Final = "\r\x1b[K"  # the line that the cursor is in


class Screen:
    """The screen of one console."""

    def __init__(self, level: int) -> None:
        self.level = level
        self._streams = (_Stream(sys.stderr), _Stream(sys.stdout))
        self._lines: deque[tuple[int, str]] = deque()  # each with the index of its stream
        self._changed = Condition()
        self._printed = 0  # lines, since the start
        self._written = 0  # of these
        self._left_out = 0
        self._is_writing = False
        self._is_held = False
        self._get_typed: Callable[[], str] | None = None
        self._before = _WIPE if os.environ.get("TERM", "dumb") != "dumb" else "\n"
        Thread(target=self._run, name="gandy-screen", daemon=True).start()

    def answer(self, text: str) -> None:
        """Print the answer of a command. Raises: BrokenPipeError."""
        self._print(1, text)
        self.flush()
        if self._streams[1].is_broken:
            raise BrokenPipeError

    def complain(self, text: str) -> None:
        """Print what went wrong."""
        self._print(0, text)

    def log(self, level: int, text: str) -> None:
        if level <= self.level:
            self._print(0, text)

    def _print(self, stream: int, text: str) -> None:
        with self._changed:
            if len(self._lines) >= MAX_WAITING_LINES and stream == 0:
                self._left_out += 1
                return
            self._lines.append((stream, text))
            self._printed += 1
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything printed before is written. Raises: KeyboardInterrupt, SystemExit."""
        printed = self._printed
        while not self._wait(printed, STEP):
            SIGNALS.check()

    def close(self) -> None:
        self._wait(self._printed, CLOSE_SECONDS)

    def _wait(self, printed: int, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._written >= printed, seconds)

    # The prompt

    def hold(self) -> None:
        """Write nothing more until the prompt is shown. Raises: KeyboardInterrupt, SystemExit."""
        self.flush()
        with self._changed:
            self._is_held = True
            self._changed.wait_for(lambda: not self._is_writing)

    def on_prompt(self, get_typed: Callable[[], str] | None) -> None:
        """The prompt is shown, and this function returns what was typed after it. None: the prompt is gone."""
        with self._changed:
            self._get_typed = get_typed
            self._is_held = False
            self._changed.notify_all()

    # In the thread that writes

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines and not self._is_held)
                lines, left_out = list(self._lines), self._left_out
                self._lines.clear()
                self._left_out = 0
                self._is_writing = True
            written = [*lines, (0, f"{left_out:,} lines were left out")] if left_out else lines
            for stream, group in groupby(written, key=lambda line: line[0]):
                self._write(self._streams[stream], "\n".join(text for _, text in group))
            with self._changed:
                self._is_writing = False
                self._written += len(lines)
                self._changed.notify_all()

    def _write(self, stream: "_Stream", text: str) -> None:
        get_typed = self._get_typed
        if get_typed is not None and stream.is_terminal:
            stream.write(f"{self._before}{text}\n{PROMPT}{get_typed()}")
        else:
            stream.write(f"{text}\n")


class _Stream:
    """A stream without buffer and lock: Python's own keep a program from ending while a terminal is stopped."""

    def __init__(self, file: TextIO | None) -> None:
        self._fd = file.fileno() if file is not None else -1
        self._encoding = (file.encoding if file is not None else None) or "utf-8"
        self.is_terminal = file is not None and file.isatty()
        self.is_broken = False

    def write(self, text: str) -> None:
        data = text.encode(self._encoding, errors="backslashreplace")
        try:
            if self._fd >= 0:
                write_all(self._fd, data)
        except OSError:  # the reader is gone
            self.is_broken = True


class ScreenHandler(logging.Handler):
    """Prints what other parts of gandy log: warnings and errors always, the rest from level BASIC on."""

    def __init__(self, screen: Screen, role: str) -> None:
        super().__init__()
        self._screen = screen
        self._role = role

    def emit(self, record: logging.LogRecord) -> None:
        level = 0 if record.levelno >= logging.WARNING else BASIC
        self._screen.log(level, f"{self._role}: {self.format(record)}")


def show_text(text: str) -> str:
    """Text of a peer or a user, without characters that could control the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
