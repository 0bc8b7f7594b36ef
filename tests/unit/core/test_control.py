"""What clients do to jobs, and what comes of it."""

import pytest
from tests.unit.core.played import (
    FAILED,
    ONE,
    Played,
    a_spec,
    a_worker,
    an_eager_worker,
    ended,
    given,
    key,
    states,
)

from gandy.core.effects import KillAttempts
from gandy.core.foreman import RECORDS
from gandy.core.model import Cause, Counts, Ending, JobState, TaskState
from gandy.core.records import Ended, JobSet, OpenJobClosed, TasksAdded, TasksSet
from gandy.ids import JobId, TaskNumber


def test_a_held_job_starts_nothing_until_it_is_released() -> None:
    crew = Played(a_worker())
    effects = crew.submit(a_spec(1, held=True))
    assert (given(effects), states(effects)) == ({}, [JobState.PAUSED])
    effects = crew.seen(crew.reactor.control.release(ONE, 1.0))
    assert given(effects) == {"w": [key()]}
    assert crew.reactor.control.release(ONE, 1.0) == []
    assert states(crew.seen(crew.reactor.control.hold(ONE, 1.0))) == [JobState.RUNNING]


def test_a_task_may_be_named_twice() -> None:
    crew = Played(a_worker())
    crew.submit(a_spec(2))
    effects = crew.seen(crew.reactor.control.cancel(ONE, [TaskNumber(1), TaskNumber(1)], 1.0))
    assert ended(effects) == [(key(1), TaskState.CANCELLED)]


def test_cancel_ends_waiting_tasks_at_once_and_kills_running_ones() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(3))
    effects = crew.seen(crew.reactor.control.cancel(ONE, None, 1.0))
    assert effects[0] == TasksSet(ONE, TaskState.CANCELLED, None, 1.0)
    assert ended(effects) == [(key(1), TaskState.CANCELLED)]
    assert KillAttempts("w", (key(1),)) in effects
    assert states(effects) == [JobState.CANCELLED]


def test_a_killed_task_holds_its_slot_until_the_worker_says_it_is_over() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.reactor.control.cancel(ONE, None, 1.0)
    assert given(crew.submit(a_spec(1))) == {}
    effects = crew.end(key(1), Ending(cause=Cause.CANCELLED))
    assert ended(effects) == []
    assert given(effects) == {"w": [key(job=2)]}


def test_a_task_that_is_not_over_on_one_worker_is_tried_again_on_another() -> None:
    crew = Played(a_worker("a", slots=3), a_worker("b", slots=3))
    assert given(crew.submit(a_spec(3))) == {"a": [key(1), key(3)], "b": [key(2)]}
    crew.reactor.control.cancel(ONE, [TaskNumber(1)], 1.0)
    assert given(crew.seen(crew.reactor.control.retry(ONE, [TaskNumber(1)], 2.0))) == {"b": [key(1, 2)]}


def test_a_killed_task_is_not_lost_a_second_time_with_its_worker() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.reactor.control.cancel(ONE, None, 1.0)
    assert crew.seen(crew.reactor.on_gone("w", 2.0)) == []


def test_what_is_cancelled_before_it_went_out_holds_no_slot() -> None:
    """Its worker does not know it, and will not report its end."""
    played = Played(a_worker())
    played.reactor.control.submit(a_spec(2), 0.0)
    played.seen(played.reactor.control.cancel(ONE, [TaskNumber(1)], 1.0))
    assert played.reactor.on_given("w", [key(1), key(2)], 1.0) == [key(2)]
    played.reactor.check()
    worker = played.reactor.workers.find("w")
    assert worker is not None
    assert (worker.slots.by_tasks, list(worker.held)) == (1, [key(2)])


def test_some_tasks_can_be_cancelled() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(4))
    tasks = [TaskNumber(1), TaskNumber(3), TaskNumber(99)]
    effects = crew.seen(crew.reactor.control.cancel(ONE, tasks, 1.0))
    assert TasksSet(ONE, TaskState.CANCELLED, (TaskNumber(3),), 1.0) in effects
    assert crew.counts() == Counts(waiting=2, cancelled=2)
    assert crew.reactor.control.cancel(JobId(9), None, 1.0) == []
    effects = crew.seen(crew.reactor.control.cancel(ONE, [TaskNumber(1)], 1.0))
    assert effects == []


def test_retry_lets_failed_and_cancelled_tasks_wait_again() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(3))
    crew.end(key(1), FAILED)
    crew.reactor.control.cancel(ONE, [TaskNumber(3)], 1.0)
    effects = crew.seen(crew.reactor.control.retry(ONE, None, 2.0))
    assert TasksSet(ONE, TaskState.WAITING, None, 2.0) in effects
    assert crew.counts() == Counts(waiting=2, running=1)
    assert crew.reactor.control.retry(ONE, None, 2.0) == []
    assert crew.reactor.control.retry(JobId(9), None, 2.0) == []


def test_retry_of_some_tasks_forgives_them() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(2))
    crew.end(key(1), FAILED)
    effects = crew.seen(crew.reactor.control.retry(ONE, [TaskNumber(1), TaskNumber(2)], 2.0))
    assert TasksSet(ONE, TaskState.WAITING, (TaskNumber(1),), 2.0) in effects
    crew.end(key(2), now=3.0)
    effects = crew.end(key(1, 2), FAILED, now=4.0)
    assert states(effects) == [JobState.FAILED]


def test_a_final_job_with_nothing_to_retry_stays_out_of_memory() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    job = crew.reactor.jobs.find(ONE)
    assert job is not None
    crew.end(key(1))
    assert crew.reactor.control.revive(job, None, 2.0) == []
    assert crew.reactor.control.revive(job, [TaskNumber(1)], 2.0) == []
    assert crew.reactor.jobs.find(ONE) is None


def test_a_final_job_with_something_to_retry_comes_back() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    job = crew.reactor.jobs.find(ONE)
    assert job is not None
    crew.end(key(1), FAILED)
    assert given(crew.seen(crew.reactor.control.revive(job, None, 2.0))) == {"w": [key(1, 2)]}
    assert crew.reactor.jobs.find(ONE) is job


def test_tasks_that_no_worker_has_are_retracted_at_once() -> None:
    crew = Played(an_eager_worker(slots=2, ahead=0))
    crew.reactor.control.submit(a_spec(4), 0.0)
    crew.reactor.on_given("w", [key(1)], 1.0)  # the second is on its way
    wanted = [TaskNumber(task) for task in (1, 2, 3, 3, 9)]
    assert crew.reactor.control.list_given(ONE, wanted) == {"w": [key(1)]}
    retracted, effects = crew.reactor.control.retract(ONE, wanted, 2.0)
    assert retracted == (2, 3)
    crew.seen(effects)
    assert ended(effects) == [(key(2), TaskState.CANCELLED)]
    assert TasksSet(ONE, TaskState.CANCELLED, (TaskNumber(3),), 2.0) in effects
    assert crew.reactor.on_given("w", [key(2)], 2.0) == []
    assert crew.counts() == Counts(waiting=1, assigned=1, cancelled=2)
    crew.reactor.on_begun("w", [key(1)], 3.0)
    assert crew.reactor.control.list_given(ONE, wanted) == {}


def test_tasks_that_ended_or_never_were_are_not_retracted() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(2))
    crew.reactor.on_given("w", [key(1)], 1.0)
    crew.end(key(1))
    assert crew.reactor.control.retract(ONE, [TaskNumber(1), TaskNumber(9)], 2.0) == ((), [])
    assert crew.reactor.control.list_given(ONE, [TaskNumber(1), TaskNumber(9)]) == {}
    assert crew.reactor.control.retract(JobId(9), [TaskNumber(1)], 2.0) == ((), [])
    assert crew.reactor.control.list_given(JobId(9), [TaskNumber(1)]) == {}


def test_holding_nothing_does_nothing() -> None:
    assert Played().reactor.control.hold(ONE, 0.0) == []


def test_a_job_waits_for_another_to_finish() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    assert given(crew.submit(a_spec(1, after=(ONE,)))) == {}
    assert given(crew.end(key())) == {"w": [key(job=2)]}


def test_a_job_is_cancelled_with_the_one_it_waits_for() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    crew.submit(a_spec(1, after=(ONE,)))
    crew.submit(a_spec(1, after=(JobId(2),)))
    effects = crew.end(key(), FAILED)
    assert states(effects) == [JobState.FAILED, JobState.CANCELLED, JobState.CANCELLED]


def test_a_job_is_cancelled_once_however_many_it_waits_for() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    crew.submit(a_spec(1, after=(ONE,)))
    crew.submit(a_spec(1, after=(ONE, JobId(2))))
    effects = crew.end(key(), FAILED)
    assert states(effects) == [JobState.FAILED, JobState.CANCELLED, JobState.CANCELLED]


@pytest.mark.parametrize(
    ("state", "expected"), [(JobState.FINISHED, JobState.RUNNING), (JobState.FAILED, JobState.CANCELLED)]
)
def test_a_job_may_wait_for_one_that_is_over(state: JobState, expected: JobState) -> None:
    crew = Played(a_worker())
    _, effects = crew.reactor.control.submit(a_spec(1, after=(JobId(77),)), 0.0, past={JobId(77): state})
    assert states(crew.seen(effects)) == [expected]


def an_open_job(crew: Played) -> None:
    crew.submit(a_spec(0, is_open=True, has_lines=True))


def test_an_open_job_runs_what_is_added_and_ends_when_it_is_closed() -> None:
    crew = Played(a_worker(slots=2))
    an_open_job(crew)
    effects = crew.seen(crew.reactor.control.add_tasks(ONE, TaskNumber(1), (b"a", b"b", b"c"), 1.0))
    assert effects[0] == TasksAdded(ONE, TaskNumber(1), (b"a", b"b", b"c"), 1.0)
    assert given(effects) == {"w": [key(1), key(2)]}
    assert given(crew.end(key(1))) == {"w": [key(3)]}
    crew.end(key(2))
    assert states(crew.end(key(3))) == []
    assert crew.seen(crew.reactor.control.close(ONE, 2.0))[0] == OpenJobClosed(ONE, 2.0)
    assert crew.reactor.jobs.find(ONE) is None
    assert crew.reactor.control.close(ONE, 2.0) == []


def test_a_job_that_is_closed_first_ends_with_its_last_task() -> None:
    crew = Played(a_worker())
    an_open_job(crew)
    crew.reactor.control.add_tasks(ONE, TaskNumber(1), (b"a",), 1.0)
    assert states(crew.reactor.control.close(ONE, 1.0)) == []
    assert crew.reactor.control.add_tasks(ONE, TaskNumber(2), (b"b",), 1.0) == []
    assert states(crew.end(key(1))) == [JobState.FINISHED]


def test_what_waits_for_an_open_job_starts_when_that_is_closed() -> None:
    crew = Played(a_worker())
    an_open_job(crew)
    crew.submit(a_spec(1, after=(ONE,)))
    assert given(crew.seen(crew.reactor.control.close(ONE, 1.0))) == {"w": [key(job=2)]}


def test_tasks_that_come_twice_are_added_once() -> None:
    crew = Played()
    an_open_job(crew)
    crew.reactor.control.add_tasks(ONE, TaskNumber(1), (b"a", b"b"), 1.0)
    assert crew.seen(crew.reactor.control.add_tasks(ONE, TaskNumber(1), (b"a", b"b"), 2.0)) == []
    assert crew.seen(crew.reactor.control.add_tasks(ONE, TaskNumber(4), (b"d",), 2.0)) == []
    effects = crew.seen(crew.reactor.control.add_tasks(ONE, TaskNumber(2), (b"b", b"c"), 3.0))
    assert effects == [TasksAdded(ONE, TaskNumber(3), (b"c",), 3.0)]
    assert crew.counts() == Counts(waiting=3)
    assert crew.reactor.control.add_tasks(JobId(9), TaskNumber(1), (b"a",), 1.0) == []


def test_cancel_closes_an_open_job() -> None:
    crew = Played(a_worker(slots=1))
    an_open_job(crew)
    crew.reactor.control.add_tasks(ONE, TaskNumber(1), (b"a", b"b"), 1.0)
    effects = crew.seen(crew.reactor.control.cancel(ONE, None, 2.0))
    assert effects[0] == OpenJobClosed(ONE, 2.0)
    assert states(effects) == [JobState.CANCELLED]


def test_what_users_do_is_recorded_with_the_time_of_day() -> None:
    crew = Played(a_worker(slots=1))
    crew.reactor.clocks.wall_ahead = 1000.0
    crew.submit(a_spec(0, is_open=True))
    effects = crew.reactor.control.add_tasks(ONE, TaskNumber(1), (b"a", b"b", b"c"), 1.0)
    effects += crew.reactor.control.hold(ONE, 1.0)
    effects += crew.reactor.control.cancel(ONE, [TaskNumber(2)], 1.0)
    effects += crew.reactor.control.retry(ONE, None, 1.0)
    effects += crew.reactor.control.cancel(ONE, None, 1.0)
    crew.submit(a_spec(0, is_open=True))
    effects += crew.reactor.control.close(JobId(2), 1.0)
    records = [e for e in effects if type(e) in RECORDS]
    assert {type(e) for e in records} >= {TasksAdded, JobSet, TasksSet, OpenJobClosed, Ended}
    assert {getattr(e, "at", None) for e in records} == {1001.0}


def test_a_job_may_wait_for_a_job_of_another_shard_and_has_the_number_of_the_store() -> None:
    reactor = Played(a_worker()).reactor
    past = {JobId(3): JobState.RUNNING, JobId(4): JobState.FINISHED}
    spec = a_spec(1, after=(JobId(3), JobId(4)))
    number, _ = reactor.control.submit(spec, 1.0, past=past, number=JobId(77), key=5)
    assert number == 77
    assert reactor.jobs.get(number).awaited == {3}
    assert given(reactor.control.on_end_elsewhere(JobId(3), JobState.FINISHED, 2.0)) == {"w": [key(job=77)]}
