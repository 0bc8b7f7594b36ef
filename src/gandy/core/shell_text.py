"""Reads a shell line as far as needed to know which words, commands and quotes it has. It runs and expands nothing.

It knows only what every POSIX shell reads in the same way. If it cannot be sure, it says so, and never guesses.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

LINE: Final = re.compile(r"(?<![$\\])\{line\}")  # ${line} is a variable of the shell's own, and \{ a brace

# What a substitution leaves in the word around it.
SUBSTITUTED: Final = "$()"

TOKENS: Final = re.compile(
    r"""
      (?P<place>(?<![$\\])\{line\})
    | (?P<single>'[^']*')
    | (?P<double>"(?:[^"\\$`]|\\[^\n]|\$\{\w+\}|\$(?![{(\\]))*")  # no substitution: it may have quotes again
    | (?P<continued>(?<![^\ \t\n])\\\n)  # inside a word it can hide anything
    | (?P<escaped>\\[^\n])
    | (?P<variable>\$(?:\w+|[@*\#?$!-]|\{[^}"'`\\${(]*\}))
    | (?P<arithmetic>\$?\(\()
    | (?P<opened>\$?\()
    | (?P<closed>\))
    | (?P<document>[0-9]*<<)
    | (?P<redirect>[0-9]*[<>][>&|]?)
    | (?P<end>[;&|\n]+)
    | (?P<space>[\ \t]+)
    | (?P<comment>\#[^\n]*)
    | (?P<plain>[^\s'"\\$`()<>;&|\#{]+|[{\r\f\v]|\$(?=[\s]|\Z))
    """,
    re.VERBOSE | re.DOTALL,
)


class UnclearShellLine(Exception):
    """The text says why it is not known how a shell reads `{line}` there."""


def read_commands(text: str) -> list[list[str]]:
    """The words of each simple command, without their quotes; `{line}` in a word is a placeholder. No redirections.

    Raises: UnclearShellLine.
    """
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._commands: list[list[str]] = []
        self._words: list[str] = []
        self._parts: list[str] | None = None  # of the word that has begun
        self._is_target = False  # the next word is where a redirection goes
        self._around: list[tuple[list[str], list[str] | None]] = []  # what each substitution or subshell interrupts
        self._readers: Mapping[str, Callable[[str], None]] = {
            "single": self._read_quoted,
            "double": self._read_quoted,
            "continued": lambda _text: None,
            "escaped": lambda text: self._add(text[1]),
            "arithmetic": lambda _text: _refuse("arithmetic: ((...))"),
            "opened": self._open,
            "closed": self._close,
            "document": lambda _text: _refuse("a here-document: <<"),
            "redirect": self._redirect,
            "end": lambda _text: self._end_command(),
            "space": lambda _text: self._end_word(),
        }

    def read(self) -> list[list[str]]:
        at = 0
        while at < len(self._text):
            token = TOKENS.match(self._text, at)
            if token is None:
                _refuse(f"{self._text[at : at + 2]!r}, which begins something that it does not follow")
            assert token.lastgroup is not None
            if token.lastgroup == "comment" and self._parts is not None:  # a:b#c is a word
                self._add("#")
                at += 1
                continue
            if token.lastgroup != "comment":
                self._readers.get(token.lastgroup, self._add)(token[0])
            at = token.end()
        self._end_command()
        return self._commands

    def _add(self, text: str) -> None:
        if self._parts is None:
            self._parts = []
        self._parts.append(text)

    def _read_quoted(self, text: str) -> None:
        if LINE.search(text):
            raise UnclearShellLine("{line} is inside quotes, and gandy quotes it already: leave yours out")
        self._add(text[1:-1])

    def _end_word(self) -> None:
        if self._parts is None:
            return
        word, self._parts = "".join(self._parts), None
        if word == "case" and self._around:
            _refuse("case inside $(...)")  # its patterns end with parentheses that nothing opened
        if not self._is_target:
            self._words.append(word)
        self._is_target = False

    def _end_command(self) -> None:
        self._end_word()
        self._is_target = False
        if self._words:
            self._commands.append(self._words)
            self._words = []

    def _redirect(self, _text: str) -> None:
        self._end_word()
        self._is_target = True

    def _open(self, text: str) -> None:
        if text == "(":
            self._end_word()
        else:
            self._add(SUBSTITUTED)
        self._around.append((self._words, self._parts))
        self._words, self._parts = [], None

    def _close(self, _text: str) -> None:
        self._end_command()
        if self._around:
            self._words, self._parts = self._around.pop()


def _refuse(what: str) -> NoReturn:
    raise UnclearShellLine(f"gandy does not know how a shell reads {{line}} in a line with {what}")
