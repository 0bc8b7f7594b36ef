"""Moments as people write them: those to come in shared time, and past ones by the wall clock."""

import time
from datetime import datetime, timedelta, timezone, tzinfo

import click
import pytest

from gandy.terminal import options
from gandy.terminal.times import PastMoment, PastMomentType, WrittenTime, WrittenTimeType

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


NOON = datetime(2026, 11, 16, 12, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11:59", datetime(2026, 11, 16, 11, 59)),
        ("12:00", NOON),
        ("12:01", datetime(2026, 11, 15, 12, 1)),  # that has not been yet today
        ("14:00:30", datetime(2026, 11, 15, 14, 0, 30)),
        ("today 9:30", datetime(2026, 11, 16, 9, 30)),
        ("today 14:00", datetime(2026, 11, 16, 14, 0)),  # to come: the command says so
        (" Yesterday  14:00 ", datetime(2026, 11, 15, 14, 0)),
        ("2026-11-14 08:15", datetime(2026, 11, 14, 8, 15)),
        ("2026-11-14", datetime(2026, 11, 14)),
        ("-90", datetime(2026, 11, 16, 11, 58, 30)),
        ("2h ago", datetime(2026, 11, 16, 10, 0)),
        ("1.5 min ago", datetime(2026, 11, 16, 11, 58, 30)),
    ],
)
def test_a_moment_of_the_past(text: str, expected: datetime) -> None:
    assert PastMoment(text).to_wall_time(NOON) == expected.timestamp()


def test_a_moment_of_the_past_with_a_zone_or_since_1970() -> None:
    assert PastMoment("2026-11-16T09:00:00Z").to_wall_time(NOON) == 1_794_819_600.0
    assert PastMoment("1794819600.5").to_wall_time(NOON) == 1_794_819_600.5


@pytest.mark.parametrize(
    "text",
    ["", "soon", "yesterday", "yesterday 25:00", "tomorrow 14:00", "ago", "- ago", "+5", "2h", "0001-01-01x", "nan"],
)
def test_what_is_no_moment_of_the_past_is_refused(text: str) -> None:
    assert PastMoment(text).to_wall_time(NOON) is None
    with pytest.raises(click.BadParameter, match="is not a time; write 14:00, 'yesterday 14:00'"):
        PastMomentType().convert(text, None, None)


def test_a_past_time_is_converted_once() -> None:
    written = PastMomentType().convert("14:00", None, None)
    assert PastMomentType().convert(written, None, None) is written


def test_yesterday_follows_a_change_of_summer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        after = datetime(2026, 10, 25, 14, 0)
        assert PastMoment("yesterday 14:00").to_wall_time(after) == after.timestamp() - 25 * 3_600
    finally:
        monkeypatch.undo()
        time.tzset()
