"""Packs function tasks: a function with its arguments, or a chunk of a map, whose function is packed separately."""

from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any, NamedTuple, cast

from gandy.functions.packing import Packed, pack, unpack

Function = Callable[..., Any]

ADVICE = (
    "The worker could not open the task. A module that only the client has can travel along: "
    "cloudpickle.register_pickle_by_value(module)"
)


class FunctionTask(NamedTuple):
    """What a slot process runs: a function once, or once for each tuple of arguments in a chunk.

    A coroutine function is run to its end, each time on a loop of its own.
    """

    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    chunk: list[tuple[Any, ...]] | None = None

    def run(self) -> Any:
        """Return the value; of a chunk, the list of values."""
        function = self.function
        if self.chunk is None:
            return _finish(function(*self.args, **self.kwargs))
        return [_finish(function(*args)) for args in self.chunk]


def _finish(value: Any) -> Any:
    """Run what a coroutine function returned; any other value is the result already."""
    if not isinstance(value, CoroutineType):
        return value
    # Imported late: it takes longer than everything else in a slot process, and most functions do not need it.
    import asyncio

    return asyncio.run(value)


def pack_task(function: Function, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> bytes:
    """Pack a function with its arguments. Raises: NotPicklable."""
    kwargs = kwargs or {}
    try:
        return pack((function, args, kwargs))
    except Exception as error:
        from gandy.functions.culprit import blame

        name = name_function(function)
        parts = [(f"the function {name}", function)]
        parts += [(f"argument {number} of {name}", value) for number, value in enumerate(args, 1)]
        parts += [(f"argument {key!r} of {name}", value) for key, value in kwargs.items()]
        raise blame(parts, error) from error


def pack_function(function: Function) -> bytes:
    """Pack the function that the chunks of a map share. Raises: NotPicklable."""
    try:
        return pack(function)
    except Exception as error:
        from gandy.functions.culprit import blame

        raise blame([(f"the function {name_function(function)}", function)], error) from error


def pack_items(items: Sequence[tuple[Any, ...]]) -> bytes:
    """Pack one chunk of a map: the arguments of each run of the function. Raises: NotPicklable."""
    items = list(items)
    try:
        return pack(items)
    except Exception as error:
        from gandy.functions.culprit import blame

        parts = [
            (f"argument {number} of item {index} of the chunk", value)
            for index, args in enumerate(items)
            for number, value in enumerate(args, 1)
        ]
        raise blame(parts, error) from error


def pack_value(value: Any, function: Function | None = None) -> bytes:
    """Pack what a function returned; an error names the function. Raises: NotPicklable."""
    try:
        return pack(value)
    except Exception as error:
        from gandy.functions.culprit import blame

        where = "the result" if function is None else f"the result of {name_function(function)}"
        raise blame([(where, value)], error) from error


def open_function(packed: Packed) -> Function:
    return cast("Function", _open(packed))


def open_task(packed: Packed, function: Function | None = None) -> FunctionTask:
    """Open what `pack_task` packed, or with the function of a map, what `pack_items` packed."""
    opened = _open(packed)
    if function is not None:
        return FunctionTask(function, (), {}, opened)
    return FunctionTask(*opened)


def open_result(packed: Packed) -> Any:
    """Open what `pack_value` packed. Raises: whatever unpickling the value raises."""
    return unpack(packed)


def name_function(function: Any) -> str:
    """Return the name of a function, for messages to users."""
    while (inner := getattr(function, "func", None)) is not None:  # functools.partial
        function = inner
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def _open(packed: Packed) -> Any:
    try:
        return unpack(packed)
    except (ImportError, AttributeError) as error:
        from gandy.functions.versions import format_versions  # imported late: most processes never need it

        error.add_note(ADVICE)
        error.add_note(f"On the worker there is {format_versions(error)}.")
        raise
