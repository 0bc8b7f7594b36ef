"""`gandy foreman`: starts a foreman here, lists the foremen of a crew, or stops one."""

import os
import sys
from typing import Any, Final

import click

from gandy.config import find_home
from gandy.doors.face import foreman_examples, foreman_options, take_doors
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import Format, Seconds, foreman_option, open_client, output_option, store_option
from gandy.terminal.say import print_result, say

LIST_KEYS: Final = (
    "id, name, version, places, shards, jobs, lease_seconds, silent_seconds, is_leaving and is_here (it is the one "
    "that was asked)"
)


@click.group(epilog=make_epilog("gandy foreman run", "gandy foreman list", "gandy foreman drain", "gandy foreman stop"))
def foreman() -> None:
    """Start a foreman here, list the foremen of the crew, or stop one."""


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


@foreman.command(
    "list",
    epilog=make_epilog("gandy foreman list", "gandy foreman list --output json"),
    help="List the foremen of the crew: the shards of jobs that each owns, for how long its lease is valid, and how "
    f"long ago it was last heard of.\n\nWith --output json, a foreman has the keys {LIST_KEYS}.",
)
@foreman_option
@output_option
def list_foremen(foreman: tuple[str, ...], output: Format) -> None:
    from gandy.terminal.rows import view_foremen

    with open_client(foreman) as client:
        view_foremen().print(output, client.foremen())


@foreman.command(epilog=make_epilog("gandy foreman drain", "gandy foreman drain hut", "gandy foreman drain 3f9ac01b"))
@click.argument("name", required=False, default="")
@foreman_option
@output_option
def drain(name: str, foreman: tuple[str, ...], output: Format) -> None:
    """Let a foreman hand over its jobs to the other foremen of the crew, and stop.

    NAME is a name or an id of 'gandy foreman list'; without it, the foreman that answers is meant. Tasks go on, and no
    request fails. The command ends when everything is handed over. A foreman with a store of its own has no others to
    hand over to: use 'gandy foreman stop'.

    With --output json, an object {"foreman": NAME, "id": ID, "shards": [NUMBER, ...], "jobs": NUMBER} is printed, with
    what was handed over.
    """
    from gandy.client.foremen import choose_foreman
    from gandy.terminal.people import format_count

    with open_client(foreman) as client:
        row = choose_foreman(client.foremen(), name)
        if row.shards and output == "table":
            say(f"foreman {row.name} hands over its jobs; {format_count(row.jobs)} have not ended", err=True)
        client.drain_foreman(row.id)
    plain = {"foreman": row.name, "id": row.id, "shards": row.shards, "jobs": row.jobs}
    print_result(output, f"foreman {row.name} has handed over everything, and stops", plain, row.id)
