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
    "id, name, version, places, shards, jobs, lease_seconds, silent_seconds, is_leaving, is_here (it is the one that "
    "was asked) and is_gone"
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
    "long ago it was last heard of. One that died is gone when others have taken over what it owned; it is listed for "
    f"an hour.\n\nWith --output json, a foreman has the keys {LIST_KEYS}.",
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
    request fails. The command ends when everything is handed over. If the foreman is gone, others take over by
    themselves: the command waits for that, and says who owns its jobs now. A foreman with a store of its own has no
    others to hand over to: use 'gandy foreman stop'.

    With --output json, an object {"foreman": NAME, "id": ID, "shards": [NUMBER, ...], "jobs": NUMBER, "gone": BOOLEAN}
    is printed, with what it owned.
    """
    from gandy.client.foremen import choose_foreman, describe_owners, shorten_id
    from gandy.terminal.people import format_count, format_seconds

    with open_client(foreman) as client:
        row = choose_foreman(client.foremen(), name)
        if row.shards and output == "table":
            say(f"foreman {row.name} hands over its jobs; {format_count(row.jobs)} have not ended", err=True)
        client.drain_foreman(row.id)
        # The foreman that was asked is stopping, and perhaps we know no other one.
        rows = () if row.is_here else client.foremen()
    gone = next((each for each in rows if each.id == row.id and each.is_gone), None)
    text = f"foreman {row.name} has handed over everything, and stops"
    if gone is not None:
        what = f"foreman {row.name} ({shorten_id(row.id)})"
        age, owners = format_seconds(gone.silent_seconds), describe_owners(rows)
        text = f"{what} is gone: it was last heard of {age} ago, and owns nothing any more; {owners}"
    plain = {"foreman": row.name, "id": row.id, "shards": row.shards, "jobs": row.jobs, "gone": gone is not None}
    print_result(output, text, plain, row.id)
