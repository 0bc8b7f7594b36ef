"""What the round-robin queue adds to the command line."""

from typing import Any

import click

from gandy.doors.face import DoorFace
from gandy.foreman.doors import DoorOpening
from gandy.terminal.options import FOREMAN_ONLY, Seconds


def _make_door(told: dict[str, Any], curve: str | None) -> DoorOpening:
    from gandy.doors.roundrobin.opening import RoundRobinOpening

    return RoundRobinOpening(
        url=told["roundrobin"],
        curve=curve,
        commands=told["roundrobin_commands"],
        expiry=told["roundrobin_expiry"],
        limit=told["roundrobin_limit"],
    )


def _run_worker(told: dict[str, Any]) -> int:
    from gandy.doors.roundrobin.main import run

    return run(url=told.pop("roundrobin"), codes=told.pop("roundrobin_commands"), **told)


FACE = DoorFace(
    switch="roundrobin",
    foreman_options=(
        click.option("--roundrobin", metavar="URL", help="Take clients and workers of the round-robin queue there."),
        click.option(
            "--roundrobin-command",
            "roundrobin_commands",
            multiple=True,
            metavar="CODE=NAME",
            help="Which command a code of theirs is, beside ping and rr_stream: 0x20=resize, or "
            "tail=tail,stream,repeatable.",
        ),
        click.option(
            "--roundrobin-expiry",
            type=Seconds(),
            default="15s",
            show_default=True,
            metavar="TIME",
            help="How long a worker of theirs with something to do may be silent. One that is disconnected is lost at "
            "once.",
        ),
        click.option(
            "--roundrobin-limit",
            type=Seconds(),
            default="1h",
            show_default=True,
            metavar="TIME",
            help="How long a worker of theirs may have a call without a word about it. Then the call fails.",
        ),
    ),
    make_door=_make_door,
    worker_options=(
        click.option("--roundrobin", metavar="URL", help="Work for the round-robin server at tcp://HOST:PORT instead."),
        click.option(
            "--roundrobin-command",
            "roundrobin_commands",
            multiple=True,
            metavar="CODE=NAME",
            help="Which command a code of that server is, beside ping and rr_stream: 0x20=resize, or tail=tail,stream.",
        ),
    ),
    worker_refuses=(("is for workers of a foreman, and not with --roundrobin", FOREMAN_ONLY),),
    run_worker=_run_worker,
)
