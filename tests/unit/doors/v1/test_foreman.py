"""The foreman's side of the first generation, against a worker written by hand."""

import pytest
from tests.builders import a_result, a_task, some_tasks
from tests.v1_sides import a_foreman, foreman_hears, said

from gandy.doors.v1.foreman import V1ForemanSide
from gandy.doors.v1.law import V1State
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.talk.events import (
    Refused,
    Reported,
)
from gandy.wire.messages import STOP_IMMEDIATELY, Error, Job, Ok, Stop, Update


def test_tasks_go_out_one_by_one() -> None:
    foreman = a_foreman(2)
    foreman.give(some_tasks(2))
    assert said(foreman) == [Job((a_task(1),)), Job((a_task(2),))]
    assert foreman.free == 0


def test_more_than_fits_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="2 tasks for 1 free slots"):
        a_foreman(1).give(some_tasks(2))


def test_too_many_processors_are_refused() -> None:
    foreman = V1ForemanSide()
    with pytest.raises(RemoteProtocolError, match="70000 processors"):
        foreman_hears(foreman, Ok(70_000))
    assert foreman.state is V1State.CLOSED


def test_an_update_frees_a_processor_and_is_answered_when_recorded() -> None:
    foreman = a_foreman(1)
    foreman.give(some_tasks(1))
    said(foreman)
    (event,) = foreman_hears(foreman, Update(a_result(1)))
    assert isinstance(event, Reported)
    assert said(foreman) == []
    foreman.acknowledge(event)
    foreman.acknowledge(event)
    assert said(foreman) == [Ok(1)]


def test_a_result_can_be_refused() -> None:
    foreman = a_foreman(1)
    (event,) = foreman_hears(foreman, Update(a_result(1)))
    assert isinstance(event, Reported)
    foreman.acknowledge(event, Error(3))
    assert said(foreman) == [Error(3)]


def test_a_result_from_an_earlier_link_shows_a_new_processor() -> None:
    foreman = a_foreman(1)
    foreman_hears(foreman, Update(a_result(9)))
    assert foreman.free == 2


def test_a_refusal_is_clear_where_only_one_task_is_out() -> None:
    foreman = a_foreman(1)
    foreman.give(some_tasks(1))
    assert foreman_hears(foreman, Error(ErrorCode.NO_PROCS)) == [Refused(some_tasks(1), ErrorCode.NO_PROCS)]
    assert foreman.free == 1  # when to ask again is for the reactor to decide


def test_a_stopped_worker_with_tasks_of_an_earlier_link_gets_nothing_new() -> None:
    foreman = a_foreman(1)
    foreman.stop(2)
    foreman_hears(foreman, Update(a_result(9)))
    assert foreman.free == 0


def test_a_refusal_of_one_of_many_ends_the_link() -> None:
    foreman = a_foreman(2)
    foreman.give(some_tasks(2))
    with pytest.raises(RemoteProtocolError, match="cannot say which"):
        foreman_hears(foreman, Error(ErrorCode.NO_PROCS))
    assert foreman_hears(foreman) == []


def test_stop_has_a_number() -> None:
    foreman = a_foreman(3)
    foreman.stop(1)
    assert foreman.free == 2
    foreman.stop_all()
    foreman.stop_immediately()
    assert said(foreman) == [Stop(1), Stop(2), Stop(STOP_IMMEDIATELY)]
    with pytest.raises(LocalProtocolError, match="not a number of processors"):
        foreman.stop(0)


def test_nothing_is_acknowledged_on_a_lost_link() -> None:
    foreman = a_foreman(1)
    (event,) = foreman_hears(foreman, Update(a_result(1)))
    assert isinstance(event, Reported)
    assert foreman.disconnect() == ()
    foreman.acknowledge(event)
    assert said(foreman) == []


def test_what_we_may_not_say_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="a foreman cannot send STOP in state offer"):
        V1ForemanSide().stop(1)


def test_broken_bytes_end_the_link() -> None:
    foreman = a_foreman()
    foreman.receive_data(b"nonsense, more than a header")
    with pytest.raises(RemoteProtocolError, match="bad magic"):
        foreman.next_event()
    assert foreman.state is V1State.CLOSED
