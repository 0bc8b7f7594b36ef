"""What an answer of a collector means for the spans that it was sent. Pure."""

from enum import Enum, auto
from http import HTTPStatus
from typing import Final

# The collector has read these spans, and does not want them: to send them again would be refused again.
_UNWANTED: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)


class Verdict(Enum):
    TAKEN = auto()
    LATER = auto()  # it is away, busy, or not set up for us: send them again
    REFUSED = auto()


def judge(status: int | None) -> Verdict:
    """By the status of the last HTTP answer; None: there was none."""
    if status is not None and HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Verdict.TAKEN
    return Verdict.REFUSED if status in _UNWANTED else Verdict.LATER
