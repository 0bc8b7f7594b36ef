"""The worker's side against a foreman written by hand."""

import pytest
from msgspec import UNSET
from tests.builders import a_job, a_pair, a_result, a_task, decode_all, some_tasks

from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.talk.events import (
    Acknowledged,
    ExtensionReceived,
    HelloRefused,
    Kill,
    Leave,
    Recalled,
    Restarted,
    ResultRefused,
    Start,
    Welcomed,
    WorkerEvent,
)
from gandy.talk.law import State
from gandy.talk.worker import WorkerSide
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    RESEND_HELLO,
    STOP_ALL,
    STOP_IMMEDIATELY,
    About,
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    Message,
    Ok,
    Orders,
    Report,
    Reset,
    Stop,
    Task,
    TaskResult,
    Update,
)


def hear(worker: WorkerSide, *numbered: tuple[int, Message]) -> list[WorkerEvent]:
    for seq, message in numbered:
        worker.receive_data(v2.encode(seq, message))
    events = []
    while (event := worker.next_event()) is not None:
        events.append(event)
    return events


def said(worker: WorkerSide) -> list[tuple[int, Message]]:
    return decode_all(worker.data_to_send())


def a_worker(slots: int = 2, running: int = 0, agreed: Extension = Extension.NONE) -> WorkerSide:
    worker = WorkerSide(slots)
    worker.connect()
    assert said(worker) == [(0, Hello(slots, (), Extension.ATOMIC))]
    assert hear(worker, (0, Ok(slots, 0, agreed))) == [Welcomed(agreed)]
    if running:
        assert hear(worker, (3, Job(some_tasks(running)))) == [Start(some_tasks(running))]
        assert said(worker) == [(3, Ok(slots - running, running))]
    return worker


@pytest.mark.parametrize("slots", [0, -1, 65_535])
def test_a_worker_has_a_sane_number_of_slots(slots: int) -> None:
    with pytest.raises(LocalProtocolError):
        WorkerSide(slots)


def test_hello_does_not_wait_for_the_foreman() -> None:
    worker = WorkerSide(4)
    assert (worker.state, worker.data_to_send()) == (State.CLOSED, b"")
    worker.connect()
    assert said(worker) == [(0, Hello(4, (), Extension.ATOMIC))]
    assert worker.state is State.WELCOME


def test_nothing_goes_out_on_a_link_that_is_gone() -> None:
    worker = WorkerSide(4)
    worker.connect()
    worker.disconnect()
    assert worker.data_to_send() == b""


def test_the_answer_to_hello_must_repeat_its_numbers() -> None:
    worker = WorkerSide(4)
    worker.connect()
    said(worker)
    with pytest.raises(RemoteProtocolError, match=r"HELLO said 4\|0, the answer is 3\|0"):
        hear(worker, (0, Ok(3)))
    assert worker.state is State.CLOSED


def test_the_answer_to_hello_must_repeat_what_runs_too() -> None:
    worker = a_worker(slots=2, running=1)
    worker.connect()
    said(worker)
    with pytest.raises(RemoteProtocolError, match=r"HELLO said 1\|1, the answer is 1\|0"):
        hear(worker, (0, Ok(1, 0)))


def test_only_what_we_offered_is_agreed_on() -> None:
    worker = WorkerSide(1)
    worker.connect()
    said(worker)
    assert hear(worker, (0, Ok(1, 0, Extension.ATOMIC | Extension.CALLS))) == [Welcomed(Extension.ATOMIC)]


def test_a_refused_hello_is_told() -> None:
    worker = WorkerSide(1)
    worker.connect()
    said(worker)
    assert hear(worker, (0, Error(77))) == [HelloRefused(77)]


def test_the_last_free_slot_is_used() -> None:
    worker = a_worker(slots=2)
    assert hear(worker, (3, Job(some_tasks(2)))) == [Start(some_tasks(2))]
    assert said(worker) == [(3, Ok(0, 2))]


def test_a_job_that_does_not_fit_starts_nothing() -> None:
    worker = a_worker(slots=2)
    assert hear(worker, (3, Job(some_tasks(3)))) == []
    assert said(worker) == [(3, Error(ErrorCode.NO_PROCS, 2 << 16))]
    assert worker.slots.free == 2


@pytest.mark.parametrize("tasks", [(a_task(1),), (a_task(2), a_task(2))])
@pytest.mark.parametrize(
    ("agreed", "code"),
    [(Extension.NONE, ErrorCode.NO_PROCS), (Extension.ATOMIC, ErrorCode.ALREADY_RUNNING)],
)
def test_a_task_cannot_run_twice_at_once(tasks: tuple[Task, ...], agreed: Extension, code: ErrorCode) -> None:
    worker = a_worker(slots=3, running=1, agreed=agreed)
    assert hear(worker, (5, Job(tasks))) == []
    assert said(worker) == [(5, Error(code, 2 << 16 | 1))]


def test_a_task_whose_result_is_not_acknowledged_does_not_start_again() -> None:
    worker = a_worker(slots=2)
    hear(worker, (1, Job((a_task(1), a_task(2)))))
    worker.end(a_result(1))
    worker.end(a_result(2))
    said(worker)  # UPDATE 2
    hear(worker, (2, Ok(1, 1)))
    said(worker)  # UPDATE 4
    assert hear(worker, (3, Job((a_task(2),)))) == []
    assert said(worker) == [(3, Error(ErrorCode.NO_PROCS, 2 << 16))]


def test_the_slot_is_free_before_the_update_is_sent() -> None:
    worker = a_worker(slots=1, running=1)
    worker.end(a_result())
    assert worker.slots.free == 0
    assert said(worker) == [(4, Update(a_result()))]
    assert worker.slots.free == 1


def test_a_job_right_behind_the_acknowledgement_fits() -> None:
    worker = a_worker(slots=1, running=1)
    worker.end(a_result())
    said(worker)
    assert hear(worker, (4, Ok(1)), (7, Job((a_task(2),)))) == [Acknowledged((a_result(),)), Start((a_task(2),))]


def test_one_update_at_a_time_oldest_first() -> None:
    worker = a_worker(slots=2, running=2)
    worker.end(a_result(2))
    worker.end(a_result(1))
    assert said(worker) == [(4, Update(a_result(2)))]
    assert hear(worker, (4, Ok(1, 1))) == [Acknowledged((a_result(2),))]
    assert said(worker) == [(6, Update(a_result(1)))]


def test_a_task_ends_once() -> None:
    worker = a_worker(running=1)
    worker.end(a_result())
    for result in (a_result(), a_result(9)):
        with pytest.raises(LocalProtocolError, match="does not run here"):
            worker.end(result)


def test_a_plain_foreman_sees_no_report() -> None:
    for agreed, report in ((Extension.NONE, UNSET), (Extension.ATOMIC, Report(1, 0))):
        worker = a_worker(running=1, agreed=agreed)
        result = TaskResult(JobId(1), TaskNumber(1), True, "done", None, Report(1, 0))
        worker.end(result)
        ((_, message),) = said(worker)
        assert isinstance(message, Update)
        assert message.result is not None
        assert message.result.report == report
        assert hear(worker, (4, Ok(1))) == [Acknowledged((result,))]


def test_a_refused_result_is_not_sent_again() -> None:
    worker = a_worker(running=1)
    worker.end(a_result())
    said(worker)
    assert hear(worker, (4, Error(ErrorCode.NO_SUCH_JOB))) == [ResultRefused(a_result(), 3)]
    assert said(worker) == []


def test_resend_hello_is_obeyed_and_the_result_counts() -> None:
    worker = a_worker(slots=2, running=2)
    worker.end(a_result(1))
    said(worker)
    assert hear(worker, (4, RESEND_HELLO)) == [Acknowledged((a_result(1),))]
    assert said(worker) == [(6, Hello(1, (a_task(2),), Extension.ATOMIC))]


def test_after_a_cut_hello_lists_what_is_not_acknowledged() -> None:
    worker = a_worker(slots=2, running=2)
    worker.end(a_result(1))
    said(worker)
    worker.disconnect()
    worker.connect()
    assert said(worker) == [(0, Hello(0, (a_task(2), a_task(1)), Extension.ATOMIC))]
    hear(worker, (0, Ok(0, 2)))
    assert said(worker) == [(2, Update(a_result(1)))]


def test_tasks_may_end_while_there_is_no_link() -> None:
    worker = a_worker(slots=2, running=1)
    worker.disconnect()
    worker.end(a_result())
    assert (worker.next_event(), worker.data_to_send()) == (None, b"")
    worker.connect()
    assert said(worker) == [(0, Hello(1, (a_task(),), Extension.ATOMIC))]


def test_cancel_kills_and_counts() -> None:
    worker = a_worker(slots=3, running=3)
    assert hear(worker, (5, Cancel((a_pair(1, 2), a_pair(9, -1))))) == [Kill((a_pair(1, 2),))]
    assert said(worker) == [(5, Ok(1))]
    assert hear(worker, (7, Cancel((a_pair(1, -1),)))) == [Kill((a_pair(1, 1), a_pair(1, 2), a_pair(1, 3)))]


def test_cancel_of_nothing_is_not_an_error() -> None:
    worker = a_worker()
    assert hear(worker, (3, Cancel((a_pair(99, -1),)))) == []
    assert said(worker) == [(3, Ok(0))]


def test_a_task_that_has_ended_is_not_killed() -> None:
    worker = a_worker(slots=2, running=2)
    worker.end(a_result(1))
    worker.end(a_result(2))
    assert hear(worker, (7, Cancel((a_pair(1, -1),)))) == []
    assert said(worker)[0] == (7, Ok(0))


def test_stop_takes_idle_slots_at_once_and_busy_ones_later() -> None:
    worker = a_worker(slots=3, running=2)
    assert hear(worker, (5, Stop(2))) == []
    assert said(worker) == [(5, Ok(0, 2))]
    worker.end(a_result(1))
    said(worker)
    hear(worker, (6, Ok(0, 1)))
    assert hear(worker, (9, Job((a_task(7),)))) == []
    assert said(worker) == [(9, Error(ErrorCode.NO_PROCS, 1))]


@pytest.mark.parametrize("count", [STOP_ALL, 2, 9])
def test_an_idle_worker_that_is_stopped_leaves_after_its_answer(count: int) -> None:
    worker = a_worker(slots=2)
    assert hear(worker, (3, Stop(count))) == [Leave(immediate=False)]
    assert said(worker) == [(3, Ok(0))]
    assert worker.next_event() is None


def test_a_stopped_worker_leaves_when_its_last_result_is_acknowledged() -> None:
    worker = a_worker(slots=2, running=2)
    hear(worker, (5, Stop(STOP_ALL)))
    worker.end(a_result(1))
    said(worker)
    assert hear(worker, (6, Ok(0, 1))) == [Acknowledged((a_result(1),))]
    worker.end(a_result(2))
    assert worker.next_event() is None
    said(worker)
    assert worker.next_event() is None
    assert hear(worker, (8, Ok(0))) == [Acknowledged((a_result(2),)), Leave(immediate=False)]


def test_an_immediate_stop_is_answered_and_obeyed() -> None:
    worker = a_worker(slots=2, running=1)
    assert hear(worker, (5, Stop(STOP_IMMEDIATELY))) == [Leave(immediate=True)]
    assert said(worker) == [(5, Ok(0, 1))]
    assert hear(worker, (7, Job((a_task(9),)))) == []
    assert said(worker) == []


def test_an_update_below_a_reset_is_answered_first() -> None:
    worker = a_worker(slots=1, running=1)
    worker.end(a_result())
    said(worker)  # UPDATE 4
    assert hear(worker, (5, Reset())) == []
    assert hear(worker, (4, Ok(1))) == [Acknowledged((a_result(),)), Restarted(None)]
    assert said(worker) == [(5, Reset(3)), (0, Hello(1, (), Extension.ATOMIC))]


def test_an_update_above_a_reset_is_sent_again_after_hello() -> None:
    worker = a_worker(slots=2)
    hear(worker, (1, Job(some_tasks(2))))
    worker.end(a_result(1))
    worker.end(a_result(2))
    said(worker)  # UPDATE 2
    hear(worker, (2, Ok(1, 1)))
    assert said(worker) == [(4, Update(a_result(2)))]
    assert hear(worker, (3, Reset())) == [Restarted(Update(a_result(2)))]
    assert said(worker) == [(3, Reset(1)), (0, Hello(1, (a_task(2),), Extension.ATOMIC))]
    hear(worker, (0, Ok(1, 1)))
    assert said(worker) == [(2, Update(a_result(2)))]


def test_reset_has_to_wait_for_an_answer() -> None:
    worker = a_worker(running=1)
    worker.end(a_result())
    said(worker)
    with pytest.raises(LocalProtocolError):
        worker.exchange.request(Reset())


def test_a_worker_can_reset() -> None:
    worker = a_worker(slots=1)
    worker.exchange.request(Reset())
    assert said(worker) == [(2, Reset())]
    assert hear(worker, (2, Reset())) == [Restarted(None)]
    assert said(worker) == [(0, Hello(1, (), Extension.ATOMIC))]


def test_an_overflowed_update_is_sent_again() -> None:
    worker = a_worker(slots=2)
    hear(worker, (1, Job((a_task(1),))))
    worker.end(a_result(1))
    assert said(worker)[-1] == (2, Update(a_result(1)))
    worker.receive_data(v2.encode(5, Cancel(())))  # held: higher than 2
    assert hear(worker, (2, Error(ErrorCode.OVERFLOW))) == []
    assert worker.slots.free == 1
    assert said(worker) == [(5, Ok(0)), (6, Update(a_result(1)))]


def test_no_side_may_hold_a_hello() -> None:
    worker = a_worker(slots=2, running=2)
    worker.end(a_result(1))
    said(worker)  # UPDATE 4
    hear(worker, (4, RESEND_HELLO))
    assert said(worker) == [(6, Hello(1, (a_task(2),), Extension.ATOMIC))]
    with pytest.raises(RemoteProtocolError, match="overflow"):
        hear(worker, (5, Cancel(())), (6, Error(ErrorCode.OVERFLOW)))


# Batches of results


def a_batching_worker(running: int = 3) -> WorkerSide:
    both = Extension.ATOMIC | Extension.UPDATES
    worker = WorkerSide(running, offers=both)
    worker.connect()
    said(worker)
    hear(worker, (0, Ok(running, 0, both)), (3, Job(some_tasks(running))))
    said(worker)
    return worker


def batches(worker: WorkerSide) -> list[tuple[int, Message]]:
    decoder = v2.V2Decoder()
    decoder.allow(Extension.UPDATES)
    decoder.receive_data(worker.data_to_send())
    found = []
    while (numbered := decoder.next_message()) is not None:
        found.append(numbered)
    return found


def test_results_that_are_held_go_out_together_later() -> None:
    worker = a_batching_worker()
    worker.end(a_result(1))
    assert worker.data_to_send(hold_results=True) == b""
    worker.end(a_result(2))
    assert worker.slots.free == 0
    assert batches(worker) == [(1, Extended(v2.RESULTS, payloads.encode((a_result(1), a_result(2)))))]


def test_results_go_in_batches_of_what_ended_meanwhile() -> None:
    worker = a_batching_worker()
    worker.end(a_result(1))
    assert batches(worker) == [(1, Extended(v2.RESULTS, payloads.encode((a_result(1),))))]
    worker.end(a_result(2))
    worker.end(a_result(3))
    assert batches(worker) == [(2, Extended(v2.RESULTS, payloads.encode((a_result(2), a_result(3)))))]
    assert worker.slots.free == 3
    recorded = Extended(v2.RECORDED, b"")
    assert hear(worker, (2, recorded)) == [Acknowledged((a_result(2), a_result(3)))]
    assert hear(worker, (99, recorded)) == []
    assert worker.results.by_pair


def test_a_worker_lets_tasks_wait_for_a_foreman_that_can_have_them_back() -> None:
    both = Extension.ATOMIC | Extension.UPDATES
    worker = WorkerSide(1, About("id", "anna", 1, ahead=1), offers=both)
    worker.connect()
    ((_, hello),) = said(worker)
    assert isinstance(hello, Hello)
    hear(worker, (0, Ok(1, 0, both)))
    assert hear(worker, (3, Job(some_tasks(2)))) == [Start(some_tasks(2))]
    assert hear(worker, (5, Job((a_task(3),)))) == []


def test_a_plain_foreman_cannot_give_more_than_there_are_slots() -> None:
    worker = WorkerSide(1, About("id", "anna", 1, ahead=1))
    worker.connect()
    said(worker)
    hear(worker, (0, Ok(1)))
    assert hear(worker, (3, Job(some_tasks(2)))) == []


def test_a_result_that_an_update_told_is_in_no_batch() -> None:
    worker = WorkerSide(2, offers=Extension.ATOMIC | Extension.UPDATES)
    worker.connect()
    said(worker)
    hear(worker, (0, Ok(2)), (3, Job((a_task(1),))))
    worker.end(a_result(1))
    said(worker)
    hear(worker, (4, RESEND_HELLO))
    said(worker)
    hear(worker, (6, Ok(2, 0, Extension.UPDATES)))
    assert batches(worker) == []


def test_only_so_many_batches_are_under_way() -> None:
    worker = a_batching_worker()
    for task in (1, 2):
        worker.end(a_result(task))
        batches(worker)
    assert not worker.results.has_unsent
    worker.end(a_result(3))
    assert batches(worker) == []
    assert worker.results.has_unsent
    hear(worker, (1, Extended(v2.RECORDED, b"")))
    assert len(batches(worker)) == 1


def test_after_a_cut_batches_that_are_not_recorded_go_again() -> None:
    worker = a_batching_worker()
    worker.end(a_result(1))
    batches(worker)
    worker.disconnect()
    worker.connect()
    ((_, hello),) = batches(worker)
    assert isinstance(hello, Hello)
    assert {task.number for task in hello.running} == {1, 2, 3}
    hear(worker, (0, Ok(0, 3, Extension.ATOMIC | Extension.UPDATES)))
    ((_, message),) = batches(worker)
    assert message == Extended(v2.RESULTS, payloads.encode((a_result(1),)))


def test_a_foreman_may_want_tasks_back() -> None:
    worker = a_batching_worker()
    wish = Extended(v2.RECALL, payloads.encode((a_pair(1, 2),)))
    assert hear(worker, (0, wish)) == [Recalled((a_pair(1, 2),))]
    with pytest.raises(RemoteProtocolError, match="RECALL"):
        hear(worker, (0, Extended(v2.RECALL, b"\xc1")))


def test_a_result_that_fits_no_frame_is_our_own_mistake() -> None:
    worker = a_worker(running=1)
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        worker.end(a_result(1, status="\udc80"))
    worker.end(a_result(1))


def test_hello_to_a_gandy_foreman_tells_attempts_and_not_commands() -> None:
    worker = a_worker(slots=1)
    task = Task(TaskNumber(1), a_job(1), Orders(7, "a very long command"))
    hear(worker, (3, Job((task,))))
    worker.connect()
    ((_, hello),) = said(worker)
    assert isinstance(hello, Hello)
    assert hello.running[0].orders == Orders(7)
    assert hello.running[0].job.command == ""


def test_extensions_pass_through() -> None:
    worker = WorkerSide(1, offers=Extension.ATOMIC | Extension.HEARTBEAT)
    worker.connect()
    said(worker)
    both = Extension.ATOMIC | Extension.HEARTBEAT
    assert hear(worker, (0, Ok(1, 0, both))) == [Welcomed(both)]
    assert hear(worker, (7, Extended(0x20, b"x"))) == [ExtensionReceived(7, 0x20, b"x")]
    worker.framing.send_extended(Extended(0x21, b"y"))
    assert worker.data_to_send() == v2.encode(0, Extended(0x21, b"y"))


def test_what_a_former_worker_left_is_told_in_hello_and_reported() -> None:
    result = TaskResult(JobId(1), TaskNumber(4), True, "done", None, Report(2, 0, 0))
    worker = WorkerSide(1, About("id2", "hut", 1, former=("id1",)), offers=Extension.ATOMIC | Extension.UPDATES)
    worker.inherit([result])
    assert worker.results.by_pair
    worker.connect()
    ((_, hello),) = said(worker)
    assert isinstance(hello, Hello)
    assert hello.about is not UNSET
    assert hello.about.former == ("id1",)
    assert [(task.pair, task.orders) for task in hello.running] == [(result.pair, Orders(2))]
    hear(worker, (0, Ok(0, 1, Extension.ATOMIC | Extension.UPDATES)))
    data = worker.data_to_send()
    assert payloads.encode([result]) in data
    assert worker.slots.free == 1
    assert hear(worker, (1, Extended(v2.RECORDED, b""))) == [Acknowledged((result,))]
    assert not worker.results.by_pair


def test_a_worker_that_stays_for_its_calls_hears_questions_and_no_more_jobs() -> None:
    worker = WorkerSide(1, offers=Extension.ATOMIC | Extension.HEARTBEAT)
    worker.connect()
    said(worker)
    hear(worker, (0, Ok(1, 0, Extension.ATOMIC | Extension.HEARTBEAT)))
    assert hear(worker, (3, Stop(STOP_ALL))) == [Leave(immediate=False)]
    said(worker)
    assert hear(worker, (7, Extended(0x20, b"x"))) == [ExtensionReceived(7, 0x20, b"x")]
    assert hear(worker, (5, Job((a_task(7),)))) == []
    assert said(worker) == []


def test_a_worker_that_left_agrees_on_extensions_when_it_connects_again() -> None:
    extensions = Extension.ATOMIC | Extension.HEARTBEAT
    worker = WorkerSide(1, offers=extensions)
    worker.connect()
    said(worker)
    assert hear(worker, (0, Ok(1, 0, extensions)), (3, Stop(STOP_ALL))) == [
        Welcomed(extensions),
        Leave(immediate=False),
    ]
    worker.disconnect()
    worker.connect()
    assert said(worker) == [(0, Hello(0, (), extensions))]
    question = Extended(0x20, b"x")
    events = hear(worker, (0, Ok(0, 0, extensions)), (7, question))
    assert events == [Welcomed(extensions), ExtensionReceived(7, 0x20, b"x")]
