"""The loop of a console: reads a word, runs its command, and so on until `quit` or the end of input."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from gandy.doors.roundrobin.console.screen import BASIC, Screen, ScreenHandler, show_text
from gandy.doors.roundrobin.console.waiting import SIGNALS
from gandy.doors.roundrobin.console.words import Words, open_words
from gandy.doors.roundrobin.limits import MAX_BULK

SHOWN_CHARACTERS: Final = 40  # characters of an unknown word

INTERRUPTED: Final = 130  # exit code, as shells have it


class ConsoleCommand(NamedTuple):
    """A command that the user can type. With `needs_count`, a number follows it."""

    run: Callable[..., None]
    help: str
    needs_count: bool = False


class Console(Protocol):
    """One of the three consoles."""

    @property
    def commands(self) -> Mapping[str, ConsoleCommand]: ...

    def close(self) -> None: ...


def run_console(role: str, level: int, home: str, make: Callable[[Screen], Console]) -> int:
    """Run a console from its start to its end. Returns the exit code. Raises: ConfigError."""
    screen = Screen(level)
    logging.basicConfig(handlers=[ScreenHandler(screen, role)], level=logging.INFO, format="%(message)s", force=True)
    SIGNALS.install()
    console = make(screen)
    try:
        history = Path(home) / f"console-{role.lower()}.history"
        words = open_words(screen, history, sorted({*console.commands, "help", "quit"}))
        return Shell(screen, words, console.commands).run()
    finally:
        screen.log(BASIC, f"{role}: Shutting down...")
        console.close()
        screen.log(0, f"{role}: Finished.")
        screen.close()


class Shell:
    """Runs commands by name, and complains about unknown words."""

    def __init__(self, screen: Screen, words: Words, commands: Mapping[str, ConsoleCommand]) -> None:
        self._screen = screen
        self._words = words
        self._commands = {
            **commands,
            "help": ConsoleCommand(self._help, "Show this list."),
            "quit": ConsoleCommand(lambda: None, "Shut down. The end of input does the same."),
        }

    def run(self) -> int:
        """Returns the exit code."""
        while True:
            try:
                word = self._words.take()
            except KeyboardInterrupt:
                return INTERRUPTED
            if word is None or word == "quit":
                return 0
            try:
                self._do(word)
                SIGNALS.check()
            except KeyboardInterrupt:
                before = "\n" if self._words.is_terminal else ""  # the terminal has shown ^C
                self._screen.complain(f"{before}{word} was interrupted")
                if not self._words.is_terminal:
                    return INTERRUPTED
                self._words.drop_line()

    def _do(self, word: str) -> None:
        command = self._commands.get(word)
        if command is None:
            self._screen.complain(f"unknown command: {show_text(word[:SHOWN_CHARACTERS])}; try help")
        elif not command.needs_count:
            command.run()
        elif (count := self._take_count(word)) is not None:
            command.run(count)

    def _take_count(self, word: str) -> int | None:
        text = self._words.take_argument(self._commands)
        example = f"as in: {word} 100"
        if text is None:
            self._screen.complain(f"{word} needs a number, {example}")
        elif not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= MAX_BULK):
            shown = show_text(text[:SHOWN_CHARACTERS])
            self._screen.complain(f"{word} needs a number from 1 to {MAX_BULK:,}, {example}; {shown} is not one")
        else:
            return int(text)
        return None

    def _help(self) -> None:
        for name, command in self._commands.items():
            shown = f"{name} N" if command.needs_count else name
            self._screen.answer(f"  {shown:<12}{command.help}")
