"""Converts the values of a message to the types that a handler wants.

Numbers and truth values convert into one another, strings and symbols too, arrays and vectors element by element; all
other types only into themselves. If a value has no counterpart (NaN as an int, an int too large for 32 bits, a zero as
`T`) the message does not fit. Floats lose their fraction, as they do in the original.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from gandy.bus.limits import MAX_PLAN_TYPES, MAX_PLANS
from gandy.bus.wire.types import Item, parse_types
from gandy.errors import ConfigError

NUMBERS: Final = frozenset("ihfdtBTF")  # truth values count as numbers
STRINGS: Final = frozenset("sS")

Args: TypeAlias = tuple[Any, ...]
Convert: TypeAlias = Callable[[Any], Any]


def coerce(args: Args, types: str, wanted: str) -> Args | None:
    """The values as the wanted types, or None if they do not fit."""
    if types == wanted:
        return args
    plan = _plan_once(types, wanted) if len(types) <= MAX_PLAN_TYPES else _plan(types, wanted)
    if plan is None:
        return None
    try:
        converted: Args = plan(args)
    except (ValueError, TypeError, OverflowError):
        return None
    return converted


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """A function for messages. `types`: those that it wants, or None for any. Raises: ConfigError.

    It is called with the values or, if it `takes_delivery`, with the `Delivery`.
    """

    types: str | None
    function: Callable[..., object]
    takes_delivery: bool = False

    def __post_init__(self) -> None:
        try:
            parse_types(self.types or "")
        except ValueError as error:
            raise ConfigError(f"a handler cannot take {self.types!r:.60}: {error}") from None

    def fit(self, args: Args, types: str) -> Args | None:
        """The arguments for the function, or None if the message does not fit."""
        return args if self.types is None else coerce(args, types, self.types)


def _plan(types: str, wanted: str) -> Convert | None:
    """A function that converts all values of a message, or None if their types do not fit."""
    try:
        return _convert_each(zip(parse_types(types), parse_types(wanted), strict=True), tuple)
    except ValueError:  # invalid types, or not as many as wanted
        return None


_plan_once: Final = lru_cache(MAX_PLANS)(_plan)


def _find_convert(given: Item, wanted: Item) -> Convert | None:
    """A function that converts one value, or None."""
    if given == wanted:
        return _keep
    if isinstance(given, tuple):
        return _find_from_array(given, wanted)
    if isinstance(wanted, tuple):
        return _convert_each(((given[1], item) for item in wanted), list) if given[0] == "v" else None
    if given[0] == wanted[0] == "v":
        return _convert_all(wanted[1])
    if given in STRINGS and wanted in STRINGS:
        return _keep
    return _CONVERTS.get(wanted) if given in NUMBERS else None


def _find_from_array(given: tuple[Item, ...], wanted: Item) -> Convert | None:
    if isinstance(wanted, tuple):
        return _convert_each(zip(given, wanted, strict=True), list)
    return _convert_each(((item, wanted[1]) for item in given), tuple) if wanted[0] == "v" else None


def _convert_each(pairs: Iterable[tuple[Item, Item]], kind: type[Any]) -> Convert | None:
    """A function that converts several values, each with types of its own. Both raise ValueError for a wrong number."""
    converts: list[Convert] = []
    for given, wanted in pairs:
        convert = _find_convert(given, wanted)
        if convert is None:
            return None
        converts.append(convert)
    return lambda values: kind([convert(value) for convert, value in zip(converts, values, strict=True)])


def _convert_all(wanted: str) -> Convert:
    """A function that converts a vector of any length; all its elements are numbers."""
    convert = _CONVERTS[wanted]
    return lambda values: tuple(map(convert, values))


def _keep(value: Any) -> Any:
    return value


def _to_int(value: Any, bits: int) -> int:
    number = int(value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError
    return number


def _to_truth(value: Any, wanted: bool) -> bool:
    if bool(value) != wanted:
        raise ValueError
    return wanted


_CONVERTS: Final[dict[str, Convert]] = {
    "i": lambda value: _to_int(value, 32),
    "h": lambda value: _to_int(value, 64),
    "f": float,
    "d": float,
    "t": float,
    "B": bool,
    "T": lambda value: _to_truth(value, True),
    "F": lambda value: _to_truth(value, False),
}
