"""A lazy group lists its commands from the table and loads only the one that is used."""

import sys
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from gandy.terminal.lazy import LazyCommand, LazyGroup


@click.command()
def greet() -> None:
    """Say hello."""
    click.echo("hello")


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    module = ModuleType("lazy_example")
    module.greet = greet  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lazy_example", module)
    table = {
        "greet": LazyCommand("lazy_example:greet", "Say hello."),
        "broken": LazyCommand("no_such_module:command", "Never loaded."),
    }
    return LazyGroup("example", table=table)


def test_help_lists_all_commands_and_loads_none(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    assert "  broken  Never loaded.\n  greet   Say hello.\n" in result.stdout


def test_command_is_loaded_when_it_is_used(group: LazyGroup) -> None:
    assert CliRunner().invoke(group, ["greet"]).stdout == "hello\n"


def test_unknown_command_is_a_usage_error(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["greed"])
    assert result.exit_code == 2
    assert "No such command 'greed'" in result.stderr
