"""Checks the options of a job and makes a `Submit` of them. Opens no file and no link."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Final

from gandy.client.options import JobOptions
from gandy.core.model import Command, JobSpec
from gandy.core.placeholders import check_command
from gandy.core.requests import Submit
from gandy.errors import ConfigError
from gandy.ids import JobId
from gandy.limits import MAX_RETRIES, MAX_SLOTS, MAX_TASKS
from gandy.moments import Shared

PART_SIZE: Final = 2_000_000  # characters of lines in one request; encoded, at most four times as many bytes
LINE_OVERHEAD: Final = 5  # bytes of a line in addition to its characters


def make_submit(command: str | Sequence[str], options: JobOptions) -> Submit:
    """Raises: ConfigError."""
    lines = _check_lines(options.lines, options.tasks)
    checked = _check_command(command)
    check_command(checked, has_lines=bool(lines))
    spec = JobSpec(
        command=checked,
        name=options.name,
        tasks=len(lines) if lines else _check_range("tasks", options.tasks, 1, MAX_TASKS),
        has_lines=bool(lines),
        cwd=_check_folder(options.cwd or ""),
        env=dict(options.env or {}),
        retries=_check_range("retries", options.retries, 0, MAX_RETRIES),
        timeout=_check_timeout(options.timeout),
        memory=_check_positive("memory", options.memory),
        priority=options.priority,
        slots=_check_range("slots", options.slots, 1, MAX_SLOTS),
        tags=_to_strings("tags", options.tags),
        limit=_check_positive("limit", options.limit),
        held=options.held,
        after=tuple(JobId(job) for job in options.after),
        after_any=tuple(JobId(job) for job in options.after_any),
        after_each=tuple(JobId(job) for job in options.after_each),
        at=_check_at(options.at),
    )
    return Submit(spec, lines)


def find_folder(cwd: str | None) -> str:
    """Return the absolute path of the folder in which tasks run; by default the current one. Raises: ConfigError."""
    try:
        return str(Path(cwd or ".").absolute())
    except OSError:
        raise ConfigError("the current folder is gone; give a folder for the tasks") from None


def split_lines(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Split lines into parts that fit one request each."""
    begin = size = 0
    for place, line in enumerate(lines):
        size += len(line) + LINE_OVERHEAD
        if size > PART_SIZE and place > begin:
            yield tuple(lines[begin:place])
            begin, size = place, len(line) + LINE_OVERHEAD
    yield tuple(lines[begin:])


def _check_command(command: str | Sequence[str]) -> Command:
    checked = command if isinstance(command, str) else _to_strings("the command", command)
    if not checked:
        raise ConfigError("the command is empty")
    return checked


def _check_lines(lines: Iterable[str] | None, tasks: int) -> tuple[str, ...]:
    if lines is None:
        return ()
    if tasks != 1:
        raise ConfigError("a job has either a number of tasks or a line for each, not both")
    checked = _to_strings("lines", lines)
    if not checked:
        raise ConfigError("there are no lines, so there are no tasks")
    return checked


def _check_positive(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise ConfigError(f"{name} is {value}, and must be at least 1")
    return value


def _check_range(name: str, value: int, least: int, most: int) -> int:
    """Raises: ConfigError. The foreman checks the same, but this message names the parameter."""
    if not least <= value <= most:
        raise ConfigError(f"a job has {least:,} to {most:,} {name}, and not {value:,}")
    return value


def _check_folder(path: str) -> str:
    if "\0" in path:
        raise ConfigError(f"no folder can be called {path!r}")
    return path


def _check_timeout(timeout: float | None) -> float | None:
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"a timeout of {timeout} seconds leaves no time for anything")
    return timeout


def _check_at(at: float | None) -> Shared | None:
    if at is None:
        return None
    if not isfinite(at):
        raise ConfigError(f"{at} is not a time")
    return Shared(at)


def _to_strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):  # a string is a sequence of strings too, but never what was meant
        raise ConfigError(f"{name} is the single string {values!r}; write a list")
    strings = tuple(values)
    for value in strings:
        if not isinstance(value, str):
            raise ConfigError(f"{name} has {value!r}, which is not a string")
    return strings
