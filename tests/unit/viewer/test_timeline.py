"""Attempts on one axis of time, whatever the workers' clocks say."""

from typing import Any

from msgspec.structs import replace

from gandy.core.model import Cause, Ending, TaskState
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.viewer.timeline import measure_duration, place_attempts

AHEAD = 1_000.0  # by how much the foreman's clock is ahead of the worker's


def an_attempt(task: int, began: float, ended: float, late: float = 0.0, worker: str = "hut", **row: Any) -> TaskRow:
    """By the foreman's clock, which learned of its end a little late."""
    ending = Ending(Cause.EXIT, 0, started=began - AHEAD, ended=ended - AHEAD)
    made = TaskRow(TaskNumber(task), TaskState.FINISHED, 1, worker, began, ended + late, ending=ending)
    return replace(made, **row)


def test_worker_with_another_clock_is_placed_by_the_foremans() -> None:
    (found,) = place_attempts([an_attempt(1, 50.0, 60.0)])
    assert (found.began, found.ended, found.state) == (50.0, 60.0, "finished")


def test_delay_of_reports_does_not_move_attempts() -> None:
    rows = [an_attempt(1, 50.0, 60.0, late=0.5), an_attempt(2, 60.0, 70.0), an_attempt(3, 70.0, 71.0, late=0.2)]
    found = place_attempts(rows)
    assert [(each.began, each.ended) for each in found] == [(50.0, 60.0), (60.0, 70.0), (70.0, 71.0)]
    assert {each.lane for each in found} == {0}


def test_attempts_at_the_same_time_have_lanes_of_their_own() -> None:
    rows = [an_attempt(1, 50.0, 60.0), an_attempt(2, 55.0, 70.0), an_attempt(3, 55.0, 56.0, worker="b")]
    found = place_attempts(rows)
    assert [(each.worker, each.lane) for each in found] == [("hut", 0), ("hut", 1), ("b", 0)]


def test_attempt_after_a_step_of_its_workers_clock_ends_when_the_foreman_heard_of_it() -> None:
    stepped = an_attempt(2, 60.0, 70.0)
    assert stepped.ending is not None
    ending = replace(stepped.ending, started=60.0 - AHEAD + 500, ended=70.0 - AHEAD + 500)
    found = place_attempts([an_attempt(1, 50.0, 60.0), replace(stepped, ending=ending)])
    assert {(each.task, each.began, each.ended) for each in found} == {(2, 60.0, 70.0), (1, 50.0, 60.0)}


def test_running_attempt_began_when_it_was_claimed_and_has_no_end() -> None:
    running = TaskRow(TaskNumber(1), TaskState.RUNNING, 2, "hut", 50.0)
    (found,) = place_attempts([running])
    assert (found.attempt, found.state, found.began, found.ended) == (2, "running", 50.0, None)


def test_lost_attempt_lasts_from_its_claim_to_its_end() -> None:
    lost = TaskRow(TaskNumber(1), TaskState.FAILED, 1, "hut", 50.0, 60.0, ending=Ending(Cause.WORKER_LOST))
    (found,) = place_attempts([lost])
    assert (found.state, found.began, found.ended) == ("failed", 50.0, 60.0)
    assert measure_duration(lost) is None


def test_task_that_never_ran_is_in_no_lane() -> None:
    waiting = TaskRow(TaskNumber(1), TaskState.WAITING, 0)
    assigned = TaskRow(TaskNumber(2), TaskState.ASSIGNED, 1, "hut", 50.0)
    cancelled = TaskRow(TaskNumber(3), TaskState.CANCELLED, 0, ended=60.0)
    unknown = TaskRow(TaskNumber(4), TaskState.FINISHED, 1, "hut", ended=60.0, ending=Ending(Cause.EXIT, 0))
    no_end = replace(an_attempt(5, 50.0, 60.0), ended=None)
    assert place_attempts([waiting, assigned, cancelled, unknown, no_end]) == ()


def test_duration_is_never_negative() -> None:
    assert measure_duration(an_attempt(1, 60.0, 50.0)) == 0.0
    assert measure_duration(an_attempt(1, 50.0, 60.5)) == 10.5
