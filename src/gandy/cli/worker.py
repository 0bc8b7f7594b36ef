"""`gandy worker`: starts a worker here, lists workers, or stops one."""

import os
import sys
from typing import Any, Final

import click
from click.core import ParameterSource

from gandy.config import find_home
from gandy.doors.face import run_worker, worker_examples, worker_options
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import (
    Bytes,
    Format,
    commands_option,
    foreman_option,
    open_client,
    output_option,
    preload_option,
    reserve_option,
    slots_option,
)
from gandy.terminal.say import print_result, say

LIST_KEYS: Final = (
    "id, name, slots, used, running, tags, connected, draining, silent_seconds, calls, commands, knows_time, problem, "
    "version, load, cores, memory_bytes and memory_total_bytes"
)


@click.group(
    epilog=make_epilog(
        "gandy worker run --slots 4", "gandy worker list", "gandy worker show hut", "gandy worker drain hut"
    )
)
def worker() -> None:
    """Start a worker here, list workers, or stop them."""


@worker.command(
    epilog=make_epilog(
        "gandy worker run",
        "gandy worker run --slots 4 --tag gpu --name hut",
        "gandy worker run --commands kitchen --reserve 1",
        "gandy worker run --foreman tcp://first:5429 --foreman tcp://second:5429",
        "gandy worker run --foreman plain://10.0.0.7:5429 --insecure",
        "gandy worker run --ensemble band",
        *worker_examples(),
    )
)
@foreman_option
@slots_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A property that jobs may ask for.")
@click.option("--name", metavar="TEXT", help="The name of the worker. Default: the name of this machine.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow links without keys: a program that poses as the foreman or server can run commands here.",
)
@click.option(
    "--keep-output",
    type=Bytes(),
    default="10G",
    show_default=True,
    metavar="SIZE",
    help="How much output of tasks is kept here: 500M, 20G. Beyond that, the oldest is deleted.",
)
@commands_option
@reserve_option
@preload_option
@click.option(
    "--ensemble", metavar="NAME", help="Follow the clock of this ensemble, and work for its foreman, wherever it is."
)
@worker_options
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Work for a foreman, in the foreground. Ctrl-C stops the worker and its tasks."""
    options["home"] = find_home(os.environ, sys.platform)
    code = run_worker(ctx, options)
    raise click.exceptions.Exit(_run(ctx, **options) if code is None else code)


def _run(ctx: click.Context, foreman: tuple[str, ...], ensemble: str | None, **options: Any) -> int:
    if ensemble is not None and ctx.get_parameter_source("foreman") is not ParameterSource.COMMANDLINE:
        foreman = (f"ensemble:{ensemble}",)
    from gandy.worker import main

    return main.run(foreman=foreman, ensemble=ensemble, **options)


@worker.command(
    "list",
    epilog=make_epilog("gandy worker list", "gandy worker list --output json"),
    help="List the workers that the foreman knows, and how busy their machines are.\n\n"
    f"With --output json, a worker has the keys {LIST_KEYS}. The last four are about its machine.",
)
@foreman_option
@output_option
def list_workers(foreman: tuple[str, ...], output: Format) -> None:
    from gandy.terminal.people import make_printable
    from gandy.terminal.rows import view_workers

    with open_client(foreman) as client:
        rows = client.workers()
    if output == "table" and not rows:
        say("no workers; start one with 'gandy worker run'", err=True)
        return
    view_workers().print(output, rows)
    for row in rows if output == "table" else ():
        if row.problem:
            say(make_printable(f"worker {row.name} is short of {row.problem}"), err=True)


@worker.command(
    epilog=make_epilog("gandy worker show hut", "gandy worker show hut --output json"),
    help="Show a worker, by name or id; if several have the name, all of them.\n\n"
    "The keys are those of 'gandy worker list'.",
)
@click.argument("name")
@foreman_option
@output_option
def show(name: str, foreman: tuple[str, ...], output: Format) -> None:
    from gandy.errors import JobNotFound
    from gandy.terminal.rows import view_workers, worker_to_fields
    from gandy.terminal.table import draw_fields

    with open_client(foreman) as client:
        rows = [row for row in client.workers() if name in (row.name, row.id)]
    if not rows:
        raise JobNotFound(f"no worker is called {name}")
    if output != "table":
        view_workers().print(output, rows)
        return
    for number, row in enumerate(rows):
        if number:
            say("")
        draw_fields(worker_to_fields(row))


@worker.command(epilog=make_epilog("gandy worker stop hut", "gandy worker stop hut --now"))
@click.argument("name")
@click.option("--now", is_flag=True, help="Kill its tasks; other workers run them again.")
@foreman_option
@output_option
def stop(name: str, now: bool, foreman: tuple[str, ...], output: Format) -> None:
    """Stop a worker, by name or id, when its tasks have ended.

    With --output json, an object {"worker": NAME, "immediate": BOOLEAN} is printed.
    """
    _stop(name, now, foreman, output)


@worker.command(epilog=make_epilog("gandy worker drain hut"))
@click.argument("name")
@foreman_option
@output_option
def drain(name: str, foreman: tuple[str, ...], output: Format) -> None:
    """Give a worker no more tasks, and stop it when its tasks have ended.

    With --output json, an object {"worker": NAME, "immediate": false} is printed.
    """
    _stop(name, False, foreman, output)


def _stop(name: str, immediate: bool, foreman: tuple[str, ...], output: Format) -> None:
    with open_client(foreman) as client:
        client.stop_worker(name, immediate=immediate)
    text = f"worker {name} stops {'now' if immediate else 'when its tasks have ended'}"
    print_result(output, text, {"worker": name, "immediate": immediate}, name)
