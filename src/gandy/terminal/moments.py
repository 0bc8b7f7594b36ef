"""When something begins, as people write it: from now on, by the wall clock, or as a shared time. It reads no clock."""

import re
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import click

from gandy.terminal.people import parse_seconds

AT_HELP: Final = "When it begins, by the shared clock: +5, +2min, 14:00, '2026-11-16 14:00:00'."

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_NUMBER: Final = re.compile(r"\d+(\.\d*)?")


class Moment(NamedTuple):
    """A moment that is still to be told in shared time."""

    text: str

    def tell_shared(self, shared: float, wall: datetime) -> float | None:
        """The moment in shared time, if now is `shared`, and `wall` by the clock on the wall. None: it is none."""
        text = self.text.strip()
        if text.startswith("+"):
            seconds = parse_seconds(text[1:])
            return None if seconds is None else shared + seconds
        if _NUMBER.fullmatch(text):
            return float(text)
        moment = _parse_clock(text, wall) or _parse_date(text)
        return None if moment is None else shared + moment.timestamp() - wall.timestamp()


def _parse_clock(text: str, wall: datetime) -> datetime | None:
    """The next time that a clock shows this."""
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


class MomentType(click.ParamType[Moment]):
    """What cannot be a moment is refused before anybody is bothered."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        moment = value if isinstance(value, Moment) else Moment(str(value))
        if moment.tell_shared(0.0, datetime(2000, 1, 1)) is None:
            self.fail(f"{moment.text!r} is not a time; write +5, +2min, 14:00 or '2026-11-16 14:00:00'", param, ctx)
        return moment
