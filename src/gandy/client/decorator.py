"""`@gandy.task(retries=3)`: options that apply whenever a crew runs the function."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Never, TypeVar

from gandy.client.checks import Duration, FolderPath, Size, refuse_unknown
from gandy.client.options import FunctionOptions

F = TypeVar("F", bound=Callable[..., Any])

ATTRIBUTE: Final = "__gandy_task__"


class _Unset:
    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final[Any] = _Unset()  # None has a meaning: no timeout, even if `functions()` was given one


def task(
    *,
    name: str = UNSET,
    retries: int = UNSET,
    timeout: Duration | None = UNSET,
    memory: Size | None = UNSET,
    priority: int = UNSET,
    slots: int = UNSET,
    tags: Iterable[str] = UNSET,
    limit: int | None = UNSET,
    fresh: bool = UNSET,
    cwd: FolderPath | None = UNSET,
    env: Mapping[str, str] | None = UNSET,
    **unknown: Never,
) -> Callable[[F], F]:
    """Decorate a function, without changing it: when a crew runs it, these options override those of `functions()`.

    `timeout` (seconds, or "10min") and `memory` (bytes, or "2G") are for each attempt; `limit` is how many may run at
    the same time. Raises: ConfigError.
    """
    refuse_unknown("@gandy.task", unknown, FunctionOptions._fields)
    options = FunctionOptions(name, retries, timeout, memory, priority, slots, tags, limit, fresh, cwd, env)
    given = {key: value for key, value in options._asdict().items() if value is not UNSET}

    def mark(function: F) -> F:
        setattr(function, ATTRIBUTE, given)
        return function

    return mark


def get_options(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of a decorated function; none if it is not decorated."""
    return getattr(function, ATTRIBUTE, {})
