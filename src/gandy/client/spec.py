"""Checks the options of a job and makes a `Submit` of them. Opens no file and no link."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from gandy.client import checks
from gandy.client.options import JobOptions
from gandy.core.model import Command, JobSpec
from gandy.core.placeholders import check_command
from gandy.core.requests import Submit
from gandy.errors import ConfigError
from gandy.limits import MAX_FOLLOWED, MAX_RETRIES, MAX_SLOTS, MAX_TASKS
from gandy.moments import Shared

PART_SIZE: Final = 2_000_000  # characters of lines in one request; encoded, at most four times as many bytes
LINE_OVERHEAD: Final = 5  # bytes of a line in addition to its characters


def make_submit(command: str | Sequence[str], options: JobOptions) -> Submit:
    """Raises: ConfigError."""
    lines = _check_lines(options.lines, options.tasks)
    checked = _check_command(command)
    check_command(checked, has_lines=bool(lines))
    at = checks.to_time("at", options.at)
    followed = tuple(dict.fromkeys(checks.to_jobs("after_each", options.after_each)))
    if len(followed) > MAX_FOLLOWED:
        raise ConfigError(f"after_each has {len(followed):,} jobs, and {MAX_FOLLOWED} are the most")
    spec = JobSpec(
        command=checked,
        name=checks.to_text("name", options.name),
        tasks=len(lines) if lines else _check_range("tasks", options.tasks, 1, MAX_TASKS),
        has_lines=bool(lines),
        cwd=_check_folder(checks.to_path("cwd", options.cwd)),
        env=checks.to_environment(options.env),
        retries=_check_range("retries", options.retries, 0, MAX_RETRIES),
        timeout=_check_timeout(checks.to_seconds("timeout", options.timeout)),
        memory=_check_positive("memory", checks.to_bytes("memory", options.memory)),
        priority=checks.to_whole_number("priority", options.priority),
        slots=_check_range("slots", options.slots, 1, MAX_SLOTS),
        tags=checks.to_strings("tags", options.tags),
        limit=_check_positive("limit", options.limit),
        held=bool(options.held),
        after=checks.to_jobs("after", options.after),
        after_any=checks.to_jobs("after_any", options.after_any),
        after_each=followed,
        at=None if at is None else Shared(at),
    )
    return Submit(spec, lines)


def find_folder(cwd: checks.FolderPath | None) -> str:
    """Return the absolute path of the folder in which tasks run; by default the current one. Raises: ConfigError."""
    folder = checks.to_path("cwd", cwd)
    try:
        return str(Path(folder or ".").absolute())
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
    if callable(command):
        name = getattr(command, "__name__", "it")
        raise ConfigError(f"{command!r:.60} is a function, and submit takes commands; write client.run({name}, ...)")
    checked = command if isinstance(command, str) else checks.to_strings("the command", command)
    if not checked:
        raise ConfigError("the command is empty")
    return checked


def _check_lines(lines: Iterable[str] | None, tasks: int) -> tuple[str, ...]:
    if lines is None:
        return ()
    if tasks != 1:
        raise ConfigError("a job has either a number of tasks or a line for each, not both")
    checked = checks.to_strings("lines", lines)
    if not checked:
        raise ConfigError("there are no lines, so there are no tasks")
    return checked


def _check_positive(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if (number := checks.to_whole_number(name, value)) < 1:
        raise ConfigError(f"{name} is {value}, and must be at least 1")
    return number


def _check_range(name: str, value: int, least: int, most: int) -> int:
    """Raises: ConfigError. The foreman checks the same, but this message names the parameter."""
    number = checks.to_whole_number(name, value)
    if not least <= number <= most:
        raise ConfigError(f"a job has {least:,} to {most:,} {name}, and not {number:,}")
    return number


def _check_folder(path: str) -> str:
    if "\0" in path:
        raise ConfigError(f"no folder can be called {path!r}")
    return path


def _check_timeout(timeout: float | None) -> float | None:
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"a timeout of {timeout} seconds leaves no time for anything")
    return timeout
