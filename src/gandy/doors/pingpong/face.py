"""What the ping-pong dialogue adds to the command line."""

from typing import Any

import click

from gandy.doors.face import DoorFace
from gandy.foreman.doors import DoorOpening
from gandy.terminal.options import FOREMAN_ONLY, Seconds


def _make_door(told: dict[str, Any], curve: str | None) -> DoorOpening:
    from gandy.doors.pingpong.opening import PingPongOpening

    return PingPongOpening(told["pingpong"], curve, told["pingpong_command"], told["pingpong_expiry"])


def _run_worker(told: dict[str, Any]) -> int:
    from gandy.doors.pingpong.main import run

    command = told.pop("pingpong_command")
    if command is None:
        raise click.UsageError("--pingpong needs --pingpong-command NAME: what gets the jobs")
    return run(url=told.pop("pingpong"), command=command, **told)


FACE = DoorFace(
    switch="pingpong",
    foreman_options=(
        click.option("--pingpong", metavar="URL", help="Take ping-pong workers at tcp://HOST:PORT."),
        click.option(
            "--pingpong-command",
            default="pingpong",
            show_default=True,
            metavar="NAME",
            help="The command that they offer.",
        ),
        click.option(
            "--pingpong-expiry",
            type=Seconds(),
            default="10s",
            show_default=True,
            metavar="TIME",
            help="How long an idle one may be silent.",
        ),
    ),
    make_door=_make_door,
    worker_options=(
        click.option("--pingpong", metavar="URL", help="Work for the ping-pong broker at tcp://HOST:PORT instead."),
        click.option("--pingpong-command", metavar="NAME", help="The command that gets the jobs of that broker."),
    ),
    worker_refuses=(
        ("is for workers of a foreman, and not with --pingpong", FOREMAN_ONLY),
        ("is not with --pingpong: its workers have one slot and one command", ("slots",)),
    ),
    run_worker=_run_worker,
)
