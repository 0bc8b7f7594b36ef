"""Attempts side by side: each in a lane of its worker in which nothing else runs meanwhile."""

import pytest
from tests.unit.viewer.updates import a_call

from gandy.core.model import TaskState
from gandy.core.views import Span
from gandy.ids import JobId, TaskNumber
from gandy.viewer import lanes as subject
from gandy.viewer.lanes import Lanes


def a_span(task: int, began: float, ended: float | None = None, worker: str = "w") -> Span:
    state = TaskState.RUNNING if ended is None else TaskState.FINISHED
    return Span(worker, JobId(1), TaskNumber(task), 1, state, began, ended)


def place(lanes: Lanes, *spans: Span) -> list[int]:
    return [lanes.place(span, 0).lane for span in spans]


def test_what_runs_at_the_same_time_is_in_different_lanes() -> None:
    lanes = Lanes()
    assert place(lanes, a_span(1, 0.0), a_span(2, 0.5), a_span(3, 1.0)) == [0, 1, 2]
    assert place(lanes, a_span(2, 0.5, 2.0)) == [1]
    assert place(lanes, a_span(4, 2.0), a_span(5, 2.0)) == [1, 3]


def test_each_worker_has_lanes_of_its_own() -> None:
    assert place(Lanes(), a_span(1, 0.0), a_span(2, 0.0, worker="v")) == [0, 0]


def test_a_span_takes_the_lane_of_one_that_has_just_ended() -> None:
    """Clocks of workers and foreman differ by a little."""
    assert place(Lanes(), a_span(1, 0.0, 1.0), a_span(2, 0.999, 2.0), a_span(3, 1.5, 3.0)) == [0, 0, 1]


def test_a_span_that_ends_replaces_the_one_that_runs() -> None:
    lanes = Lanes()
    place(lanes, a_span(1, 0.0), a_span(2, 0.0), a_span(1, 0.0, 1.0))
    assert [(placed.span.task, placed.span.ended) for placed in lanes] == [(1, 1.0), (2, None)]


def test_an_attempt_that_moves_frees_its_lane() -> None:
    lanes = Lanes()
    assert place(lanes, a_span(1, 0.0), a_span(1, 0.0, worker="heir"), a_span(2, 1.0)) == [0, 0, 0]
    assert place(lanes, a_span(1, 0.0, 3.0, worker="heir")) == [0]


def test_a_shard_that_starts_anew_forgets_its_own_attempts_only() -> None:
    lanes = Lanes()
    for task, shard in ((1, 1), (2, 1), (3, 2)):
        lanes.place(a_span(task, 0.0), shard)
    lanes.restart(1, [a_span(2, 0.0)])
    assert sorted(placed.span.task for placed in lanes) == [2, 3]
    assert lanes.place(a_span(4, 1.0), 1).lane == 0


def test_what_runs_on_a_worker_that_is_gone_may_still_end() -> None:
    lanes = Lanes()
    place(lanes, a_span(1, 0.0), a_span(2, 0.0))
    lanes.drop_worker("w")
    lanes.drop_worker("w")
    assert place(lanes, a_span(2, 0.0, 1.0)) == [1]
    assert place(lanes, a_span(3, 2.0)) == [0]


def test_the_last_lane_takes_what_has_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_LANES", 2)
    assert place(Lanes(), *(a_span(task, 0.0) for task in range(4))) == [0, 1, 1, 1]


# Calls


def test_calls_and_attempts_share_the_lanes_of_a_worker() -> None:
    lanes = Lanes()
    assert place(lanes, a_span(1, 0.0, worker="w-1")) == [0]
    assert lanes.place_call(a_call(1, 1.0), 0).lane == 1
    assert place(lanes, a_span(2, 2.0, worker="w-1"), a_span(1, 0.0, 3.0, worker="w-1")) == [2, 0]
    assert lanes.place_call(a_call(1, 1.0, 4.0), 0).lane == 1
    assert lanes.place_call(a_call(2, 5.0), 0).lane == 0
    assert [(placed.call.number, placed.call.ended) for placed in lanes.list_calls()] == [(1, 4.0), (2, None)]
    assert [placed.span.task for placed in lanes] == [1, 2]


def test_calls_with_the_same_number_are_told_apart_by_worker_and_shard() -> None:
    lanes = Lanes()
    placed = [
        lanes.place_call(a_call(1, 1.0, worker=worker), shard).lane
        for worker, shard in (("w-1", 1), ("v-1", 1), ("w-1", 2))
    ]
    assert placed == [0, 0, 1]
    assert len(list(lanes.list_calls())) == 3


def test_a_shard_that_starts_anew_forgets_its_own_calls_only() -> None:
    lanes = Lanes()
    for number, shard in ((1, 1), (2, 1), (1, 2)):
        lanes.place_call(a_call(number, 0.0), shard)
    lanes.place(a_span(1, 0.0), 2)
    lanes.restart(1, [], [a_call(2, 0.0)])
    assert sorted(placed.call.number for placed in lanes.list_calls()) == [1, 2]
    assert lanes.place_call(a_call(3, 1.0), 1).lane == 0
    assert len(list(lanes)) == 1


def test_many_calls_do_not_push_attempts_out() -> None:
    lanes = Lanes()
    place(lanes, a_span(1, 0.0, 1.0))
    for number in range(subject.KEPT_CALLS + 5):
        lanes.place_call(a_call(number, 0.0, 1.0), 0)
    assert (len(list(lanes)), len(list(lanes.list_calls()))) == (1, subject.KEPT_CALLS)
