"""JOB.toml and files of lines, read and checked."""

import sys
import tomllib
from datetime import datetime, time
from pathlib import Path
from typing import BinaryIO, cast

import click
import msgspec

from gandy.client.spec import SubmitOptions
from gandy.terminal.people import parse_bytes, parse_seconds
from gandy.terminal.times import WrittenTime, WrittenTimeType


class JobFile(msgspec.Struct, forbid_unknown_fields=True, rename="kebab", frozen=True):
    """The keys of a job file: the names of the options, and the command."""

    command: str | tuple[str, ...] = ()
    name: str | None = None
    tasks: int | None = None
    each_line: str | tuple[str, ...] | None = None  # a file, or the lines themselves
    cwd: str | None = None
    env: dict[str, str] = {}
    retries: int | None = None
    timeout: float | str | None = None
    memory: int | str | None = None
    priority: int | None = None
    slots: int | None = None
    tag: tuple[str, ...] = ()
    limit: int | None = None
    hold: bool = False
    after: tuple[int, ...] = ()
    at: float | str | None = None


def read_job_file(path: str) -> tuple[str | tuple[str, ...], SubmitOptions, WrittenTime | None]:
    """The command, the options and the time in a job file. Paths in it are relative to its folder.

    Raises: UsageError.
    """
    try:
        with Path(path).open("rb") as stream:
            table = tomllib.load(stream)
        if isinstance(table.get("at"), datetime | time):  # TOML has these without quotes
            table["at"] = str(table["at"])
        file = msgspec.convert(table, JobFile)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from None
    return file.command, _to_options(file, Path(path).parent, path), _to_moment(file.at, path)


def _to_options(file: JobFile, folder: Path, path: str) -> SubmitOptions:
    options: dict[str, object] = {
        "name": file.name,
        "tasks": file.tasks,
        "lines": _to_lines(file.each_line, folder),
        "cwd": str(folder / file.cwd) if file.cwd else None,
        "env": file.env,
        "retries": file.retries,
        "timeout": _to_timeout(file.timeout, path),
        "memory": _to_bytes(file.memory, path),
        "priority": file.priority,
        "slots": file.slots,
        "tags": file.tag,
        "limit": file.limit,
        "held": file.hold,
        "after": file.after,
    }
    return cast("SubmitOptions", {key: value for key, value in options.items() if value is not None})


def _to_lines(each_line: str | tuple[str, ...] | None, folder: Path) -> tuple[str, ...] | None:
    if not isinstance(each_line, str):
        return each_line
    return read_lines(each_line if each_line == "-" else str(folder / each_line))


def _to_moment(at: float | str | None, path: str) -> WrittenTime | None:
    try:
        return None if at is None else WrittenTimeType().convert(at, None, None)
    except click.BadParameter as error:
        raise click.UsageError(f"{path}: {error.message}") from None


def _to_timeout(timeout: float | str | None, path: str) -> float | None:
    if timeout is None:
        return None
    seconds = parse_seconds(str(timeout))
    if seconds is None:
        raise click.UsageError(f"{path}: {timeout!r} is not a time; write 90, '1.5s', '5min', '2h' or '1d'")
    return seconds


def _to_bytes(size: int | str | None, path: str) -> int | None:
    if size is None:
        return None
    count = parse_bytes(str(size))
    if count is None:
        raise click.UsageError(f"{path}: {size!r} is not a size; write 4096, '500M' or '2G'")
    return count


def read_lines(path: str) -> tuple[str, ...]:
    """Every line of a file, or of standard input for -; an empty line counts.

    Raises: UsageError.
    """
    if path == "-":
        return _split(sys.stdin.buffer, "standard input")
    try:
        with Path(path).open("rb") as stream:
            return _split(stream, path)
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from None


def _split(stream: BinaryIO, name: str) -> tuple[str, ...]:
    lines: list[str] = []
    for line in stream:
        try:
            lines.append(line.removesuffix(b"\n").decode())
        except UnicodeDecodeError:
            raise click.UsageError(f"{name}, line {len(lines) + 1}: not UTF-8") from None
    if not lines:
        raise click.UsageError(f"{name} is empty: there would be no tasks")
    return tuple(lines)
