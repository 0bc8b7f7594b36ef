"""Answers about the past: what `gandy.viewer.history` reads from the store."""

from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall
from gandy.dashboard.messages import HttpRefusal
from gandy.limits import MAX_SECONDS

WallSeconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """From when to when, in seconds since 1970."""

    begin: WallSeconds = field(name="from")
    end: WallSeconds = field(name="to")


class MomentQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """When, in seconds since 1970."""

    at: WallSeconds


async def list_points(_crew: ShownCrew, _call: ApiCall) -> Any:
    raise _refuse()


async def show_moment(_crew: ShownCrew, _call: ApiCall) -> Any:
    raise _refuse()


def _refuse() -> HttpRefusal:
    return HttpRefusal(HTTPStatus.NOT_FOUND, "not_found", "this version has no history")
