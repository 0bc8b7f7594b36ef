"""Rates of what only grows, and points of time."""

from gandy.viewer.series import PERIOD, POINTS, RATE_SECONDS, Point, Rate, Series


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    for second in range(20):
        rate.note(second, 10 * second if second > 10 else 0)
    assert rate.per_second(19) == (190 - 140) / 5
    assert rate.per_second(21) == 10 * 3 / RATE_SECONDS


def test_a_rate_falls_to_zero_when_nothing_happens() -> None:
    rate = Rate()
    rate.note(0, 0)
    rate.note(1, 100)
    assert rate.per_second(1) == 100.0
    assert rate.per_second(5) == 20.0
    assert rate.per_second(6) == rate.per_second(1_000) == 0.0


def test_what_happens_after_a_long_time_counts_for_the_last_seconds() -> None:
    rate = Rate()
    rate.note(0, 0)
    rate.note(1_000, 50)
    assert rate.per_second(1_000) == 10.0


def test_a_rate_needs_two_numbers() -> None:
    rate = Rate()
    assert rate.per_second(0) == 0.0
    rate.note(0, 1_000_000)
    assert rate.per_second(0) == rate.per_second(1) == 0.0


def test_the_first_moment_is_not_divided_by() -> None:
    rate = Rate()
    rate.note(0, 0)
    rate.note(0.001, 3)
    assert rate.per_second(0.001) == 3 / PERIOD


def test_a_number_that_falls_begins_anew() -> None:
    rate = Rate()
    rate.note(0, 100)
    rate.note(1, 5)
    rate.note(2, 10)
    assert rate.per_second(2) == 5.0


def a_point(at: float) -> Point:
    return Point(at, 0.0, 0.0, 0.0, 0, 0, 0, 0)


def test_points_are_a_second_apart() -> None:
    series = Series()
    assert [series.note(a_point(at)) for at in (0.0, 0.5, 0.95, 1.0, 2.0)] == [True, False, True, False, True]
    assert [point.at for point in series.list_since(0.5)] == [0.95, 2.0]


def test_points_are_kept_for_a_while() -> None:
    series = Series()
    for at in range(POINTS + 5):
        series.note(a_point(at))
    assert (len(series.points), series.points[0].at) == (POINTS, 5)


def test_clock_that_is_set_back_changes_no_rate() -> None:
    rate = Rate()
    for second in range(20):
        rate.note(second, 10 * second)
    assert rate.per_second(19 - 86_400) == 10.0
    for second in range(20, 40):
        rate.note(second - 86_400, 10 * second)
    assert rate.per_second(39 - 86_400) == 10.0
    assert rate.per_second_on_average(39 - 86_400) == 10.0
    assert rate.per_second(1_000 - 86_400) == 0.0  # it can still fall


def test_clock_that_is_set_back_takes_no_memory() -> None:
    rate = Rate()
    rate.note(0, 0)
    for second in range(1_000):
        rate.note(second - 86_400, second)
    assert len(rate._seen) < 10


def test_points_move_with_a_clock_that_is_set_back() -> None:
    """Else no point would be added for a day."""
    series = Series()
    for at in (0.0, 1.0, 2.0):
        series.note(a_point(at))
    assert not series.follow(1.5)  # less than a period is no step
    assert series.follow(2.5 - 86_400)
    assert series.note(a_point(3.0 - 86_400 + 0.5))
    assert [round(point.at + 86_400, 3) for point in series.points] == [0.5, 1.5, 2.5, 3.5]


def test_clock_can_be_set_back_before_there_is_a_point() -> None:
    assert not Series().follow(-1.0)
