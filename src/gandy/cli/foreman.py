"""`gandy foreman`: starts a foreman here, or stops the running one."""

import os
import sys
from typing import Any

import click

from gandy.config import find_home
from gandy.doors.face import foreman_examples, foreman_options, take_doors
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import Format, Seconds, foreman_option, open_client, output_option, store_option
from gandy.terminal.say import print_result


@click.group(epilog=make_epilog("gandy foreman run", "gandy foreman stop"))
def foreman() -> None:
    """Start a foreman here, or stop the running one."""


@foreman.command(
    epilog=make_epilog(
        "gandy foreman run",
        "gandy foreman run --store sqlite:/var/lib/gandy/jobs.sqlite",
        "gandy foreman run --listen tcp://0.0.0.0:5429",
        "gandy foreman run --ensemble band",
        *foreman_examples(),
    )
)
@store_option
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="Also accept peers with a key at tcp://HOST:PORT; with --insecure, all peers at plain://HOST:PORT.",
)
@foreman_options
@click.option("--ensemble", metavar="NAME", help="Lead the clock of this ensemble, and be found by its name.")
@click.option(
    "--grace",
    type=Seconds(),
    default="15s",
    show_default=True,
    metavar="TIME",
    help="How long a worker that is cut off keeps its tasks.",
)
@click.option(
    "--keep-results",
    type=Seconds(),
    default="30d",
    show_default=True,
    metavar="TIME",
    help="How long return values of Python functions are kept.",
)
@click.option(
    "--insecure", is_flag=True, help="Allow doors without keys: every program that reaches one can run commands."
)
@click.pass_context
def run(
    ctx: click.Context,
    /,
    store: str | None,
    listen: tuple[str, ...],
    ensemble: str | None,
    grace: float,
    keep_results: float,
    insecure: bool,
    **door_options: Any,
) -> None:
    """Run a foreman in the foreground. Ctrl-C stops it; workers keep their tasks until it is back.

    Without --listen, only you can reach it, on this machine. ZeroMQ doors need keys (--curve) or --insecure, even on
    127.0.0.1, which every user of this machine can reach.
    """
    from gandy.foreman import main
    from gandy.foreman.doors import Doors

    doors = Doors(listen, take_doors(ctx, door_options), ensemble)
    home = find_home(os.environ, sys.platform)
    code = main.run(home=home, store=store, grace=grace, keep_results=keep_results, insecure=insecure, doors=doors)
    raise click.exceptions.Exit(code)


@foreman.command(epilog=make_epilog("gandy foreman stop", "gandy foreman stop --drain"))
@click.option("--drain", is_flag=True, help="Let workers finish their tasks and stop too.")
@foreman_option
@output_option
def stop(drain: bool, foreman: tuple[str, ...], output: Format) -> None:
    """Stop the foreman. Jobs stay in its store, and workers wait for its return.

    With --output json, an object {"foreman": URL, "drain": BOOLEAN} is printed.
    """
    with open_client(foreman) as client:
        client.stop_foreman(drain=drain)
        address = str(client.address)
    print_result(output, f"the foreman at {address} is stopping", {"foreman": address, "drain": drain}, address)
