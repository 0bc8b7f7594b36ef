from itertools import product
from math import inf

import pytest

from gandy.core.ages import STEP, Ages

DAY = 86_400.0
HOUR = 3_600.0


def test_without_a_step_things_age_with_the_time_that_passes() -> None:
    ages = Ages(5_000.0)
    ages.note(5_000.0 + STEP / 2, 50.0)
    assert ages.find_oldest(60.0, 100.0) == 5_040.0 - STEP
    assert ages.find_oldest(60.0, 130.0) == 5_070.0 - STEP


def test_what_is_not_to_be_kept_at_all_is_old_at_once() -> None:
    assert Ages(5_000.0).find_oldest(0.0, 100.0) == inf


def test_nothing_is_dropped_early_and_everything_is_dropped_in_the_end() -> None:
    for steps in product([0.0, HOUR, -HOUR, DAY, -DAY], repeat=4):
        check_ages(steps)


def check_ages(steps: tuple[float, ...]) -> None:
    now, ahead = 1_000.0, 5_000.0
    ages = Ages(ahead)
    stamped: list[tuple[float, float]] = []  # when, and with which time of day
    for step in steps:
        ahead += step
        ages.note(ahead, now)
        stamped.append((now, now + ahead))
        now += 400.0
    for seconds in (300.0, 500.0, 900.0, 1_300.0):
        oldest = ages.find_oldest(seconds, now)
        assert all(stamp >= oldest for when, stamp in stamped if now - when <= seconds)
    later = now + 2 * DAY + HOUR
    assert all(stamp < ages.find_oldest(HOUR, later + 2 * DAY) for _, stamp in stamped)


@pytest.mark.parametrize("last", [10.0, DAY, 300 * DAY])
def test_what_an_earlier_foreman_stamped_ages_from_now_on(last: float) -> None:
    """Perhaps the foreman was away for so long, perhaps the wall clock was stepped."""
    ages = Ages(5_000.0)
    wall = 5_100.0 - last
    ages.note_last_stamp(wall, 100.0)
    assert ages.find_oldest(HOUR, 100.0) <= wall - HOUR
    assert ages.find_oldest(HOUR, 100.0 + HOUR) <= wall
    assert wall < ages.find_oldest(HOUR, 100.0 + HOUR + 2 * STEP) == 5_100.0 + STEP, "and what is new as ever"


def test_a_stamp_of_the_future_makes_nothing_older() -> None:
    ages = Ages(5_000.0)
    ages.note_last_stamp(5_100.0 + DAY, 100.0)
    assert ages.find_oldest(HOUR, 100.0) == 5_100.0 - HOUR - STEP
