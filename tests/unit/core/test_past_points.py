"""What a curve shows: rates from numbers that only grow, stocks as they were, and pauses as pauses."""

import pytest
from tests.samples import a_sample, damaged

from gandy.core.past_points import Grid, HistoryPoint, make_grid, make_points
from gandy.core.samples import ALWAYS, Extent, Level, StoredSample
from gandy.limits import MAX_POINTS, MAX_READ_SAMPLES

SAMPLE, KEYFRAME, HOURLY = Level
DAY = 86_400.0


def points(*samples: StoredSample, begin: float = 0.0, end: float = 60.0, step: float = 10.0) -> list[HistoryPoint]:
    return list(make_points(Grid(SAMPLE, begin, end, step), samples))


# The grid


@pytest.mark.parametrize(
    ("seconds", "most", "level", "step"),
    [
        (3_600.0, 500, SAMPLE, 10.0),
        (DAY, 500, SAMPLE, 172.8),
        (DAY, 100, KEYFRAME, 864.0),
        (7 * DAY, 500, KEYFRAME, 1_209.6),
        (365 * DAY, 500, HOURLY, 63_072.0),
        (10.0, 500, SAMPLE, 10.0),
        (0.0, 500, SAMPLE, 10.0),
        (-5.0, 500, SAMPLE, 10.0),
    ],
)
def test_samples_are_no_finer_than_needed(seconds: float, most: int, level: Level, step: float) -> None:
    grid = make_grid(Extent(), 1_000.0, 1_000.0 + seconds, most)
    assert (grid.level, grid.step) == (level, step)
    assert grid.size <= most


def test_coarser_samples_are_read_where_finer_ones_were_dropped() -> None:
    extent = Extent((900.0, 500.0, 300.0))
    found = [make_grid(extent, begin, begin + 60.0, 500).level for begin in (950.0, 899.0, 500.0, 499.0, 0.0)]
    assert found == [SAMPLE, KEYFRAME, KEYFRAME, HOURLY, HOURLY]


def test_with_many_shards_there_are_fewer_points() -> None:
    """An answer takes a bounded time of the foreman."""
    assert make_grid(Extent(), 0.0, 1e9, 10**6).size == min(MAX_POINTS, MAX_READ_SAMPLES)
    assert make_grid(Extent(shards=100), 0.0, 1e9, 10**6).size == MAX_READ_SAMPLES // 100
    assert make_grid(Extent(shards=10**6), 0.0, 1e9, 500).size == 1
    assert make_grid(Extent((ALWAYS, ALWAYS, ALWAYS), 0), 0.0, 1e9, 500).size == 500


# Rates


def test_a_rate_is_what_was_added_since_the_sample_before() -> None:
    found = points(
        a_sample(5, -2.0, finished=100),
        a_sample(6, 8.0, finished=120, failed=10, calls=50),
        a_sample(7, 18.0, finished=140, failed=10, calls=150),
        end=20.0,
    )
    first, second = found
    assert [point.at for point in found] == [10.0, 20.0]
    assert (first.finished, first.failed, first.calls) == (1.6 + 0.4, 0.8, 4.0 + 2.0)
    assert (second.finished, second.failed, second.calls) == (1.6, 0.0, 8.0)


def test_nothing_is_lost_between_points() -> None:
    """Whatever the times of samples are, the points have all that was counted in them."""
    times = [3.0, 13.7, 23.9, 34.0, 44.2, 54.1]
    samples = [a_sample(number + 2, at, finished=7 * number) for number, at in enumerate(times)]
    found = points(*samples)
    assert sum(point.finished * point.seconds for point in found) == pytest.approx(35)
    assert all(0.5 <= point.finished <= 0.8 for point in found[1:5])


def test_after_a_pause_what_has_happened_has_just_happened() -> None:
    found = points(a_sample(2, 1.0, finished=10), a_sample(3, 59.0, finished=25))
    assert [point.finished for point in found[:4]] == [0.0] * 4
    assert found[4].finished + found[5].finished == 1.5


def test_what_was_counted_before_the_oldest_sample_is_not_shown() -> None:
    assert [point.finished for point in points(a_sample(5, 12.0, finished=10**6))] == [0.0] * 5
    found = points(a_sample(1, 19.0, finished=30))  # the first of all counts from zero
    assert [point.finished for point in found[:3]] == pytest.approx([0.3, 2.7, 0.0])


def test_numbers_that_fall_have_begun_at_zero() -> None:
    found = points(a_sample(5, 5.0, finished=100), a_sample(6, 15.0, finished=20), end=20.0)
    assert sum(point.finished * 10 for point in found) == 20.0


def test_a_step_of_the_clock_loses_nothing_and_makes_nothing_negative() -> None:
    before = [a_sample(number, 10.0 * number, finished=10 * number) for number in range(1, 6)]
    after = [a_sample(5 + number, 15.0 + 10 * number, run=6, finished=50 + 10 * number) for number in range(1, 4)]
    found = points(*before, *after)
    assert sum(point.finished * 10 for point in found) == pytest.approx(80)
    assert all(point.finished >= 0 for point in found)
    assert found[3].finished > 1.5  # two times ten seconds by the same name


# Stocks


def test_stocks_are_those_of_the_last_sample_until_there_is_another() -> None:
    found = points(
        a_sample(2, 12.0, waiting=5, running=2, slots=4, used=3),
        a_sample(3, 19.0, waiting=4, running=1, slots=4, used=2),
        a_sample(4, 45.0, waiting=0, running=0, slots=0, used=0, used_seconds=55),
    )
    assert [point.at for point in found] == [20.0, 30.0, 40.0, 50.0, 60.0]
    assert [(point.waiting, point.running) for point in found] == [(4, 1)] * 3 + [(0, 0)] * 2
    assert [point.slots for point in found] == [4, 4, 4, 4, 0]  # those that were used must fit


def test_a_sample_before_the_first_point_says_how_it_began() -> None:
    found = points(a_sample(9, -500.0, waiting=5, slots=3, used=2))
    assert [(point.waiting, point.slots, point.used) for point in found] == [(5, 3, 2.0)] * 6


def test_slots_in_use_are_an_average_over_the_time() -> None:
    found = points(
        a_sample(2, 0.0, slots=4),
        a_sample(3, 10.0, slots=4, used=4, used_seconds=10),
        a_sample(4, 30.0, slots=4, used=2, used_seconds=70),
        end=50.0,
    )
    assert [point.used for point in found] == [1.0, 3.0, 3.0, 2.0, 2.0]


def test_the_last_point_may_be_shorter() -> None:
    (first, second) = points(a_sample(1, 5.0), a_sample(2, 12.0, finished=4), end=14.0)
    assert (second.at, second.seconds) == (14.0, 4.0)
    assert first.finished * 10 + second.finished * 4 == pytest.approx(4)


def test_samples_of_shards_are_added_up() -> None:
    """Each shard knows all workers."""
    found = points(
        a_sample(1, 5.0, shard=1, finished=10, waiting=1, slots=4, used=1),
        a_sample(1, 5.0, shard=2, finished=20, waiting=2, slots=4, used=3),
        a_sample(2, 25.0, shard=2, finished=20, waiting=7, slots=6, used=3, used_seconds=60),
        end=30.0,
    )
    assert [point.waiting for point in found] == [3, 3, 8]
    assert [point.slots for point in found] == [4, 4, 6]
    assert found[0].finished == 1.5
    assert found[2].used == pytest.approx(4.0)


def test_damaged_samples_are_left_out() -> None:
    samples = [a_sample(number, 10.0 * number, finished=10 * number) for number in range(1, 6)]
    samples[2] = damaged(samples[2])
    assert sum(point.finished * 10 for point in points(*samples)) == pytest.approx(50)  # the next one has all
    assert points(damaged(samples[0]), begin=0.0) == []


def test_without_samples_there_is_no_point() -> None:
    assert points() == []
    assert points(a_sample(1, 5.0), end=0.0) == []
