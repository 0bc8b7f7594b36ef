"""Errors of gandy as answers of HTTP."""

from http import HTTPStatus
from typing import Final

from gandy.dashboard.messages import HttpRefusal
from gandy.errors import (
    ConfigError,
    GandyError,
    JobMoved,
    JobNotFound,
    LinkError,
    NoClock,
    NotAllowed,
    Rejected,
    StoreError,
)

# The first that fits an error is used.
_ANSWERS: Final[tuple[tuple[type[GandyError], HTTPStatus, str], ...]] = (
    (JobNotFound, HTTPStatus.NOT_FOUND, "not_found"),
    (NotAllowed, HTTPStatus.FORBIDDEN, "not_allowed"),
    (Rejected, HTTPStatus.CONFLICT, "refused"),
    (NoClock, HTTPStatus.CONFLICT, "no_clock"),
    (ConfigError, HTTPStatus.BAD_REQUEST, "bad_request"),
    (JobMoved, HTTPStatus.SERVICE_UNAVAILABLE, "moved"),
    (LinkError, HTTPStatus.SERVICE_UNAVAILABLE, "away"),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE, "store"),
)


def refuse(error: GandyError) -> HttpRefusal:
    """What no foreman can do now: 503. What the crew, as it is, does not allow: 409."""
    for kind, status, name in _ANSWERS:
        if isinstance(error, kind):
            return HttpRefusal(status, name, str(error))
    # What a worker keeps that is not connected, for one.
    return HttpRefusal(HTTPStatus.CONFLICT, "gone" if error.retryable else "refused", str(error))
