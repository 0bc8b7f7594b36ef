"""A year of history: how much of it a store has at any time, and how well a moment is found. Time is a number."""

import os
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from tests.sampled_crew import BusyCrew
from tests.store.builders import MAKERS, blocking
from tests.store.histories import BlockingHistory

from gandy.core.samples import KEPT, PERIODS, Level, StoredSample

SAMPLE, KEYFRAME, HOURLY = Level
HOUR, DAY = 3_600.0, 86_400.0
BEGIN, DAYS = 1.7e9, 366
# The crew works around the clock on one day in so many. `make soak` has it work on all of them.
STRIDE = int(os.environ.get("GANDY_HISTORY_STRIDE", "10"))
WORKDAYS = range(0, DAYS, STRIDE)

ROW_BYTES = 150  # of a row in SQLite with its place in two indexes, besides the packed sample


@pytest.fixture(scope="module")
def packed() -> dict[Level, list[bytes]]:
    """What samples say in an hour of a crew that ends three tasks a second."""
    crew = BusyCrew(workers=4, slots=8)
    for _ in range(5):
        crew.submit(tasks=4_000)
    for _ in range(361):
        crew.finish(32)
        crew.tick()
    found = {level: [sample.packed for sample in crew.samples if sample.level is level] for level in Level}
    assert {level: len(each) for level, each in found.items()} == {SAMPLE: 348, KEYFRAME: 11, HOURLY: 2}
    return found


def make_hours(packed: dict[Level, list[bytes]]) -> Iterator[list[StoredSample]]:
    """A sample every ten seconds of each day of work, an hour at a time, at the levels that a foreman gives them."""
    texts = {level: cycle(each) for level, each in packed.items()}
    number = base = 0
    for day in WORKDAYS:
        for hour in range(24):
            samples: list[StoredSample] = []
            for place in range(360):
                number += 1
                level = SAMPLE if place % 30 else KEYFRAME if place else HOURLY
                base = number if level else base
                at = BEGIN + day * DAY + hour * HOUR + 10.0 * place
                samples.append(StoredSample(0, number, 1, base, level, at, next(texts[level])))
            yield samples


@pytest.fixture(params=["memory", "sqlite"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingHistory]:
    """PostgreSQL drops whole parts by the clock of the database: see tests/store/test_parts.py."""
    with blocking(MAKERS[request.param](tmp_path)) as face:
        yield BlockingHistory(face)


def count_all(history: BlockingHistory, level: Level) -> tuple[int, int]:
    """How many samples of a level there are, and how many bytes they have."""
    found = history.read(level, None, 10**6)
    return len(found), sum(len(sample.packed) for sample in found)


def test_a_year_is_kept_in_a_few_megabytes_and_every_moment_is_found(
    history: BlockingHistory, packed: dict[Level, list[bytes]], tmp_path: Path
) -> None:
    last = 0.0
    for hour, samples in enumerate(make_hours(packed)):
        history.add(*samples)
        last = samples[-1].at
        if hour % 240 == 239:
            check_bounds(history, tmp_path, packed)
    check_bounds(history, tmp_path, packed)
    made = {SAMPLE: len(WORKDAYS) * 8_352, KEYFRAME: len(WORKDAYS) * 264, HOURLY: len(WORKDAYS) * 24}
    assert {level: count_all(history, level)[0] for level in Level} == {
        level: min(KEPT[level], made[level]) for level in Level
    }
    check_moments(history, last)


def check_bounds(history: BlockingHistory, folder: Path, packed: dict[Level, list[bytes]]) -> None:
    rows = content = 0
    for level in Level:
        count, size = count_all(history, level)
        assert count <= KEPT[level]
        assert size <= KEPT[level] * max(map(len, packed[level]))
        rows, content = rows + count, content + size
    for path in folder.glob("*.history"):
        assert path.stat().st_size <= content + ROW_BYTES * rows + 1_000_000  # pages that are not full


def check_moments(history: BlockingHistory, last: float) -> None:
    """A moment at which the crew worked is found to ten seconds, five minutes or an hour, by its age."""
    for day in WORKDAYS:
        for at in (BEGIN + day * DAY + 0.5 * HOUR + 7.0, BEGIN + day * DAY + 20.9 * HOUR):
            chain = history.find(at)
            age = sum(1 for later in WORKDAYS if later >= day)  # in days of work
            level = SAMPLE if age <= 1 else KEYFRAME if age <= 29 else HOURLY
            assert 0 <= at - chain[-1].at <= PERIODS[level]
            assert [sample.number for sample in chain] == list(range(chain[-1].base, chain[-1].number + 1))
    assert history.find(last)[-1].at == last
