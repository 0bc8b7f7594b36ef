"""The options that the round-robin queue adds to the command line."""

import click

from gandy.doors.face import DoorFace, Values, WorkerFace
from gandy.foreman.doors import DoorOpening
from gandy.terminal.options import FOREMAN_ONLY, Seconds


def _make_opening(own: Values, curve: str | None) -> DoorOpening:
    from gandy.doors.roundrobin.opening import RoundRobinOpening

    return RoundRobinOpening(
        url=own["roundrobin"],
        curve=curve,
        commands=own["roundrobin_commands"],
        expiry=own["roundrobin_expiry"],
        limit=own["roundrobin_limit"],
    )


def _run_worker(own: Values, others: Values) -> int:
    from gandy.doors.roundrobin.worker import run

    return run(url=own["roundrobin"], codes=own["roundrobin_commands"], **others)


FACE = DoorFace(
    switch="roundrobin",
    options=(
        click.option("--roundrobin", metavar="URL", help="Accept peers of the round-robin queue at tcp://HOST:PORT."),
        click.option(
            "--roundrobin-command",
            "roundrobin_commands",
            multiple=True,
            metavar="CODE=NAME",
            help="The command that a code of the queue stands for, beside ping and rr_stream: 0x20=resize, or "
            "tail=tail,stream,repeatable.",
        ),
        click.option(
            "--roundrobin-expiry",
            type=Seconds(),
            default="15s",
            show_default=True,
            metavar="TIME",
            help="How long a round-robin worker that has calls may be silent. One that disconnects is lost at once.",
        ),
        click.option(
            "--roundrobin-limit",
            type=Seconds(),
            default="1h",
            show_default=True,
            metavar="TIME",
            help="How long such a worker may hold a call without sending anything about it; then it fails.",
        ),
    ),
    make_opening=_make_opening,
    examples=("gandy foreman run --roundrobin tcp://127.0.0.1:6714 --roundrobin-command 0x20=resize --curve keys",),
    worker=WorkerFace(
        options=(
            click.option(
                "--roundrobin", metavar="URL", help="Work for the round-robin server at tcp://HOST:PORT instead."
            ),
            click.option(
                "--roundrobin-command",
                "roundrobin_commands",
                multiple=True,
                metavar="CODE=NAME",
                help="The command that a code of that server stands for, beside ping and rr_stream: 0x20=resize, or "
                "tail=tail,stream.",
            ),
        ),
        refused=(("is for workers of a foreman, and not with --roundrobin", FOREMAN_ONLY),),
        run=_run_worker,
        examples=(
            (
                "gandy worker run --roundrobin tcp://hut:6714 --curve keys --commands kitchen "
                "--roundrobin-command 0x20=cook"
            ),
        ),
    ),
)
