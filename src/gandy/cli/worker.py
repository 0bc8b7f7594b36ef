"""`gandy worker`: start a worker here, look at all of them, let one go."""

import os
import sys
from typing import Any, Final

import click

from gandy.cli.exits import make_epilog
from gandy.cli.options import (
    Bytes,
    Format,
    commands_option,
    foreman_option,
    open_client,
    output_option,
    preload_option,
    reserve_option,
)
from gandy.cli.security import refuse_open_network
from gandy.config import tell_home

LIST_KEYS: Final = "id, name, slots, used, running, tags, connected, draining, silent_seconds, calls, commands"


@click.group(epilog=make_epilog("gandy worker run --slots 4", "gandy worker list", "gandy worker drain hut"))
def worker() -> None:
    """Start a worker here, look at workers, let them go."""


@worker.command(
    epilog=make_epilog(
        "gandy worker run",
        "gandy worker run --slots 4 --tag gpu --name hut",
        "gandy worker run --commands kitchen --reserve 1",
        "gandy worker run --foreman tcp://10.0.0.7:5429 --insecure",
    )
)
@foreman_option
@click.option("--slots", type=click.IntRange(1, 0xFFFE), metavar="N", help="Tasks at once. Default: one per processor.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Something that jobs may ask for.")
@click.option("--name", metavar="TEXT", help="What people call it. Default: the name of this machine.")
@click.option("--insecure", is_flag=True, help="Use TCP without keys: anybody on the network may give it work.")
@click.option(
    "--keep-output",
    type=Bytes(),
    default="10G",
    show_default=True,
    metavar="SIZE",
    help="How much output of tasks is kept here: 500M, 20G. Beyond, the oldest goes.",
)
@commands_option
@reserve_option
@preload_option
def run(foreman: str | None, insecure: bool, **told: Any) -> None:
    """Work for a foreman, in the foreground. Ctrl-C stops the worker and its tasks."""
    refuse_open_network(insecure, foreman)
    from gandy.worker import main

    home = tell_home(os.environ, sys.platform)
    raise click.exceptions.Exit(main.run(home=home, foreman=foreman, insecure=insecure, **told))


@worker.command(
    "list",
    epilog=make_epilog("gandy worker list", "gandy worker list --output json"),
    help=f"List the workers that the foreman knows.\n\nWith --output json, a worker has the keys {LIST_KEYS}.",
)
@foreman_option
@output_option
def list_workers(foreman: str | None, output: Format) -> None:
    from gandy.cli.rows import WORKER_HEADERS, print_json, worker_to_cells, worker_to_json

    with open_client(foreman) as client:
        rows = client.workers()
    if output == "table" and not rows:
        click.echo("no workers; start one with 'gandy worker run'", err=True)
    elif output == "table":
        from gandy.cli.table import draw_table

        draw_table(WORKER_HEADERS, map(worker_to_cells, rows))
    for row in rows if output != "table" else ():
        if output == "quiet":
            click.echo(row.name)
        else:
            print_json(worker_to_json(row))


@worker.command(epilog=make_epilog("gandy worker stop hut", "gandy worker stop hut --now"))
@click.argument("name")
@click.option("--now", is_flag=True, help="Kill its tasks; other workers start them again.")
@foreman_option
@output_option
def stop(name: str, now: bool, foreman: str | None, output: Format) -> None:
    """Stop a worker, by name or id, when its tasks have ended.

    With --output json, an object {"worker": NAME, "immediate": BOOLEAN} is printed.
    """
    _stop(name, now, foreman, output)


@worker.command(epilog=make_epilog("gandy worker drain hut"))
@click.argument("name")
@foreman_option
@output_option
def drain(name: str, foreman: str | None, output: Format) -> None:
    """Give a worker nothing new, and let it leave when its tasks have ended.

    With --output json, an object {"worker": NAME, "immediate": false} is printed.
    """
    _stop(name, False, foreman, output)


def _stop(name: str, immediate: bool, foreman: str | None, output: Format) -> None:
    from gandy.cli.rows import print_json

    with open_client(foreman) as client:
        client.stop_worker(name, immediate=immediate)
    if output == "json":
        print_json({"worker": name, "immediate": immediate})
    elif output == "quiet":
        click.echo(name)
    else:
        click.echo(f"worker {name} stops {'now' if immediate else 'when its tasks have ended'}")
