"""The command `gandy`: the table of its commands, and their exit codes. A command is imported when it is used."""

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
        "gandy.cli.audit:audit", "Show who connected, was refused, submitted or changed something, and from where."
    ),
    "bus": LazyCommand("gandy.cli.bus.group:bus", "Look at an ensemble of the bus, and send to its services."),
    "call": LazyCommand("gandy.cli.call:call", "Call a command that workers have installed, and print its value."),
    "console": LazyCommand(
        "gandy.doors.roundrobin.console.commands:console", "Talk to a round-robin server, worker or client by hand."
    ),
    "dashboard": LazyCommand(
        "gandy.dashboard.command:dashboard", "Show the crew in a browser, and to programs as JSON."
    ),
    "foreman": LazyCommand(
        "gandy.cli.foreman:foreman", "Start a foreman here, list the foremen of the crew, or stop one."
    ),
    "invite": LazyCommand("gandy.cli.key:invite", "Print a line that lets another machine join this crew."),
    "join": LazyCommand("gandy.cli.key:join", "Make this machine part of a crew."),
    "leave": LazyCommand("gandy.cli.key:leave", "Forget the crew that this machine joined."),
    "key": LazyCommand("gandy.cli.key:key", "List, make and revoke keys of this machine's foreman."),
    "job": LazyCommand("gandy.cli.job:job", "Show jobs, wait for them, and change them."),
    "report": LazyCommand(
        "gandy.cli.report.command:report",
        "Write everything about some jobs to one HTML file, to be sent to other people.",
    ),
    "run": LazyCommand(
        "gandy.cli.run:run", "Run a Python function on a worker that has it, and print the job's number."
    ),
    "status": LazyCommand("gandy.cli.status:status", "Show the state of the foreman and its crew."),
    "store": LazyCommand("gandy.cli.store:store", "Copy the jobs and the history of one store to another."),
    "submit": LazyCommand(
        "gandy.cli.submit:submit", "Queue a command, once or many times, and print the job's number."
    ),
    "top": LazyCommand(
        "gandy.cli.top.command:top", "Show the crew at work: jobs, their tasks, workers, calls and foremen."
    ),
    "trace": LazyCommand(
        "gandy.cli.trace.command:trace", "Send jobs and their attempts to an OpenTelemetry collector, as spans."
    ),
    "up": LazyCommand("gandy.cli.up:up", "Start a foreman and a worker here, in the foreground."),
    "worker": LazyCommand("gandy.cli.worker:worker", "Start a worker here, list workers, or stop them."),
    "wire": LazyCommand("gandy.cli.wire:wire", "Decode and encode bytes of the job protocols."),
}

FIRST_STEPS: Final = """\b
First steps:
  gandy up                                                      in one terminal
  gandy submit --tasks 100 --wait -- sh -c 'echo $GANDY_TASK'   in another
  gandy job output 1                                            to see what the tasks wrote
"""

EXAMPLES: Final = """\b
Examples:
  gandy submit --each-line urls.txt --retries 3 -- 'curl -fsSO {line}'
  gandy job list --all
  gandy job explain 7
"""


class Program(LazyGroup):
    """Turns every exception into an exit code; click does so for usage errors only."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a BrokenPipeError is still caught
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
    """Discard buffered output: it has no reader, and Python would print an error when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


@click.group(cls=Program, table=COMMANDS, epilog=FIRST_STEPS + "\n" + EXAMPLES + "\n" + EXIT_HELP)
@click.version_option(__version__, prog_name="gandy", message="%(prog)s %(version)s")
def program() -> None:
    """Make a crew out of machines: a foreman hands work to workers, and everyone keeps the same time."""


def main() -> None:
    program(prog_name="gandy")
