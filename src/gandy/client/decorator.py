"""`@gandy.task(retries=3)`: options that hold whenever a crew runs this function."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from gandy.client.options import FunctionOptions

F = TypeVar("F", bound=Callable[..., Any])

ATTRIBUTE: Final = "__gandy_task__"


class _Unset:
    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final[Any] = _Unset()  # None says something: no timeout, whatever `functions()` was given


def task(
    *,
    name: str = UNSET,
    retries: int = UNSET,
    timeout: float | None = UNSET,
    memory: int | None = UNSET,
    priority: int = UNSET,
    slots: int = UNSET,
    tags: Iterable[str] = UNSET,
    limit: int | None = UNSET,
    fresh: bool = UNSET,
    cwd: str | None = UNSET,
    env: Mapping[str, str] | None = UNSET,
) -> Callable[[F], F]:
    """Mark a function. It is not changed; when a crew runs it, these options win over those of `functions()`.

    `timeout` is in seconds and `memory` in bytes, for each attempt; `limit` is how many may run at the same time.
    """
    options = FunctionOptions(name, retries, timeout, memory, priority, slots, tags, limit, fresh, cwd, env)
    given = {key: value for key, value in options._asdict().items() if value is not UNSET}

    def mark(function: F) -> F:
        setattr(function, ATTRIBUTE, given)
        return function

    return mark


def get_options(function: Callable[..., Any]) -> dict[str, Any]:
    """What the decorator was given, if there is one."""
    return getattr(function, ATTRIBUTE, {})
