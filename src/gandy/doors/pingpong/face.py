"""The options that the ping-pong dialogue adds to the command line."""

import click

from gandy.doors.face import DoorFace, Values, WorkerFace
from gandy.foreman.doors import DoorOpening
from gandy.terminal.options import FOREMAN_ONLY, Seconds


def _make_opening(own: Values, curve: str | None) -> DoorOpening:
    from gandy.doors.pingpong.opening import PingPongOpening

    return PingPongOpening(own["pingpong"], curve, own["pingpong_command"], own["pingpong_expiry"])


def _run_worker(own: Values, others: Values) -> int:
    from gandy.doors.pingpong.worker import run

    if own["pingpong_command"] is None:
        raise click.UsageError("--pingpong needs --pingpong-command NAME: the command that gets the jobs")
    return run(url=own["pingpong"], command=own["pingpong_command"], **others)


FACE = DoorFace(
    switch="pingpong",
    options=(
        click.option("--pingpong", metavar="URL", help="Accept ping-pong workers at tcp://HOST:PORT."),
        click.option(
            "--pingpong-command",
            default="pingpong",
            show_default=True,
            metavar="NAME",
            help="The command that these workers offer.",
        ),
        click.option(
            "--pingpong-expiry",
            type=Seconds(),
            default="10s",
            show_default=True,
            metavar="TIME",
            help="How long an idle ping-pong worker may be silent.",
        ),
    ),
    make_opening=_make_opening,
    examples=("gandy foreman run --pingpong tcp://10.0.0.7:6715 --pingpong-command cook --curve keys",),
    worker=WorkerFace(
        options=(
            click.option("--pingpong", metavar="URL", help="Work for the ping-pong broker at tcp://HOST:PORT instead."),
            click.option("--pingpong-command", metavar="NAME", help="The command that gets the jobs of that broker."),
        ),
        refused=(
            ("is for workers of a foreman, and not with --pingpong", FOREMAN_ONLY),
            ("is not with --pingpong: its workers have one slot and one command", ("slots",)),
        ),
        run=_run_worker,
        examples=(
            "gandy worker run --pingpong tcp://127.0.0.1:6715 --insecure --commands kitchen --pingpong-command cook",
        ),
    ),
)
