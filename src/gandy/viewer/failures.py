"""Groups failures that are alike: by how they ended, and their last words but for numbers, ids, paths and URLs. Pure.

Texts are printable, whatever tasks wrote.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gandy.core.explain import describe_ending
from gandy.core.model import Ending
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.terminal.people import make_printable

WORDS_LENGTH: Final = 200  # characters of last words
LISTED_GROUPS: Final = 100  # that are listed; more kinds of failures than a person reads
NAMED_TASKS: Final = 10  # of a group

# What differs between failures that are alike. A hexadecimal number has a digit and a letter, or it begins with 0x.
_VARIABLE: Final = re.compile(
    r"(?P<id>\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)"
    r"|(?P<url>\b[a-z][a-z0-9+.]*://[^\s'\"<>()\[\]]*[^\s'\"<>()\[\].,:;])"
    r"|(?P<path>(?<![\w.~/-])(?:~|\.\.?)?/[^\s'\":;,<>()\[\]]+)"
    r"|(?P<n>\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}\b|\d+(?:[.,]\d+)*(?:e[+-]?\d+\b)?)",
    re.IGNORECASE,
)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_MARK: Final = "\0"  # around the kind of what differs: no printable text has it


class FailureGroup(Struct, frozen=True):
    """Failures that are alike, and the first of their tasks."""

    words: str  # the last ones of standard error, or of the exception; <n>, <id>, <path> and <url> where they differ
    cause: str
    count: int
    tasks: tuple[TaskNumber, ...]


class GroupedFailures(NamedTuple):
    """The largest groups first."""

    groups: tuple[FailureGroup, ...]
    left_out: int  # failures of groups that are not listed


class _Pattern(NamedTuple):
    """A text, and what may differ in it. Where it does, the value is None."""

    form: str
    values: tuple[str | None, ...]

    def merge(self, other: "_Pattern") -> "_Pattern":
        pairs = zip(self.values, other.values, strict=True)
        return _Pattern(self.form, tuple(one if one == two else None for one, two in pairs))

    def __str__(self) -> str:
        parts = self.form.split(_MARK)
        kinds = zip(parts[1::2], self.values, strict=True)
        parts[1::2] = [f"<{kind}>" if value is None else value for kind, value in kinds]
        return "".join(parts)


class _Kind(NamedTuple):
    """How a task failed, and its last words."""

    ending: Ending  # without what belongs to one attempt only
    note: _Pattern
    words: _Pattern

    @property
    def key(self) -> tuple[Ending, str, str]:
        return self.ending, self.note.form, self.words.form

    def merge(self, other: "_Kind") -> "_Kind":
        return _Kind(self.ending, self.note.merge(other.note), self.words.merge(other.words))


def group_failures(rows: Iterable[TaskRow]) -> GroupedFailures:
    """Group tasks that failed. Those of which no ending is known are left out."""
    kinds: dict[tuple[Ending, str, str], _Kind] = {}
    tasks: dict[tuple[Ending, str, str], list[TaskNumber]] = {}
    for row in rows:
        if row.ending is not None:
            kind = _make_kind(row.ending)
            known = kinds.get(kind.key)
            kinds[kind.key] = kind if known is None else known.merge(kind)
            tasks.setdefault(kind.key, []).append(row.task)
    keys = sorted(kinds, key=lambda key: -len(tasks[key]))
    groups = tuple(_make_group(kinds[key], tasks[key]) for key in keys[:LISTED_GROUPS])
    return GroupedFailures(groups, sum(len(tasks[key]) for key in keys[LISTED_GROUPS:]))


def _make_group(kind: _Kind, tasks: Sequence[TaskNumber]) -> FailureGroup:
    cause = describe_ending(replace(kind.ending, note=str(kind.note)))
    return FailureGroup(str(kind.words), cause, len(tasks), tuple(tasks[:NAMED_TASKS]))


def _make_kind(ending: Ending) -> _Kind:
    words, note = find_last_words(ending), ending.note
    if words == _cut(note):  # it is said once
        note = ""
    kind = Ending(ending.cause, ending.exit_code, ending.signal)
    return _Kind(kind, _find_pattern(_cut(note)), _find_pattern(words))


def find_last_words(ending: Ending) -> str:
    """The last line that a task wrote to standard error; what it raised; or what its worker noted."""
    note = _cut(ending.note)
    if ending.has_raised and note:
        return note
    return _find_last_line(ending.tail) or note


def _find_last_line(tail: bytes) -> str:
    text = _COLOUR.sub("", tail.decode(errors="replace"))
    return next((_clean(line) for line in reversed(text.splitlines()) if line.strip()), "")


def _cut(note: str) -> str:
    """The first line of a note: the others are about that."""
    return next((_clean(line) for line in note.splitlines() if line.strip()), "")


def _clean(line: str) -> str:
    words = make_printable(" ".join(line[: 4 * WORDS_LENGTH].split()))
    return words if len(words) <= WORDS_LENGTH else f"{words[: WORDS_LENGTH - 1]}…"


def _find_pattern(text: str) -> _Pattern:
    values: list[str] = []

    def take(found: re.Match[str]) -> str:
        values.append(found[0])
        return f"{_MARK}{found.lastgroup}{_MARK}"

    form = _VARIABLE.sub(take, text)
    return _Pattern(form, tuple(values))
