"""The command `gandy`: its table of commands, and how each of them ends. It knows no command from the inside."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from gandy import __version__
from gandy.errors import GandyError
from gandy.terminal.exits import EXIT_HELP, ExitCode
from gandy.terminal.lazy import LazyCommand, LazyGroup
from gandy.terminal.say import say

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "audit": LazyCommand(
        "gandy.cli.audit:audit", "Tell who came, was refused, submitted or changed something, and from where."
    ),
    "bus": LazyCommand("gandy.cli.bus.group:bus", "Look at an ensemble of the bus, and send to its services."),
    "call": LazyCommand("gandy.cli.call:call", "Call a command that workers have installed, and print its value."),
    "console": LazyCommand(
        "gandy.doors.roundrobin.console.commands:console", "Talk to a round-robin server, worker or client by hand."
    ),
    "foreman": LazyCommand("gandy.cli.foreman:foreman", "Start a foreman here, or stop the one that runs."),
    "invite": LazyCommand("gandy.cli.key:invite", "Print a line that lets another machine join this crew."),
    "join": LazyCommand("gandy.cli.key:join", "Make this machine part of a crew."),
    "leave": LazyCommand("gandy.cli.key:leave", "Forget the crew that this machine joined."),
    "key": LazyCommand("gandy.cli.key:key", "Look at the keys of this machine's foreman, make some, and revoke them."),
    "job": LazyCommand("gandy.cli.job:job", "Look at jobs, and change their course."),
    "run": LazyCommand(
        "gandy.cli.run:run", "Call a Python function on a worker that has it, and print the job's number."
    ),
    "status": LazyCommand("gandy.cli.status:status", "Tell how the foreman and its crew are."),
    "submit": LazyCommand(
        "gandy.cli.submit:submit", "Queue a command, once or many times, and print the job's number."
    ),
    "up": LazyCommand("gandy.cli.up:up", "Start a foreman and a worker here, in the foreground."),
    "worker": LazyCommand("gandy.cli.worker:worker", "Start a worker here, look at workers, let them go."),
    "wire": LazyCommand("gandy.cli.wire:wire", "Look at the bytes of the job protocols, and make some."),
}

FIRST_STEPS: Final = """\b
First steps:
  gandy up                                                      in one terminal
  gandy submit --tasks 100 --wait -- sh -c 'echo $GANDY_TASK'   in another
  gandy job output 1                                            what the tasks wrote
"""

EXAMPLES: Final = """\b
Examples:
  gandy submit --each-line urls.txt --retries 3 -- 'curl -fsSO {line}'
  gandy job list --all
  gandy job explain 7
"""


class Program(LazyGroup):
    """Turns whatever ends a command into an exit code; click does so for usage errors only."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a reader that went away can still be met quietly
            return result
        except GandyError as error:
            say(f"gandy: {error}", err=True)
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


@click.group(cls=Program, table=COMMANDS, epilog=FIRST_STEPS + "\n" + EXAMPLES + "\n" + EXIT_HELP)
@click.version_option(__version__, prog_name="gandy", message="%(prog)s %(version)s")
def program() -> None:
    """Make a crew out of machines: a foreman hands work to workers, and everyone keeps the same time."""


def main() -> None:
    program(prog_name="gandy")
