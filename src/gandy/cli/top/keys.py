"""What a terminal sends when keys are pressed, as names of keys. Pure.

A letter is its own name. ESC alone cannot be told from the beginning of a sequence: `flush` says that no more came.
"""

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import Final

MAX_PENDING: Final = 64  # bytes of a sequence that has no end; no key sends as many

_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~]|[^\[O])", re.DOTALL)
_PARTIAL: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?", re.DOTALL)

_ENDS: Final[Mapping[str, str]] = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "Z": "backtab",
}
_NUMBERS: Final[Mapping[str, str]] = {"1": "home", "4": "end", "5": "pageup", "6": "pagedown", "7": "home", "8": "end"}
_CONTROLS: Final[Mapping[str, str]] = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x0c": "redraw",  # Ctrl-L
    "\x15": "clear",  # Ctrl-U
    "\x04": "pagedown",  # Ctrl-D
    "\x06": "pagedown",  # Ctrl-F
    "\x02": "pageup",  # Ctrl-B
}


class KeyReader:
    """`feed` bytes as they come."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    @property
    def is_waiting(self) -> bool:
        """True if what came last may be a key, or the beginning of another one."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[str]:
        text = self._pending + self._decoder.decode(data)
        self._pending = ""
        return list(self._split(text))

    def flush(self) -> list[str]:
        """No more came in time."""
        pending, self._pending = self._pending, ""
        return ["escape"] if pending == "\x1b" else []

    def _split(self, text: str) -> Iterator[str]:
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                yield from _name(text[at])
                at += 1
                continue
            found = _SEQUENCE.match(text, at)
            if found is None:
                partial = _PARTIAL.fullmatch(text, at)
                if partial is not None and len(partial[0]) <= MAX_PENDING:
                    self._pending = partial[0]
                    return
                at += 1
                continue
            name = _name_sequence(found[0])
            if name is not None:
                yield name
            if found[0] == "\x1b\x1b":  # two keys, or one and the beginning of a sequence
                yield "escape"
                at += 1
                continue
            at = found.end()


def _name(letter: str) -> Iterator[str]:
    name = _CONTROLS.get(letter) or (letter if letter.isprintable() else None)
    if name is not None:
        yield name


def _name_sequence(sequence: str) -> str | None:
    if sequence[1] == "O" or (sequence[1] == "[" and sequence[-1] != "~"):
        return _ENDS.get(sequence[-1]) or ("enter" if sequence == "\x1bOM" else None)
    if sequence[1] == "[":
        return _NUMBERS.get(sequence[2:-1].partition(";")[0])
    return None
