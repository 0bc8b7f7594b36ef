"""`gandy console`: the three programs of the round-robin queue, to control by hand."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from gandy.config import find_home
from gandy.doors.face import curve_option
from gandy.terminal.exits import EXIT_HELP, make_epilog
from gandy.terminal.options import Seconds

if TYPE_CHECKING:
    from gandy.doors.roundrobin.console.screen import Screen
    from gandy.doors.roundrobin.console.shell import Console

F = TypeVar("F", bound=Callable[..., Any])

ADDRESS: Final = "tcp://127.0.0.1:6714"  # the original's, which has no other

CONSOLE_EXIT_HELP: Final = EXIT_HELP + "  130  Ctrl-C\n"

level_option = click.option(
    "-d",
    "level",
    type=click.IntRange(min=0),
    required=True,
    metavar="LEVEL",
    help="How much to print: 0 answers and errors, 1 what happens, 2 statistics of connections, 5 each message.",
)

address_option = click.option(
    "--address", default=ADDRESS, show_default=True, metavar="URL", help="Where the server listens."
)

timeout_option = click.option(
    "--timeout", type=Seconds(), metavar="TIME", help="How long to wait for answers. Default: 5s to 15s, by command."
)


def console_options(command: F) -> F:
    return level_option(address_option(curve_option(command)))


def _explain(*examples: str) -> str:
    return make_epilog(*examples, exits=CONSOLE_EXIT_HELP)


def _run(role: str, level: int, make: "Callable[[Screen], Console]") -> NoReturn:
    from gandy.doors.roundrobin.console.shell import run_console

    raise click.exceptions.Exit(run_console(role, level, find_home(os.environ, sys.platform), make))


@click.group(
    epilog=_explain("gandy console server -d 1 --insecure", "gandy console worker -d 1", "gandy console client -d 1")
)
def console() -> None:
    """Talk to a round-robin server, worker or client by hand."""


@console.command(
    epilog=_explain(
        "gandy console server -d 1 --insecure",
        "gandy console server -d 5 --address tcp://10.0.0.7:6714 --curve keys",
    )
)
@console_options
@click.option("--insecure", is_flag=True, help="Listen without keys: every program that reaches it can take part.")
def server(level: int, address: str, curve: str | None, insecure: bool) -> None:
    """A round-robin server alone: clients and workers, and no jobs.

    It needs keys (--curve) or --insecure, even on this machine, which other users may share.
    Type `workers` for the table of workers, `help` for all commands, and `quit` to stop it.
    """
    from gandy.doors.roundrobin.console.server import ROLE, ServerConsole

    _run(ROLE, level, lambda screen: ServerConsole(screen, address, curve, insecure))


@console.command(
    epilog=_explain("gandy console worker -d 1", "printf 'register\\nbulk\\n' | gandy console worker -d 1")
)
@console_options
@timeout_option
def worker(level: int, address: str, curve: str | None, timeout: float | None) -> None:
    """A worker for a round-robin server, which answers PING and RR_STREAM.

    Type `register` first, then `bulk` for ten more workers; `help` for all commands.
    """
    from gandy.doors.roundrobin.console.worker import ROLE, WorkerConsole

    _run(ROLE, level, lambda screen: WorkerConsole(screen, address, curve, timeout))


@console.command(epilog=_explain("gandy console client -d 1", "echo pingt bulkping 100 | gandy console client -d 0"))
@console_options
@timeout_option
def client(level: int, address: str, curve: str | None, timeout: float | None) -> None:
    """A client of a round-robin server.

    Type `pingt` for one request, `bulkping 100` for a hundred; `help` for all commands.
    """
    from gandy.doors.roundrobin.console.client import ROLE, ClientConsole

    _run(ROLE, level, lambda screen: ClientConsole(screen, address, curve, timeout))
