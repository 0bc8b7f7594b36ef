"""The command `gandy`: its table of commands, and how each of them ends. It knows no command from the inside."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from gandy import __version__
from gandy.cli.exits import EXIT_HELP, ExitCode
from gandy.cli.lazy import LazyCommand, LazyGroup
from gandy.errors import GandyError

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "wire": LazyCommand("gandy.cli.wire:wire", "Look at the bytes of the job protocols, and make some."),
}

EXAMPLES: Final = """\b
Examples:
  gandy --version
  gandy wire decode 47c00100020000000000000005001100
  gandy wire decode --help
"""


class Program(LazyGroup):
    """Turns whatever ends a command into an exit code; click does so for usage errors only."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a reader that went away can still be met quietly
            return result
        except GandyError as error:
            click.echo(f"gandy: {error}", err=True)
            ctx.exit(ExitCode.FAILED)
        except KeyboardInterrupt:
            ctx.exit(ExitCode.INTERRUPTED)
        except BrokenPipeError:
            _forget_output()
            ctx.exit(ExitCode.CLOSED_PIPE)


def _forget_output() -> None:
    """What is still buffered has no reader, and Python would complain about that when it flushes at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


@click.group(cls=Program, table=COMMANDS, epilog=EXAMPLES + "\n" + EXIT_HELP)
@click.version_option(__version__, prog_name="gandy", message="%(prog)s %(version)s")
def program() -> None:
    """Make a crew out of machines: a foreman hands work to workers, and everyone keeps the same time."""


def main() -> None:
    program(prog_name="gandy")
