"""OSC 1.0 patterns for one name between two slashes: `*`, `?`, `[a-z]`, `[!a-z]`, `{this,that}`. There are no escapes.

Where OSC 1.0 is silent: the first `]` or `}` closes; what stands in braces is literal; `[]` matches nothing and `[!]`
any character; a range that runs backwards is empty; a bracket or brace that is never closed is an ordinary character.
A name is matched by the set of places that each part may end at, so no pattern needs more than parts times places.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MAX_PATTERN: Final = 255  # characters; a longer pattern matches nothing
MAX_WORDS: Final = 256  # that a pattern without `*` may stand for, to be looked up one by one
MAX_CACHED: Final = 1_024  # compiled patterns: a program sends the same few, a hostile peer shall not fill the memory
PART_COST: Final = 2  # what a part costs for each name, where 1 is the comparison of a name with `this*that`

# The last alternative is ordinary characters, and brackets and braces that are never closed.
_PART: Final = re.compile(r"\*+|\?|\[([^]]*)]|\{([^}]*)}|(?:[^*?[{]|\[(?![^]]*])|\{(?![^}]*}))+")
_RANGE: Final = re.compile("(.)(?:-(.))?", re.DOTALL)


def has_pattern(text: str) -> bool:
    """Whether a name or a path may match anything but itself."""
    return "*" in text or "?" in text or "[" in text or "{" in text


# A part takes a name and the places where it may begin, and tells where it may end. Places are bits of an int.


class _Run:
    """`*`: any characters, or none."""

    least = 0
    cost = 1

    def advance(self, name: str, places: int) -> int:
        lowest = places & -places
        return (2 << len(name)) - lowest

    def spell(self) -> list[str] | None:
        return None


class _Letter:
    """`?` and `[...]`: one character. Whether it belongs changes at each of the edges, which are code points."""

    least = 1
    cost = 1

    def __init__(self, edges: list[int]) -> None:
        self._edges = edges

    def advance(self, name: str, places: int) -> int:
        ends = 0
        for at, letter in enumerate(name):
            if places >> at & 1 and bisect_right(self._edges, ord(letter)) % 2:
                ends |= 2 << at
        return ends

    def spell(self) -> list[str] | None:
        """All characters, unless they are many. An odd number of edges: there is no last one."""
        if len(self._edges) % 2:
            return None
        ranges = list(zip(self._edges[::2], self._edges[1::2], strict=True))
        if sum(end - begin for begin, end in ranges) > MAX_WORDS:
            return None
        return [chr(code) for begin, end in ranges for code in range(begin, end)]


class _Words:
    """`{...}`: one of these words; ordinary characters are a single one."""

    def __init__(self, words: list[str]) -> None:
        self._words = list(dict.fromkeys(words))
        self.least = min(map(len, words))
        self.cost = len(self._words)

    def advance(self, name: str, places: int) -> int:
        ends = places if self.least == 0 else 0  # the empty word is everywhere
        for word in filter(None, self._words):
            at = name.find(word)
            while at >= 0:
                if places >> at & 1:
                    ends |= 1 << at + len(word)
                at = name.find(word, at + 1)
        return ends

    def spell(self) -> list[str]:
        return self._words


_Part = _Run | _Letter | _Words
_RUN: Final = _Run()
_ANY: Final = _Letter([0])


@dataclass(frozen=True, slots=True)
class Pattern:
    """One name's pattern. `words`: all that it matches, where they are few; `cost`: of `matches` for a short name."""

    matches: Callable[[str], bool]
    words: tuple[str, ...] | None
    cost: int


_NOTHING: Final = Pattern(frozenset[str]().__contains__, (), 1)


def compile_pattern(text: str) -> Pattern:
    """Any text is a pattern; one that is too long matches nothing."""
    return _compile(text) if len(text) <= MAX_PATTERN else _NOTHING


@lru_cache(MAX_CACHED)
def _compile(text: str) -> Pattern:
    parts = _parse(text)
    words = _spell(parts)
    if words is not None:
        return Pattern(frozenset(words).__contains__, tuple(words), 1)
    head, tail = _find_word(parts[0]), _find_word(parts[-1])
    least = sum(part.least for part in parts)
    if parts[bool(head) : len(parts) - bool(tail)] == [_RUN]:
        return Pattern(_match_ends(head, tail, least), None, 1)
    return Pattern(_match_parts(parts, head, tail, least), None, PART_COST * sum(part.cost for part in parts))


def _spell(parts: list[_Part]) -> list[str] | None:
    """All words that the parts stand for, unless they are many or endless."""
    words = [""]
    for part in parts:
        endings = part.spell()
        if endings is None or len(words) * len(endings) > MAX_WORDS:
            return None
        words = [word + ending for word in words for ending in endings]
    return list(dict.fromkeys(words))


def _find_word(part: _Part) -> str:
    """The text of a part that is ordinary characters, else nothing."""
    words = part.spell() if isinstance(part, _Words) else []
    return words[0] if len(words) == 1 else ""


def _match_ends(head: str, tail: str, least: int) -> Callable[[str], bool]:
    def matches(name: str) -> bool:
        return name.startswith(head) and name.endswith(tail) and len(name) >= least

    return matches


def _match_parts(parts: list[_Part], head: str, tail: str, least: int) -> Callable[[str], bool]:
    steps = [part.advance for part in parts]

    def matches(name: str) -> bool:
        # Most names fail here, which is quick.
        if not name.startswith(head) or not name.endswith(tail) or len(name) < least:
            return False
        places = 1
        for step in steps:
            places = step(name, places)
            if not places:
                return False
        return places >> len(name) == 1

    return matches


def _parse(text: str) -> list[_Part]:
    return [_make_part(match[0], match[1], match[2]) for match in _PART.finditer(text)]


def _make_part(text: str, letters: str | None, words: str | None) -> _Part:
    if letters is not None:
        return _Letter(_find_edges(letters))
    if words is not None:
        return _Words(words.split(","))
    if text == "?":
        return _ANY
    return _RUN if text[0] == "*" else _Words([text])


def _find_edges(text: str) -> list[int]:
    """Where membership changes in what stands between brackets."""
    is_negated = text.startswith("!")
    ranges = [(ord(match[1]), ord(match[2] or match[1]) + 1) for match in _RANGE.finditer(text[is_negated:])]
    edges: list[int] = []
    for begin, end in sorted(ranges):
        if edges and begin <= edges[-1]:
            edges[-1] = max(edges[-1], end)
        elif begin < end:
            edges += (begin, end)
    return [0, *edges] if is_negated else edges
