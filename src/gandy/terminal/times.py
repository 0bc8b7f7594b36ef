"""Converts times that users write to shared time: from now on, by the wall clock, or shared time. Reads no clock."""

import re
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import click

from gandy.amounts import parse_seconds
from gandy.moments import Shared

AT_HELP: Final = "When it begins, by the shared clock: +5, +2min, 14:00, '2026-11-16 14:00:00'."

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
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


def _parse_clock(text: str, wall: datetime) -> datetime | None:
    """Find the next moment at which the local clock shows this time."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    second, _, fraction = (found[3] or "0").partition(".")
    try:
        moment = wall.replace(
            hour=int(found[1]), minute=int(found[2]), second=int(second), microsecond=int(fraction.ljust(6, "0"))
        )
    except ValueError:
        return None
    return moment if moment > wall else moment + timedelta(days=1)


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
