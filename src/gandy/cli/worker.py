"""`gandy worker`: start a worker here, look at all of them, let one go."""

import os
import sys
from typing import Any, Final

import click
from click.core import ParameterSource

from gandy.cli.exits import make_epilog
from gandy.cli.options import (
    Bytes,
    Format,
    commands_option,
    curve_option,
    foreman_option,
    open_client,
    output_option,
    preload_option,
    refuse_options,
    reserve_option,
)
from gandy.cli.say import say
from gandy.config import tell_home

LIST_KEYS: Final = (
    "id, name, slots, used, running, tags, connected, draining, silent_seconds, calls, commands, knows_time"
)

# A server of ZeroMQ knows nothing of these.
FOREMAN_OPTIONS: Final = ("foreman", "ensemble", "tags", "reserve", "keep_output")
ZEROMQ_OPTIONS: Final = ("roundrobin_commands", "pingpong_command", "curve")


@click.group(epilog=make_epilog("gandy worker run --slots 4", "gandy worker list", "gandy worker drain hut"))
def worker() -> None:
    """Start a worker here, look at workers, let them go."""


@worker.command(
    epilog=make_epilog(
        "gandy worker run",
        "gandy worker run --slots 4 --tag gpu --name hut",
        "gandy worker run --commands kitchen --reserve 1",
        "gandy worker run --foreman plain://10.0.0.7:5429 --insecure",
        "gandy worker run --ensemble band",
        "gandy worker run --roundrobin tcp://hut:6714 --curve keys --commands kitchen --roundrobin-command 0x20=cook",
        "gandy worker run --pingpong tcp://127.0.0.1:6715 --insecure --commands kitchen --pingpong-command cook",
    )
)
@foreman_option
@click.option("--slots", type=click.IntRange(1, 0xFFFE), metavar="N", help="Tasks at once. Default: one per processor.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Something that jobs may ask for.")
@click.option("--name", metavar="TEXT", help="What people call it. Default: the name of this machine.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow links without keys: whoever poses as the foreman or server can run commands here.",
)
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
@click.option(
    "--ensemble", metavar="NAME", help="Keep the time of this ensemble, and work for its foreman, wherever it is."
)
@click.option("--roundrobin", metavar="URL", help="Work for the round-robin server at tcp://HOST:PORT instead.")
@click.option(
    "--roundrobin-command",
    "roundrobin_commands",
    multiple=True,
    metavar="CODE=NAME",
    help="Which command a code of that server is, beside ping and rr_stream: 0x20=resize, or tail=tail,stream.",
)
@click.option("--pingpong", metavar="URL", help="Work for the ping-pong broker at tcp://HOST:PORT instead.")
@click.option("--pingpong-command", metavar="NAME", help="The command that gets the jobs of that broker.")
@curve_option
@click.pass_context
def run(ctx: click.Context, /, roundrobin: str | None, pingpong: str | None, **told: Any) -> None:
    """Work for a foreman, in the foreground. Ctrl-C stops the worker and its tasks."""
    if roundrobin is not None and pingpong is not None:
        raise click.UsageError("a worker works for one: --roundrobin or --pingpong")
    if roundrobin is not None:
        code = _run_roundrobin(ctx, roundrobin, **told)
    else:
        code = _run_pingpong(ctx, pingpong, **told) if pingpong is not None else _run(ctx, **told)
    raise click.exceptions.Exit(code)


def _run(ctx: click.Context, foreman: str | None, ensemble: str | None, insecure: bool, **told: Any) -> int:
    _take_out(ctx, told, "needs a server of ZeroMQ: --roundrobin or --pingpong", *ZEROMQ_OPTIONS)
    if ensemble is not None and ctx.get_parameter_source("foreman") is not ParameterSource.COMMANDLINE:
        foreman = f"ensemble:{ensemble}"
    from gandy.worker import main

    home = tell_home(os.environ, sys.platform)
    return main.run(home=home, foreman=foreman, insecure=insecure, ensemble=ensemble, **told)


def _run_roundrobin(ctx: click.Context, url: str, insecure: bool, curve: str | None, **told: Any) -> int:
    _take_out(ctx, told, "is for workers of a foreman, and not with --roundrobin", *FOREMAN_OPTIONS)
    _take_out(ctx, told, "is for --pingpong", "pingpong_command")
    from gandy.worker import main

    server = main.ZmqServer(url, insecure, curve)
    codes = told.pop("roundrobin_commands")
    return main.run_roundrobin(home=tell_home(os.environ, sys.platform), server=server, codes=codes, **told)


def _run_pingpong(ctx: click.Context, url: str, insecure: bool, curve: str | None, **told: Any) -> int:
    _take_out(ctx, told, "is for workers of a foreman, and not with --pingpong", *FOREMAN_OPTIONS)
    _take_out(ctx, told, "is not with --pingpong: its workers have one slot and one command", "slots")
    _take_out(ctx, told, "is for --roundrobin", "roundrobin_commands")
    command = told.pop("pingpong_command")
    if command is None:
        raise click.UsageError("--pingpong needs --pingpong-command NAME: what gets the jobs", ctx)
    from gandy.worker import main

    server = main.ZmqServer(url, insecure, curve)
    return main.run_pingpong(home=tell_home(os.environ, sys.platform), server=server, command=command, **told)


def _take_out(ctx: click.Context, told: dict[str, Any], why: str, *names: str) -> None:
    """These options are not for this kind of worker. Raises: UsageError, where somebody wrote one."""
    for name in names:
        told.pop(name)
    refuse_options(ctx, why, *names)


@worker.command(
    "list",
    epilog=make_epilog("gandy worker list", "gandy worker list --output json"),
    help=f"List the workers that the foreman knows.\n\nWith --output json, a worker has the keys {LIST_KEYS}.",
)
@foreman_option
@output_option
def list_workers(foreman: str | None, output: Format) -> None:
    from gandy.cli.people import make_printable
    from gandy.cli.rows import WORKER_HEADERS, print_json, worker_to_cells, worker_to_json

    with open_client(foreman) as client:
        rows = client.workers()
    if output == "table" and not rows:
        say("no workers; start one with 'gandy worker run'", err=True)
    elif output == "table":
        from gandy.cli.table import draw_table

        draw_table(WORKER_HEADERS, map(worker_to_cells, rows))
        for row in rows:
            if row.problem:
                say(make_printable(f"worker {row.name} is short of {row.problem}"), err=True)
    for row in rows if output != "table" else ():
        if output == "quiet":
            say(row.name)
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
        say(name)
    else:
        say(f"worker {name} stops {'now' if immediate else 'when its tasks have ended'}")
