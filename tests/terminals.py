"""Programs in a terminal of their own: what is on its screen, and which keys are pressed."""

import copy
import os
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pexpect
import pyte
from pyte import modes
from tests.waiting import PATIENCE

OTHER_SCREEN = 1049 << 5  # as pyte numbers private modes
ROWS, COLUMNS = 24, 80


class TwoScreens(pyte.Screen):
    """A terminal with a second screen, which programs use and leave: pyte has one only."""

    def __init__(self, columns: int, lines: int) -> None:
        self._first: Any = None
        super().__init__(columns, lines)

    def set_mode(self, *numbers: int, **kwargs: Any) -> None:
        super().set_mode(*numbers, **kwargs)
        if kwargs.get("private") and 1049 in numbers and self._first is None:
            self._first = copy.deepcopy((self.buffer, self.cursor))
            self.erase_in_display(2)

    def reset_mode(self, *numbers: int, **kwargs: Any) -> None:
        super().reset_mode(*numbers, **kwargs)
        if kwargs.get("private") and 1049 in numbers and self._first is not None:
            hidden = self.cursor.hidden
            (self.buffer, self.cursor), self._first = self._first, None
            self.cursor.hidden = hidden


class Terminal:
    """A program at work in a terminal."""

    def __init__(self, program: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
        environment = {**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        for name in ("COLUMNS", "LINES"):
            environment.pop(name, None)
        self._screen = TwoScreens(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.process = pexpect.spawn(
            program, list(words), env=environment, dimensions=(ROWS, COLUMNS), timeout=PATIENCE
        )
        self.modes = self.read_modes()
        self.written = b""

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def is_as_before(self) -> bool:
        """The first screen is shown, with its cursor, and lines are wrapped."""
        shown = self._screen
        return OTHER_SCREEN not in shown.mode and not shown.cursor.hidden and modes.DECAWM in shown.mode

    def read_modes(self) -> list[Any]:
        """What the terminal does with keys."""
        return termios.tcgetattr(self.process.child_fd)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.process.send(key)

    def resize(self, rows: int, columns: int) -> None:
        self._screen.resize(rows, columns)
        self.process.setwinsize(rows, columns)

    def wait_until(self, is_so: Callable[[list[str]], object]) -> list[str]:
        """Read until the screen is so."""
        deadline = time.monotonic() + PATIENCE
        while not is_so(self.lines):
            assert time.monotonic() < deadline, f"the screen never became so:\n{self.text}"
            assert self._read(), f"the program has ended:\n{self.text}"
        return self.lines

    def wait_shown(self, *texts: str) -> list[str]:
        return self.wait_until(lambda lines: all(text in "\n".join(lines) for text in texts))

    def wait_gone(self, text: str) -> list[str]:
        return self.wait_until(lambda lines: text not in "\n".join(lines))

    def wait_ended(self) -> int:
        """The exit code, or minus the number of the signal."""
        while self._read():
            pass
        self.process.close()
        code, number = self.process.exitstatus, self.process.signalstatus
        return int(code) if number is None else -int(number)

    def _read(self) -> bool:
        try:
            data = self.process.read_nonblocking(65_536, 0.1)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.written += data
        self._stream.feed(data)
        return True


@contextmanager
def a_terminal(program: str, *words: str, environment: Mapping[str, str] = os.environ) -> Iterator[Terminal]:
    terminal = Terminal(program, words, environment)
    try:
        yield terminal
    finally:
        terminal.process.close(force=True)
