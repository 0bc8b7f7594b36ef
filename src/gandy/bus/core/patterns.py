"""OSC 1.0 patterns for one name between two slashes: `*`, `?`, `[a-z]`, `[!a-z]`, `{this,that}`. There are no escapes.

Where OSC 1.0 is silent: the first `]` or `}` closes; text in braces is literal; `[]` matches nothing and `[!]` any
character; a reversed range is empty; a bracket or brace that is never closed is an ordinary character. Matching tracks
the set of positions at which each part may end, so no pattern takes more steps than parts times positions.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gandy.bus.limits import MAX_CACHED_PATTERNS, MAX_PATTERN, MAX_PATTERN_WORDS

PART_COST: Final = 2  # of a part for each name; the comparison of a name with `this*that` costs 1

# The last alternative is ordinary characters, and brackets and braces that are never closed.
_PART: Final = re.compile(r"\*+|\?|\[([^]]*)]|\{([^}]*)}|(?:[^*?[{]|\[(?![^]]*])|\{(?![^}]*}))+")
_RANGE: Final = re.compile("(.)(?:-(.))?", re.DOTALL)


def has_pattern(text: str) -> bool:
    """True if a name or a path may match any text but itself."""
    return "*" in text or "?" in text or "[" in text or "{" in text


# A part takes a name and the positions where it may begin, and returns those where it may end, as the bits of an int.


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
    """`?` and `[...]`: one character of a set, which is given by the code points at which membership changes."""

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
        """All characters, unless they are many. With an odd number of edges the set has no end."""
        if len(self._edges) % 2:
            return None
        ranges = list(zip(self._edges[::2], self._edges[1::2], strict=True))
        if sum(end - begin for begin, end in ranges) > MAX_PATTERN_WORDS:
            return None
        return [chr(code) for begin, end in ranges for code in range(begin, end)]


class _Words:
    """`{...}`: one of these words; ordinary characters are a single word."""

    def __init__(self, words: list[str]) -> None:
        self._words = list(dict.fromkeys(words))
        self.least = min(map(len, words))
        self.cost = len(self._words)

    def advance(self, name: str, places: int) -> int:
        ends = places if self.least == 0 else 0  # the empty word matches everywhere
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
    """A pattern for one name. `words`: all names that it matches, if they are few. `cost`: of `matches`."""

    matches: Callable[[str], bool]
    words: tuple[str, ...] | None
    cost: int


_NOTHING: Final = Pattern(frozenset[str]().__contains__, (), 1)


def compile_pattern(text: str) -> Pattern:
    """Any text is a pattern; a text that is too long matches nothing."""
    return _compile(text) if len(text) <= MAX_PATTERN else _NOTHING


@lru_cache(MAX_CACHED_PATTERNS)
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
    """All words that the parts expand to, unless they are many or infinitely many."""
    words = [""]
    for part in parts:
        endings = part.spell()
        if endings is None or len(words) * len(endings) > MAX_PATTERN_WORDS:
            return None
        words = [word + ending for word in words for ending in endings]
    return list(dict.fromkeys(words))


def _find_word(part: _Part) -> str:
    """The text of a part of ordinary characters; empty for any other part."""
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
    """The code points at which membership changes, from the text between brackets."""
    is_negated = text.startswith("!")
    ranges = [(ord(match[1]), ord(match[2] or match[1]) + 1) for match in _RANGE.finditer(text[is_negated:])]
    edges: list[int] = []
    for begin, end in sorted(ranges):
        if edges and begin <= edges[-1]:
            edges[-1] = max(edges[-1], end)
        elif begin < end:
            edges += (begin, end)
    return [0, *edges] if is_negated else edges
