"""Converts times that users write: those to come to shared time, and past ones to the time of day. Reads no clock."""

import re
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import click

from gandy.amounts import parse_seconds
from gandy.moments import Shared, Wall

AT_HELP: Final = "When it begins, by the shared clock: +5, +2min, 14:00, '2026-11-16 14:00:00'."

PAST_EXAMPLES: Final = "14:00, 'yesterday 14:00', '2026-11-16 14:00', '2h ago'"

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_DAY: Final = re.compile(r"(today|yesterday)\s+(\S+)")
_AGO: Final = re.compile(r"-(.+)|(.+?)\s+ago")
_NUMBER: Final = re.compile(r"\d+(\.\d*)?")


class WrittenTime(NamedTuple):
    """A time as the user wrote it, to be converted to shared time."""

    text: str

    def to_shared_time(self, shared: Shared, wall: datetime) -> Shared | None:
        """Convert it, where `shared` and `wall` are the current times of both clocks. None: the text is not a time."""
        text = self.text.strip()
        if text.startswith("+"):
            seconds = parse_seconds(text[1:])
            return None if seconds is None else shared + seconds
        if _NUMBER.fullmatch(text):
            return Shared(float(text))
        moment = _parse_clock(text, wall) or _parse_date(text)
        return None if moment is None else shared + (moment.timestamp() - wall.timestamp())


class PastMoment(NamedTuple):
    """A time as the user wrote it, which should be over."""

    text: str

    def to_wall_time(self, wall: datetime) -> Wall | None:
        """Convert it, where `wall` is the current local time, without a zone. None: the text is not a time."""
        text = self.text.strip().lower()
        if found := _AGO.fullmatch(text):
            seconds = parse_seconds(found[1] or found[2])
            return None if seconds is None else Wall(wall.timestamp() - seconds)
        if _NUMBER.fullmatch(text):
            return Wall(float(text))
        moment = _find_last_clock(text, wall) or _parse_day(text, wall) or _parse_date(text.upper())
        try:
            return None if moment is None else Wall(moment.timestamp())
        except (ValueError, OverflowError):  # a year that the local clock does not know
            return None


def _find_last_clock(text: str, wall: datetime) -> datetime | None:
    """Find the last moment at which the local clock showed this time."""
    moment = _set_clock(text, wall)
    if moment is None:
        return None
    return moment if moment <= wall else moment - timedelta(days=1)


def _parse_day(text: str, wall: datetime) -> datetime | None:
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    return _set_clock(found[2], wall - timedelta(days=found[1] == "yesterday"))


def _parse_clock(text: str, wall: datetime) -> datetime | None:
    """Find the next moment at which the local clock shows this time."""
    moment = _set_clock(text, wall)
    if moment is None:
        return None
    return moment if moment > wall else moment + timedelta(days=1)


def _set_clock(text: str, day: datetime) -> datetime | None:
    """The moment of this day at which the local clock shows this time."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    second, _, fraction = (found[3] or "0").partition(".")
    try:
        return day.replace(
            hour=int(found[1]), minute=int(found[2]), second=int(second), microsecond=int(fraction.ljust(6, "0"))
        )
    except ValueError:
        return None


def _parse_date(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


class WrittenTimeType(click.ParamType[WrittenTime]):
    """Refuses text that is not a time, before anything is sent."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> WrittenTime:
        written = value if isinstance(value, WrittenTime) else WrittenTime(str(value))
        if written.to_shared_time(Shared(0.0), datetime(2000, 1, 1)) is None:
            self.fail(f"{written.text!r} is not a time; write +5, +2min, 14:00 or '2026-11-16 14:00:00'", param, ctx)
        return written


class PastMomentType(click.ParamType[PastMoment]):
    """Refuses text that is not a time, before anything is sent."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PastMoment:
        written = value if isinstance(value, PastMoment) else PastMoment(str(value))
        if written.to_wall_time(datetime(2000, 1, 2)) is None:
            self.fail(f"{written.text!r} is not a time; write {PAST_EXAMPLES}", param, ctx)
        return written
