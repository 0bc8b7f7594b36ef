"""The options that the first generation adds to the command line."""

import click

from gandy.doors.face import DoorFace, Values
from gandy.foreman.doors import DoorOpening


def _make_opening(own: Values, _curve: str | None) -> DoorOpening:
    from gandy.doors.v1.opening import V1Opening

    return V1Opening(own["v1_listen"])


FACE = DoorFace(
    switch="v1_listen",
    has_curve=False,
    options=(
        click.option(
            "--v1-listen", metavar="URL", help="Accept first-generation workers at tcp://HOST:PORT, which have no keys."
        ),
    ),
    make_opening=_make_opening,
)
