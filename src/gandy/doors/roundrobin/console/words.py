"""What people type: lines from a terminal, with editing and history, or from a pipe; and the words of them.

As in the original, words count and not lines: several commands may be in one. A number may come in the next line of
a pipe; at a terminal it may not, since a user who forgot it would wait for an answer that does not come.
"""

import sys
from collections import deque
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

from gandy.doors.roundrobin.console.screen import PROMPT, Screen
from gandy.doors.roundrobin.console.waiting import SIGNALS
from gandy.doors.roundrobin.limits import MAX_HISTORY_LINES, MAX_LINE_BYTES
from gandy.keys.files import make_private_folder

ReadLine = Callable[[], str | None]  # None at the end of input


class Words:
    """One after the other."""

    def __init__(self, read_line: ReadLine, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self._read_line = read_line
        self._waiting: deque[str] = deque()

    def take(self) -> str | None:
        """The next one; None at the end of input."""
        return self._waiting.popleft() if self._fill() else None

    def take_argument(self, commands: Container[str]) -> str | None:
        """The next one, unless it is a command."""
        if self.is_terminal and not self._waiting:
            return None
        if not self._fill() or self._waiting[0] in commands:
            return None
        return self._waiting.popleft()

    def drop_line(self) -> None:
        """What is left of it is not wanted any more."""
        self._waiting.clear()

    def _fill(self) -> bool:
        while not self._waiting:
            line = self._read_line()
            if line is None:
                return False
            self._waiting.extend(line.split())
        return True


def open_words(screen: Screen, history: Path, commands: list[str]) -> Words:
    """From standard input. Without a terminal on both sides there is neither prompt nor history."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return Words(read_plain, is_terminal=False)
    return Words(Terminal(screen, history, commands).read_line, is_terminal=True)


def read_plain() -> str | None:
    """Raises: KeyboardInterrupt, SystemExit."""
    line = SIGNALS.read(lambda: sys.stdin.buffer.readline(MAX_LINE_BYTES)) if sys.stdin is not None else b""
    return line.decode(errors="replace") if line else None


class Terminal:
    """Lines that can be edited, and are remembered. Where Python has no readline, they are plain ones."""

    def __init__(self, screen: Screen, history: Path, commands: list[str]) -> None:
        self._screen = screen
        self._history = history
        self._commands = commands
        try:
            import readline
        except ImportError:
            self._readline = None
            return
        self._readline = readline
        readline.set_auto_history(True)
        readline.set_history_length(MAX_HISTORY_LINES)
        readline.set_completer(self._complete)
        readline.parse_and_bind("tab: complete")
        with suppress(OSError):
            readline.read_history_file(history)
        self._remembered = readline.get_current_history_length()
        # When readline has shown the prompt, and not before: a line that comes between would show it once more.
        readline.set_pre_input_hook(lambda: SIGNALS.shield(self._on_prompt))

    def read_line(self) -> str | None:
        """Raises: KeyboardInterrupt if nothing was typed. Else Ctrl-C is for what was."""
        try:
            line = self._ask()
        except EOFError:
            self._screen.answer("")
            return None
        except (KeyboardInterrupt, SystemExit) as end:
            self._screen.answer("")
            if isinstance(end, KeyboardInterrupt) and self._readline is not None and self._readline.get_line_buffer():
                return ""
            raise
        self._remember()
        return line

    def _ask(self) -> str:
        if self._readline is None:
            self._screen.flush()
            return SIGNALS.read(lambda: input(PROMPT))
        try:
            self._screen.hold()
            return SIGNALS.read(lambda: input(PROMPT))
        finally:
            self._screen.on_prompt(None)

    def _on_prompt(self) -> None:
        assert self._readline is not None, "it calls this"
        self._screen.on_prompt(self._readline.get_line_buffer)

    def _remember(self) -> None:
        """In the file at once, behind what other consoles wrote. Where that is impossible, only memory has it."""
        if self._readline is None:
            return
        length = self._readline.get_current_history_length()
        new, self._remembered = length - self._remembered, length
        if new > 0:  # an empty line, or the same one again, is not new
            with suppress(OSError):
                make_private_folder(self._history.parent)
                self._history.touch(mode=0o600)
                self._readline.append_history_file(new, self._history)

    def _complete(self, text: str, state: int) -> str | None:
        found = [command for command in self._commands if command.startswith(text)]
        return f"{found[state]} " if state < len(found) else None
