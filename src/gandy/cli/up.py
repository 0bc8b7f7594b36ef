"""`gandy up`: starts a whole crew on this machine with one command."""

import os
import sys
from typing import Any

import click

from gandy.config import find_home
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import commands_option, preload_option, reserve_option, slots_option, store_option


@click.command(
    epilog=make_epilog(
        "gandy up", "gandy up --slots 4", "gandy up --listen tcp://0.0.0.0:5429", "gandy up --commands kitchen"
    )
)
@slots_option
@store_option
@click.option("--listen", multiple=True, metavar="URL", help="Also accept peers with a key at tcp://HOST:PORT.")
@commands_option
@reserve_option
@preload_option
def up(**options: Any) -> None:
    """Start a foreman and a worker here, in the foreground. Ctrl-C stops both and leaves no process behind."""
    from gandy.up import run

    raise click.exceptions.Exit(run(home=find_home(os.environ, sys.platform), **options))
