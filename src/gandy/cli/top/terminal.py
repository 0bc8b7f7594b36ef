"""The terminal: another screen while the program runs, keys as they are pressed, and lines where they have changed.

However the program ends, the terminal is afterwards as it was before.
"""

import os
import sys
import termios
import tty
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from gandy.cli.top.lines import Line, encode_line

# Another screen, no cursor, and no new line at the right edge; and back.
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[0m"
_CLEAR: Final = "\x1b[2J"
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"


class TopTerminal:
    """Drawn on while it is entered."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.keys = sys.stdin.fileno()
        self._screen = sys.stdout.fileno()
        self._has_colours = not environ.get("NO_COLOR")
        self._is_ascii = not is_utf8(sys.stdout.encoding)
        self._before: list[Any] | None = None  # how the terminal was
        self._drawn: list[str] = []

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def enter(self) -> None:
        if self._before is None:
            self._before = termios.tcgetattr(self.keys)
        tty.setcbreak(self.keys)  # signals stay: Ctrl-C, Ctrl-Z
        self.forget()
        self._write(_ENTER)

    def leave(self) -> None:
        if self._before is None:
            return
        before, self._before = self._before, None
        try:
            self._write(_LEAVE)
        finally:
            termios.tcsetattr(self.keys, termios.TCSAFLUSH, before)  # keys that were pressed meanwhile are dropped

    def find_size(self) -> tuple[int, int]:
        """Columns and rows, at least one of each."""
        size = os.get_terminal_size(self._screen)
        return max(1, size.columns), max(1, size.lines)

    def forget(self) -> None:
        """What is on the screen is not known any more: draw everything."""
        self._drawn = []

    def draw(self, lines: Sequence[Line]) -> None:
        rows = [encode_line(line, self._has_colours, self._is_ascii) for line in lines]
        if len(rows) != len(self._drawn):
            self._drawn = []
            self._write(_CLEAR)
        before = self._drawn or [""] * len(rows)  # the screen is empty
        changed = [
            f"\x1b[{number};1H{row}\x1b[K"
            for number, (row, old) in enumerate(zip(rows, before, strict=True), 1)
            if row != old
        ]
        self._drawn = rows
        if changed:
            self._write("".join(changed))

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self._screen, data) :]


def is_utf8(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "") == "utf8"


def can_draw(environ: Mapping[str, str]) -> bool:
    """True if this is a terminal that can be drawn on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM", "dumb") not in ("", "dumb")
