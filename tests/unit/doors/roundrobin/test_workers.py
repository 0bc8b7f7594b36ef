"""Workers at the round-robin door: whose turn it is, registration, readiness, and being dismissed."""

import pytest
from tests.roundrobin import (
    COPY,
    FAILURE,
    ONCE,
    PING,
    PONG,
    RESPONSE,
    RR_STREAM,
    TRACKEXEC,
    Client,
    DoorHarness,
    NativeClient,
    PlainMessage,
)

from gandy.doors.roundrobin import workers
from gandy.doors.roundrobin.worker_calls import EXPIRY, READY_PAUSE, Times
from gandy.doors.roundrobin.workers import IDLE

# Whose turn it is


def test_workers_take_turns(harness: DoorHarness, client: Client) -> None:
    workers = [harness.worker(name, 10) for name in (b"a", b"b", b"c")]
    for _ in range(7):
        client.execute(COPY)
    assert [len(worker.take()) for worker in workers] == [3, 2, 2]
    assert harness.list() == [(b"b", 8), (b"c", 8), (b"a", 7)]


def test_a_busy_worker_is_passed_over_and_is_put_to_the_bottom_all_the_same(
    harness: DoorHarness, client: Client
) -> None:
    """roundrobin.md, rule 8: every worker that is looked at goes to the bottom, so the table is a ring."""
    a, b, c = (harness.worker(name, slots) for name, slots in ((b"a", 1), (b"b", 5), (b"c", 5)))
    client.execute(COPY)
    client.execute(COPY)
    client.execute(COPY)
    assert [name for name, _ in harness.list()] == [b"a", b"b", b"c"]
    client.execute(COPY)  # a is busy: b
    assert [name for name, _ in harness.list()] == [b"c", b"a", b"b"]
    a.increment()
    assert [name for name, _ in harness.list()] == [b"c", b"a", b"b"]  # INCREMENT moves no worker
    client.execute(COPY)
    client.execute(COPY)
    assert [len(worker.take()) for worker in (a, b, c)] == [2, 2, 2]


def test_a_worker_that_registers_is_the_last_in_turn(harness: DoorHarness, client: Client) -> None:
    harness.worker(b"a", 2)
    client.execute(COPY)
    harness.worker(b"b", 2)
    assert harness.list() == [(b"a", 1), (b"b", 2)]


def test_a_worker_that_registers_again_keeps_its_place(harness: DoorHarness, client: Client) -> None:
    a = harness.worker(b"a", 2)
    harness.worker(b"b", 2)
    a.register(5)
    assert harness.list() == [(b"a", 5), (b"b", 2)]


# Queueing


def test_a_message_waits_for_the_first_worker_that_registers(harness: DoorHarness, client: Client) -> None:
    ids = [client.track(code) for code in (PING, ONCE, RR_STREAM)]
    harness.pass_time(1000)
    worker = harness.worker(slots=2)
    first, second = worker.take()
    assert [first.id, second.id] == ids[:2]
    worker.finish(first)
    assert worker.take_one().id == ids[2]
    assert client.responses() == [(ids[0], ())]


def test_what_waits_goes_first_and_in_order_whatever_the_command(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    codes = [PING, COPY, ONCE, PING, RR_STREAM, COPY]
    ids = [client.track(code) for code in codes]
    served = []
    for _ in codes:
        message = worker.take_one()
        served.append(message.id)
        worker.finish(message)
    assert served == ids
    assert [number for number, _ in client.responses()] == ids


def test_each_message_is_dispatched_once(harness: DoorHarness, client: Client) -> None:
    """The original sent the message that emptied its queue a second time."""
    worker = harness.worker(slots=1)
    ids = [client.track(COPY) for _ in range(300)]
    seen = []
    while messages := worker.take():
        assert len(messages) == 1
        seen += [message.id for message in messages]
        worker.finish(messages[0])
    assert seen == ids
    assert [number for number, _ in client.responses()] == ids
    harness.check_empty()


# When a worker is ready


def test_a_worker_gets_no_call_until_it_is_ready() -> None:
    """The original installs its commands when it has the response to REGISTER, and drops what comes before."""
    harness = DoorHarness(times=Times())
    client, native = harness.client(), harness.native_client()
    waiting = client.track(COPY)
    worker = harness.worker(slots=2)
    native.call(1, "copy")  # and it is no unknown command
    assert harness.list() == [(b"w", 2)]
    harness.pass_time(READY_PAUSE - 0.1, step=0.1)
    assert (worker.take(), native.results()) == ([], [])
    harness.pass_time(0.1)
    first, second = worker.take()
    assert first.id == waiting
    assert harness.list() == [(b"w", 0)]
    for message in (first, second):
        worker.finish(message, b"x")
    assert native.results() == [(1, b"x")]
    harness.check_empty()


def test_a_worker_that_says_ping_after_it_registered_is_ready() -> None:
    harness = DoorHarness(times=Times())
    client = harness.client()
    number = client.track(COPY)
    worker = harness.worker(slots=None)
    worker.ping()  # as the original greets
    worker.register(1)
    assert [message.command for message in worker.hear()] == [PONG]
    worker.ping()
    assert [message.id for message in worker.hear()][1:] == [number]


def test_a_worker_that_registers_again_is_ready() -> None:
    harness = DoorHarness(times=Times())
    client, worker = harness.client(), harness.worker()
    harness.pass_time(READY_PAUSE)
    worker.register(1)
    client.track(COPY)
    worker.finish(worker.take_one())
    worker.vanish()
    client.track(COPY)
    worker.ping()  # it was lost, and has its commands
    assert [message.args for message in worker.hear()] == [(), (COPY,)]


def test_a_worker_may_leave_before_it_is_ready() -> None:
    harness = DoorHarness(times=Times())
    client, worker = harness.client(), harness.worker()
    client.track(COPY)
    worker.deregister()
    harness.pass_time(READY_PAUSE)
    assert (worker.take(), harness.list()) == ([], [])


# Who is here


def test_a_worker_enters_the_table_with_no_slots_for_jobs(harness: DoorHarness) -> None:
    harness.worker(b"\xff\x00", 3)
    (info,) = [worker.info for worker in harness.registry.workers.values()]
    assert (info.id, info.name, info.slots) == ("roundrobin/%%ff00", "%%ff00", 0)
    assert harness.board.dispatcher.offers.list_names(info.id) == ["copy", "feed", "once", "ping", "rr_stream"]


def test_whatever_a_worker_says_is_a_sign_of_life(harness: DoorHarness) -> None:
    worker = harness.worker()
    harness.registry.heard.clear()
    worker.ping()
    assert harness.registry.heard == ["roundrobin/w"]


def test_a_worker_that_deregisters_leaves_the_table(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    worker.deregister()
    assert harness.registry.workers == {}
    assert harness.list() == []
    client.track(COPY)
    assert worker.take() == []
    worker.deregister()  # of an unknown worker
    worker.ping()
    assert harness.registry.workers == {}


def test_a_worker_that_deregisters_may_answer_what_it_has(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=2)
    first, second, third = (client.track(COPY) for _ in range(3))
    messages = worker.take()
    worker.deregister()
    assert harness.list() == []
    worker.finish(messages[0])
    assert worker.take() == []
    assert harness.registry.workers
    worker.finish(messages[1])
    assert harness.registry.workers == {}
    assert [number for number, _ in client.responses()] == [first, second]
    assert harness.worker(b"x").take_one().id == third


def test_a_call_is_not_sent_to_a_worker_that_has_just_deregistered(harness: DoorHarness, client: Client) -> None:
    worker, other = harness.worker(b"w"), harness.worker(b"x")
    with harness.together():
        number = client.track(ONCE)
        worker.deregister()
    assert worker.take() == []
    assert other.take_one().id == number
    harness.pass_time(1)
    assert harness.registry.workers.keys() == {"roundrobin/x"}


def test_a_native_cast_is_sent_even_so_for_it_would_not_be_repeated(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    with harness.together():
        native.cast(1, "once", b"x")
        worker.deregister()
    assert worker.take_one().args == (ONCE, b"x")
    worker.increment()
    assert harness.registry.workers == {}


def test_a_worker_that_deregistered_may_register_again_before_it_has_ended(
    harness: DoorHarness, client: Client
) -> None:
    worker = harness.worker()
    client.track(COPY)
    number = client.track(COPY)
    message = worker.take_one()
    worker.deregister()
    worker.register(1)
    assert worker.take_one().id == number
    worker.finish(message)
    assert harness.list() == [(b"w", 1)]


def test_so_many_workers_are_in_the_table(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MAX_WORKERS", 2)
    peers = [harness.worker(b"w%d" % number, slots=None) for number in range(3)]
    for worker in peers:
        worker.track(b"\x08", b"1", id=b"1234")
    assert [name for name, _ in harness.list()] == [b"w0", b"w1"]
    assert peers[1].hear() == [PlainMessage(RESPONSE, b"1234")]
    assert peers[2].hear() == [PlainMessage(RESPONSE, b"1234", (FAILURE, b"the table of workers is full"))]
    peers[0].deregister()
    peers[2].register(1)
    assert [name for name, _ in harness.list()] == [b"w1", b"w2"]
    assert harness.door.dropped == {"too many workers": 1}


def test_who_knows_pings_is_remembered_up_to_a_limit(harness: DoorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_WORKERS", 2)
    for name in (b"a", b"b", b"c"):
        harness.client(name).ping()
    for name, is_lost in ((b"a", False), (b"c", True)):
        harness.worker(name)
        harness.pass_time(IDLE + EXPIRY + 1)
        assert bool(harness.door.workers.lost) == is_lost


# Dismissed


def test_a_dismissed_worker_ends_what_it_has_and_gets_nothing_new(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=2)
    number = client.track(ONCE)
    message = worker.take_one()
    harness.dismiss("roundrobin/w")
    client.track(ONCE)
    assert worker.take() == []
    worker.finish(message)
    assert client.responses() == [(number, ())]
    assert harness.registry.workers == {}
    worker.ping()
    assert harness.registry.workers == {}
    worker.register(1)
    assert len([message for message in worker.hear() if message.command == TRACKEXEC]) == 1


def test_a_worker_that_is_dismissed_at_once_loses_what_it_has(harness: DoorHarness, client: Client) -> None:
    worker, other = harness.worker(), harness.worker(b"x", slots=1)
    ids = [client.track(ONCE), client.track(COPY)]
    harness.dismiss("roundrobin/x", immediate=True)
    assert client.responses() == []
    assert other.take_one().id == ids[1]
    worker.finish(worker.take_one())
    assert worker.take_one().id == ids[1]
    harness.dismiss("roundrobin/w", immediate=True)
    harness.dismiss("roundrobin/w", immediate=True)
    harness.dismiss("roundrobin/nobody")
    assert harness.registry.workers == {}
    worker.ping()
    assert harness.registry.workers == {}


def test_a_worker_that_the_foreman_drains_is_willing_again_when_it_registers(
    harness: DoorHarness, client: Client
) -> None:
    worker = harness.worker()
    harness.registry.workers["roundrobin/w"].draining = True
    client.track(COPY)
    assert worker.take() == []
    worker.register(1)
    assert len(worker.take()) == 1
