"""Which worker gets which task: rank, slots that are gathered, tasks that may have killed their workers."""

import pytest
from tests.unit.core.played import OK, Played, a_spec, a_worker, an_eager_worker, ended, given, key, recalled

from gandy.core.calls import Call, OfferedCommand
from gandy.core.model import AttemptKey, Cause, Ending, TaskState
from gandy.core.policy import Policy
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber

RETURNED = Ending(cause=Cause.RETURNED)
STRICT = Policy(grace=10.0, look_ahead=0.5, first_pace=1.0)


def took(seconds: float) -> Ending:
    return Ending(cause=Cause.EXIT, exit_code=0, started=0.0, ended=seconds)


def a_busy_crew(pace: float, *workers: WorkerInfo) -> Played:
    """Its workers have as many tasks of job 1 as they take, and know how long those take. It is 1.0."""
    crew = Played(*workers, policy=STRICT)
    crew.submit(a_spec(1_000))
    for worker in workers:
        first = next(iter(crew.reactor.workers.find(worker.id).held))  # type: ignore[union-attr]
        crew.end(first, took(pace), worker.id, 1.0)
    return crew


def oldest(crew: Played, worker: str = "w") -> TaskNumber:
    """The task of job 1 that this worker has had longest."""
    found = crew.reactor.workers.find(worker)
    assert found is not None
    return next(attempt.task for attempt in found.held if attempt.job == 1)


def test_a_job_of_higher_rank_gets_the_next_free_slot_however_quick_the_others_are() -> None:
    crew = a_busy_crew(0.1, an_eager_worker(ahead=100))
    crew.submit(a_spec(1, priority=9), now=1.0)
    for step in range(4):
        assert given(crew.end(key(oldest(crew)), took(0.1), now=1.1 + step / 10)) == {}, "nothing more of lower rank"
    assert given(crew.end(key(oldest(crew)), took(0.1), now=1.5))["w"][0] == key(job=2)


def test_workers_that_may_not_have_a_job_are_not_closed_by_it() -> None:
    crew = a_busy_crew(0.1, an_eager_worker(ahead=100))
    crew.submit(a_spec(1, priority=9, tags=("gpu",)), now=1.0)
    assert given(crew.end(key(oldest(crew)), took(0.1), now=1.1)) != {}


def test_what_a_worker_holds_of_other_jobs_counts_for_its_look_ahead() -> None:
    crew = Played(an_eager_worker(slots=2, ahead=100), policy=STRICT)
    crew.submit(a_spec(1))  # of which nothing is known: it counts as half a second, and not as more
    assert given(crew.submit(a_spec(100))) == {"w": [key(job=2)]}
    effects = crew.end(key(job=2), took(0.1), now=0.2)
    assert len(given(effects)["w"]) == 5


def test_large_tasks_have_their_slots_gathered() -> None:
    crew = Played(a_worker(slots=3), policy=STRICT)
    crew.submit(a_spec(10))
    crew.submit(a_spec(1, slots=3, priority=1), now=0.1)
    assert given(crew.end(key(1), took(1.0), now=1.0)) == {}
    assert given(crew.end(key(2), took(1.0), now=1.1)) == {}
    assert given(crew.end(key(3), took(1.0), now=1.2)) == {"w": [key(job=2)]}


def test_no_more_slots_are_gathered_than_a_task_needs() -> None:
    crew = Played(a_worker(slots=3), policy=STRICT)
    crew.submit(a_spec(3))
    crew.submit(a_spec(1, slots=2, priority=1), now=0.1)
    crew.submit(a_spec(5), now=0.1)
    assert given(crew.end(key(1), took(1.0), now=1.0)) == {}
    assert given(crew.end(key(2), took(1.0), now=1.1)) == {"w": [key(job=2)]}
    assert given(crew.end(key(3), took(1.0), now=1.2)) == {"w": [key(job=3)]}


def test_what_is_over_before_the_last_slot_is_free_fills_those_that_wait() -> None:
    crew = Played(a_worker(slots=2), policy=STRICT)
    crew.submit(a_spec(1, name="quick"))
    crew.end(key(), took(0.2), now=0.2)
    crew.submit(a_spec(2, name="slow"), now=0.2)  # task 1 has taken a second by the time that task 2 begins
    crew.end(key(job=2), took(1.0), now=1.2)
    crew.submit(a_spec(1, slots=2, priority=5), now=1.3)
    crew.submit(a_spec(9, name="slow too"), now=1.3)
    assert crew.counts(3).waiting == 1
    assert crew.counts(4).waiting == 9


def test_slots_that_a_large_task_does_not_need_are_not_kept_for_it() -> None:
    crew = Played(a_worker(slots=4), policy=STRICT)
    crew.submit(a_spec(2, slots=3))
    assert given(crew.submit(a_spec(5), now=0.1)) == {"w": [key(job=2)]}
    assert given(crew.end(key(1), took(1.0), now=1.0)) == {"w": [key(2)]}


def test_slots_are_gathered_where_they_are_free_first() -> None:
    crew = Played(a_worker("a", 2), a_worker("b", 2), policy=STRICT)
    crew.submit(a_spec(4))
    crew.submit(a_spec(1, slots=2, priority=5), now=0.1)
    crew.submit(a_spec(9), now=0.1)
    assert given(crew.end(key(3), took(0.3), "b", 0.3)) == {}  # 3 and 4 are on "b"
    assert given(crew.end(key(1), took(0.3), "a", 0.3)) == {"a": [key(job=3)]}
    assert given(crew.end(key(4), took(0.3), "b", 0.4)) == {"b": [key(job=2)]}


def test_each_large_job_has_its_own_place() -> None:
    crew = Played(a_worker("a", 2), a_worker("b", 2), policy=STRICT)
    crew.submit(a_spec(4))
    for _ in range(3):
        crew.submit(a_spec(1, slots=2, priority=5), now=0.1)
    crew.submit(a_spec(9), now=0.1)
    assert given(crew.end(key(1), took(1.0), "a", 1.0)) == {}
    assert given(crew.end(key(3), took(1.0), "b", 1.0)) == {}
    assert given(crew.end(key(2), took(1.0), "a", 1.0)) == {"a": [key(job=2)]}
    assert given(crew.end(key(4), took(1.0), "b", 1.0)) == {"b": [key(job=3)]}


def test_slots_that_calls_have_are_not_waited_for_by_a_guess() -> None:
    crew = Played(a_worker("a", 2), policy=STRICT)
    worker = crew.reactor.workers.find("a")
    assert worker is not None
    worker.slots.by_calls, worker.serves = 1, {0: Call(None, 0, OfferedCommand(b"hum", 0.0))}
    crew.submit(a_spec(1, slots=2, priority=5))
    crew.submit(a_spec(1))
    assert (crew.counts(1).waiting, crew.counts(2).waiting) == (1, 1)


def a_crew_behind_a_slow_task() -> Played:
    """One of many quick tasks takes long, on a worker of two slots, and a task that needs both waits since 1.3."""
    crew = Played(a_worker(slots=2), policy=STRICT)
    crew.submit(a_spec(1_000))
    for task in range(3, 40):  # 1 and 2 were unequal, too
        crew.end(key(task - 2 if task < 4 else task - 1), took(0.01), now=0.3 + task / 50)
    assert held(crew) == [key(2), key(39)]
    crew.submit(a_spec(1, slots=2, priority=5), now=1.3)
    return crew


def held(crew: Played, worker: str = "w") -> list[AttemptKey]:
    found = crew.reactor.workers.find(worker)
    assert found is not None
    return list(found.held)


def test_slots_are_filled_while_what_was_there_before_is_in_the_way() -> None:
    crew = a_crew_behind_a_slow_task()
    assert given(crew.end(key(39), took(0.01), now=1.4)) == {"w": [key(40)]}
    assert given(crew.end(key(40), took(0.01), now=1.5)) == {"w": [key(41)]}


def test_what_fills_slots_is_not_filled_beside() -> None:
    crew = a_crew_behind_a_slow_task()
    crew.end(key(39), took(0.01), now=1.4)
    assert given(crew.end(key(2), took(2.0), now=2.0)) == {}, "40 takes long, too, and more would run beside it"
    assert given(crew.seen(crew.reactor.on_time(3.0))) == {}
    assert given(crew.end(key(40), took(2.0), now=3.4)) == {"w": [key(job=2)]}


def test_slots_that_are_kept_free_are_looked_at_again() -> None:
    crew = Played(a_worker(slots=2), policy=STRICT)
    crew.submit(a_spec(1, name="quick"))
    crew.end(key(), took(1.0), now=1.0)
    crew.submit(a_spec(1, name="slow"), now=1.0)
    crew.submit(a_spec(1, slots=2, priority=5), now=1.01)
    crew.reactor.jobs.find(JobId(2)).pace = 0.1  # type: ignore[union-attr]
    crew.submit(a_spec(9, name="quick"), now=1.01)
    crew.reactor.jobs.find(JobId(4)).pace = 0.2  # type: ignore[union-attr]
    assert given(crew.seen(crew.reactor.on_time(1.1))) == {}, "the slow task should be over"
    assert crew.reactor.next_deadline() == 1.6
    assert given(crew.seen(crew.reactor.on_time(1.6))) == {"w": [key(job=4)]}, "it may take as long again"


def test_gathering_does_not_move_to_and_fro() -> None:
    """Each stay is at least as long as all before it together, however soon the other worker seems to be ready."""
    crew = Played(a_worker("a", 2), a_worker("b", 2), policy=STRICT)
    crew.submit(a_spec(4))
    crew.submit(a_spec(1, slots=2, priority=5), now=0.1)
    crew.submit(a_spec(9, name="low"), now=0.1)
    crew.end(key(1), took(1.0), "a", 1.0)
    crew.end(key(3), took(1.0), "b", 1.0)
    moves, where = [], set(crew.reactor.dispatcher.places)
    for step in range(1, 400):
        now = 1.0 + step / 10
        for worker in "ab":  # wherever it gathers, all seems to take longer than on the other
            found = crew.reactor.workers.find(worker)
            assert found is not None
            for attempt, each in list(found.held.items()):
                found.held[attempt] = each._replace(since=now - (30.0 if worker in where else 0.9))
        crew.seen(crew.reactor.on_time(now))
        if set(crew.reactor.dispatcher.places) != where:
            moves.append(now)
            where = set(crew.reactor.dispatcher.places)
    assert 1 < len(moves) < 9


def test_a_worker_that_joins_or_leaves_meanwhile_is_no_trouble() -> None:
    crew = Played(a_worker("a", 2), policy=STRICT)
    crew.submit(a_spec(50))
    crew.submit(a_spec(1, slots=2, priority=5), now=0.1)
    assert given(crew.end(key(1), took(0.3), "a", 0.3)) == {}
    assert given(crew.seen(crew.reactor.on_hello(a_worker("b", 1), [], 0.4))) == {"b": [key(3)]}
    crew.seen(crew.reactor.on_gone("a", 0.5))
    assert given(crew.seen(crew.reactor.on_hello(a_worker("c", 2), [], 0.6))) == {"c": [key(job=2)]}


def lend(crew: Played, count: int) -> None:
    worker = crew.reactor.workers.find("w")
    assert worker is not None
    worker.slots.by_calls = count
    worker.serves = {number: Call(None, 0, OfferedCommand(b"hum", 0.0)) for number in range(count)}


def test_what_fills_slots_that_calls_have_for_a_moment_is_as_short() -> None:
    crew = a_crew_behind_a_slow_task()
    crew.end(key(39), took(0.01), now=1.4)
    lend(crew, 1)
    assert given(crew.end(key(2), took(2.0), now=2.0)) == {}
    crew.reactor.jobs.find(JobId(1)).pace = 0.01  # type: ignore[union-attr]
    assert given(crew.end(key(40), took(0.01), now=2.005)) == {}
    assert crew.reactor.next_moment() == pytest.approx(2.025), "no event says that calls have ended"
    assert given(crew.seen(crew.reactor.on_time(2.05))) == {"w": [key(41)]}, "they may take as long again"
    crew.end(key(41), took(0.01), now=2.06)
    lend(crew, 0)
    assert given(crew.end(key(42), took(0.01), now=2.07)) == {"w": [key(job=2)]}


# Workers that are slower than was thought


def test_what_waits_behind_a_slow_task_is_recalled_when_another_job_waits() -> None:
    crew = a_busy_crew(0.1, an_eager_worker(ahead=100))
    assert recalled(crew.seen(crew.reactor.on_time(1.6))) == {}, "there is nothing that could begin instead"
    crew.submit(a_spec(1, priority=9), now=1.7)
    assert crew.reactor.next_deadline() == pytest.approx(2.1)
    wanted = recalled(crew.seen(crew.reactor.on_time(2.1)))["w"]
    assert len(wanted) == 4
    crew.seen(crew.reactor.on_results("w", [(attempt, RETURNED) for attempt in wanted], 2.2))
    assert given(crew.end(key(oldest(crew)), took(1.5), now=2.5))["w"][0] == key(job=2)


def test_what_should_have_begun_by_now_is_recalled_for_a_job_of_higher_rank() -> None:
    """Though the worker ends a task now and then, so that it is not stalled."""
    crew = a_busy_crew(0.1, an_eager_worker(ahead=100))
    crew.submit(a_spec(1, priority=9), now=1.1)
    assert recalled(crew.end(key(2), took(0.1), now=1.3)) == {}
    assert crew.reactor.next_deadline() == pytest.approx(1.5)
    assert recalled(crew.seen(crew.reactor.on_time(1.5)))["w"] == tuple(key(task) for task in (6, 5, 4))
    crew.seen(crew.reactor.on_results("w", [(key(task), RETURNED) for task in (6, 5, 4)], 1.5))
    assert given(crew.end(key(3), took(0.3), now=1.6))["w"][0] == key(job=2)


def test_what_may_still_begin_in_time_is_looked_at_when_it_is_late() -> None:
    crew = a_busy_crew(0.1, an_eager_worker(ahead=100))
    for task in range(2, 6):  # of those that it got at 1.0, the last one runs now
        crew.end(key(task), took(0.1), now=1.0 + task / 20)
    crew.submit(a_spec(1, priority=9), now=1.3)
    assert recalled(crew.seen(crew.reactor.on_time(1.5))) == {}
    assert crew.reactor.next_deadline() == pytest.approx(1.6), "task 7 was given out at 1.1"
    assert key(7) in recalled(crew.seen(crew.reactor.on_time(1.6)))["w"]


def test_what_should_have_begun_by_now_stays_where_nothing_of_higher_rank_waits() -> None:
    crew = a_busy_crew(0.1, an_eager_worker(ahead=100))
    crew.submit(a_spec(1, priority=9, tags=("gpu",)), now=1.1)
    crew.submit(a_spec(1, priority=9, at=100.0), now=1.1)
    crew.submit(a_spec(1), now=1.1)
    crew.end(key(2), took(0.1), now=1.3)
    assert recalled(crew.seen(crew.reactor.on_time(1.5))) == {}


def test_a_worker_that_has_no_slots_left_is_not_looked_at() -> None:
    crew = a_busy_crew(0.1, an_eager_worker(ahead=100))
    crew.reactor.on_capacity("w", 0, 0, "memory")
    crew.submit(a_spec(1, priority=9), now=1.1)
    crew.end(key(2), took(0.1), now=1.3)
    assert recalled(crew.seen(crew.reactor.on_time(1.6))) == {}


def test_a_worker_that_ends_nothing_gets_nothing_to_wait() -> None:
    crew = Played(an_eager_worker(ahead=100), policy=STRICT)
    crew.submit(a_spec(2))
    crew.end(key(1), took(0.01), now=0.01)
    assert given(crew.submit(a_spec(9, priority=-1), now=0.02)) == {}  # nothing is known of it
    crew.submit(a_spec(1, name="slow"), now=0.02)
    assert given(crew.seen(crew.reactor.on_time(1.0))) == {}


def test_what_is_too_much_by_the_pace_as_it_is_now_is_recalled() -> None:
    crew = a_busy_crew(0.001, an_eager_worker(ahead=1_000))
    assert crew.counts().assigned == 500
    wanted: set[object] = set()
    for step in range(12):
        wanted.update(recalled(crew.end(key(oldest(crew)), took(0.4), now=1.4 + step * 0.4)).get("w", ()))
    assert len(wanted) > 450


# Tasks that kill their workers


def a_crew_with_a_killer() -> Played:
    return Played(a_worker("w1", 4), policy=Policy(grace=10.0, crash_limit=3))


def test_a_harmless_task_does_not_fail_for_having_been_beside_a_killer() -> None:
    crew = a_crew_with_a_killer()
    crew.submit(a_spec(4))
    now, deaths = 1.0, 0
    while crew.reactor.jobs.find(JobId(1)) is not None:
        worker = crew.reactor.workers.find(f"w{deaths + 1}")
        assert worker is not None
        assert worker.held, "nothing is left to be done by hand"
        if any(attempt.task == 1 for attempt in worker.held):
            deaths += 1
            crew.seen(crew.reactor.on_gone(f"w{deaths}", now))
            crew.seen(crew.reactor.on_hello(a_worker(f"w{deaths + 1}", 4), [], now))
        else:
            for attempt in list(worker.held):
                effects = crew.end(attempt, OK, worker.info.id, now)
                assert [state for _, state in ended(effects)] == [TaskState.FINISHED]
        now += 1.0
    assert deaths == 3


def test_a_suspect_has_fewer_neighbours_with_each_crash() -> None:
    crew = Played(a_worker("w0", 16), policy=Policy(grace=10.0, crash_limit=10))
    crew.submit(a_spec(16))
    beside = []
    for death in range(4):
        crew.seen(crew.reactor.on_gone(f"w{death}", 1.0))
        shares = given(crew.seen(crew.reactor.on_hello(a_worker(f"w{death + 1}", 16), [], 1.0)))
        beside.append(len(shares[f"w{death + 1}"]))
    assert beside == [16, 4, 4, 4]  # those that have not begun since are no more suspect than before


def test_a_worker_is_cleared_for_a_suspect() -> None:
    crew = Played(a_worker("a", 2), policy=Policy(grace=10.0, crash_limit=9))
    crew.submit(a_spec(1, priority=1))
    for name in "ab":
        crew.seen(crew.reactor.on_gone(name, 1.0))
        crew.seen(crew.reactor.on_hello(a_worker("b" if name == "a" else "c", 2), [], 1.0))
    assert crew.counts().running == 1  # alone, on two slots
    assert given(crew.submit(a_spec(3), now=2.0)) == {}
    crew.seen(crew.reactor.on_gone("c", 3.0))
    crew.reactor.control.hold(JobId(1), 3.0)
    assert given(crew.seen(crew.reactor.on_hello(a_worker("d", 2), [], 4.0))) == {"d": [key(1, job=2), key(2, job=2)]}
    crew.reactor.control.release(JobId(1), 4.0)
    assert given(crew.end(key(1, job=2), OK, "d", 5.0)) == {}
    assert given(crew.end(key(2, job=2), OK, "d", 5.0)) == {"d": [key(1, 4)]}


def test_a_limit_holds_for_suspects_too() -> None:
    crew = Played(a_worker("a", 2), policy=Policy(grace=10.0, crash_limit=9))
    crew.submit(a_spec(2, limit=1))
    for death, name in enumerate("ab"):
        crew.seen(crew.reactor.on_gone(name, 1.0))
        crew.seen(crew.reactor.on_hello(a_worker("bc"[death], 2), [], 1.0))
    crew.seen(crew.reactor.on_hello(a_worker("d", 2), [], 1.0))
    assert crew.counts().running == 1


def test_a_suspect_waits_until_an_older_attempt_at_it_is_over() -> None:
    crew = Played(a_worker("a", 1), policy=Policy(grace=10.0, crash_limit=9))
    crew.submit(a_spec(1))
    crew.seen(crew.reactor.on_gone("a", 1.0))
    crew.seen(crew.reactor.on_hello(a_worker("b", 1), [], 1.0))
    crew.seen(crew.reactor.on_gone("b", 1.0))
    crew.seen(crew.reactor.on_hello(a_worker("b", 2), [key(1, 2)], 2.0))  # it was not dead after all
    assert crew.counts().waiting == 1
    assert given(crew.end(key(1, 2), OK, "b", 3.0)) == {"b": [key(1, 3)]}


def test_nothing_is_late_on_a_worker_that_says_it_runs_everything() -> None:
    crew = Played(an_eager_worker("a", slots=1, ahead=2))
    crew.submit(a_spec(3))
    worker = crew.reactor.workers.find("a")
    assert worker is not None
    assert worker.is_laden
    crew.reactor.on_begun("a", list(worker.held), 1.0)
    crew.submit(a_spec(1, priority=9))
    assert recalled(crew.seen(crew.reactor.on_time(10.0))) == {}
