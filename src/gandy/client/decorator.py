"""`@gandy.task(retries=3)`: what should always hold for the calls of a function."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, Unpack, cast

from gandy.client.options import FunctionOptions
from gandy.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

ATTRIBUTE: Final = "__gandy_task__"


def task(**options: Unpack[FunctionOptions]) -> Callable[[F], F]:
    """Mark a function. It stays what it is, and whoever calls it on a crew does so with these options.

    Raises: ConfigError.
    """
    unknown = set(options) - set(FunctionOptions.__annotations__)
    if unknown:
        raise ConfigError(f"a task has no option {', '.join(sorted(unknown))}")

    def mark(function: F) -> F:
        setattr(function, ATTRIBUTE, options)
        return function

    return mark


def tell_options(function: Callable[..., Any]) -> FunctionOptions:
    """What was said about it, if anything."""
    return cast("FunctionOptions", getattr(function, ATTRIBUTE, {}))
