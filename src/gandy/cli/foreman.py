"""`gandy foreman`: start one here, or stop the one that runs."""

import os
import sys
from typing import Any

import click

from gandy.cli.exits import make_epilog
from gandy.cli.options import Format, Seconds, curve_option, foreman_option, open_client, output_option, refuse_options
from gandy.cli.say import say
from gandy.config import tell_home


@click.group(epilog=make_epilog("gandy foreman run", "gandy foreman stop"))
def foreman() -> None:
    """Start a foreman here, or stop the one that runs."""


@foreman.command(
    epilog=make_epilog(
        "gandy foreman run",
        "gandy foreman run --store sqlite:/var/lib/gandy/jobs.sqlite",
        "gandy foreman run --listen tcp://0.0.0.0:5429",
        "gandy foreman run --ensemble band",
        "gandy foreman run --roundrobin tcp://127.0.0.1:6714 --roundrobin-command 0x20=resize --curve keys",
        "gandy foreman run --pingpong tcp://10.0.0.7:6715 --pingpong-command cook --curve keys",
    )
)
@click.option("--store", metavar="STORE", help="sqlite:PATH or memory:. Default: a file under GANDY_HOME.")
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="Take those who have a key at tcp://HOST:PORT too; with --insecure, anybody at plain://HOST:PORT.",
)
@click.option(
    "--v1-listen", metavar="URL", help="Take first-generation workers at tcp://HOST:PORT, which have no keys."
)
@click.option("--roundrobin", metavar="URL", help="Take clients and workers of the round-robin queue there.")
@click.option(
    "--roundrobin-command",
    "roundrobin_commands",
    multiple=True,
    metavar="CODE=NAME",
    help="Which command a code of theirs is, beside ping and rr_stream: 0x20=resize, or tail=tail,stream,repeatable.",
)
@click.option(
    "--roundrobin-expiry",
    type=Seconds(),
    default="15s",
    show_default=True,
    metavar="TIME",
    help="How long a worker of theirs with something to do may be silent. One that is disconnected is lost at once.",
)
@click.option(
    "--roundrobin-limit",
    type=Seconds(),
    default="1h",
    show_default=True,
    metavar="TIME",
    help="How long a worker of theirs may have a call without a word about it. Then the call fails.",
)
@click.option("--pingpong", metavar="URL", help="Take ping-pong workers at tcp://HOST:PORT.")
@click.option(
    "--pingpong-command", default="pingpong", show_default=True, metavar="NAME", help="The command that they offer."
)
@click.option(
    "--pingpong-expiry",
    type=Seconds(),
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How long an idle one may be silent.",
)
@curve_option
@click.option("--ensemble", metavar="NAME", help="Lead the clock of this ensemble, and be found in it by its name.")
@click.option(
    "--grace",
    type=Seconds(),
    default="15s",
    show_default=True,
    metavar="TIME",
    help="How long a worker that went away keeps its tasks.",
)
@click.option(
    "--keep-results",
    type=Seconds(),
    default="30d",
    show_default=True,
    metavar="TIME",
    help="How long values of Python functions are kept.",
)
@click.option("--insecure", is_flag=True, help="Allow doors without keys: whoever reaches one can run commands.")
@click.pass_context
def run(
    ctx: click.Context, /, store: str | None, grace: float, keep_results: float, insecure: bool, **doors: Any
) -> None:
    """Run a foreman in the foreground. Ctrl-C stops it; workers keep their tasks until it is back.

    Without --listen only you, on this machine, can reach it. Doors for ZeroMQ need keys (--curve), and those for peers
    that have none need somebody who does not mind (--insecure), also on 127.0.0.1: all users of this machine are there.
    """
    if doors["roundrobin"] is None:
        names = "roundrobin_commands", "roundrobin_expiry", "roundrobin_limit"
        refuse_options(ctx, "is for --roundrobin, which is not there", *names)
    if doors["pingpong"] is None:
        refuse_options(ctx, "is for --pingpong, which is not there", "pingpong_command", "pingpong_expiry")
    if doors["curve"] is not None and doors["roundrobin"] is doors["pingpong"] is None:
        raise click.UsageError("--curve is for --roundrobin and --pingpong", ctx)
    from gandy.foreman import main

    home = tell_home(os.environ, sys.platform)
    code = main.run(home=home, store=store, grace=grace, keep_results=keep_results, insecure=insecure, **doors)
    raise click.exceptions.Exit(code)


@foreman.command(epilog=make_epilog("gandy foreman stop", "gandy foreman stop --drain"))
@click.option("--drain", is_flag=True, help="Workers finish their tasks and leave too.")
@foreman_option
@output_option
def stop(drain: bool, foreman: str | None, output: Format) -> None:
    """Stop the foreman. Jobs stay in its store, and workers wait for the next one.

    With --output json, an object {"foreman": URL, "drain": BOOLEAN} is printed.
    """
    from gandy.cli.rows import print_json

    with open_client(foreman) as client:
        client.stop_foreman(drain=drain)
        address = str(client.address)
    if output == "json":
        print_json({"foreman": address, "drain": drain})
    else:
        say(address if output == "quiet" else f"the foreman at {address} stops")
