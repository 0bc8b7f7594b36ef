"""Options and arguments that many commands share, so that they are the same everywhere."""

import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click
from click.core import ParameterSource

from gandy.amounts import parse_bytes, parse_seconds
from gandy.config import SOCKET_NAME, find_home
from gandy.errors import ConfigError
from gandy.limits import MAX_SLOTS
from gandy.moments import Shared
from gandy.terminal.times import WrittenTime

if TYPE_CHECKING:
    from gandy.client import Client

Format = Literal["table", "json", "quiet"]

F = TypeVar("F", bound=Callable[..., Any])

# Options that have no meaning for workers of servers other than a foreman.
FOREMAN_ONLY: Final = ("foreman", "ensemble", "tags", "reserve", "keep_output")


class Seconds(click.ParamType[float]):
    """A duration as users write it: 90, 1.5s, 5min, 2h, 1d."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = parse_seconds(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a time; write 90, 1.5s, 5min, 2h or 1d", param, ctx)
        return seconds


class Bytes(click.ParamType[int]):
    """A size as users write it: 4096, 500K, 20M, 10G, 1T."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        size = parse_bytes(str(value))
        if size is None:
            self.fail(f"{value!r} is not a size; write 4096, 500K, 20M, 10G or 1T", param, ctx)
        return size


class JobArgument(click.IntRange):
    """A job's number, by this name in messages."""

    name = "job number"


JOB: Final = JobArgument(min=1)

foreman_option = click.option(
    "--foreman",
    multiple=True,
    metavar="URL",
    help="Where the foreman is: unix:PATH, tcp://HOST:PORT, ensemble:NAME, or, without keys, plain://HOST:PORT. May be "
    "given several times, for a crew with many foremen. Default: GANDY_FOREMAN, which may have several with commas, "
    "else the crew that was joined, else this machine.",
)

preload_option = click.option(
    "--preload",
    multiple=True,
    metavar="MODULE",
    help="Import this in each slot's process before its first Python function.",
)

commands_option = click.option(
    "--commands",
    multiple=True,
    metavar="MODULE[:NAME]",
    help="Offer the commands of the gandy.Worker in this module.",
)

reserve_option = click.option(
    "--reserve",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Slots that only calls of commands may use.",
)

output_option = click.option(
    "--output",
    "output",
    type=click.Choice(["table", "json", "quiet"]),
    default="table",
    show_default=True,
    help="A table, JSON with one object on each line, or only numbers and names.",
)


slots_option = click.option(
    "--slots", type=click.IntRange(1, MAX_SLOTS), metavar="N", help="Tasks at once. Default: one per processor."
)

store_option = click.option(
    "--store", metavar="STORE", help="sqlite:PATH or memory:. Default: a file under GANDY_HOME."
)

_TASK_OPTIONS: Final = (
    click.option("--retries", type=click.IntRange(0), metavar="N", help="How often a task that fails is tried again."),
    click.option("--timeout", type=Seconds(), metavar="TIME", help="Kill an attempt after this time: 90, 5min, 2h."),
    click.option("--memory", type=Bytes(), metavar="SIZE", help="Kill an attempt that uses more: 500M, 2G."),
    click.option("--priority", type=int, metavar="N", help="Higher goes first. Default: 0."),
    click.option("--slots", type=click.IntRange(1), metavar="N", help="Slots that each task takes. Default: 1."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag that a worker must have."),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Tasks that may run at the same time."),
)


def task_options(command: F) -> F:
    """Add the options of tasks to a command. Those that were not given are None or empty: see `drop_missing`."""
    for option in reversed(_TASK_OPTIONS):
        command = option(command)
    return command


def drop_missing(given: dict[str, Any]) -> dict[str, Any]:
    """Return only the options that the user gave."""
    return {key: value for key, value in given.items() if value is not None and value != ()}


def job_argument(command: F) -> F:
    return click.argument("number", metavar="JOB", type=JOB)(command)


def jobs_argument(command: F) -> F:
    return click.argument("numbers", metavar="JOB...", type=JOB, nargs=-1, required=True)(command)


def task_option(text: str) -> Callable[[F], F]:
    return click.option("--task", type=click.IntRange(min=1), metavar="N", help=text)


def open_owner() -> "Client":
    """Make a client for the unix socket of this home's foreman, as its owner. Raises: ConfigError."""
    from gandy.client import Client

    where = Path(find_home(os.environ, sys.platform)) / SOCKET_NAME
    if not where.exists():
        refuse_joined(where.parent)
    return Client([f"unix:{where}"])


def refuse_joined(home: Path) -> None:
    """Raises: ConfigError, if this home has joined a foreman on another machine, where the command must be run."""
    from gandy.keys.crew import CREW, CrewKeys

    found = CrewKeys.find(home / CREW)
    if found is not None and found.has_joined:
        crew = found.about.addresses[0]
        raise ConfigError(f"{home} has joined the crew at {crew}: do this there, on the foreman's machine")


def refuse_options(ctx: click.Context, why: str, *names: str) -> None:
    """Raises: UsageError, if the user gave one of these options."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} {why}", ctx)


def find_shared_time(read_shared: Callable[[], float], written: WrittenTime | None) -> float | None:
    """Convert a time that the user wrote to shared time; `read_shared` reads the shared clock. Raises: NoClock."""
    if written is None:
        return None
    # A datetime without a zone: one with the zone's current offset would miss a change to or from summer time.
    shared = written.to_shared_time(Shared(read_shared()), datetime.now())
    return None if shared is None else float(shared)


def open_client(foreman: tuple[str, ...]) -> "Client":
    """Make a client that is not connected yet. Imported late, because some commands need none."""
    from gandy.client import Client

    return Client(foreman)
