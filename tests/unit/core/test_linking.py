"""Jobs that follow others task by task."""

import pytest
from tests.unit.core.played import FAILED, ONE, Played, a_spec, a_worker, given, key, states

from gandy.core.linking import UNKNOWN, SourceJob
from gandy.core.model import Cause, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.records import TasksSet
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.core.snapshot import restore
from gandy.core.tasks import BLOCKED, TaskTable
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId, TaskNumber

TWO, THREE, FOUR = JobId(2), JobId(3), JobId(4)
F, X, C, W = TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED, TaskState.WAITING


def t(*numbers: int) -> tuple[TaskNumber, ...]:
    return tuple(map(TaskNumber, numbers))


def blocked(crew: Played, job: JobId) -> list[int]:
    return list(crew.reactor.jobs.get(job).tasks.in_states(BLOCKED))


def found(*task_states: TaskState, is_final: bool = False) -> SourceJob:
    return SourceJob(bytes(task_states), is_final)


def a_stored_job(number: int, spec: JobSpec, ended: dict[int, TaskState]) -> RecoveredJob:
    row = JobRow(JobId(number), spec, JobState.WAITING, False, 1.0, 2.0, Counts())
    return RecoveredJob(row, tuple(TaskRow(TaskNumber(task), state, 1, "w") for task, state in ended.items()))


def test_each_task_starts_when_the_one_with_its_number_has_finished() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(3))
    assert given(crew.submit(a_spec(3, after_each=(ONE,)))) == {}
    assert (blocked(crew, TWO), crew.counts(2)) == ([1, 2, 3], Counts(waiting=3))
    assert given(crew.end(key(2))) == {"w": [key(3)]}  # the older job goes first
    assert blocked(crew, TWO) == [1, 3]
    assert given(crew.end(key(1))) == {"w": [key(1, job=2)]}
    effects = crew.end(key(3))
    assert (given(effects), states(effects)) == ({"w": [key(2, job=2)]}, [JobState.FINISHED])
    assert blocked(crew, TWO) == []


def test_a_task_whose_source_fails_is_cancelled_and_so_is_what_needs_it() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(2))
    crew.submit(a_spec(2, after_each=(ONE,)))
    crew.submit(a_spec(2, after_each=(TWO,)))
    effects = crew.end(key(1), FAILED)
    for job in (TWO, THREE):
        assert TasksSet(job, C, t(1), 1.0) in effects
        assert crew.counts(job) == Counts(waiting=1, cancelled=1)
    crew.end(key(2))
    crew.end(key(2, job=2))
    assert states(crew.end(key(2, job=3))) == [JobState.CANCELLED]


def test_a_cancelled_job_takes_along_what_needs_it() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(3))
    crew.submit(a_spec(3, after_each=(ONE,)))
    crew.reactor.control.cancel(ONE, t(3), 1.0)
    assert (blocked(crew, TWO), crew.counts(2)) == ([1, 2], Counts(waiting=2, cancelled=1))
    effects = crew.seen(crew.reactor.control.cancel(ONE, None, 1.0))
    assert states(effects) == [JobState.CANCELLED, JobState.CANCELLED]
    assert len(crew.reactor.jobs) == 0


def test_a_task_may_need_several_others() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(2))
    crew.submit(a_spec(2))
    crew.submit(a_spec(2, after_each=(ONE, TWO)))
    for task in (key(1), key(2)):
        crew.end(task)
    assert blocked(crew, THREE) == [1, 2]
    assert given(crew.end(key(1, job=2))) == {"w": [key(2, job=2)]}
    assert blocked(crew, THREE) == [2]


def test_what_ended_before_counts_too() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(4))
    crew.end(key(1))
    crew.end(key(2), FAILED)
    effects = crew.submit(a_spec(4, after_each=(ONE,)))
    assert TasksSet(TWO, C, t(2), 0.0) in effects
    assert blocked(crew, TWO) == [3, 4]


def test_tasks_of_a_job_that_may_grow_are_waited_for() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(0, is_open=True))
    crew.submit(a_spec(3, after_each=(ONE,)))
    crew.seen(crew.reactor.control.add_tasks(ONE, TaskNumber(1), ("a", "b"), 1.0))
    assert blocked(crew, TWO) == [1, 2, 3]
    crew.end(key(1))
    assert blocked(crew, TWO) == [2, 3]
    crew.seen(crew.reactor.control.close(ONE, 1.0))
    crew.end(key(2))  # it never had a third
    assert (blocked(crew, TWO), crew.counts(2)) == ([], Counts(waiting=1, running=1, cancelled=1))


def test_a_job_that_grew_beyond_those_that_follow_it_is_fine() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(0, is_open=True))
    crew.submit(a_spec(1, after_each=(ONE,)))
    crew.seen(crew.reactor.control.add_tasks(ONE, TaskNumber(1), ("a", "b", "c"), 1.0))
    crew.end(key(1))
    crew.end(key(2))
    crew.end(key(3), FAILED)
    assert blocked(crew, TWO) == []


def test_a_task_is_retried_only_if_what_it_needs_may_still_finish() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(2))
    crew.submit(a_spec(2, after_each=(ONE,)))
    crew.end(key(1), FAILED)
    control = crew.reactor.control
    assert control.retry(TWO, None, 2.0) == []
    assert control.retry(TWO, t(1), 2.0) == []
    crew.seen(control.retry(ONE, t(1), 3.0))
    crew.seen(control.retry(TWO, None, 3.0))
    assert blocked(crew, TWO) == [1, 2]
    crew.end(key(2), now=4.0)
    crew.end(key(1, 2), now=5.0)
    assert blocked(crew, TWO) == []


def test_of_several_tasks_those_are_retried_that_may_start() -> None:
    crew = Played()
    control = crew.reactor.control
    crew.submit(a_spec(3, held=True))
    crew.submit(a_spec(3, after_each=(ONE,)))
    control.cancel(TWO, t(1, 2), 1.0)
    control.cancel(ONE, t(1), 1.0)
    effects = crew.seen(control.retry(TWO, None, 2.0))
    assert TasksSet(TWO, W, t(2), 2.0) in effects
    assert blocked(crew, TWO) == [2, 3]


def test_a_task_that_was_tried_before_can_wait_for_its_source_again() -> None:
    crew = Played(a_worker(slots=2))
    control = crew.reactor.control
    control.submit(a_spec(2), 0.0)
    crew.submit(a_spec(2, after_each=(ONE,)))
    crew.end(key(1))
    crew.end(key(1, job=2), FAILED)
    crew.seen(control.retry(TWO, t(1), 2.0))
    assert (blocked(crew, TWO), crew.counts(2)) == ([2], Counts(waiting=1, running=1))


def test_jobs_that_have_ended_are_known_from_the_store() -> None:
    crew = Played(a_worker(slots=1))
    known = {JobId(77): found(F, X, F, is_final=True)}
    effects = crew.seen(crew.reactor.control.submit(a_spec(3, after_each=(JobId(77),)), 0.0, sources=known)[1])
    assert TasksSet(ONE, C, t(2), 0.0) in effects
    assert blocked(crew, ONE) == []
    assert crew.reactor.linking.list_elsewhere() == []


def test_jobs_of_other_shards_are_heard_of_as_they_stand() -> None:
    crew = Played(a_worker(slots=9))
    control, far = crew.reactor.control, JobId(77)
    crew.seen(control.submit(a_spec(4, after_each=(far,)), 0.0, sources={far: found(F, W, W, W)})[1])
    # The second taker knows no more than the first: neither hears of an end twice.
    crew.seen(control.submit(a_spec(4, after_each=(far,)), 0.0, sources={far: found(F, F, W, W)})[1])
    assert (blocked(crew, ONE), blocked(crew, TWO)) == ([2, 3, 4], [2, 3, 4])
    assert crew.reactor.linking.list_elsewhere() == [far]
    crew.seen(control.on_states_elsewhere(far, found(F, F, X, W), 1.0))
    assert (blocked(crew, ONE), blocked(crew, TWO)) == ([4], [4])
    assert crew.counts(1) == Counts(running=2, waiting=1, cancelled=1)
    crew.seen(control.on_states_elsewhere(far, found(F, F, X, is_final=True), 1.0))  # it had no fourth
    assert crew.counts(1) == Counts(running=2, cancelled=2)
    assert crew.reactor.linking.list_elsewhere() == []
    assert control.on_states_elsewhere(far, found(F), 1.0) == []


def test_what_no_job_needs_any_more_is_not_looked_at() -> None:
    crew = Played()
    control, far = crew.reactor.control, JobId(77)
    crew.seen(control.submit(a_spec(1, after_each=(far,)), 0.0, sources={far: UNKNOWN})[1])
    crew.seen(control.submit(a_spec(1, after_each=(far,)), 0.0, sources={far: UNKNOWN})[1])
    crew.seen(control.cancel(ONE, None, 1.0))
    assert crew.reactor.linking.list_elsewhere() == [far]
    crew.seen(control.cancel(TWO, None, 1.0))
    assert crew.reactor.linking.list_elsewhere() == []


def test_a_million_tasks_are_one_edge() -> None:
    """The test takes a moment only because nothing is done for each task."""
    crew = Played()
    crew.submit(a_spec(1_000_000))
    crew.submit(a_spec(1_000_000, after_each=(ONE,)))
    tasks = crew.reactor.jobs.get(TWO).tasks
    assert (tasks.blocked, tasks.startable) == (1_000_000, 0)
    assert tasks.copy_states(TaskNumber(1), 3) == bytes([W, W, W])


def test_a_long_chain_of_jobs_ends_at_once() -> None:
    """None of them calls the next: Python allows a thousand calls within one another."""
    crew = Played()
    crew.reactor.control.submit(a_spec(1), 0.0)
    for job in range(1, 3_000):
        after = {"after_each": (JobId(job),)} if job % 2 else {"after": (JobId(job),)}
        crew.reactor.control.submit(a_spec(1, **after), 0.0)
    effects = crew.seen(crew.reactor.control.cancel(ONE, None, 1.0))
    assert states(effects) == [JobState.CANCELLED] * 3_000


def test_a_job_may_run_after_another_has_ended_in_any_way() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.submit(a_spec(1, after_any=(ONE,)))
    crew.submit(a_spec(1, after=(ONE,)))
    effects = crew.end(key(1), FAILED)
    assert given(effects) == {"w": [key(1, job=2)]}
    assert states(effects) == [JobState.FAILED, JobState.CANCELLED, JobState.RUNNING]


def test_a_withdrawn_job_needs_nothing_any_more() -> None:
    crew = Played()
    crew.submit(a_spec(1))
    crew.submit(a_spec(1, after_each=(ONE,)))
    crew.seen(crew.reactor.control.withdraw(Withdrawal(jobs={TWO}), 1.0))
    crew.seen(crew.reactor.control.cancel(ONE, None, 1.0))
    assert len(crew.reactor.jobs) == 0


def test_a_lost_attempt_blocks_nothing_anew() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.submit(a_spec(1, after_each=(ONE,)))
    crew.end(key(1))
    effects = crew.end(key(1, job=2), Ending(cause=Cause.RETURNED))
    assert given(effects) == {"w": [key(1, 2, job=2)]}


def test_links_are_known_again_after_a_restart() -> None:
    reactor = Played().reactor
    stored = (
        a_stored_job(1, a_spec(4), {1: F, 2: X}),
        a_stored_job(2, a_spec(4, after_each=(ONE,)), {2: C}),
        a_stored_job(3, a_spec(4, after_each=(JobId(9),)), {}),  # which has finished
        a_stored_job(4, a_spec(4, after_each=(JobId(77),)), {1: F}),  # of another shard
    )
    elsewhere = {JobId(77): JobState.RUNNING}
    restore(reactor, Recovered(stored, JobId(5)), 10.0, elsewhere)
    reactor.check()
    assert [list(reactor.jobs.get(job).tasks.in_states(BLOCKED)) for job in (TWO, THREE, FOUR)] == [
        [3, 4],
        [],
        [2, 3, 4],
    ]
    assert reactor.linking.list_elsewhere() == [77]


def test_a_failure_of_another_shard_may_be_heard_of_only_after_a_restart() -> None:
    reactor = Played().reactor
    stored = (a_stored_job(1, a_spec(2), {1: X}), a_stored_job(2, a_spec(2, after_each=(ONE,)), {}))
    effects = restore(reactor, Recovered(stored, JobId(3)), 10.0)
    assert effects[0] == TasksSet(TWO, C, t(1), effects[0].at)  # type: ignore[union-attr]
    reactor.check()


@pytest.mark.parametrize("is_open", [True, False])
def test_tasks_that_are_withdrawn_are_counted_no_more(is_open: bool) -> None:
    table = TaskTable(3)
    table.block(TaskNumber(2), 1)
    table.grow(2)
    table.block(TaskNumber(5), 2)
    table.shrink(4 if is_open else 2)
    table.check()
    assert (table.blocked, table.waiting) == (1, 4 if is_open else 2)


def test_a_task_that_was_cancelled_does_not_start_when_its_source_finishes() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(2))
    crew.submit(a_spec(2, after_each=(ONE,)))
    crew.seen(crew.reactor.control.cancel(TWO, t(1), 1.0))
    crew.end(key(1))
    assert crew.counts(2) == Counts(waiting=1, cancelled=1)
