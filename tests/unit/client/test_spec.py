"""What a program may say about a job."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.client.options import JobOptions
from gandy.client.spec import LINE_OVERHEAD, make_submit, split_lines
from gandy.core.model import JobSpec
from gandy.core.requests import Submit
from gandy.errors import ConfigError


def test_shell_line_stays_a_line() -> None:
    assert make_submit("echo $GANDY_TASK", JobOptions(tasks=3)) == Submit(JobSpec(command="echo $GANDY_TASK", tasks=3))


def test_argument_vector_stays_a_vector() -> None:
    assert make_submit(["echo", "a b"], JobOptions()).spec.command == ("echo", "a b")


def test_each_line_is_a_task() -> None:
    submit = make_submit("true", JobOptions(lines=iter(["a", "", "b"])))
    assert submit.lines == ("a", "", "b")
    assert (submit.spec.tasks, submit.spec.has_lines) == (3, True)


def test_line_that_would_be_code_is_refused() -> None:
    with pytest.raises(ConfigError, match="leave yours out"):
        make_submit('rm -f "{line}"', JobOptions(lines=["a *"]))
    with pytest.raises(ConfigError, match="has no lines"):
        make_submit(["echo", "{line}"], JobOptions(tasks=5))


@given(st.lists(st.integers(0, 30)))
def test_lines_are_split_into_parts_that_fit(sizes: list[int]) -> None:
    lines = [str(place % 10) * size for place, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gandy.client.spec.PART_SIZE", 40)
        parts = list(split_lines(lines))
    assert [line for part in parts for line in part] == lines
    assert all(len(part) == 1 or sum(len(line) + LINE_OVERHEAD for line in part) <= 40 for part in parts if part)
    assert all(parts) or not lines


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ({"timeout": "5s"}, {"timeout": 5.0}),
        ({"timeout": "1.5min"}, {"timeout": 90.0}),
        ({"timeout": timedelta(minutes=2)}, {"timeout": 120.0}),
        ({"timeout": 7}, {"timeout": 7.0}),
        ({"memory": "2G"}, {"memory": 2_000_000_000}),
        ({"memory": "500 kB"}, {"memory": 500_000}),
        ({"memory": 1e9}, {"memory": 1_000_000_000}),
        ({"after": SimpleNamespace(id=3)}, {"after": (3,)}),
        ({"after": [SimpleNamespace(id=3), 4]}, {"after": (3, 4)}),
        ({"after": 5}, {"after": (5,)}),
        ({"cwd": Path("/tmp")}, {"cwd": "/tmp"}),
        ({"retries": 3.0}, {"retries": 3}),
    ],
)
def test_options_may_be_written_as_people_write_them(written: dict[str, Any], kept: dict[str, Any]) -> None:
    assert make_submit("true", JobOptions(**written)).spec == JobSpec(command="true", **kept)


def test_everything_else_is_passed_on() -> None:
    said: dict[str, Any] = {"name": "n", "cwd": "/", "env": {"A": "1"}, "retries": 2, "timeout": 1.5, "priority": -1}
    said |= {"slots": 2, "tags": ("gpu",), "limit": 4, "held": True, "after": (3,)}
    said |= {"after_any": (4,), "after_each": (5,)}
    assert make_submit("true", JobOptions(**said)).spec == JobSpec(command="true", **said)


@pytest.mark.parametrize(
    ("command", "options", "text"),
    [
        ("", {}, "the command is empty"),
        ([], {}, "the command is empty"),
        (["echo", 1], {}, "the command has 1, which is not a string"),
        ("true", {"tasks": 0}, "1 to 100,000,000 tasks, and not 0"),
        ("true", {"slots": 0}, "1 to 65,534 slots, and not 0"),
        ("true", {"retries": -1}, "0 to 10,000 retries, and not -1"),
        ("true", {"limit": 0}, "limit is 0, and must be at least 1"),
        ("true", {"after_each": range(1, 10)}, "after_each has 9 jobs, and 8 are the most"),
        ("true", {"timeout": 0.0}, "leaves no time"),
        ("true", {"timeout": float("nan")}, "leaves no time"),
        ("true", {"lines": []}, "no lines, so there are no tasks"),
        ("true", {"lines": "abc"}, "lines is the single string 'abc'"),
        ("true", {"tags": "gpu"}, "tags is the single string 'gpu'"),
        ("true", {"lines": ["a"], "tasks": 2}, "not both"),
        (print, {}, r"is a function, and submit takes commands; write client.run\(print, ...\)"),
        (5, {}, "the command is 5; write a list of strings"),
        ("true", {"timeout": "soon"}, "timeout is 'soon', which is not a time; write seconds, \"5s\""),
        ("true", {"timeout": [5]}, r"timeout is \[5\] \(list\); write seconds"),
        ("true", {"memory": "much"}, "memory is 'much', which is not a size; write bytes, \"500K\""),
        ("true", {"memory": 1.5}, "memory is 1.5, and must be a whole number"),
        ("true", {"memory": "0"}, "memory is 0, and must be at least 1"),
        ("true", {"retries": "3"}, "retries is '3', and must be a whole number"),
        ("true", {"priority": None}, r"priority is None \(NoneType\), and must be a whole number"),
        ("true", {"after": "1"}, "after is '1', which is not a job; write its number, or what `submit` returned"),
        ("true", {"after": [1.5]}, "after is 1.5, which is not a job"),
        ("true", {"name": 3}, "name is 3, and must be a string"),
        ("true", {"env": "A=3"}, "env is 'A=3', and must be a dict of strings"),
        ("true", {"env": {"A": 3}}, "env has 3 for 'A': both must be strings"),
        ("true", {"cwd": 3}, "cwd is 3, and must be a path"),
        ("true", {"cwd": b"/tmp"}, r"cwd is b'/tmp' \(bytes\), and must be a string"),
        ("true", {"at": "14:00"}, r"at is '14:00', which is not a time; write it as client.now\(\) \+ 5"),
        ("true", {"at": float("inf")}, "at is inf, which is not a time"),
        ("true", {"tags": 3}, "tags is 3; write a list of strings"),
    ],
)
def test_nonsense_is_named(command: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_submit(command, JobOptions(**options))
