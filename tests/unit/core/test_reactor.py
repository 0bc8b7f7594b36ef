"""The events of workers and of time: what is recorded, what is sent, and in which order."""

from math import inf

import pytest
from tests.unit.core.played import (
    FAILED,
    OK,
    ONE,
    Played,
    a_spec,
    a_worker,
    an_eager_worker,
    ended,
    given,
    key,
    recalled,
    states,
)

from gandy.core.dispatch import LEAD
from gandy.core.effects import Acknowledge, Assignment, Dismiss, Give, KillAttempts
from gandy.core.foreman import RECORDS
from gandy.core.model import AttemptKey, Cause, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.policy import Policy
from gandy.core.reactor import LONGEST_REFUSAL_PAUSE, Reactor
from gandy.core.records import Began, Claimed, Ended, JobAdded, JobSet
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber

# Submitting and giving


def test_a_job_is_recorded_before_its_tasks_are_claimed_and_given() -> None:
    spec = a_spec()
    effects = Played(a_worker()).submit(spec)
    assert effects == [
        JobAdded(ONE, spec, 0.0, ()),
        Claimed("w", (key(),), 0.0, TaskState.RUNNING),
        JobSet(ONE, JobState.RUNNING, False, 0.0),
        Give("w", (Assignment(key(), spec),)),
    ]


def test_what_is_given_was_claimed_in_the_same_breath() -> None:
    effects = Played(a_worker("a"), a_worker("b")).submit(a_spec(3))
    claimed = {attempt for e in effects if isinstance(e, Claimed) for attempt in e.attempts}
    assert claimed == {attempt for attempts in given(effects).values() for attempt in attempts}


def test_without_a_worker_tasks_wait() -> None:
    crew = Played()
    effects = crew.submit(a_spec(2))
    assert [type(e) for e in effects] == [JobAdded]
    assert given(crew.seen(crew.reactor.on_hello(a_worker(), [], 1.0))) == {"w": [key(1), key(2)]}


def test_tasks_go_round_the_workers() -> None:
    crew = Played(a_worker("a", 2), a_worker("b", 2), a_worker("c", 2))
    assert given(crew.submit(a_spec(4))) == {"a": [key(1), key(4)], "b": [key(2)], "c": [key(3)]}


def test_higher_priority_goes_first_then_the_older_job() -> None:
    crew = Played()
    crew.submit(a_spec(1))
    crew.submit(a_spec(1, priority=5))
    crew.submit(a_spec(1, priority=5))
    effects = crew.reactor.on_hello(a_worker(slots=2), [], 1.0)
    assert given(effects) == {"w": [key(job=2), key(job=3)]}


def test_a_limit_holds_tasks_back() -> None:
    crew = Played(a_worker(slots=4))
    assert given(crew.submit(a_spec(3, limit=1))) == {"w": [key(1)]}
    assert given(crew.end(key(1))) == {"w": [key(2)]}


def test_a_task_may_need_several_slots() -> None:
    crew = Played(a_worker(slots=3))
    assert given(crew.submit(a_spec(2, slots=2))) == {"w": [key(1)]}
    assert given(crew.submit(a_spec(1))) == {"w": [key(job=2)]}
    assert given(crew.end(key(1))) == {"w": [key(2)]}


def test_worker_that_is_short_of_something_gets_only_what_it_can_use() -> None:
    crew = Played(WorkerInfo("w", "w", 4, ahead=4))
    crew.reactor.on_capacity("w", 1, 0, "open files")
    effects = crew.submit(a_spec(6))
    assert given(effects) == {"w": [key(1)]}
    worker = crew.reactor.workers.find("w")
    assert worker is not None
    assert worker.problem == "open files"
    crew.reactor.on_capacity("w", 0, 0, "processes")
    assert given(crew.end(key(1), Ending(cause=Cause.RETURNED, note="processes"))) == {}
    assert crew.counts().waiting == 6
    crew.reactor.on_capacity("w", 4, 4, "")
    assert given(crew.seen(crew.reactor.dispatch(2.0))) == {"w": [key(1, 2), *map(key, range(2, 7))]}
    crew.reactor.on_capacity("stranger", 4, 4, "")


def test_worker_that_comes_back_is_no_longer_short_unless_it_says_so() -> None:
    crew = Played(a_worker())
    crew.reactor.on_capacity("w", 0, 0, "memory")
    crew.reactor.on_hello(a_worker(), [], 1.0)
    worker = crew.reactor.workers.find("w")
    assert worker is not None
    assert worker.problem == ""
    assert given(crew.submit(a_spec(1))) == {"w": [key(1)]}


def test_tags_choose_workers() -> None:
    crew = Played(a_worker("plain", 4), a_worker("big", 4, ("gpu", "ssd")))
    assert given(crew.submit(a_spec(1, tags=("gpu",)))) == {"big": [key()]}


def test_steps_that_come_together_are_decided_together() -> None:
    reactor = Reactor()
    assert not reactor.dispatcher.is_needed
    effects = reactor.on_hello(a_worker(slots=3), [], 0.0)
    for _ in range(2):
        effects += reactor.control.submit(a_spec(1), 0.0)[1]
    assert reactor.dispatcher.is_needed
    assert given(effects) == {}
    assert given(reactor.dispatch(1.0)) == {"w": [key(job=1), key(job=2)]}
    assert not reactor.dispatcher.is_needed
    reactor.check()


# Results


def test_a_result_is_recorded_before_it_is_acknowledged() -> None:
    crew = Played(a_worker())
    crew.submit(a_spec())
    effects = crew.end(key())
    assert effects == [
        Ended(key(), OK, TaskState.FINISHED, 1.0, before=TaskState.RUNNING),
        JobSet(ONE, JobState.FINISHED, False, 1.0),
        Acknowledge("w", (key(),)),
    ]
    assert crew.reactor.jobs.find(ONE) is None


def test_records_come_first_for_every_send_that_needs_them() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(2))
    effects = crew.end(key(1))
    assert [type(e) in RECORDS for e in effects] == [True, False, True, False]


def test_a_failure_is_retried_after_a_growing_pause() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1, retries=2, retry_pause=1.0))
    assert ended(crew.end(key(1, 1), FAILED, now=10.0)) == [(key(1, 1), TaskState.WAITING)]
    assert crew.reactor.next_deadline() == 11.0
    assert given(crew.seen(crew.reactor.on_time(10.9))) == {}
    assert given(crew.seen(crew.reactor.on_time(11.0))) == {"w": [key(1, 2)]}
    crew.end(key(1, 2), FAILED, now=20.0)
    assert crew.reactor.next_deadline() == 22.0
    crew.reactor.on_time(22.0)
    effects = crew.end(key(1, 3), FAILED, now=30.0)
    assert (ended(effects), states(effects)) == ([(key(1, 3), TaskState.FAILED)], [JobState.FAILED])


def test_an_exception_that_is_not_retried_fails_a_task_at_once() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1, retries=2))
    effects = crew.end(key(1, 1), Ending(cause=Cause.NOT_RETRIED), now=10.0)
    assert (ended(effects), states(effects)) == ([(key(1, 1), TaskState.FAILED)], [JobState.FAILED])


def test_what_is_due_and_waits_for_a_slot_needs_no_clock() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1, retries=1, retry_pause=1.0))
    crew.submit(a_spec(1))
    assert given(crew.end(key(), FAILED, now=10.0)) == {"w": [key(job=2)]}
    assert given(crew.seen(crew.reactor.on_time(11.0))) == {}
    assert crew.reactor.next_deadline() is None
    assert given(crew.end(key(job=2), now=12.0)) == {"w": [key(1, 2)]}


def test_the_clock_cannot_help_before_the_next_decision() -> None:
    reactor = Reactor()
    reactor.on_hello(a_worker(slots=1), [], 0.0)
    reactor.control.submit(a_spec(1, retries=1, retry_pause=1.0), 0.0)
    reactor.dispatch(0.0)
    reactor.on_results("w", [(key(), FAILED)], 10.0)
    assert reactor.next_deadline() is None  # the store may be slow, or fail for hours
    reactor.dispatch(10.0)
    assert reactor.next_deadline() == 11.0


def test_a_late_result_of_a_fenced_attempt_changes_nothing() -> None:
    crew = Played(a_worker("a"), a_worker("b"))
    crew.submit(a_spec(1))
    crew.reactor.on_absent("a", 0.0)
    crew.seen(crew.reactor.on_time(10.0))  # attempt 2 goes to b
    assert crew.reactor.current_attempt(ONE, TaskNumber(1)) == key(1, 2)
    assert crew.end(key(1, 1), OK, "a") == [Acknowledge("a", (key(1, 1),))]
    assert ended(crew.end(key(1, 2), OK, "b")) == [(key(1, 2), TaskState.FINISHED)]


def test_a_result_from_the_wrong_worker_changes_nothing() -> None:
    crew = Played(a_worker("a"), a_worker("b"))
    crew.submit(a_spec(1))
    assert crew.end(key(), OK, "b") == [Acknowledge("b", (key(),))]


# Workers that come and go


def test_an_absent_worker_keeps_its_tasks_for_the_grace_period() -> None:
    crew = Played(a_worker())
    crew.submit(a_spec(2))
    assert crew.seen(crew.reactor.on_absent("w", 5.0)) == []
    assert crew.reactor.on_absent("w", 6.0) == []
    assert crew.reactor.next_deadline() == 15.0
    assert crew.seen(crew.reactor.on_time(14.9)) == []
    assert crew.seen(crew.reactor.on_hello(a_worker(), [key(1), key(2)], 14.9)) == []


def test_a_worker_that_stays_away_loses_its_tasks() -> None:
    crew = Played(a_worker())
    crew.submit(a_spec(1))
    crew.reactor.on_absent("w", 0.0)
    record, *_ = crew.seen(crew.reactor.on_time(10.0))
    assert isinstance(record, Ended)
    assert (record.state, record.ending.cause, record.crashes) == (TaskState.WAITING, Cause.WORKER_LOST, 1)
    assert len(crew.reactor.workers) == 0


def test_an_idle_worker_that_goes_is_forgotten_at_once() -> None:
    crew = Played(a_worker())
    crew.reactor.on_absent("w", 0.0)
    assert len(crew.reactor.workers) == 0
    assert crew.reactor.on_absent("w", 0.0) == crew.reactor.on_gone("w", 0.0) == []


def test_a_dead_worker_is_not_waited_for() -> None:
    crew = Played(a_worker("a"), a_worker("b"))
    crew.submit(a_spec(1))
    assert given(crew.seen(crew.reactor.on_gone("a", 1.0))) == {"b": [key(1, 2)]}


def test_what_waited_on_a_lost_worker_is_not_blamed() -> None:
    crew = Played(an_eager_worker())
    crew.submit(a_spec(3))
    effects = crew.seen(crew.reactor.on_gone("w", 1.0))
    assert [(e.attempt.task, e.crashes) for e in effects if isinstance(e, Ended)] == [(1, 1), (2, 0), (3, 0)]


def test_a_worker_gets_no_new_attempt_while_it_has_an_old_one() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    crew.reactor.on_given("w", [key()], 1.0)
    crew.reactor.control.cancel(ONE, [TaskNumber(1)], 1.0)
    _, effects = crew.reactor.control.submit(a_spec(1), 1.0)
    assert given(effects) == {"w": [key(job=2)]}


def test_a_late_worker_ends_its_old_attempt_before_it_gets_the_new_one() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    crew.reactor.on_gone("w", 1.0)
    effects = crew.seen(crew.reactor.on_hello(a_worker(slots=2), [key(1, 1)], 2.0))
    assert effects == [KillAttempts("w", (key(1, 1),))]
    effects = crew.end(key(1, 1), Ending(cause=Cause.CANCELLED), now=3.0)
    assert given(effects) == {"w": [key(1, 2)]}


def test_a_worker_that_is_leaving_gets_nothing_new() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    effects = crew.end(key(), Ending(cause=Cause.WORKER_STOPPED))
    assert given(effects) == {}


def test_a_task_that_kills_its_workers_is_stopped() -> None:
    crew = Played(a_worker("a"), a_worker("b"))
    crew.submit(a_spec(1))
    crew.seen(crew.reactor.on_gone("a", 1.0))
    effects = crew.seen(crew.reactor.on_gone("b", 2.0))
    assert (ended(effects), states(effects)) == ([(key(1, 2), TaskState.FAILED)], [JobState.FAILED])


def test_what_never_reached_a_worker_is_given_again_under_another_number() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.reactor.on_given("w", [key()], 1.0)
    crew.reactor.on_absent("w", 0.0)
    effects = crew.seen(crew.reactor.on_hello(a_worker(slots=1), [], 1.0))
    assert ended(effects) == [(key(), TaskState.WAITING)]
    assert given(effects) == {"w": [key(1, 2)]}


def test_what_is_not_sent_yet_stays_with_a_worker_that_comes_back() -> None:
    crew = Played(a_worker(slots=1))
    crew.reactor.control.submit(a_spec(1), 0.0)
    crew.reactor.on_absent("w", 0.0)
    assert crew.seen(crew.reactor.on_hello(a_worker(slots=1), [], 1.0)) == []
    assert crew.reactor.on_given("w", [key()], 1.0) == [key()]
    assert crew.reactor.on_given("w", [key()], 1.0) == []
    assert crew.reactor.on_given("nobody", [key()], 1.0) == []


def test_what_is_no_longer_its_own_is_not_sent_to_a_worker() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.reactor.control.cancel(ONE, None, 1.0)
    assert crew.reactor.on_given("w", [key()], 1.0) == []


def test_a_worker_must_end_what_is_not_its_own() -> None:
    crew = Played()
    effects = crew.seen(crew.reactor.on_hello(a_worker(), [key(7, 3)], 0.0))
    assert effects == [KillAttempts("w", (key(7, 3),))]


def test_a_worker_that_refused_is_asked_again_after_a_pause_that_grows() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    now, pauses = 1.0, []
    for attempt in range(1, 13):
        effects = crew.seen(crew.reactor.on_refused("w", [key(1, attempt)], now))
        assert ended(effects) == [(key(1, attempt), TaskState.WAITING)]
        assert given(crew.seen(crew.reactor.on_time(now))) == {}
        deadline = crew.reactor.next_deadline()
        assert deadline is not None
        assert crew.reactor.next_moment() == deadline
        pauses.append(deadline - now)
        now = deadline
        assert given(crew.seen(crew.reactor.on_time(now))) == {"w": [key(1, attempt + 1)]}
    assert pauses[:3] == pytest.approx([0.02, 0.04, 0.08])
    assert pauses[-1] == LONGEST_REFUSAL_PAUSE
    assert crew.reactor.next_moment() == inf
    assert crew.reactor.on_refused("nobody", [key(9)], 2.0) == []


def test_a_result_or_a_hello_ends_the_pause_after_a_refusal() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(3))
    crew.reactor.on_refused("w", [key(2)], 1.0)
    assert given(crew.end(key(1))) == {"w": [key(2, 2), key(3)]}
    crew.reactor.on_refused("w", [key(3)], 2.0)
    deadline = crew.reactor.next_deadline()
    assert deadline == pytest.approx(2.02)  # the pause is short again
    effects = crew.seen(crew.reactor.on_hello(a_worker(slots=2), [key(2, 2)], 2.0))
    assert given(effects) == {"w": [key(3, 2)]}
    assert crew.reactor.next_deadline() is None


def test_a_worker_that_refused_and_went_is_not_waited_for() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.reactor.on_refused("w", [key()], 1.0)
    crew.reactor.on_gone("w", 1.0)
    assert crew.reactor.next_deadline() is None


def test_what_was_cancelled_and_then_refused_holds_no_slot() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.reactor.on_given("w", [key()], 1.0)
    crew.reactor.control.cancel(ONE, None, 1.0)
    assert ended(crew.seen(crew.reactor.on_refused("w", [key()], 1.0))) == []
    crew.reactor.on_time(2.0)
    assert given(crew.submit(a_spec(1))) == {"w": [key(job=2)]}


def test_a_lost_claim_neither_runs_nor_is_forgotten() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    crew.reactor.on_claims_lost([key(), key(9)])
    crew.reactor.check()
    assert crew.counts() == Counts(waiting=1)
    assert not crew.reactor.dispatcher.is_needed  # two foremen must not take turns in losing it


def test_a_draining_worker_gets_nothing_new() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    assert crew.seen(crew.reactor.drain("w")) == [Dismiss("w", immediate=False)]
    assert given(crew.submit(a_spec(1))) == {}
    assert crew.reactor.drain("nobody") == []


def test_a_draining_worker_that_lost_its_link_is_dismissed_again() -> None:
    crew = Played(a_worker(slots=2))
    crew.submit(a_spec(1))
    crew.seen(crew.reactor.drain("w"))
    crew.seen(crew.reactor.on_absent("w", 2.0))
    assert crew.seen(crew.reactor.on_hello(a_worker(slots=2), [key()], 3.0)) == [Dismiss("w", immediate=False)]


def test_a_stopped_worker_gives_its_tasks_back_without_blame() -> None:
    crew = Played(a_worker(slots=1))
    crew.submit(a_spec(1))
    effects = crew.end(key(), Ending(cause=Cause.WORKER_STOPPED))
    assert ended(effects) == [(key(), TaskState.WAITING)]
    assert given(crew.reactor.on_hello(a_worker("other"), [], 2.0)) == {"other": [key(1, 2)]}


# What has begun


def test_what_is_given_runs_only_when_its_worker_says_so() -> None:
    crew = Played(an_eager_worker(slots=2))
    effects = crew.submit(a_spec(6))
    assert Claimed("w", (key(1), key(2), key(3), key(4)), 0.0) in effects
    assert (states(effects), crew.counts()) == ([JobState.RUNNING], Counts(assigned=4, waiting=2))
    assert crew.seen(crew.reactor.on_begun("w", [key(1), key(2)], 1.0)) == [Began("w", (key(1), key(2)), 1.0)]
    assert crew.counts() == Counts(assigned=2, running=2, waiting=2)
    assert crew.seen(crew.reactor.on_begun("w", [key(2)], 2.0)) == []  # after a cut it says so again


def test_the_record_of_an_end_says_whether_the_attempt_was_known_to_run() -> None:
    crew = Played(an_eager_worker())
    crew.submit(a_spec(3))
    crew.reactor.on_begun("w", [key(1)], 1.0)
    effects = crew.end(key(1)) + crew.end(key(2))
    before = {effect.attempt: effect.before for effect in effects if isinstance(effect, Ended)}
    assert before == {key(1): TaskState.RUNNING, key(2): TaskState.ASSIGNED}


@pytest.mark.parametrize(
    ("worker", "attempt"),
    [("v", key(1)), ("nobody", key(1)), ("w", key(1, 2)), ("w", key(2)), ("w", key(9))],
    ids=["another worker", "no worker", "another attempt", "not given", "no task"],
)
def test_only_what_a_worker_has_can_begin_there(worker: str, attempt: AttemptKey) -> None:
    crew = Played(an_eager_worker(ahead=0))
    crew.submit(a_spec(2))
    crew.reactor.on_hello(a_worker("v", tags=()), [], 0.0)
    crew.reactor.control.hold(ONE, 0.0)
    counts = crew.counts()
    assert crew.seen(crew.reactor.on_begun(worker, [attempt], 1.0)) == []
    assert crew.counts() == counts


def test_what_is_not_sent_yet_cannot_have_begun() -> None:
    crew = Played(an_eager_worker())
    crew.reactor.control.submit(a_spec(1), 0.0)
    assert crew.reactor.on_begun("w", [key(1)], 1.0) == []
    crew.reactor.on_given("w", [key(1)], 2.0)
    assert crew.reactor.on_begun("w", [key(1)], 3.0) == [Began("w", (key(1),), 3.0)]


def test_what_was_cancelled_and_is_not_over_runs_for_its_worker_only() -> None:
    crew = Played(an_eager_worker())
    crew.submit(a_spec(2))
    crew.reactor.control.cancel(ONE, [TaskNumber(1)], 1.0)
    assert crew.seen(crew.reactor.on_begun("w", [key(1)], 2.0)) == []
    worker = crew.reactor.workers.find("w")
    assert worker is not None
    assert worker.held.begun == {key(1)}
    assert crew.counts() == Counts(assigned=1, cancelled=1)


def test_what_runs_is_killed_by_a_cancel_like_what_waits_on_a_worker() -> None:
    crew = Played(an_eager_worker(ahead=1))
    crew.submit(a_spec(3))
    crew.reactor.on_begun("w", [key(1)], 1.0)
    effects = crew.seen(crew.reactor.control.cancel(ONE, None, 2.0))
    assert sorted(ended(effects)) == [(key(1), TaskState.CANCELLED), (key(2), TaskState.CANCELLED)]
    assert {attempt for effect in effects if isinstance(effect, KillAttempts) for attempt in effect.attempts} == {
        key(1),
        key(2),
    }


def test_a_successor_has_what_its_former_worker_had_begun() -> None:
    crew = Played(an_eager_worker("a", ahead=1))
    crew.submit(a_spec(2))
    crew.reactor.on_begun("a", [key(1)], 1.0)
    crew.reactor.on_absent("a", 1.0)
    crew.seen(crew.reactor.on_hello(an_eager_worker("b", ahead=1), [key(1), key(2)], 2.0, ["a"]))
    worker = crew.reactor.workers.find("b")
    assert worker is not None
    assert worker.held.begun == {key(1)}


def test_all_that_is_known_to_run_is_blamed_for_the_end_of_its_worker() -> None:
    crew = Played(an_eager_worker(ahead=3))
    crew.submit(a_spec(4))
    crew.reactor.on_begun("w", [key(3)], 1.0)  # there is one slot, and it has it
    effects = crew.seen(crew.reactor.on_gone("w", 2.0))
    assert {e.attempt.task: e.crashes for e in effects if isinstance(e, Ended)} == {1: 0, 2: 0, 3: 1, 4: 0}


def test_a_worker_has_time_to_begin_what_it_was_given_just_now() -> None:
    crew = Played(an_eager_worker("a", ahead=5))
    crew.submit(a_spec(6))
    quick = Ending(cause=Cause.EXIT, exit_code=0, started=1.0, ended=1.001)
    crew.end(key(1), quick, "a", 2.0)
    crew.reactor.on_given("a", [key(number) for number in range(2, 7)], 3.0)  # the store was slow
    assert recalled(crew.seen(crew.reactor.on_hello(an_eager_worker("b"), [], 3.01))) == {}
    assert recalled(crew.seen(crew.reactor.on_time(3.021))) == {"a": (key(6), key(5))}  # half of those that wait


def test_pauses_of_held_jobs_are_no_deadlines() -> None:
    crew = Played(a_worker())
    crew.submit(a_spec(1, retries=1))
    crew.end(key(), FAILED)
    crew.reactor.control.hold(ONE, 1.0)
    assert crew.reactor.next_deadline() is None


def test_what_a_worker_held_that_had_to_leave_at_once_is_no_crash() -> None:
    crew = Played(a_worker("a", 1), policy=Policy(crash_limit=1))
    crew.submit(a_spec(1))
    assert crew.reactor.drain("a", immediate=True) == [Dismiss("a", immediate=True)]
    effects = crew.seen(crew.reactor.on_absent("a", 2.0))  # no task waits for it
    (record,) = [effect for effect in effects if isinstance(effect, Ended)]
    assert (record.ending.cause, record.state, record.crashes) == (Cause.WORKER_STOPPED, TaskState.WAITING, 0)


# The time of day


def test_records_carry_the_time_of_day_and_deadlines_do_not() -> None:
    crew = Played(a_worker())
    crew.reactor.clocks.wall_ahead = 1000.0
    effects = crew.submit(a_spec(2, retries=1, retry_pause=4.0), now=1.0)
    assert {e.at for e in effects if isinstance(e, JobAdded | Claimed | JobSet)} == {1001.0}
    crew.reactor.clocks.wall_ahead = -500.0
    (ending,) = (e for e in crew.end(key(1), FAILED, now=2.0) if isinstance(e, Ended))
    assert (ending.at, ending.due) == (-498.0, -494.0)
    assert crew.reactor.next_deadline() == 6.0
    assert [e.due for e in crew.end(key(2), now=3.0) if isinstance(e, Ended)] == [0.0]
    job = crew.reactor.jobs.find(ONE)
    assert job is not None
    assert job.submitted == 1001.0


# Times. The shared time is 1000 s ahead of the foreman's.

AHEAD = 1000.0
AT = 1010.0
GIVEN_AT = 10.0 - LEAD


def a_timed_crew(*names: str, slots: int = 2) -> Played:
    """Workers that know the shared time."""
    played = Played(*(a_worker(name, slots) for name in names))
    played.reactor.on_clock(AHEAD)
    for worker in played.reactor.workers:
        worker.knows_time = True
    return played


def a_timed_spec(tasks: int = 1, **changes: object) -> JobSpec:
    return a_spec(tasks, at=AT, clock_ahead=AHEAD, **changes)


def test_tasks_whose_time_has_come_are_given_also_to_workers_to_which_nothing_happened() -> None:
    played = a_timed_crew("v", slots=1)
    played.reactor.on_hello(a_worker("w", 1), [], 0.0)  # which does not know the time
    played.submit(a_timed_spec())
    assert given(played.submit(a_spec(), now=1.0)) == {"v": [key(job=2)]}
    assert given(played.submit(a_spec(), now=1.0)) == {"w": [key(job=3)]}
    played.end(key(job=2), worker="v", now=2.0)
    effects = played.end(key(job=3), worker="w", now=GIVEN_AT + 0.5)
    assert given(effects) == {"v": [key()]}


def test_tasks_with_a_time_are_given_shortly_before_it() -> None:
    played = a_timed_crew("w")
    assert given(played.submit(a_timed_spec(2))) == {}
    assert played.reactor.next_deadline() == GIVEN_AT
    assert given(played.seen(played.reactor.on_time(GIVEN_AT - 0.001))) == {}
    effects = played.seen(played.reactor.on_time(GIVEN_AT))
    assert given(effects) == {"w": [key(1), key(2)]}
    assert {a.spec.at for e in effects if isinstance(e, Give) for a in e.assignments} == {AT}
    assert played.reactor.next_deadline() is None


def test_tasks_with_a_time_go_only_to_workers_that_know_the_time() -> None:
    played = a_timed_crew("w", "plain")
    plain = played.reactor.workers.find("plain")
    assert plain is not None
    plain.knows_time = False
    played.submit(a_timed_spec(4))
    assert given(played.seen(played.reactor.on_time(GIVEN_AT))) == {"w": [key(1), key(2)]}
    assert played.reactor.next_deadline() is None  # there is nothing to wait for but a slot


def test_without_a_shared_time_nothing_with_a_time_is_given() -> None:
    played = a_timed_crew("w")
    played.reactor.on_clock(None)
    assert played.reactor.clocks.shared_ahead is None
    assert given(played.submit(a_timed_spec())) == {}
    assert given(played.seen(played.reactor.on_time(100.0))) == {}
    played.reactor.on_clock(AHEAD)
    assert given(played.seen(played.reactor.on_time(100.0))) == {"w": [key()]}  # late, and better than never


def test_a_clock_that_is_put_right_moves_no_time() -> None:
    played = a_timed_crew("w")
    played.submit(a_timed_spec())
    played.reactor.on_clock(AHEAD + 5.0)
    job = played.reactor.jobs.find(JobId(1))
    assert job is not None
    assert job.at == AT
    assert played.reactor.next_deadline() == GIVEN_AT - 5.0


def test_when_the_shared_time_begins_anew_a_job_keeps_its_time_by_the_foremans_clock() -> None:
    played = a_timed_crew("w")
    played.submit(a_timed_spec())
    for ahead in (-500.0, 3.0):
        played.reactor.on_clock(ahead)
        assert played.reactor.next_deadline() == GIVEN_AT
    effects = played.seen(played.reactor.on_time(GIVEN_AT))
    assert [a.spec.at for e in effects if isinstance(e, Give) for a in e.assignments] == [13.0]


@pytest.mark.parametrize("step", [86_400.0, -86_400.0])
def test_a_step_of_the_wall_clock_moves_no_time(step: float) -> None:
    played = a_timed_crew("w")
    played.submit(a_timed_spec())
    played.reactor.clocks.wall_ahead += step
    played.reactor.on_clock(AHEAD)
    assert played.reactor.next_deadline() == GIVEN_AT


def test_what_failed_is_tried_again_without_waiting_for_its_time() -> None:
    played = a_timed_crew("w")
    played.submit(a_timed_spec(retries=1, retry_pause=0.0))
    played.seen(played.reactor.on_time(GIVEN_AT))
    effects = played.end(key(), FAILED, now=11.0)
    assert [a.spec.at for e in effects if isinstance(e, Give) for a in e.assignments] == [None]


def test_what_has_a_time_is_not_kept_waiting_by_what_waits_on_workers_and_is_not_had_back() -> None:
    played = Played(an_eager_worker("w", slots=1, ahead=5), policy=Policy(first_pace=1.0))
    played.reactor.on_clock(AHEAD)
    worker = played.reactor.workers.find("w")
    assert worker is not None
    worker.knows_time = True
    played.submit(a_spec())
    played.submit(a_timed_spec())
    effects = played.seen(played.reactor.on_time(GIVEN_AT))
    assert given(effects) == {"w": [key(job=2)]}  # the slot is taken, and it is the next one there
    played.reactor.on_given("w", [key(), key(job=2)], 1.0)
    effects = played.seen(played.reactor.on_hello(a_worker("idle"), [], 9.0))
    assert key(job=2) not in recalled(effects)["w"]


# Workers that come after dead ones


def test_results_of_a_dead_worker_count_when_the_next_one_in_its_folder_reports_them() -> None:
    crew = Played(a_worker("first"))
    crew.submit(a_spec(2))
    crew.seen(crew.reactor.on_absent("first", 1.0))
    effects = crew.seen(crew.reactor.on_hello(a_worker("second"), [key(1)], 2.0, ["first"]))
    assert ended(effects) == [(key(2), TaskState.WAITING)]  # what is not reported is lost, and nothing is waited for
    assert crew.reactor.workers.find("first") is None
    assert ended(crew.end(key(1), worker="second", now=3.0)) == [(key(1), TaskState.FINISHED)]
    assert crew.counts().finished == 1


def test_what_a_worker_does_not_report_is_given_again_at_once() -> None:
    crew = Played(a_worker("first"))
    crew.submit(a_spec(1))
    crew.seen(crew.reactor.on_absent("first", 1.0))
    effects = crew.seen(crew.reactor.on_hello(a_worker("second"), [], 2.0, ["first"]))
    assert given(effects) == {"second": [key(1, 2)]}


def test_what_a_worker_reports_besides_is_killed_as_ever() -> None:
    crew = Played(a_worker("first"))
    crew.submit(a_spec(1))
    crew.seen(crew.reactor.on_absent("first", 1.0))
    effects = crew.seen(crew.reactor.on_hello(a_worker("second"), [key(1), key(7, 3)], 2.0, ["first"]))
    assert effects == [KillAttempts("second", (key(7, 3),))]


def test_former_workers_that_are_unknown_or_the_worker_itself_change_nothing() -> None:
    crew = Played(a_worker())
    crew.submit(a_spec(1))
    assert crew.seen(crew.reactor.on_hello(a_worker(), [key(1)], 2.0, ["w", "nobody"])) == []


def test_a_worker_that_died_is_not_waited_for_when_the_next_one_was_quicker_than_the_end_of_its_link() -> None:
    crew = Played(a_worker("first"))
    crew.submit(a_spec(2))
    assert ended(crew.seen(crew.reactor.on_hello(a_worker("second"), [key(1)], 2.0, ["first"]))) == []
    effects = crew.seen(crew.reactor.on_absent("first", 3.0))
    assert ended(effects) == [(key(2), TaskState.WAITING)]
    assert crew.reactor.workers.find("first") is None
    assert ended(crew.end(key(1), worker="second", now=4.0)) == [(key(1), TaskState.FINISHED)]


def test_a_worker_that_was_heard_of_since_lives_though_a_new_one_in_its_folder_says_that_it_is_dead() -> None:
    """A user copied its folder. Whatever the copy says when it connects again, the link of the first may break."""
    crew = Played(a_worker("first"))
    crew.submit(a_spec(2))
    crew.seen(crew.reactor.on_hello(a_worker("copy"), [], 2.0, ["first"]))
    first = crew.reactor.workers.find("first")
    assert first is not None
    first.last_heard = 2.5
    crew.seen(crew.reactor.on_hello(a_worker("copy"), [], 3.0, ["first"]))
    assert crew.seen(crew.reactor.on_absent("first", 4.0)) == []
    assert crew.seen(crew.reactor.on_hello(a_worker("first"), [key(1), key(2)], 5.0)) == []
    assert ended(crew.end(key(2), worker="first", now=6.0)) == [(key(2), TaskState.FINISHED)]


def test_a_worker_that_is_here_keeps_what_another_one_does_not_report_for_it() -> None:
    """A user copied its folder."""
    crew = Played(a_worker("first"))
    crew.submit(a_spec(2))
    effects = crew.seen(crew.reactor.on_hello(a_worker("copy"), [key(1)], 2.0, ["first"]))
    assert ended(effects) == []
    assert ended(crew.end(key(1), worker="copy")) == [(key(1), TaskState.FINISHED)]
    assert ended(crew.end(key(2), worker="first")) == [(key(2), TaskState.FINISHED)]
