"""How many tasks each worker gets, to run and to wait there."""

import pytest
from tests.unit.core.played import (
    FAILED,
    OK,
    ONE,
    Played,
    a_spec,
    a_worker,
    an_eager_worker,
    given,
    key,
)

from gandy.core.model import Cause, Ending
from gandy.core.policy import Policy
from gandy.ids import TaskNumber


def test_each_worker_gets_its_share_in_one_go() -> None:
    crew = Played(*(an_eager_worker(name, slots=2, ahead=9) for name in "abc"))
    shares = given(crew.submit(a_spec(20)))
    # Two for the slots of each, and then fourteen among three.
    assert shares == {
        "a": [key(task) for task in (1, 2, 7, 8, 9, 10, 19)],
        "b": [key(task) for task in (3, 4, 11, 12, 13, 14, 20)],
        "c": [key(task) for task in (5, 6, 15, 16, 17, 18)],
    }


def test_a_worker_with_less_room_leaves_its_share_to_the_other_workers() -> None:
    crew = Played(an_eager_worker("a", ahead=0), an_eager_worker("b", ahead=2), an_eager_worker("c", ahead=9))
    shares = given(crew.submit(a_spec(20)))
    assert {worker: len(attempts) for worker, attempts in shares.items()} == {"a": 1, "b": 3, "c": 10}
    assert sorted(attempt.task for attempts in shares.values() for attempt in attempts) == list(range(1, 15))


def test_once_the_pace_is_known_more_wait_on_every_worker() -> None:
    crew = Played(*(an_eager_worker(name, ahead=9) for name in "ab"), policy=Policy(look_ahead=0.5, first_pace=1.0))
    assert given(crew.submit(a_spec(8))) == {"a": [key(1)], "b": [key(2)]}
    effects = crew.end(key(1), Ending(cause=Cause.EXIT, exit_code=0, started=1.0, ended=1.001), "a", 1.1)
    assert given(effects) == {"a": [key(3), key(4), key(5), key(6), key(7), key(8)]}  # "b" has ended nothing yet


def test_tasks_that_wait_for_later_do_not_count_for_a_share() -> None:
    crew = Played(a_worker("z", 20))
    crew.submit(a_spec(20, retries=1, retry_pause=50.0))
    for task in range(1, 21):
        crew.end(key(task), FAILED, "z", 1.0 if task <= 4 else 2.0)
    crew.seen(crew.reactor.on_gone("z", 3.0))
    for name in "abcd":
        crew.seen(crew.reactor.on_hello(a_worker(name, 4), [], 3.0))
    shares = given(crew.seen(crew.reactor.on_time(51.0)))
    assert {worker: len(attempts) for worker, attempts in shares.items()} == dict.fromkeys("abcd", 1)


def test_a_worker_that_may_not_have_a_task_gets_those_behind_it_once_another_has_it() -> None:
    crew = Played(a_worker("a", 6))
    crew.submit(a_spec(9))
    crew.reactor.control.hold(ONE, 0.5)
    crew.reactor.control.cancel(ONE, [TaskNumber(task) for task in range(1, 7)], 0.5)
    over = Ending(cause=Cause.CANCELLED)
    crew.seen(crew.reactor.on_results("a", [(key(task), over) for task in (1, 3, 5, 6)], 0.6))  # not 2 and 4
    crew.reactor.control.retry(ONE, [TaskNumber(task) for task in range(1, 5)], 0.8)
    crew.seen(crew.reactor.on_hello(an_eager_worker("b", slots=2, ahead=1), [], 1.0))
    shares = given(crew.seen(crew.reactor.control.release(ONE, 2.0)))
    assert {worker: len(attempts) for worker, attempts in shares.items()} == {"a": 4, "b": 3}


@pytest.mark.parametrize(
    "ending", [OK, Ending(cause=Cause.RAISED), Ending(cause=Cause.EXIT, exit_code=0, started=1.0, ended=1.1)]
)
def test_an_end_that_says_nothing_new_concerns_no_other_worker(ending: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Played(*(an_eager_worker(name) for name in "ab"), policy=Policy(look_ahead=0.5, first_pace=1.0))
    for _ in range(4):
        crew.submit(a_spec())
    monkeypatch.setattr(crew.reactor.workers, "in_turn", list)  # so that a look would find no worker
    assert given(crew.reactor.on_results("a", [(key(), ending)], 1.1)) == {"a": [key(job=3)]}


def test_free_slots_are_filled_before_places_to_wait() -> None:
    crew = Played(an_eager_worker("a"), an_eager_worker("b"))
    assert given(crew.submit(a_spec(4))) == {"a": [key(1), key(3)], "b": [key(2), key(4)]}


def test_a_worker_takes_no_more_than_it_has_places() -> None:
    crew = Played(an_eager_worker(ahead=2))
    assert given(crew.submit(a_spec(9))) == {"w": [key(1), key(2), key(3)]}


def test_only_quick_tasks_wait_on_a_worker() -> None:
    crew = Played(an_eager_worker(ahead=9), policy=Policy(look_ahead=0.5, first_pace=1.0))
    assert given(crew.submit(a_spec(20))) == {"w": [key(1)]}  # it is not known yet how long they take
    slow = Ending(cause=Cause.EXIT, exit_code=0, started=5.0, ended=5.6)
    assert given(crew.end(key(1), slow)) == {"w": [key(2)]}
    quick = Ending(cause=Cause.EXIT, exit_code=0, started=5.0, ended=5.0)
    assert given(crew.end(key(2), quick)) == {"w": [key(3)]}  # 0.525 s, on the average
    assert given(crew.end(key(3), quick)) == {"w": [key(4)]}  # 0.46 s: with what runs, two would be too much
    backwards = Ending(cause=Cause.EXIT, exit_code=0, started=9.0, ended=1.0)
    for task in range(4, 12):
        crew.end(key(task), backwards)
    assert crew.counts().assigned == 3  # 0.16 s: two wait, and one is in the slot
    nothing_known = Ending(cause=Cause.SIGNAL, signal=9, started=1.0, ended=99.0)
    crew.end(key(12), nothing_known)
    assert crew.counts().assigned == 3


def test_a_task_that_is_larger_than_a_worker_does_not_wait_there() -> None:
    crew = Played(an_eager_worker(slots=1, ahead=5))
    assert given(crew.submit(a_spec(1, slots=2))) == {}
