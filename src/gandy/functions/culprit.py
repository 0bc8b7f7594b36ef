"""Finds the part of a value that cannot be pickled. Slow, and used only after pickling has failed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from gandy.functions.errors import NotPicklable
from gandy.functions.packing import dump_by_value
from gandy.limits import MAX_CULPRIT_DEPTH


def blame(parts: Sequence[tuple[str, Any]], error: Exception) -> NotPicklable:
    """Make an error that names the first part that cannot be pickled, and the value inside it that is the cause."""
    where, value = next(((where, value) for where, value in parts if not can_be_pickled(value)), parts[-1])
    path: list[str] = []
    while len(path) < MAX_CULPRIT_DEPTH and (step := find_step(value)) is not None:
        path.append(step[0])
        value = step[1]
    inside = f" inside {', '.join(path)}" if path else ""
    return NotPicklable(f"cannot pickle {where}: {_name_kind(value)}{inside} ({type(error).__name__}: {error})")


def can_be_pickled(value: Any) -> bool:
    try:
        dump_by_value(value)
    except Exception:  # noqa: BLE001 - values may raise anything here
        return False
    return True


def find_step(value: Any) -> tuple[str, Any] | None:
    """Take one step into the value, towards what cannot be pickled; None if that is the value itself."""
    if isinstance(value, dict):
        step = _first_bad([(f"a key of {_name_kind(value)}", key) for key in value])
        return step or _first_bad([(f"{type(value).__name__} key {key!r:.60}", item) for key, item in value.items()])
    if isinstance(value, list | tuple | set | frozenset):
        return _first_bad([(f"item {number} of {_name_kind(value)}", item) for number, item in enumerate(value)])
    return _first_bad([*_look_into(value)])


def _look_into(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, FunctionType):
        yield from _list_variables(value)
    elif (owner := getattr(value, "__self__", None)) is not None and callable(value):
        yield f"the object of method {value.__name__}", owner
    elif callable(inner := getattr(value, "func", None)) and hasattr(value, "keywords"):  # functools.partial
        yield "the function of a partial", inner
        yield from ((f"argument {number} of a partial", item) for number, item in enumerate(value.args, 1))
        yield from ((f"argument {name!r} of a partial", item) for name, item in value.keywords.items())
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, Mapping) and not isinstance(value, type):
        yield from ((f"attribute {name!r} of {_name_kind(value)}", item) for name, item in attributes.items())


def _list_variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """List what is pickled along with a function that is sent as code."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"variable {name!r} of function {function.__name__}", cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    for name in code.co_names:
        if name in function.__globals__:
            yield f"global {name!r} of function {function.__name__}", function.__globals__[name]
    for value in function.__defaults__ or ():
        yield f"a default of function {function.__name__}", value


def _first_bad(steps: list[tuple[str, Any]], is_good: Callable[[Any], bool] = can_be_pickled) -> tuple[str, Any] | None:
    if is_good([item for _, item in steps]):
        return None
    while len(steps) > 1:
        half = steps[: len(steps) // 2]
        steps = steps[len(half) :] if is_good([item for _, item in half]) else half
    # Some things fail only together: if this one can be pickled alone, no single part is to blame.
    return steps[0] if steps and not is_good(steps[0][1]) else None


def _name_kind(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
