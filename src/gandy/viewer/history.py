"""What a crew did in the past, and how it stood at a moment: asks a foreman, who reads the samples in the store."""

from math import inf

from msgspec import Struct

from gandy.client.aio import AsyncClient
from gandy.core.past_crew import CrewThen
from gandy.core.requests import ListSamples, Points, ReadSample
from gandy.errors import JobNotFound
from gandy.moments import Wall
from gandy.viewer.series import Point


class Curve(Struct, frozen=True):
    """Points of the past, and how many seconds each is about; the last may be about fewer."""

    period: float
    points: tuple[Point, ...]


async def read_curve(client: AsyncClient, begin: float, end: float, most: int = 500) -> Curve:
    """At most so many points between two times of day, in seconds since 1970.

    They begin with the oldest sample that is kept, and end now. Each is about the seconds before it.
    """
    found = await client.connection.ask(ListSamples(Wall(begin), Wall(end), most), Points)
    points = tuple(
        Point(
            float(point.at),
            point.finished,
            point.failed,
            point.calls,
            point.used,
            point.slots,
            point.waiting,
            point.running,
        )
        for point in found.points
    )
    return Curve(max((point.seconds for point in found.points), default=0.0), points)


async def read_points(client: AsyncClient, begin: float, end: float, most: int = 500) -> tuple[Point, ...]:
    """The points of `read_curve`."""
    return (await read_curve(client, begin, end, most)).points


async def read_at(client: AsyncClient, at: float) -> CrewThen | None:
    """How the crew stood at a time of day, or shortly before. None: no history is kept of that time."""
    try:
        return await client.connection.ask(ReadSample(Wall(at)), CrewThen)
    except JobNotFound:
        return None


async def find_beginning(client: AsyncClient, end: Wall) -> Wall | None:
    """About when the oldest sample that is kept was made; None: none is. `end`: now.

    Fewer and fewer seconds are looked at, until a point is not about fewer of them.
    """
    begin, last, period, found = 0.0, float(end), inf, None
    while True:
        curve = await read_curve(client, begin, last)
        if not curve.points or curve.period >= period:
            return None if found is None else Wall(found)
        found, period = curve.points[0].at, curve.period
        begin, last = found - 2 * period, min(last, found + period)
