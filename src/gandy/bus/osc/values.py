"""Converts types and values from OSC and to it, and times between the wall clock and the shared clock."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from gandy.bus.wire.messages import AT_ONCE
from gandy.bus.wire.types import CODES, Item, parse_types
from gandy.errors import NoClock
from gandy.moments import Shared, Wall


def to_osc(types: str, args: tuple[Any, ...], to_tag: Callable[[Shared], int]) -> tuple[str, tuple[Any, ...]]:
    """Convert types and values of the bus to those of OSC. `to_tag` makes a time tag of a shared time, or raises."""
    if not _ONLY_BUS.intersection(types):
        return types, args
    codes, values = _convert_all(parse_types(types), args, partial(_to_osc, to_tag))
    return codes, tuple(values)


def from_osc(types: str, args: tuple[Any, ...], to_shared: Callable[[int], Shared]) -> tuple[str, tuple[Any, ...]]:
    """Convert types and values of OSC to those of the bus. `to_shared` makes a shared time of a time tag, or raises."""
    if not _ONLY_OSC.intersection(types):
        return types, args
    codes, values = _convert_all(parse_types(types, _OSC_CODES, frozenset()), args, partial(_from_osc, to_shared))
    return codes, tuple(values)


_ONLY_BUS: Final = frozenset("Btv")  # codes that mean something else in OSC
_ONLY_OSC: Final = frozenset("rt")
_OSC_CODES: Final = CODES - {"B"} | {"r"}

Convert = Callable[[str, Any], tuple[str, Any]]


def _convert_all(items: tuple[Item, ...], values: Any, convert: Convert) -> tuple[str, list[Any]]:
    codes, converted = [], []
    for item, value in zip(items, values, strict=True):
        if isinstance(item, tuple):
            inner, made = _convert_all(item, value, convert)
            code = f"[{inner}]"
        else:
            code, made = convert(item, value)
        codes.append(code)
        converted.append(made)
    return "".join(codes), converted


def _to_osc(to_tag: Callable[[Shared], int], code: str, value: Any) -> tuple[str, Any]:
    if code == "B":
        return "T" if value else "F", value
    if code == "t":
        return code, to_tag(value)
    if code[0] == "v":
        return f"[{code[1] * len(value)}]", list(value)
    return code, value


def _from_osc(to_shared: Callable[[int], Shared], code: str, value: Any) -> tuple[str, Any]:
    if code == "r":  # red, green, blue, alpha
        return "b", value
    return code, to_shared(value) if code == "t" else value


class Clocks(NamedTuple):
    """The wall clock, which OSC uses, and the shared clock at the same instant."""

    wall: Wall
    shared: Shared | None  # None: it is not known

    def to_shared(self, wall: Wall) -> Shared:
        """0.0 means at once for both clocks. Raises: NoClock."""
        return self._get_shared() + (wall - self.wall) if wall else AT_ONCE

    def to_wall(self, shared: Shared) -> Wall:
        """Raises: NoClock."""
        return self.wall + (shared - self._get_shared()) if shared else Wall(0.0)

    def _get_shared(self) -> Shared:
        if self.shared is None:
            raise NoClock("the shared time is not known yet")
        return self.shared
