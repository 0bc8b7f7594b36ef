"""How to take back what a commit changed in memory, if the database does not take it."""

from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Undo:
    """Steps back, the last one first."""

    __slots__ = ("_steps", "note")

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[[Any, Any], object], Any, Any]] = []
        self.note = self._steps.append  # a function and its two arguments

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """Change an entry."""
        self._note_entry(mapping, key)
        mapping[key] = value

    def pop(self, mapping: MutableMapping[K, V], key: K) -> V | None:
        """Remove an entry, if there is one."""
        if key not in mapping:
            return None
        self._note_entry(mapping, key)
        return mapping.pop(key)

    def _note_entry(self, mapping: MutableMapping[K, V], key: K) -> None:
        if key in mapping:
            self.note((mapping.__setitem__, key, mapping[key]))
        else:
            self.note((mapping.pop, key, None))

    def roll_back(self) -> None:
        for do, first, second in reversed(self._steps):
            do(first, second)
        self._steps.clear()
