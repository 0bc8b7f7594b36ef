"""The first generation as a table: which side may send what in which state, and which state follows.

docs/protocol/v1.svg is drawn from this table by `make docs`. A step that is not in it is a protocol error.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from gandy.talk.law import Role, Step
from gandy.wire.messages import Error, Job, Ok, Stop, Update

_WORKER, _FOREMAN = Role.WORKER, Role.FOREMAN


class V1State(StrEnum):
    """The state of a conversation of the first generation."""

    GREETING = "greeting"  # neither side has sent anything
    OFFER = "offer"  # the foreman has sent OK(0), and the worker must send its number of processors
    AGREEMENT = "agreement"  # the worker has sent it, and the foreman must repeat the number
    OPEN = "open"
    REPORTING = "reporting"  # an UPDATE is not answered yet
    CLOSED = "closed"


V1_LAW: Final[Mapping[tuple[V1State, Role, Step], V1State]] = {
    (V1State.GREETING, _FOREMAN, Step(Ok)): V1State.OFFER,
    (V1State.OFFER, _WORKER, Step(Ok)): V1State.AGREEMENT,
    (V1State.AGREEMENT, _FOREMAN, Step(Ok)): V1State.OPEN,
    #
    (V1State.OPEN, _FOREMAN, Step(Job)): V1State.OPEN,
    (V1State.OPEN, _WORKER, Step(Error)): V1State.OPEN,
    (V1State.OPEN, _FOREMAN, Step(Stop)): V1State.OPEN,
    (V1State.OPEN, _WORKER, Step(Update)): V1State.REPORTING,
    # What the foreman sent before it received the UPDATE arrives before its answer.
    (V1State.REPORTING, _FOREMAN, Step(Job)): V1State.REPORTING,
    (V1State.REPORTING, _WORKER, Step(Error)): V1State.REPORTING,
    (V1State.REPORTING, _FOREMAN, Step(Stop)): V1State.REPORTING,
    (V1State.REPORTING, _FOREMAN, Step(Ok)): V1State.OPEN,
    (V1State.REPORTING, _FOREMAN, Step(Error)): V1State.OPEN,
}
