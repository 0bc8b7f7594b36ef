"""Reads what users type, from a terminal, with editing and history, or from a pipe, and splits it into words.

As in the original, a line may have several commands. In a pipe, the number after a command may be on the next line; at
a terminal it may not, since a user who forgot it would wait for an answer that never comes.
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
    """The words of the input, one after the other."""

    def __init__(self, read_line: ReadLine, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self._read_line = read_line
        self._waiting: deque[str] = deque()

    def take(self) -> str | None:
        """The next word; None at the end of input."""
        return self._waiting.popleft() if self._fill() else None

    def take_argument(self, commands: Container[str]) -> str | None:
        """The next word, unless it is a command."""
        if self.is_terminal and not self._waiting:
            return None
        if not self._fill() or self._waiting[0] in commands:
            return None
        return self._waiting.popleft()

    def drop_line(self) -> None:
        """Drop the rest of the line."""
        self._waiting.clear()

    def _fill(self) -> bool:
        while not self._waiting:
            line = self._read_line()
            if line is None:
                return False
            self._waiting.extend(line.split())
        return True


def open_words(screen: Screen, history: Path, commands: list[str]) -> Words:
    """Words from standard input. There is a prompt and a history only if input and output are terminals."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return Words(read_plain, is_terminal=False)
    return Words(Terminal(screen, history, commands).read_line, is_terminal=True)


def read_plain() -> str | None:
    """Raises: KeyboardInterrupt, SystemExit."""
    line = SIGNALS.read(lambda: sys.stdin.buffer.readline(MAX_LINE_BYTES)) if sys.stdin is not None else b""
    return line.decode(errors="replace") if line else None


class Terminal:
    """Reads lines with editing and history, or plain lines if Python has no readline."""

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
        # Called when readline has shown the prompt, not before: a line printed in between would show it twice.
        readline.set_pre_input_hook(lambda: SIGNALS.shield(self._on_prompt))

    def read_line(self) -> str | None:
        """Raises: KeyboardInterrupt, if nothing was typed. Otherwise Ctrl-C only drops what was typed."""
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
        """Append the line to the history file at once, since other consoles use it, too. Errors are ignored."""
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
