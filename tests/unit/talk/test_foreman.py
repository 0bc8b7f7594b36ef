"""The foreman's side against a worker written by hand."""

import pytest
from tests.builders import a_job, a_pair, a_result, a_task, decode_all, some_tasks

from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.ids import TaskNumber
from gandy.talk.events import (
    Accepted,
    Answered,
    ExtensionReceived,
    ForemanEvent,
    Greeted,
    Refused,
    Reported,
    Restarted,
)
from gandy.talk.foreman import ForemanSide
from gandy.talk.law import State
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    GREETING,
    RESEND_HELLO,
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
    Reset,
    Stop,
    Task,
    TaskResult,
    Update,
    pack_pair,
)


def hear(foreman: ForemanSide, *numbered: tuple[int, Message]) -> list[ForemanEvent]:
    for seq, message in numbered:
        foreman.receive_data(v2.encode(seq, message))
    events = []
    while (event := foreman.next_event()) is not None:
        events.append(event)
    return events


def said(foreman: ForemanSide) -> list[tuple[int, Message]]:
    return decode_all(foreman.data_to_send())


def a_foreman(free: int = 2, running: int = 0, extensions: Extension = Extension.ATOMIC) -> ForemanSide:
    """One that has greeted a worker with so many free slots and so many tasks, numbered from 100."""
    foreman = ForemanSide()
    tasks = tuple(a_task(100 + number) for number in range(running))
    assert hear(foreman, (0, Hello(free, tasks, extensions))) == [Greeted(free, tasks, extensions)]
    assert said(foreman) == [(0, Ok(free, running, extensions))]
    return foreman


def report(foreman: ForemanSide, seq: int, task: int) -> Reported:
    (event,) = hear(foreman, (seq, Update(a_result(task))))
    assert isinstance(event, Reported)
    return event


def test_the_foreman_is_silent_until_hello() -> None:
    foreman = ForemanSide()
    assert (foreman.data_to_send(), foreman.free) == (b"", 0)


def test_the_foreman_can_speak_first() -> None:
    foreman = ForemanSide()
    foreman.greet()
    assert said(foreman) == [(1, GREETING)]
    hear(foreman, (0, Hello(1)))
    said(foreman)
    foreman.greet()
    assert said(foreman) == []


def test_hello_is_answered_with_its_own_numbers() -> None:
    a_foreman(free=3, running=2)


def test_only_what_both_know_is_agreed_on() -> None:
    foreman = ForemanSide()
    (event,) = hear(foreman, (0, Hello(1, (), Extension.ATOMIC | Extension.CALLS)))
    assert event == Greeted(1, (), Extension.ATOMIC)


def test_tasks_go_out_in_one_job() -> None:
    foreman = a_foreman(free=2)
    foreman.give(some_tasks(2))
    assert foreman.free == 0
    assert said(foreman) == [(3, Job(some_tasks(2)))]
    assert hear(foreman, (3, Ok(0, 2))) == [Accepted(some_tasks(2))]


def test_a_plain_worker_gets_one_task_per_job() -> None:
    foreman = a_foreman(free=2, extensions=Extension.NONE)
    foreman.give(some_tasks(2))
    assert said(foreman) == [(3, Job((a_task(1),)))]
    assert hear(foreman, (3, Ok(1, 1))) == [Accepted((a_task(1),))]
    assert said(foreman) == [(5, Job((a_task(2),)))]


def test_more_than_fits_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="3 tasks for 2 free slots"):
        a_foreman(free=2).give(some_tasks(3))


def test_an_update_frees_its_slot_and_waits_to_be_recorded() -> None:
    foreman = a_foreman(free=1, running=1)
    event = report(foreman, 2, 100)
    assert event.results == (a_result(100),)
    assert (said(foreman), foreman.free) == ([], 2)
    foreman.acknowledge(event)
    assert said(foreman) == [(2, Ok(2, 0))]


def test_no_request_goes_out_before_the_update_is_acknowledged() -> None:
    foreman = a_foreman(free=1, running=1)
    event = report(foreman, 2, 100)
    foreman.give(some_tasks(2))
    assert said(foreman) == []
    foreman.acknowledge(event)
    assert said(foreman) == [(2, Ok(0, 2)), (5, Job(some_tasks(2)))]


def test_a_result_that_is_not_wanted_is_refused() -> None:
    foreman = a_foreman(free=1, running=1)
    foreman.acknowledge(report(foreman, 2, 100), Error(ErrorCode.NO_SUCH_JOB))
    assert said(foreman) == [(2, Error(ErrorCode.NO_SUCH_JOB))]


def test_a_result_of_a_task_that_does_not_run_frees_nothing() -> None:
    foreman = a_foreman(free=1, running=1)
    report(foreman, 2, 7)
    assert foreman.free == 1


def test_a_result_before_hello_counts_and_asks_for_hello() -> None:
    foreman = ForemanSide()
    foreman.acknowledge(report(foreman, 0, 1))
    assert said(foreman) == [(0, RESEND_HELLO)]
    assert foreman.state is State.GREETING


def test_an_empty_update_is_an_error_and_a_gandy_worker_hears_why() -> None:
    foreman = a_foreman()
    with pytest.raises(RemoteProtocolError, match="without a result"):
        hear(foreman, (2, Update(None)))
    assert said(foreman) == [(1, Error(ErrorCode.BAD_PAYLOAD))]
    assert foreman.free == 0


def test_a_refused_job_comes_back() -> None:
    foreman = a_foreman(free=2, running=1)
    foreman.give(some_tasks(2))
    said(foreman)
    refusal = Error(ErrorCode.NO_PROCS, pack_pair(0, 3))
    assert hear(foreman, (3, refusal)) == [Refused(some_tasks(2), ErrorCode.NO_PROCS)]
    assert foreman.free == 2  # when to ask again is for the reactor to decide


def test_a_plain_worker_that_refuses_has_as_many_processors_as_before() -> None:
    foreman = a_foreman(free=1, extensions=Extension.NONE)
    foreman.give(some_tasks(1))
    said(foreman)
    hear(foreman, (3, Error(ErrorCode.NO_PROCS, 0)))
    assert foreman.free == 1


def test_what_was_queued_is_gone_with_the_link() -> None:
    foreman = a_foreman(free=2)
    foreman.cancel([a_pair()])
    said(foreman)
    foreman.give(some_tasks(1))
    assert foreman.disconnect() == some_tasks(1)
    assert foreman.disconnect() == ()


def test_a_worker_that_has_less_than_it_said_is_believed() -> None:
    foreman = a_foreman(free=2)
    foreman.give(some_tasks(2))
    said(foreman)
    hear(foreman, (3, Error(ErrorCode.NO_PROCS, pack_pair(1, 0))))
    assert foreman.free == 1


def test_other_refusals_do_not_change_the_account() -> None:
    foreman = a_foreman(free=2, running=1)
    foreman.give(some_tasks(1))
    said(foreman)
    assert hear(foreman, (3, Error(ErrorCode.ALREADY_RUNNING))) == [Refused(some_tasks(1), 10)]
    assert foreman.free == 2


def test_cancel_is_answered_with_a_count() -> None:
    foreman = a_foreman(running=1)
    foreman.cancel([a_pair(1, -1)])
    assert said(foreman) == [(3, Cancel((a_pair(1, -1),)))]
    assert hear(foreman, (3, Ok(1))) == [Answered(Cancel((a_pair(1, -1),)), Ok(1))]


def test_stop_lowers_the_account() -> None:
    foreman = a_foreman(free=2, running=1)
    foreman.stop(1)
    assert said(foreman) == [(3, Stop(1))]
    assert hear(foreman, (3, Ok(1, 1))) == [Answered(Stop(1), Ok(1, 1))]
    assert foreman.free == 1


def test_stop_believes_the_worker_only_downwards() -> None:
    foreman = a_foreman(free=0, running=2)
    foreman.stop(1)
    said(foreman)
    hear(foreman, (3, Ok(0, 2)))
    report(foreman, 4, 100)
    assert foreman.free == 0


def test_stop_believes_a_worker_that_has_less() -> None:
    foreman = a_foreman(free=4)
    foreman.stop(1)
    said(foreman)
    hear(foreman, (3, Ok(1, 0)))
    assert foreman.free == 1


def test_what_a_stop_will_take_is_not_given() -> None:
    foreman = a_foreman(free=3, running=1)
    foreman.stop(1)
    assert foreman.free == 2
    foreman.stop_all()
    assert foreman.free == 0


def test_a_refusal_that_crossed_a_stop_is_no_reason_to_wait() -> None:
    foreman = a_foreman(free=3, running=1)
    foreman.give(some_tasks(3))
    said(foreman)
    hear(foreman, (3, Error(ErrorCode.NO_PROCS, pack_pair(2, 1))))
    assert foreman.free == 2


def test_stop_all_counts_the_slots_when_it_is_sent() -> None:
    foreman = ForemanSide()
    foreman.stop_all()
    hear(foreman, (0, Hello(4)))
    assert said(foreman)[-1] == (3, Stop(4))


def test_a_dropped_job_does_not_overtake_an_immediate_stop() -> None:
    foreman = a_foreman(free=2)
    foreman.give(some_tasks(1))
    said(foreman)
    foreman.stop_immediately()
    hear(foreman, (2, Reset()))
    said(foreman)
    hear(foreman, (0, Hello(2)))
    assert said(foreman)[-1] == (3, Stop(STOP_IMMEDIATELY))


def test_a_worker_cannot_stop_a_foreman_that_resets() -> None:
    foreman = a_foreman()
    foreman.requests.append(Reset())
    said(foreman)
    with pytest.raises(RemoteProtocolError, match="a worker cannot send STOP"):
        hear(foreman, (4, Stop(STOP_IMMEDIATELY)))


@pytest.mark.parametrize(
    "tasks", [(a_task(1), a_task(1)), (a_task(100),), (Task(TaskNumber(1), a_job(), Orders(1, "x" * (17 << 20))),)]
)
def test_what_cannot_be_given_is_our_own_mistake(tasks: tuple[Task, ...]) -> None:
    foreman = a_foreman(free=3, running=1)
    with pytest.raises(LocalProtocolError):
        foreman.give(tasks)
    assert foreman.free == 3


def test_text_that_is_no_text_is_our_own_mistake_and_harms_nothing() -> None:
    foreman = a_foreman(free=1)
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        foreman.give((Task(TaskNumber(1), a_job(), Orders(1, "\udc80")),))
    foreman.give(())
    foreman.give((a_task(1),))
    assert said(foreman) == [(3, Job((a_task(1),)))]


def test_tasks_that_do_not_fit_one_frame_go_in_several() -> None:
    foreman = a_foreman(free=2)
    foreman.give(Task(TaskNumber(n), a_job(), Orders(1, "x" * (3 << 20))) for n in (1, 2))
    ((_, message),) = said(foreman)
    assert isinstance(message, Job)
    assert len(message.tasks) == 1


def test_a_plain_worker_never_hears_an_error() -> None:
    foreman = a_foreman(free=1, running=1, extensions=Extension.NONE)
    foreman.acknowledge(report(foreman, 2, 100), Error(ErrorCode.NO_SUCH_JOB))
    assert said(foreman) == [(2, Ok(2))]


def test_a_job_that_gave_way_to_a_reset_comes_back_when_the_link_is_lost() -> None:
    foreman = ForemanSide(last_number=5)
    hear(foreman, (0, Hello(2, (), Extension.ATOMIC)))
    foreman.cancel([a_pair()])
    said(foreman)
    hear(foreman, (3, Ok(0)))
    foreman.give(some_tasks(1))
    assert said(foreman) == [(5, Reset())]
    assert foreman.disconnect() == some_tasks(1)


# Batches of results


def a_batching_foreman() -> ForemanSide:
    foreman = ForemanSide(offers=Extension.ATOMIC | Extension.UPDATES)
    tasks = tuple(a_task(100 + number) for number in range(2))
    hear(foreman, (0, Hello(0, tasks, Extension.ATOMIC | Extension.UPDATES)))
    said(foreman)
    return foreman


def batch(*results: TaskResult) -> Extended:
    return Extended(v2.RESULTS, payloads.encode(results))


def test_a_batch_is_recorded_when_it_is_acknowledged() -> None:
    foreman = a_batching_foreman()
    (event,) = hear(foreman, (7, batch(a_result(100), a_result(101))))
    assert foreman.free == 2
    assert isinstance(event, Reported)
    assert event.results == (a_result(100), a_result(101))
    assert foreman.data_to_send() == b""
    foreman.acknowledge(event, Error(3))
    assert foreman.data_to_send() == v2.encode(7, Extended(v2.RECORDED, b""))


def test_a_batch_that_ends_after_the_link_goes_nowhere() -> None:
    foreman = a_batching_foreman()
    (event,) = hear(foreman, (7, batch(a_result(100))))
    foreman.disconnect()
    assert isinstance(event, Reported)
    foreman.acknowledge(event)
    assert foreman.data_to_send() == b""


@pytest.mark.parametrize("message", [Extended(v2.RESULTS, b"\xc1"), batch()])
def test_a_broken_batch_ends_the_link(message: Extended) -> None:
    with pytest.raises(RemoteProtocolError):
        hear(a_batching_foreman(), (7, message))


def test_a_batch_comes_once() -> None:
    foreman = a_batching_foreman()
    hear(foreman, (7, batch(a_result(100))))
    with pytest.raises(RemoteProtocolError, match="twice"):
        hear(foreman, (7, batch(a_result(101))))


def test_batches_come_one_after_another() -> None:
    foreman = a_batching_foreman()
    hear(foreman, (7, batch(a_result(100))), (8, batch(a_result(101))))
    with pytest.raises(RemoteProtocolError, match="too soon"):
        hear(foreman, (9, batch(a_result(102))))


def test_a_worker_may_let_tasks_wait() -> None:
    for extensions, free in ((Extension.UPDATES, 3), (Extension.NONE, 1)):
        foreman = ForemanSide(offers=Extension.ATOMIC | Extension.UPDATES)
        hear(foreman, (0, Hello(1, (), extensions, About("id", "anna", 1, ahead=2))))
        assert foreman.free == free


def test_tasks_that_wait_for_their_turn_share_a_job() -> None:
    foreman = a_foreman(free=3)
    foreman.cancel([a_pair()])
    said(foreman)
    foreman.give((a_task(1),))
    foreman.give((a_task(2),))
    hear(foreman, (3, Ok(0)))
    assert said(foreman) == [(5, Job((a_task(1), a_task(2))))]


def test_tasks_can_be_had_back() -> None:
    foreman = a_batching_foreman()
    foreman.recall([a_pair(1, 100)])
    assert foreman.data_to_send() == v2.encode(0, Extended(v2.RECALL, payloads.encode((a_pair(1, 100),))))


@pytest.mark.parametrize("count", [0, -1, 65_535])
def test_stop_takes_a_number_of_processors(count: int) -> None:
    with pytest.raises(LocalProtocolError, match="not a number of processors"):
        a_foreman().stop(count)


def test_stop_all_is_sent_as_a_number() -> None:
    foreman = a_foreman(free=2, running=1)
    foreman.stop_all()
    assert said(foreman) == [(3, Stop(3))]


def test_an_immediate_stop_goes_first() -> None:
    foreman = a_foreman(free=2, running=1)
    foreman.cancel([a_pair()])
    foreman.give(some_tasks(1))
    foreman.stop_immediately()
    assert said(foreman) == [(3, Stop(STOP_IMMEDIATELY))]
    hear(foreman, (3, Ok(0, 1)))
    assert foreman.slots.limit == 0


def test_a_second_hello_tells_the_state_anew() -> None:
    foreman = a_foreman(free=2)
    foreman.give(some_tasks(1))
    said(foreman)
    foreman.give((a_task(7),))
    hear(foreman, (2, Hello(1, (a_task(50),))))
    held = set(foreman.slots.running)
    assert held == {a_pair(1, 1), a_pair(1, 7), a_pair(1, 50)}
    assert foreman.free == 0


@pytest.mark.parametrize(
    ("hello", "complaint"),
    [
        (Hello(65_534, (a_task(),)), "more than 65534 processors"),
        (Hello(1, (a_task(), a_task())), "lists a task twice"),
    ],
)
def test_a_hello_that_cannot_be_true_is_an_error(hello: Hello, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        hear(ForemanSide(), (0, hello))


def test_a_worker_that_forgets_what_we_gave_cannot_overflow_our_answer() -> None:
    foreman = a_foreman(free=65_534)
    foreman.give(some_tasks(65_534))
    said(foreman)
    hear(foreman, (2, Hello(0, some_tasks(65_534, job=2))))
    hear(foreman, (3, Ok(0, 65_534)))
    foreman.acknowledge(report(foreman, 4, 99_999))
    assert (4, Ok(0, 65_534)) in said(foreman)


def test_reset_drops_a_job_and_sends_it_again_after_hello() -> None:
    foreman = a_foreman(free=2)
    foreman.give(some_tasks(1))
    foreman.cancel([a_pair(9, 9)])
    said(foreman)
    (restarted,) = hear(foreman, (2, Reset()))
    assert isinstance(restarted, Restarted)
    assert isinstance(restarted.dropped, Job)
    assert restarted.dropped.tasks == some_tasks(1)
    assert said(foreman) == [(2, Reset(0))]
    hear(foreman, (0, Hello(2)))
    assert said(foreman) == [(0, Ok(2)), (3, Job(some_tasks(1)))]
    assert foreman.free == 1


def test_a_foreman_can_reset() -> None:
    foreman = a_foreman()
    foreman.requests.append(Reset())
    assert said(foreman) == [(3, Reset())]
    assert hear(foreman, (3, Reset())) == [Restarted(None)]


def test_an_overflowed_request_goes_out_again() -> None:
    foreman = a_foreman(free=2, running=1)
    foreman.cancel([a_pair()])
    said(foreman)
    event = report(foreman, 2, 100)
    assert hear(foreman, (3, Error(ErrorCode.OVERFLOW))) == []
    assert said(foreman) == []
    foreman.acknowledge(event)
    assert said(foreman) == [(2, Ok(3)), (5, Cancel((a_pair(),)))]


def test_a_lost_link_gives_back_what_was_never_sent() -> None:
    foreman = a_foreman(free=2)
    foreman.give((a_task(1),))
    said(foreman)
    foreman.cancel([a_pair()])
    foreman.give((a_task(2),))
    assert foreman.disconnect() == (a_task(2),)
    assert (foreman.free, foreman.state) == (0, State.CLOSED)


def test_extensions_pass_through() -> None:
    foreman = ForemanSide(offers=Extension.HEARTBEAT)
    hear(foreman, (0, Hello(1, (), Extension.HEARTBEAT)))
    said(foreman)
    assert hear(foreman, (7, Extended(0x20, b"x"))) == [ExtensionReceived(7, 0x20, b"x")]
    foreman.framing.send_extended(Extended(0x20, b"y"))
    assert foreman.data_to_send() == v2.encode(0, Extended(0x20, b"y"))


def test_a_hello_that_is_not_admitted_is_refused_with_its_reason() -> None:
    foreman = ForemanSide(admits=lambda hello: hello.nproc == 0)
    with pytest.raises(RemoteProtocolError) as caught:
        hear(foreman, (0, Hello(1, (), Extension.ATOMIC)))
    assert caught.value.code is ErrorCode.WRONG_ROLE
    assert said(foreman) == [(1, Error(ErrorCode.WRONG_ROLE))]
    assert foreman.state is State.CLOSED


def test_a_plain_peer_that_is_not_admitted_hears_nothing() -> None:
    foreman = ForemanSide(admits=lambda _hello: False)
    with pytest.raises(RemoteProtocolError):
        hear(foreman, (0, Hello(1)))
    assert said(foreman) == []


def test_every_hello_is_looked_at_also_after_a_reset() -> None:
    foreman = ForemanSide(admits=lambda hello: hello.nproc == 0)
    hear(foreman, (0, Hello(0, (), Extension.ATOMIC)))
    hear(foreman, (2, Reset(0)))
    with pytest.raises(RemoteProtocolError) as caught:
        hear(foreman, (0, Hello(1, (), Extension.ATOMIC)))
    assert caught.value.code is ErrorCode.WRONG_ROLE
