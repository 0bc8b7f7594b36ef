"""Type strings of the bus: parses them, formats them, and infers them from values.

i h f d t numbers   s S text   c character   m MIDI   b bytes   B T F bool   N None   I infinitum
[..] an array: a list   v and one of i h f d, a vector: a tuple of numbers
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from gandy.bus.limits import MAX_NESTING, MAX_TYPES

CODES: Final = frozenset("ihfdtsScmbBTFNI")
VECTOR_CODES: Final = frozenset("ihfd")

INT_END: Final = 2**31  # the first number above the range of i, which begins at -2**31
LONG_END: Final = 2**63  # the same for h


class Infinitum(Enum):
    """The value of the code I."""

    INFINITUM = "infinitum"


INFINITUM: Final = Infinitum.INFINITUM

# One argument: its code; "v" with the code of its elements; or the items of an array.
Item = str | tuple["Item", ...]


def parse_types(
    types: str, codes: frozenset[str] = CODES, vector_codes: frozenset[str] = VECTOR_CODES
) -> tuple[Item, ...]:
    """One item for each argument. Raises: ValueError."""
    if len(types) > MAX_TYPES:
        raise ValueError(f"a type string of {len(types):,} characters, the limit is {MAX_TYPES:,}")
    open_arrays: list[list[Item]] = [[]]
    rest = iter(types)
    for code in rest:
        if code in codes:
            open_arrays[-1].append(code)
        elif code == "[":
            _open_array(open_arrays)
        elif code == "]":
            _close_array(open_arrays)
        elif code == "v" and (element := next(rest, "")) in vector_codes:
            open_arrays[-1].append("v" + element)
        else:
            raise ValueError(f"unknown type {code!r}")
    if len(open_arrays) > 1:
        raise ValueError("an array without its end")
    return tuple(open_arrays[0])


def _open_array(open_arrays: list[list[Item]]) -> None:
    if len(open_arrays) > MAX_NESTING:
        raise ValueError(f"more than {MAX_NESTING} arrays within arrays")
    open_arrays.append([])


def _close_array(open_arrays: list[list[Item]]) -> None:
    if len(open_arrays) == 1:
        raise ValueError("the end of an array without its beginning")
    inner = tuple(open_arrays.pop())
    open_arrays[-1].append(inner)


def format_item(item: Item) -> str:
    """The type string of one argument."""
    return item if isinstance(item, str) else f"[{format_items(item)}]"


def format_items(items: Iterable[Item]) -> str:
    return "".join(map(format_item, items))


# Inference


def infer_types(values: Sequence[Any]) -> str:
    """The type string for these values. Raises: ValueError, with the position of one that has no type."""
    types = ""
    for value in values:
        kind = type(value)
        if kind is int and -INT_END <= value < INT_END:
            types += "i"
        elif kind in _PLAIN:
            types += _PLAIN[kind]
        else:
            return _infer_each(values)
    return types


# Most messages have only small ints and these.
_PLAIN: Final[Mapping[type, str]] = {float: "d", str: "s", bytes: "b"}


def _infer_each(values: Iterable[Any]) -> str:
    types = []
    for number, value in enumerate(values, 1):
        try:
            types.append(_infer(value, 0))
        except ValueError as error:
            raise ValueError(f"argument {number}: {error}") from None
    return "".join(types)


def _infer(value: Any, depth: int) -> str:
    match value:
        case None:
            return "N"
        case bool():
            return "T" if value else "F"
        case int():
            return _infer_int(value)
        case float():
            return "d"
        case str():
            return "s"
        case bytes() | bytearray() | memoryview():
            return "b"
        case list():
            return _infer_array(value, depth + 1)
        case tuple():
            return "v" + _infer_vector(value)
        case Infinitum():
            return "I"
        case _:
            raise ValueError(f"{type(value).__name__} has no type on the bus")


def _infer_int(value: int) -> str:
    if -INT_END <= value < INT_END:
        return "i"
    if -LONG_END <= value < LONG_END:
        return "h"
    raise ValueError(f"an int of {value.bit_length()} bits, the limit is 64 with its sign")


def _infer_array(values: list[Any], depth: int) -> str:
    if depth > MAX_NESTING:  # a list may hold itself
        raise ValueError(f"more than {MAX_NESTING} lists within lists")
    return "[" + "".join([_infer(value, depth) for value in values]) + "]"


def _infer_vector(values: tuple[Any, ...]) -> str:
    kinds = set(map(type, values))
    if not kinds <= {int, float}:
        raise ValueError("a tuple is a vector of numbers; give a list for other things")
    if float in kinds:
        return "d"
    return "h" if "h" in map(_infer_int, values) else "i"
