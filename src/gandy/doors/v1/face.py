"""What the first generation adds to the command line."""

from typing import Any

import click

from gandy.doors.face import DoorFace
from gandy.foreman.doors import DoorOpening


def _make_door(told: dict[str, Any], _curve: str | None) -> DoorOpening:
    from gandy.doors.v1.opening import V1Opening

    return V1Opening(told["v1_listen"])


FACE = DoorFace(
    switch="v1_listen",
    has_curve=False,
    foreman_options=(
        click.option(
            "--v1-listen", metavar="URL", help="Take first-generation workers at tcp://HOST:PORT, which have no keys."
        ),
    ),
    make_door=_make_door,
)
