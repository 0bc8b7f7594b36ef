"""Reads and checks JOB.toml and files of lines."""

import sys
import tomllib
from datetime import datetime, time
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click
import msgspec
from msgspec import field
from msgspec.structs import asdict

from gandy.terminal.options import Bytes, Seconds
from gandy.terminal.times import WrittenTime, WrittenTimeType

T = TypeVar("T")


class JobFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The keys of a job file: the names of the options, and the command."""

    command: str | tuple[str, ...] = ()
    name: str | None = None
    tasks: int | None = None
    lines: str | tuple[str, ...] | None = field(default=None, name="each-line")  # a file, or the lines themselves
    cwd: str | None = None
    env: dict[str, str] = {}
    retries: int | None = None
    timeout: float | str | None = None
    memory: int | str | None = None
    priority: int | None = None
    slots: int | None = None
    tags: tuple[str, ...] = field(default=(), name="tag")
    limit: int | None = None
    held: bool = field(default=False, name="hold")
    after: tuple[int, ...] = ()
    after_any: tuple[int, ...] = field(default=(), name="after-any")
    after_each: tuple[int, ...] = field(default=(), name="after-each")
    at: float | str | None = None


def read_job_file(path: str) -> tuple[str | tuple[str, ...], dict[str, Any], WrittenTime | None]:
    """Read the command, the options and the time from a job file. Its paths are relative to its folder.

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
    return file.command, _to_options(file, Path(path).parent, path), _convert(WrittenTimeType(), file.at, path)


def _to_options(file: JobFile, folder: Path, path: str) -> dict[str, Any]:
    options = asdict(file) | {
        "lines": _to_lines(file.lines, folder),
        "cwd": str(folder / file.cwd) if file.cwd else None,
        "timeout": _convert(Seconds(), file.timeout, path),
        "memory": _convert(Bytes(), file.memory, path),
    }
    del options["command"], options["at"]
    return {key: value for key, value in options.items() if value is not None}


def _to_lines(each_line: str | tuple[str, ...] | None, folder: Path) -> tuple[str, ...] | None:
    if not isinstance(each_line, str):
        return each_line
    return read_lines(each_line if each_line == "-" else str(folder / each_line))


def _convert(kind: click.ParamType[T], value: object, path: str) -> T | None:
    """Convert a value as an option of this kind would. Raises: UsageError."""
    try:
        return None if value is None else kind.convert(value, None, None)
    except click.BadParameter as error:
        raise click.UsageError(f"{path}: {error.message}") from None


def read_lines(path: str) -> tuple[str, ...]:
    """Read every line of a file, or of standard input for -; an empty line counts.

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
