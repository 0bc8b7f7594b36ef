"""What `@gandy.task` adds to a function, and `retry_on` to a task.

Slot processes open it, so it imports next to nothing.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

ExceptionKinds = type[BaseException] | tuple[type[BaseException], ...]


class TaskVerb:
    """`run`, `map` or `delay` of a decorated function: the method of a client that runs it."""

    def __init__(self, function: Callable[..., Any], verb: str) -> None:
        self._function = function
        self._verb = verb

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # The client stands above this band and takes long to import; a process that runs the function needs none.
        client = import_module("gandy.client.current").find_client()
        return getattr(client, self._verb)(self._function, *args, **kwargs)


class Retrying:
    """A function whose task is tried again after some exceptions only."""

    def __init__(self, func: Callable[..., Any], kinds: ExceptionKinds) -> None:
        self.func = func  # has this name in `functools.partial`, too
        self.kinds = kinds

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


def is_final(function: object, error: BaseException) -> bool:
    """True if the task is not to be tried again after this exception."""
    return isinstance(function, Retrying) and not isinstance(error, function.kinds)
