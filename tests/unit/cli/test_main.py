"""The command as a whole: its table, its help, and how commands end. (A closed pipe needs a pipe: see tests/e2e.)"""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from gandy import __version__
from gandy.cli import main
from gandy.errors import GandyError
from gandy.terminal.exits import ExitCode
from gandy.terminal.lazy import LazyCommand


@click.command()
@click.argument("how")
def end(how: str) -> None:
    """End in some way."""
    click.echo("before")
    if how == "failed":
        raise GandyError("it did not work")
    if how == "interrupted":
        raise KeyboardInterrupt


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setattr(main, "test_only_end", end, raising=False)
    monkeypatch.setattr(main.program, "table", {"end": LazyCommand("gandy.cli.main:test_only_end", "End.")})
    return CliRunner()


@pytest.mark.parametrize(
    ("how", "code", "error"),
    [
        ("done", ExitCode.DONE, ""),
        ("failed", ExitCode.FAILED, "gandy: it did not work\n"),
        ("interrupted", ExitCode.INTERRUPTED, ""),
    ],
)
def test_end_of_a_command_is_an_exit_code(runner: CliRunner, how: str, code: int, error: str) -> None:
    result = runner.invoke(main.program, ["end", how])
    assert (result.exit_code, result.stdout, result.stderr) == (code, "before\n", error)


def test_usage_error_is_told_with_the_usage(runner: CliRunner) -> None:
    result = runner.invoke(main.program, ["end"])
    assert result.exit_code == ExitCode.USAGE
    assert "Missing argument 'HOW'" in result.stderr


def test_version_is_the_version_of_the_package() -> None:
    assert CliRunner().invoke(main.program, ["--version"]).stdout == f"gandy {__version__}\n"


@pytest.mark.parametrize("name", sorted(main.COMMANDS))
def test_table_has_the_help_of_the_command_itself(name: str) -> None:
    lazy = main.COMMANDS[name]
    assert lazy.load().get_short_help_str(limit=200) == lazy.help


def test_help_imports_no_command_and_no_wire() -> None:
    code = (
        "import sys; from gandy.cli import main; main.program(['--help'], standalone_mode=False); print(*sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    help_text, modules = shown.rsplit("\n", 2)[:2]
    assert "Decode and encode bytes" in help_text
    assert not {"gandy.cli.wire", "gandy.wire", "msgspec"} & set(modules.split())
