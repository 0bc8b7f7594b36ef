"""Which tasks are had back from workers on which they wait."""

from math import inf

import pytest
from tests.unit.core.played import (
    ONE,
    Played,
    a_spec,
    a_worker,
    an_eager_worker,
    ended,
    given,
    key,
    recalled,
)

from gandy.core.model import Cause, Ending, TaskState
from gandy.core.workers import WorkerInfo


def test_tasks_that_wait_are_had_back_for_an_idle_worker() -> None:
    crew = Played(an_eager_worker("a"))
    crew.submit(a_spec(3))
    effects = crew.seen(crew.reactor.on_hello(an_eager_worker("b"), [], 1.0))
    assert recalled(effects) == {"a": (key(3),)}
    assert recalled(crew.seen(crew.reactor.on_time(1.0))) == {"a": (key(2),)}
    assert recalled(crew.seen(crew.reactor.on_time(1.0))) == {}
    effects = crew.end(key(3), Ending(cause=Cause.RETURNED), "a")
    assert ended(effects) == [(key(3), TaskState.WAITING)]
    assert given(effects) == {"b": [key(3, 2)]}


def test_a_worker_that_is_absent_is_not_asked_to_give_back() -> None:
    crew = Played(an_eager_worker("a"))
    crew.submit(a_spec(3))
    crew.reactor.on_absent("a", 0.0)
    assert recalled(crew.seen(crew.reactor.on_hello(an_eager_worker("b"), [], 1.0))) == {}


def test_what_was_killed_is_not_had_back() -> None:
    crew = Played(an_eager_worker("a", ahead=1))
    crew.submit(a_spec(2))
    crew.reactor.control.cancel(ONE, None, 1.0)
    assert recalled(crew.seen(crew.reactor.on_hello(an_eager_worker("b"), [], 1.0))) == {}


def test_only_as_many_are_had_back_as_idle_workers_can_take() -> None:
    crew = Played(an_eager_worker("a"), an_eager_worker("b"))
    crew.submit(a_spec(6))
    effects = crew.seen(crew.reactor.on_hello(an_eager_worker("c"), [], 1.0))
    assert recalled(effects) == {"a": (key(4),)}


def test_what_should_begin_soon_is_had_back_only_if_it_does_not() -> None:
    crew = Played(an_eager_worker("a", ahead=5))
    crew.submit(a_spec(6))
    quick = Ending(cause=Cause.EXIT, exit_code=0, started=1.0, ended=1.001)
    crew.end(key(1), quick, "a", 2.0)
    effects = crew.seen(crew.reactor.on_hello(an_eager_worker("b", slots=2), [], 2.001))
    assert recalled(effects) == {}
    assert crew.reactor.next_moment() == crew.reactor.next_deadline() == pytest.approx(2.02)
    assert recalled(crew.seen(crew.reactor.on_time(2.021))) == {"a": (key(6), key(5))}
    assert crew.reactor.next_moment() == inf


def test_nothing_is_had_back_for_a_worker_that_may_not_have_it() -> None:
    crew = Played(WorkerInfo("a", "a", 1, frozenset({"gpu"}), 5, reports_begun=True))
    crew.submit(a_spec(6, tags=("gpu",)))
    crew.end(key(1), Ending(cause=Cause.EXIT, exit_code=0, started=1.0, ended=1.1), "a", 2.0)
    assert recalled(crew.seen(crew.reactor.on_hello(an_eager_worker("b"), [], 3.0))) == {}
    able = WorkerInfo("c", "c", 1, frozenset({"gpu"}))
    assert recalled(crew.seen(crew.reactor.on_hello(able, [], 3.0))) == {"a": (key(6), key(5))}


def test_what_has_begun_is_not_had_back() -> None:
    crew = Played(an_eager_worker("a", ahead=3))
    crew.submit(a_spec(4))
    crew.reactor.on_begun("a", [key(4), key(1)], 1.0)
    assert recalled(crew.seen(crew.reactor.on_hello(a_worker("b", 2), [], 1.0))) == {"a": (key(3), key(2))}


def test_another_one_is_had_back_instead_of_one_that_has_begun_meanwhile() -> None:
    crew = Played(an_eager_worker("a", ahead=4))
    crew.submit(a_spec(5))
    assert recalled(crew.seen(crew.reactor.on_hello(a_worker("b", 1), [], 1.0))) == {"a": (key(5), key(4))}
    crew.seen(crew.reactor.on_begun("a", [key(5)], 1.1))
    assert recalled(crew.seen(crew.reactor.on_time(2.0))) == {"a": (key(3),)}
