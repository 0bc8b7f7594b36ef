"""Answers about the past: what `gandy.viewer.history` reads from the store."""

from http import HTTPStatus
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall
from gandy.dashboard.messages import HttpRefusal
from gandy.dashboard.past import make_past_crew
from gandy.dashboard.rows import CrewObject
from gandy.limits import MAX_SECONDS
from gandy.viewer.history import read_at, read_curve, read_points
from gandy.viewer.series import PERIOD, POINTS, Point

POINTS_SECONDS: Final = PERIOD * POINTS  # before a moment, about which its points are

WallSeconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """From when to when, in seconds since 1970."""

    begin: WallSeconds = field(name="from")
    end: WallSeconds = field(name="to")


class MomentQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """When, in seconds since 1970."""

    at: WallSeconds


class HistoryAnswer(Struct, frozen=True):
    """The points that are known of this time. Each is about `period` seconds before it; the last may be about fewer."""

    begin: float = field(name="from")
    end: float = field(name="to")
    period: float
    points: tuple[Point, ...]


async def list_points(crew: ShownCrew, call: ApiCall) -> HistoryAnswer:
    curve = await read_curve(crew.client, call.query.begin, call.query.end)
    return HistoryAnswer(call.query.begin, call.query.end, curve.period, curve.points)


async def show_moment(crew: ShownCrew, call: ApiCall) -> CrewObject:
    then = await read_at(crew.client, call.query.at)
    if then is None:
        raise HttpRefusal(HTTPStatus.NOT_FOUND, "not_found", "no history is kept of that time")
    at = float(then.at)
    return make_past_crew(then, await read_points(crew.client, max(0.0, at - POINTS_SECONDS), at))
