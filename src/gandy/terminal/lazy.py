"""A click group that imports a command only when it is used, so that `--help` stays fast however many there are."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class LazyCommand(NamedTuple):
    """Where a command is, as "module:attribute", and its line in the help of the group."""

    target: str
    help: str

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """Has its commands in a table, and loads the one that is used."""

    def __init__(self, *args: Any, table: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        lazy = self.table.get(cmd_name)
        return None if lazy is None else lazy.load()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Like click's own, but from the table: click would load every command for its help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.table[name].help) for name in self.list_commands(ctx)])
