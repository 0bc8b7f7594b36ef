"""Moments as people write them, in shared time."""

import time
from datetime import datetime, timedelta, timezone, tzinfo

import click
import pytest

from gandy.terminal import options
from gandy.terminal.times import WrittenTime, WrittenTimeType

SHARED = 500.0
WALL = datetime(2026, 11, 16, 13, 59, 30, 250_000, timezone(timedelta(hours=1)))


def tell(text: str) -> float | None:
    """In seconds from now on."""
    shared = WrittenTime(text).to_shared_time(SHARED, WALL)
    return None if shared is None else round(shared - SHARED, 6)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("+0", 0.0),
        ("+0.5", 0.5),
        (" +2min ", 120.0),
        ("14:00", 29.75),
        ("14:00:01.5", 31.25),
        ("13:59:30.250001", 0.000001),
        ("13:59:30", 86_399.75),  # that is over, and the next one is tomorrow
        ("00:00", 36_029.75),
        ("2026-11-16T14:00:00+01:00", 29.75),
        ("2026-11-16 13:00:30.25Z", 60.0),
        ("520.5", 20.5),  # a shared time
    ],
)
def test_a_moment_in_shared_time(text: str, seconds: float) -> None:
    assert tell(text) == seconds


def test_a_date_without_a_zone_is_local() -> None:
    now = datetime.now().astimezone()
    text = (now + timedelta(hours=1)).strftime("%Y-%m-%d %H:%M:%S.%f")
    assert WrittenTime(text).to_shared_time(SHARED, now) == pytest.approx(SHARED + 3600)


@pytest.mark.parametrize(
    "text", ["", "soon", "+", "+soon", "-5", "25:00", "14:60", "14:00:60", "2026-13-01", "nan", "inf"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    assert tell(text) is None
    with pytest.raises(click.BadParameter, match="is not a time"):
        WrittenTimeType().convert(text, None, None)


class LastDayOfSummerTime(datetime):
    """A clock in Berlin, some hours before summer time ends."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "LastDayOfSummerTime":
        return cls(2026, 10, 24, 15, 0, tzinfo=tz)


def test_a_clock_time_tomorrow_follows_the_end_of_summer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    monkeypatch.setattr(options, "datetime", LastDayOfSummerTime)
    time.tzset()
    try:
        assert options.find_shared_time(lambda: SHARED, WrittenTime("14:00")) == SHARED + 24 * 3600
    finally:
        monkeypatch.undo()
        time.tzset()
