"""JOB.toml and files of lines."""

import io
from pathlib import Path
from typing import Any

import click
import pytest

from gandy.cli.jobfile import read_job_file, read_lines
from gandy.terminal.times import WrittenTime


def read(folder: Path, text: str) -> tuple[str | tuple[str, ...], dict[str, Any]]:
    path = folder / "job.toml"
    path.write_text(text)
    command, options, _ = read_job_file(str(path))
    return command, options


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("14:00:00", "14:00:00"),
        ("2026-11-16T14:00:00", "2026-11-16 14:00:00"),
        ("'+5min'", "+5min"),
        ("'14:00'", "14:00"),
        ("1794837600.5", "1794837600.5"),
    ],
)
def test_a_time_may_be_one_of_toml_or_as_on_the_command_line(tmp_path: Path, written: str, text: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f"at = {written}")
    assert read_job_file(str(path))[2] == WrittenTime(text)


def test_what_is_no_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="'soon' is not a time"):
        read(tmp_path, "at = 'soon'")


def test_every_key_is_the_name_of_an_option(tmp_path: Path) -> None:
    text = """
        command = ["echo", "{task}"]
        name = "many"
        tasks = 3
        cwd = "sub"
        env = {A = "1"}
        retries = 0
        timeout = "5min"
        priority = -1
        slots = 2
        tag = ["gpu"]
        limit = 4
        hold = true
        after = [7]
        after-any = [8]
        after-each = [9]
    """
    command, options = read(tmp_path, text)
    assert command == ("echo", "{task}")
    assert options == {
        "name": "many",
        "tasks": 3,
        "cwd": str(tmp_path / "sub"),
        "env": {"A": "1"},
        "retries": 0,
        "timeout": 300.0,
        "priority": -1,
        "slots": 2,
        "tags": ("gpu",),
        "limit": 4,
        "held": True,
        "after": (7,),
        "after_any": (8,),
        "after_each": (9,),
    }


def test_lines_are_a_file_beside_it_or_an_array(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\n")
    for text in ('each-line = "lines.txt"', 'each-line = ["a", "b"]'):
        _, options = read(tmp_path, f'command = "true"\n{text}')
        assert list(options["lines"] or ()) == ["a", "b"]


def test_what_is_left_out_is_left_out(tmp_path: Path) -> None:
    command, options = read(tmp_path, 'command = "true"')
    assert command == "true"
    assert not any(options.values())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("retry = 3", "job.toml: Object contains unknown field `retry`"),
        ('tasks = "many"', r"job.toml: Expected `int \| null`, got `str` - at `\$.tasks`"),
        ("env = {A = 1}", r"Expected `str`, got `int` - at `\$.env"),
        ('timeout = "soon"', "job.toml: 'soon' is not a time"),
        ("name = ", "job.toml: Invalid value"),
        ('each-line = "missing.txt"', "cannot read .*missing.txt: No such file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(click.UsageError, match=error):
        read(tmp_path, text)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"cannot read .*: No such file"):
        read_job_file(str(tmp_path / "none.toml"))
    with pytest.raises(click.UsageError, match=r"cannot read .*: Is a directory"):
        read_lines(str(tmp_path))


@pytest.mark.parametrize(
    ("data", "lines"), [(b"a\nb", ("a", "b")), (b"a\n\n", ("a", "")), (b"\n", ("",)), ("ü\r\n".encode(), ("ü\r",))]
)
def test_every_line_counts(tmp_path: Path, data: bytes, lines: tuple[str, ...]) -> None:
    path = tmp_path / "lines"
    path.write_bytes(data)
    assert read_lines(str(path)) == lines


def test_lines_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert read_lines("-") == ("a", "b")


@pytest.mark.parametrize(("data", "error"), [(b"", "is empty"), (b"a\n\xff\n", "line 2: not UTF-8")])
def test_lines_that_are_none_are_told(tmp_path: Path, data: bytes, error: str) -> None:
    path = tmp_path / "lines"
    path.write_bytes(data)
    with pytest.raises(click.UsageError, match=error):
        read_lines(str(path))
