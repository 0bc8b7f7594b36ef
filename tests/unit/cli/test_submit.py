"""What `gandy submit` makes of its command line, before a foreman hears of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.client.builders import a_row

from gandy.cli import main, submit
from gandy.core.model import Counts, JobState
from gandy.core.rows import JobRow

FINISHED = a_row(state=JobState.FINISHED, counts=Counts(finished=10))


class PretendClient:
    """Remembers what was submitted."""

    id = 7

    def __init__(self) -> None:
        self.submitted: list[tuple[str | Sequence[str], dict[str, Any]]] = []

    def __enter__(self) -> "PretendClient":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def now(self) -> float:
        return 1000.0

    def submit(self, command: str | Sequence[str], **options: Any) -> "PretendClient":
        self.submitted.append((command, {key: value for key, value in options.items() if value}))
        return self

    def watch(self) -> list[JobRow]:
        return [FINISHED]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> PretendClient:
    pretended = PretendClient()
    monkeypatch.setattr(submit, "open_client", lambda _foreman: pretended)
    return pretended


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main.program, ["submit", *words], input=stdin)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["echo $HOME; ls"], "echo $HOME; ls"),
        (["--", "sh", "-c", "echo $GANDY_TASK"], ("sh", "-c", "echo $GANDY_TASK")),
        (["ls", "-l", "--tasks", "3"], ("ls", "-l", "--tasks", "3")),
    ],
)
def test_one_word_is_a_shell_line_and_several_are_a_vector(
    client: PretendClient, words: list[str], command: str | tuple[str, ...]
) -> None:
    assert run(*words).exit_code == 0
    assert client.submitted == [(command, {})]


def test_options_are_passed_on(client: PretendClient) -> None:
    words = "--name n --tasks 3 --cwd /x --env A=1 --env B=x=y --retries 2 --timeout 5min --priority -1 --slots 2"
    run(
        *words.split(),
        *["--tag", "gpu", "--tag", "big", "--limit", "4", "--hold", "--after", "3", "--after", "4"],
        *["--after-any", "5", "--after-each", "6", "true"],
    )
    expected = {"name": "n", "tasks": 3, "cwd": "/x", "env": {"A": "1", "B": "x=y"}, "retries": 2, "timeout": 300.0}
    expected |= {"priority": -1, "slots": 2, "tags": ("gpu", "big"), "limit": 4, "held": True, "after": (3, 4)}
    expected |= {"after_any": (5,), "after_each": (6,)}
    assert client.submitted == [("true", expected)]


def test_a_time_is_told_as_shared_time(client: PretendClient, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('command = "true"\nat = "+5"\n')
    run("--at", "+1.5", "true")
    run("--file", str(path))
    run("--file", str(path), "--at", "2000")
    assert [options["at"] for _, options in client.submitted] == [1001.5, 1005.0, 2000.0]
    assert "is not a time" in run("--at", "soon", "true").output


def test_lines_of_standard_input_are_tasks(client: PretendClient) -> None:
    run("--each-line", "-", "true", stdin="a\nb\n")
    assert client.submitted == [("true", {"lines": ("a", "b")})]


def test_command_line_wins_over_the_file(client: PretendClient, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('command = "old"\nname = "file"\ntasks = 5\npriority = 2\nenv = {A = "1", B = "1"}\n')
    run("--file", str(path), "--name", "line", "--env", "B=2", "--each-line", "-", stdin="a\n")
    run("--file", str(path), "new")
    assert client.submitted == [
        ("old", {"name": "line", "priority": 2, "env": {"A": "1", "B": "2"}, "lines": ("a",)}),
        ("new", {"name": "file", "tasks": 5, "priority": 2, "env": {"A": "1", "B": "1"}}),
    ]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["true"], "job 7\n"),
        (["--output", "quiet", "true"], "7\n"),
        (["--output", "json", "true"], '{"job":7}\n'),
        (["--wait", "--output", "quiet", "true"], "7\n"),
    ],
)
def test_number_is_printed(client: PretendClient, words: list[str], shown: str) -> None:
    assert run(*words).stdout == shown


def test_waiting_prints_the_job_as_json(client: PretendClient) -> None:
    result = run("--wait", "--output", "json", "true")
    assert result.exit_code == 0
    assert result.stdout.startswith('{"job":7,"name":"","state":"finished"')
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "Missing COMMAND"),
        (["--tasks", "0", "true"], "0 is not in the range"),
        (["--env", "A", "true"], "'A' is not of the form NAME=VALUE"),
        (["--env", "=1", "true"], "'=1' is not of the form NAME=VALUE"),
        (["--timeout", "soon", "true"], "'soon' is not a time"),
        (["--tasks", "2", "--each-line", "-", "true"], "exclude each other"),
        (["--each-line", "/none", "true"], "cannot read /none"),
        (["--file", "/none"], "cannot read /none"),
        (["--after", "x", "true"], "'x' is not a valid job number"),
        (["--nonsense", "true"], "No such option"),
    ],
)
def test_bad_command_line_is_told(client: PretendClient, words: list[str], error: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert error in result.stderr
    assert client.submitted == []
