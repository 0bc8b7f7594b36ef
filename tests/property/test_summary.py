"""Samples, groups and timelines of jobs of every kind."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gandy.core.model import Cause, Ending, TaskState
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.viewer.failures import NAMED_TASKS, WORDS_LENGTH, group_failures
from gandy.viewer.sampling import choose_tasks
from gandy.viewer.timeline import place_attempts

TAILS = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from(["no", "17", "/a/b", "0xff", "<n>", "3fa99b0c", "http://x", "\x1b[0m"])).map(
        lambda words: " ".join(words).encode()
    ),
)
ENDINGS = st.builds(
    Ending,
    cause=st.sampled_from(Cause),
    exit_code=st.none() | st.integers(0, 3),
    signal=st.none() | st.integers(1, 3),
    tail=TAILS,
    note=st.text(max_size=40),
)


@given(st.integers(0, 10**9), st.integers(1, 200))
def test_sample_is_spread_evenly(count: int, most: int) -> None:
    chosen = choose_tasks(count, most)
    assert len(chosen) == min(count, most)
    assert all(1 <= task <= count for task in chosen)
    gaps = {after - before for before, after in pairwise(chosen)}
    assert all(gap > 0 for gap in gaps)
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(st.lists(ENDINGS, max_size=20))
def test_each_failure_is_counted_once(endings: Sequence[Ending]) -> None:
    rows = [TaskRow(TaskNumber(task), TaskState.FAILED, 1, ending=ending) for task, ending in enumerate(endings, 1)]
    found = group_failures(rows)
    assert sum(group.count for group in found.groups) + found.left_out == len(endings)
    named = [task for group in found.groups for task in group.tasks]
    assert len(named) == len(set(named))
    assert all(group.words.isprintable() and group.cause.isprintable() for group in found.groups)
    assert all(0 < len(group.tasks) <= NAMED_TASKS for group in found.groups)


@given(ENDINGS, st.integers(0, 10**12), st.integers(0, 10**12))
def test_failures_that_differ_in_a_number_are_one_group(ending: Ending, one: int, other: int) -> None:
    tails = (f"row {number} of {other}".encode() for number in (one, other))
    endings = [Ending(ending.cause, ending.exit_code, ending.signal, tail=tail) for tail in tails]
    rows = [TaskRow(TaskNumber(task), TaskState.FAILED, 1, ending=each) for task, each in enumerate(endings, 1)]
    (group,) = group_failures(rows).groups
    assert group.words == f"row {one if one == other else '<n>'} of {other}"


@given(ENDINGS)
def test_words_are_short(ending: Ending) -> None:
    (group,) = group_failures([TaskRow(TaskNumber(1), TaskState.FAILED, 1, ending=ending)]).groups
    assert len(group.words) <= WORDS_LENGTH


SECONDS = st.floats(0, 1_000, width=32)


@given(st.lists(st.tuples(SECONDS, SECONDS, st.floats(0, 1, width=32)), max_size=30), st.floats(-1e9, 1e9))
def test_attempts_of_a_lane_do_not_overlap(times: Sequence[tuple[float, float, float]], ahead: float) -> None:
    rows = []
    for task, (began, seconds, late) in enumerate(times, 1):
        ending = Ending(Cause.EXIT, 0, started=began - ahead, ended=began + seconds - ahead)
        ended = began + seconds + late
        rows.append(TaskRow(TaskNumber(task), TaskState.FINISHED, 1, "hut", began, ended, ending=ending))
    placed = place_attempts(rows)
    assert sorted(each.task for each in placed) == [row.task for row in rows]
    for lane in {each.lane for each in placed}:
        spans = [each for each in placed if each.lane == lane]
        for one, other in pairwise(spans):
            assert one.ended is not None
            assert one.ended <= other.began + 0.01
