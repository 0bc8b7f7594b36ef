"""The worker's side of the first generation, against a foreman written by hand and against gandy's own."""

import pytest
from tests.builders import a_pair, a_result, a_task, some_tasks
from tests.v1_sides import a_worker, said, worker_hears

from gandy.doors.v1.foreman import V1ForemanSide
from gandy.doors.v1.law import V1State
from gandy.doors.v1.worker import V1WorkerSide
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.talk.events import (
    Acknowledged,
    Leave,
    ResultRefused,
    Start,
)
from gandy.testing import ForemanEnd, Ledger, SimulatedLink, WorkerEnd
from gandy.wire.messages import STOP_ALL, STOP_IMMEDIATELY, Error, Job, Ok, Stop, Update


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
    with pytest.raises(RemoteProtocolError, match="a foreman cannot send UPDATE in state open") as caught:
        worker_hears(a_worker(), Update(a_result(1)))
    assert caught.value.code == ErrorCode.BAD_STATE


def test_a_crew_of_the_first_generation_does_its_work() -> None:
    ledger = Ledger(some_tasks(5))
    worker, foreman = WorkerEnd(V1WorkerSide(2)), ForemanEnd(V1ForemanSide(), ledger)
    link = SimulatedLink(worker, foreman)
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
