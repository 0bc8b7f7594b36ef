"""Checks single options of programs, and accepts them as people write them: "5s", "2G", a job instead of its number.

It knows no limits: those are checked where an option is used.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from math import isfinite
from operator import index
from os import PathLike, fspath
from typing import Any, Protocol

from gandy.amounts import parse_bytes, parse_seconds
from gandy.errors import ConfigError
from gandy.functions.decorated import ExceptionKinds
from gandy.ids import JobId


class HasJobId(Protocol):
    """A job: `gandy.Job` or `gandy.AsyncJob`."""

    @property
    def id(self) -> JobId: ...


Duration = float | str | timedelta  # seconds, or as in "5s", "10min", "2h"
Size = int | str  # bytes, or as in "500M", "2G"
JobReference = int | HasJobId
FolderPath = str | PathLike[str]


def to_seconds(name: str, value: Duration | None) -> float | None:
    """Raises: ConfigError."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        seconds = parse_seconds(value)
        if seconds is None:
            raise ConfigError(f'{name} is {value!r}, which is not a time; write seconds, "5s", "10min", "2h" or "1d"')
        return seconds
    if value is None or _is_number(value):
        return value
    raise ConfigError(f'{name} is {_show(value)}; write seconds, a text such as "5s" or "10min", or a timedelta')


def to_bytes(name: str, value: Size | None) -> int | None:
    """Raises: ConfigError."""
    if isinstance(value, str):
        size = parse_bytes(value)
        if size is None:
            raise ConfigError(f'{name} is {value!r}, which is not a size; write bytes, "500K", "20M", "2G" or "1T"')
        return size
    return None if value is None else to_whole_number(name, value)


def to_whole_number(name: str, value: Any) -> int:
    """Raises: ConfigError."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return index(value)  # NumPy's integers too
    except TypeError:
        raise ConfigError(f"{name} is {_show(value)}, and must be a whole number") from None


def to_text(name: str, value: str) -> str:
    """Raises: ConfigError."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {_show(value)}, and must be a string")
    return value


def to_path(name: str, value: FolderPath | None) -> str:
    """Return the path as text; none is an empty one. Raises: ConfigError."""
    try:
        return to_text(name, fspath(value or ""))
    except TypeError:
        raise ConfigError(f"{name} is {_show(value)}, and must be a path") from None


def to_time(name: str, value: float | None) -> float | None:
    """Check a time of the shared clock. Raises: ConfigError."""
    if value is None:
        return None
    if not _is_number(value) or not isfinite(value):
        raise ConfigError(f"{name} is {_show(value)}, which is not a time; write it as client.now() + 5")
    return value


def to_environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Raises: ConfigError."""
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise ConfigError(f'env is {_show(env)}, and must be a dict of strings, such as {{"WORD": "hello"}}')
    pairs: Iterable[tuple[object, object]] = env.items()
    for key, value in pairs:
        if not (isinstance(key, str) and isinstance(value, str)):
            raise ConfigError(f"env has {_show(value)} for {_show(key)}: both must be strings")
    return dict(env)


def to_strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """Raises: ConfigError."""
    if isinstance(values, str):  # a string is a sequence of strings too, but never what was meant
        raise ConfigError(f"{name} is the single string {values!r}; write a list")
    if not isinstance(values, Iterable):
        raise ConfigError(f"{name} is {_show(values)}; write a list of strings")
    strings = tuple(values)
    for value in strings:
        if not isinstance(value, str):
            raise ConfigError(f"{name} has {_show(value)}, which is not a string")
    return strings


def to_jobs(name: str, jobs: JobReference | Iterable[JobReference]) -> tuple[JobId, ...]:
    """Accept one job or several. Raises: ConfigError."""
    several: Iterable[Any] = jobs if isinstance(jobs, Iterable) and not isinstance(jobs, str) else (jobs,)
    return tuple(to_job(name, job) for job in several)


def to_job(name: str, job: JobReference) -> JobId:
    """Raises: ConfigError."""
    number: Any = getattr(job, "id", job)
    if not isinstance(number, int):
        raise ConfigError(f"{name} is {_show(job)}, which is not a job; write its number, or what `submit` returned")
    return JobId(number)


def check_function(function: object) -> None:
    """Raises: ConfigError."""
    if not callable(function):
        raise ConfigError(
            f"{_show(function)} is not a function; write the function and its arguments apart, as in run(abs, -1)"
        )


def check_kinds(name: str, kinds: ExceptionKinds | None) -> ExceptionKinds | None:
    """Check exception classes. Raises: ConfigError."""
    several: tuple[object, ...] = kinds if isinstance(kinds, tuple) else (kinds,)
    if kinds is not None and not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in several):
        raise ConfigError(f"{name} is {_show(kinds)}; write exception classes, such as (OSError, TimeoutError)")
    return kinds


def refuse_unknown(where: str, options: Mapping[str, object], known: Iterable[str]) -> None:
    """Raises: ConfigError, if there are any options: each is one that `where` does not have."""
    for name in options:
        near = get_close_matches(name, list(known), 1)
        raise ConfigError(f"{where} has no option {name}" + (f"; did you mean {near[0]}?" if near else ""))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _show(value: object) -> str:
    """Show a value and its kind on one line: a path is not a string, even if it looks like one."""
    return f"{value!r:.60}" if isinstance(value, str | int | float) else f"{value!r:.60} ({type(value).__name__})"
