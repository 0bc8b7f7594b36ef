"""Both sides of the first generation, against peers written by hand and against each other."""

import pytest
from tests.builders import a_pair, a_result, a_task, some_tasks

from gandy.doors.v1 import wire as v1
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.doors.v1.law import V1State
from gandy.doors.v1.wire import V1Message
from gandy.doors.v1.worker import V1WorkerSide
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.talk.events import (
    Acknowledged,
    ForemanEvent,
    Greeted,
    Leave,
    Refused,
    Reported,
    ResultRefused,
    Start,
    Welcomed,
    WorkerEvent,
)
from gandy.testing import ForemanEnd, Ledger, Link, WorkerEnd
from gandy.wire.messages import STOP_ALL, STOP_IMMEDIATELY, Error, Extension, Job, Ok, Stop, Task, Update


def said(side: V1WorkerSide | V1ForemanSide) -> list[V1Message]:
    decoder = v1.V1Decoder()
    decoder.receive_data(side.data_to_send())
    messages = []
    while (message := decoder.next_message()) is not None:
        messages.append(message)
    return messages


def worker_hears(side: V1WorkerSide, *messages: V1Message) -> list[WorkerEvent]:
    side.receive_data(b"".join(map(v1.encode, messages)))
    events = []
    while (event := side.next_event()) is not None:
        events.append(event)
    return events


def foreman_hears(side: V1ForemanSide, *messages: V1Message) -> list[ForemanEvent]:
    side.receive_data(b"".join(map(v1.encode, messages)))
    events = []
    while (event := side.next_event()) is not None:
        events.append(event)
    return events


def a_worker(slots: int = 2, tasks: tuple[Task, ...] = ()) -> V1WorkerSide:
    worker = V1WorkerSide(slots)
    worker.connect()
    assert worker_hears(worker, Ok(0)) == []
    assert said(worker) == [Ok(slots)]
    assert worker_hears(worker, Ok(slots)) == [Welcomed(Extension.NONE)]
    assert worker_hears(worker, *(Job((task,)) for task in tasks)) == [Start((task,)) for task in tasks]
    return worker


def a_foreman(nproc: int = 2) -> V1ForemanSide:
    foreman = V1ForemanSide()
    assert (said(foreman), foreman.free) == ([Ok(0)], 0)
    assert foreman_hears(foreman, Ok(nproc)) == [Greeted(nproc, (), Extension.NONE)]
    assert said(foreman) == [Ok(nproc)]
    return foreman


# Worker


@pytest.mark.parametrize("slots", [0, 65_535])
def test_a_worker_has_a_sane_number_of_slots(slots: int) -> None:
    with pytest.raises(LocalProtocolError):
        V1WorkerSide(slots)


def test_the_worker_waits_for_the_foreman() -> None:
    worker = V1WorkerSide(2)
    assert worker.state is V1State.CLOSED
    assert worker_hears(worker, Ok(0)) == []
    worker.connect()
    assert (said(worker), worker.state) == ([], V1State.GREETING)


def test_the_foreman_must_repeat_the_number() -> None:
    worker = V1WorkerSide(2)
    worker.connect()
    with pytest.raises(RemoteProtocolError, match="offered 2 processors, the answer is 1"):
        worker_hears(worker, Ok(0), Ok(1))
    assert worker.state is V1State.CLOSED


def test_the_last_processor_is_used_and_no_more() -> None:
    worker = a_worker(1, some_tasks(1))
    assert worker_hears(worker, Job((a_task(2),))) == []
    assert said(worker) == [Error(ErrorCode.NO_PROCS)]


def test_a_task_cannot_run_twice_at_once() -> None:
    worker = a_worker(2, some_tasks(1))
    assert worker_hears(worker, Job((a_task(1),))) == []
    assert said(worker) == [Error(ErrorCode.NO_PROCS)]


def test_a_task_whose_result_is_not_acknowledged_does_not_start_again() -> None:
    worker = a_worker(2, some_tasks(1))
    worker.end(a_result(1))
    said(worker)
    assert worker_hears(worker, Job((a_task(1),))) == []
    assert said(worker) == [Error(ErrorCode.NO_PROCS)]


def test_updates_go_one_at_a_time() -> None:
    worker = a_worker(2, some_tasks(2))
    worker.end(a_result(1))
    worker.end(a_result(2))
    assert said(worker) == [Update(a_result(1))]
    assert worker_hears(worker, Ok(1)) == [Acknowledged((a_result(1),))]
    assert said(worker) == [Update(a_result(2))]


def test_a_task_ends_once() -> None:
    worker = a_worker(1, some_tasks(1))
    worker.end(a_result(1))
    with pytest.raises(LocalProtocolError, match="does not run here"):
        worker.end(a_result(1))


def test_a_job_that_crosses_an_update_starts_at_once() -> None:
    worker = a_worker(1, some_tasks(1))
    worker.end(a_result(1))
    said(worker)
    assert worker_hears(worker, Job((a_task(2),)), Ok(0)) == [Start((a_task(2),)), Acknowledged((a_result(1),))]


def test_a_refused_result_is_not_sent_again() -> None:
    worker = a_worker(1, some_tasks(1))
    worker.end(a_result(1))
    said(worker)
    assert worker_hears(worker, Error(3)) == [ResultRefused(a_result(1), 3)]
    assert said(worker) == []


def test_a_stopped_worker_leaves_when_all_is_told() -> None:
    worker = a_worker(2, some_tasks(1))
    assert worker_hears(worker, Stop(STOP_ALL)) == []
    worker.end(a_result(1))
    assert worker.next_event() is None
    said(worker)
    assert worker_hears(worker, Ok(0)) == [Acknowledged((a_result(1),)), Leave(immediate=False)]
    assert worker.next_event() is None


def test_an_idle_worker_leaves_at_once() -> None:
    assert worker_hears(a_worker(2), Stop(2)) == [Leave(immediate=False)]


def test_an_immediate_stop_is_obeyed_at_once() -> None:
    worker = a_worker(2, some_tasks(1))
    worker.end(a_result(1))
    said(worker)
    assert worker_hears(worker, Stop(STOP_IMMEDIATELY), Ok(0)) == [Leave(immediate=True)]


def test_after_a_cut_an_unanswered_result_is_sent_again() -> None:
    worker = a_worker(2, some_tasks(1))
    worker.end(a_result(1))
    said(worker)
    worker.disconnect()
    assert worker.state is V1State.CLOSED
    worker.connect()
    worker_hears(worker, Ok(0))
    assert said(worker) == [Ok(1)]
    worker_hears(worker, Ok(1))
    assert said(worker) == [Update(a_result(1))]


def test_what_a_foreman_cannot_say_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="a foreman cannot say UPDATE in state open") as caught:
        worker_hears(a_worker(), Update(a_result(1)))
    assert caught.value.code == ErrorCode.BAD_STATE


# Foreman


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
    with pytest.raises(LocalProtocolError, match="a foreman cannot say STOP in state offer"):
        V1ForemanSide().stop(1)


def test_broken_bytes_end_the_link() -> None:
    foreman = a_foreman()
    foreman.receive_data(b"nonsense, more than a header")
    with pytest.raises(RemoteProtocolError, match="bad magic"):
        foreman.next_event()
    assert foreman.state is V1State.CLOSED


# Together


def test_a_crew_of_the_first_generation_does_its_work() -> None:
    ledger = Ledger(some_tasks(5))
    worker, foreman = WorkerEnd(V1WorkerSide(2)), ForemanEnd(V1ForemanSide(), ledger)
    link = Link(worker, foreman)
    worker.connect()
    link.settle()
    while worker.running:
        worker.end(next(iter(worker.running)))
        link.settle()
    foreman.side.stop_all()
    link.settle()
    assert worker.has_left
    assert list(ledger.results) == [a_pair(1, number) for number in range(1, 6)]
    assert set(worker.runs.values()) == {1}
