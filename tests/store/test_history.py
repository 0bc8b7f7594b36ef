"""What every history does, whatever it is made of. Time is a number: a year passes at once."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from tests.samples import a_sample, numbers
from tests.store.builders import MAKERS, blocking
from tests.store.histories import BlockingHistory, chain

from gandy.core.samples import ALWAYS, LastSample, Level, StoredSample
from gandy.store import history_tables, memory_history
from gandy.store.history import LONGEST_CHAIN
from gandy.store.memory import MemoryStore

SAMPLE, KEYFRAME, HOURLY = Level


@pytest.fixture(params=MAKERS)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingHistory]:
    with blocking(MAKERS[request.param](tmp_path)) as face:
        yield BlockingHistory(face)


# Adding and finding


def test_a_new_history_is_empty(history: BlockingHistory) -> None:
    assert history.find_last() is None
    assert (history.steps(), history.find(1e9), history.read(SAMPLE)) == ([], [], [])
    assert history.get_extent().since == (ALWAYS, ALWAYS, ALWAYS)


def test_samples_survive_the_foreman(history: BlockingHistory) -> None:
    samples = chain()
    history.add(*samples[:2])
    history.add(*samples[2:])
    history.face.reopen()
    assert history.find(1e9) == samples
    assert history.find_last() == LastSample(samples[-1], 100.0)


def test_a_sample_is_found_with_all_that_it_builds_on(history: BlockingHistory) -> None:
    first, second = chain(), chain(6, begin=500.0)
    keyframe = a_sample(11, 800.0, KEYFRAME)
    history.add(*first, *second, keyframe, a_sample(12, 810.0, base=11))
    assert numbers(history.find(119.9)) == [1, 2]
    assert numbers(history.find(140.0)) == [1, 2, 3, 4, 5]
    assert numbers(history.find(499.0)) == [1, 2, 3, 4, 5]
    assert numbers(history.find(500.0)) == [6]
    assert numbers(history.find(900.0)) == [11, 12]
    assert history.find(99.9) == []


def test_a_sample_that_claims_to_build_on_a_very_old_one_is_not_believed(history: BlockingHistory) -> None:
    history.add(*chain(count=300))
    assert len(history.find(1e9)) == LONGEST_CHAIN + 1


def test_shards_are_apart(history: BlockingHistory) -> None:
    one, two = chain(shard=1), chain(shard=2, begin=105.0)
    history.add(*one, *two)
    assert history.find(125.0) == [*one[:3], *two[:3]]
    assert history.find(104.0) == one[:1]
    assert history.find_last(2) == LastSample(two[-1], 105.0)
    assert history.find_last(3) is None
    assert history.get_extent().shards == 2


def test_the_last_hourly_sample_of_a_shard_is_known(history: BlockingHistory) -> None:
    history.add(*chain(), *chain(6, begin=3_700.0), a_sample(11, 4_000.0, KEYFRAME))
    found = history.find_last()
    assert found is not None
    assert (found.sample.number, found.hourly) == (11, 3_700.0)


# Lists


def test_a_list_has_the_last_sample_of_each_step_and_the_one_before(history: BlockingHistory) -> None:
    history.add(*chain(count=20))
    assert numbers(history.steps(begin=130.0, end=220.0, step=30.0)) == [3, 6, 9, 12, 13]
    assert numbers(history.steps(begin=0.0, end=99.0, step=10.0)) == []
    assert numbers(history.steps(begin=1_000.0, end=2_000.0, step=10.0)) == [20]
    assert numbers(history.steps(begin=-50.0, end=135.0, step=60.0)) == [3, 4]


def test_a_list_of_a_level_has_those_above_it(history: BlockingHistory) -> None:
    history.add(a_sample(1, 10.0, HOURLY), a_sample(2, 20.0), a_sample(3, 30.0, KEYFRAME), a_sample(4, 40.0, HOURLY))
    assert [numbers(history.steps(level, step=1.0)) for level in Level] == [[1, 2, 3, 4], [1, 3, 4], [1, 4]]
    assert numbers(history.steps(HOURLY, begin=25.0, step=1.0)) == [2, 4]  # whatever was last


def test_a_page_goes_on_behind_a_sample(history: BlockingHistory) -> None:
    """By time, so that the oldest are dropped first by the next history, too."""
    samples = [*chain(1, 4, 1), *chain(1, 4, 2, 105.0), *chain(5, 4, 1, 90.0, 5)]
    history.add(*samples)
    expected = sorted(
        (sample for sample in samples if sample.level is SAMPLE), key=lambda each: (each.at, each.shard, each.number)
    )
    found: list[StoredSample] = []
    while page := history.read(SAMPLE, found[-1] if found else None, 2):
        found += page
    assert found == expected
    assert [(sample.shard, sample.number) for sample in history.read(HOURLY)] == [(1, 5), (1, 1), (2, 1)]


# Clocks


def test_of_an_hour_that_the_clock_showed_twice_the_second_one_is_found(history: BlockingHistory) -> None:
    first, second = chain(1, 20), chain(21, 20, begin=155.0, run=21)
    history.add(*first, *second)
    assert numbers(history.find(150.0)) == [1, 2, 3, 4, 5, 6]
    for at in (160.0, 200.0, 290.0, 500.0):
        found = history.find(at)
        assert found[0].number == 21
        assert found[-1].at == min(345.0, at // 10 * 10 - 5 + 10 * (at % 10 >= 5))
    assert {sample.run for sample in history.steps(begin=160.0, end=180.0, step=1e6)} == {1, 21}


def test_a_clock_that_was_far_ahead_for_a_while_hides_nothing(history: BlockingHistory) -> None:
    wrong, right = chain(1, 5, begin=1e8), chain(6, 5, begin=200.0, run=6)
    history.add(*wrong, *right)
    assert numbers(history.find(1_000.0)) == [6, 7, 8, 9, 10]
    assert numbers(history.find(1.1e8)) == [1, 2, 3, 4, 5]
    assert numbers(history.steps(begin=0.0, end=1_000.0, step=1e4)) == [10]
    found = history.find_last()
    assert found is not None
    assert found.sample.number == 10


# Bounds


def patch_bounds(monkeypatch: pytest.MonkeyPatch, **bounds: object) -> None:
    for module in (history_tables, memory_history):
        for name, value in bounds.items():
            monkeypatch.setattr(module, name, value)


@pytest.fixture(params=["memory", "sqlite"])
def bounded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingHistory]:
    """PostgreSQL drops whole parts: see tests/store/test_parts.py."""
    with blocking(MAKERS[request.param](tmp_path)) as face:
        yield BlockingHistory(face)


def test_the_oldest_samples_of_each_level_are_dropped(
    bounded: BlockingHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_bounds(monkeypatch, KEPT={SAMPLE: 4, KEYFRAME: 3, HOURLY: 2})
    levels = [{"s": SAMPLE, "k": KEYFRAME, "h": HOURLY}[letter] for letter in "hssksskskkhsh"]
    for place, level in enumerate(levels):
        bounded.add(a_sample(place + 1, 10.0 * place, level))
    assert [numbers(bounded.read(level)) for level in Level] == [[5, 6, 8, 12], [7, 9, 10], [11, 13]]
    assert bounded.get_extent().since == (40.0, 60.0, 100.0)
    bounded.face.reopen()
    assert bounded.get_extent().since == (40.0, 60.0, 100.0)
    bounded.add(*(a_sample(20 + place, 1_000.0 + place) for place in range(10)))
    assert numbers(bounded.read(SAMPLE)) == [26, 27, 28, 29]


def test_samples_are_dropped_when_they_have_too_many_bytes(
    bounded: BlockingHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(a_sample(1, 0.0).packed)
    patch_bounds(monkeypatch, MAX_HISTORY_BYTES=3 * size)
    for place in range(10):
        bounded.add(a_sample(place + 1, 10.0 * place))
        if place == 5:
            bounded.face.reopen()
    assert numbers(bounded.read(SAMPLE)) == [8, 9, 10]


def test_a_history_whose_older_samples_were_dropped_elsewhere_says_since_when_it_is_whole(
    history: BlockingHistory,
) -> None:
    history.note_dropped(SAMPLE)
    history.add(*chain())
    assert history.get_extent().since == (110.0, ALWAYS, ALWAYS)
    history.face.reopen()
    history.add(*chain(6, begin=500.0))
    assert history.get_extent().since == (110.0, ALWAYS, ALWAYS)
    assert numbers(history.read(SAMPLE)) == [2, 3, 4, 5, 7, 8, 9, 10]


# All alike


def by_chance(seed: int) -> list[StoredSample]:
    """Runs of some shards, whose clocks go back now and then."""
    random = Random(seed)
    samples: list[StoredSample] = []
    for shard in range(random.randint(1, 3)):
        at, run, base = random.uniform(0, 300), 1, 1
        for number in range(1, random.randint(2, 60)):
            level = HOURLY if number == 1 else random.choice([SAMPLE] * 8 + [KEYFRAME, KEYFRAME, HOURLY])
            if random.random() < 0.1:
                at, run, level = at + random.uniform(-400, 400), number, max(level, KEYFRAME)
            base = number if level else base
            samples.append(a_sample(number, at, level, shard, run, base, finished=random.randrange(1_000)))
            at += random.choice([10.0, 10.0, 10.0, random.uniform(10, 700)])
    return samples


QUESTIONS: list[Callable[[BlockingHistory, Random], Sequence[StoredSample]]] = [
    lambda history, random: history.find(random.uniform(-100, 3_000)),
    lambda history, random: history.steps(
        random.choice(list(Level)),
        begin := random.uniform(-100, 2_000),
        begin + random.uniform(0, 2_000),
        random.uniform(10, 900),
    ),
    lambda history, random: [found.sample] if (found := history.find_last(random.randrange(4))) else [],
    lambda history, random: history.read(random.choice(list(Level)), None, 50),
]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "memory"])
def test_all_histories_answer_alike(kind: str, seed: int, tmp_path: Path) -> None:
    with blocking(MAKERS[kind](tmp_path)) as face, blocking(MemoryStore()) as other:
        ours, model = BlockingHistory(face), BlockingHistory(other)
        samples = by_chance(seed)
        ours.add(*samples)
        model.add(*samples)
        for place in range(40):
            ask = QUESTIONS[place % len(QUESTIONS)]
            assert ask(ours, Random(f"{seed} {place}")) == ask(model, Random(f"{seed} {place}"))
        assert ours.get_extent() == model.get_extent()
