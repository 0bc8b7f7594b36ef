"""Workers at the round-robin door: whose turn it is, slots, liveness, and calls of gandy's own clients."""

import zlib

import msgspec
import pytest
from tests.roundrobin import (
    COPY,
    END,
    EXEC,
    FAILURE,
    FEED,
    ONCE,
    PING,
    PONG,
    RESPONSE,
    RR_STREAM,
    SUCCESS,
    TRACKEXEC,
    Client,
    Failed,
    Hall,
    NativeClient,
    Note,
    Refused,
    RoundRobinWorker,
)

from gandy.doors.roundrobin import lost_workers, worker_calls, workers
from gandy.doors.roundrobin.lost_workers import MAX_LOST, REMEMBER
from gandy.doors.roundrobin.worker_calls import EXPIRY, READY_PAUSE, UNANSWERED_PAUSE, Times
from gandy.doors.roundrobin.workers import IDLE
from gandy.limits import MAX_PIECE_BYTES, MAX_SLOTS
from gandy.wire import calls
from gandy.wire.calls import BUSY, CAST, FRAME_COST, LAST, LOST, MORE, PICKLED, WINDOW_BYTES

HANDLE = b"HANDLE78"


@pytest.fixture
def hall() -> Hall:
    return Hall()


@pytest.fixture
def client(hall: Hall) -> Client:
    return hall.client()


@pytest.fixture
def native(hall: Hall) -> NativeClient:
    return hall.native_client()


def packet(state: bytes, data: bytes = b"", pack: bytes = b"R", handle: bytes = HANDLE) -> bytes:
    return state + pack + bytes([len(handle)]) + handle + data


# Whose turn it is


def test_workers_take_turns(hall: Hall, client: Client) -> None:
    workers = [hall.worker(name, 10) for name in (b"a", b"b", b"c")]
    for _ in range(7):
        client.execute(COPY)
    assert [len(worker.take()) for worker in workers] == [3, 2, 2]
    assert hall.list() == [(b"b", 8), (b"c", 8), (b"a", 7)]


def test_a_busy_worker_is_passed_over_and_is_put_to_the_bottom_all_the_same(hall: Hall, client: Client) -> None:
    """roundrobin.md, rule 8: every worker that is looked at goes to the bottom, so the table is a ring."""
    a, b, c = (hall.worker(name, slots) for name, slots in ((b"a", 1), (b"b", 5), (b"c", 5)))
    client.execute(COPY)
    client.execute(COPY)
    client.execute(COPY)
    assert [name for name, _ in hall.list()] == [b"a", b"b", b"c"]
    client.execute(COPY)  # a is busy: b
    assert [name for name, _ in hall.list()] == [b"c", b"a", b"b"]
    a.increment()
    assert [name for name, _ in hall.list()] == [b"c", b"a", b"b"]  # INCREMENT moves nobody
    client.execute(COPY)
    client.execute(COPY)
    assert [len(worker.take()) for worker in (a, b, c)] == [2, 2, 2]


def test_a_worker_that_registers_is_the_last_in_turn(hall: Hall, client: Client) -> None:
    hall.worker(b"a", 2)
    client.execute(COPY)
    hall.worker(b"b", 2)
    assert hall.list() == [(b"a", 1), (b"b", 2)]


def test_a_worker_that_registers_again_keeps_its_place(hall: Hall, client: Client) -> None:
    a = hall.worker(b"a", 2)
    hall.worker(b"b", 2)
    a.register(5)
    assert hall.list() == [(b"a", 5), (b"b", 2)]


# Queueing


def test_a_message_waits_for_the_first_worker_that_registers(hall: Hall, client: Client) -> None:
    ids = [client.track(code) for code in (PING, ONCE, RR_STREAM)]
    hall.pass_time(1000)
    worker = hall.worker(slots=2)
    first, second = worker.take()
    assert [first.id, second.id] == ids[:2]
    worker.finish(first)
    assert worker.take_one().id == ids[2]
    assert client.responses() == [(ids[0], ())]


def test_what_waits_goes_first_and_in_order_whatever_the_command(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    codes = [PING, COPY, ONCE, PING, RR_STREAM, COPY]
    ids = [client.track(code) for code in codes]
    served = []
    for _ in codes:
        note = worker.take_one()
        served.append(note.id)
        worker.finish(note)
    assert served == ids
    assert [number for number, _ in client.responses()] == ids


def test_each_message_is_dispatched_once(hall: Hall, client: Client) -> None:
    """The original sent the message that emptied its queue a second time."""
    worker = hall.worker(slots=1)
    ids = [client.track(COPY) for _ in range(300)]
    seen = []
    while notes := worker.take():
        assert len(notes) == 1
        seen += [note.id for note in notes]
        worker.finish(notes[0])
    assert seen == ids
    assert [number for number, _ in client.responses()] == ids
    hall.check_empty()


# Slots


def test_exec_costs_a_slot_and_has_no_response(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=2)
    client.execute(PING)
    note = worker.take_one()
    assert note.command == EXEC
    assert hall.list() == [(b"w", 1)]
    worker.respond(note, b"though nobody asked")
    assert client.hear() == []
    worker.increment()
    assert hall.list() == [(b"w", 2)]
    hall.check_empty()


def test_the_slot_comes_back_with_increment_and_not_with_the_response(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    client.track(COPY)
    number = client.track(COPY)
    note = worker.take_one()
    worker.respond(note)
    assert len(client.responses()) == 1
    assert hall.list() == [(b"w", 0)]
    assert worker.take() == []
    worker.increment()
    assert worker.take_one().id == number


def test_increments_that_nothing_was_taken_for_return_nothing(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=2)
    worker.increment(3)
    assert hall.list() == [(b"w", 2)]
    assert hall.door.dropped == {"INCREMENT": 3}
    client.track(COPY)
    worker.finish(worker.take_one())
    worker.increment(3)
    assert hall.list() == [(b"w", 2)]


def test_increments_of_strangers_and_of_lost_workers_return_nothing(hall: Hall, client: Client) -> None:
    stranger = hall.worker(b"x", slots=None)
    stranger.increment()
    assert hall.list() == []
    worker = hall.worker(slots=2)
    client.track(COPY)
    worker.deregister()
    worker.finish(worker.take_one())
    worker.increment()
    assert hall.list() == []
    assert hall.registry.workers == {}


@pytest.mark.parametrize(
    ("frame", "slots"), [(b"10", 10), (b"10\0junk", 10), (b"-3", 0), (b"many", 0), (b"", 0), (b"9" * 19, MAX_SLOTS)]
)
def test_slots_are_what_the_frame_begins_with(hall: Hall, frame: bytes, slots: int) -> None:
    worker = hall.worker(slots=None)
    worker.say(Note(TRACKEXEC, b"1234", (b"\x08", frame) if frame else (b"\x08",)))
    assert hall.list() == [(b"w", slots)]


def test_registering_again_overwrites_the_free_slots(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=3)
    for _ in range(5):
        client.track(COPY)
    first = worker.take()
    worker.register(1)
    assert len(worker.take()) == 1
    assert hall.list() == [(b"w", 0)]
    for note in first:
        worker.respond(note)
    worker.increment()
    assert len(worker.take()) == 1


def test_a_worker_that_says_that_it_has_no_free_slot_gets_calls_as_slots_come_back(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=1)
    ids = [client.track(COPY) for _ in range(2)]
    note = worker.take_one()
    worker.register(0)
    assert worker.take() == []
    worker.finish(note)
    assert worker.take_one().id == ids[1]


def test_slots_are_never_more_than_the_protocol_of_calls_can_tell(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=MAX_SLOTS + 1)
    client.track(COPY)
    worker.register(MAX_SLOTS)
    assert hall.list() == [(b"w", MAX_SLOTS - 1)]


def test_an_increment_may_come_before_its_response(hall: Hall, client: Client) -> None:
    """The original's threads send in any order."""
    worker = hall.worker(slots=1)
    ids = [client.track(COPY) for _ in range(2)]
    first = worker.take_one()
    worker.increment()
    assert hall.list() == [(b"w", 0)]
    second = worker.take_one()
    worker.respond(first)
    worker.finish(second)
    assert [number for number, _ in client.responses()] == ids
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


def test_increments_before_responses_in_any_order_return_each_slot_once(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=3)
    ids = {client.track(COPY) for _ in range(3)}
    notes = worker.take()
    worker.increment(2)
    assert hall.list() == [(b"w", 2)]
    for note in reversed(notes):
        worker.respond(note)
    assert hall.list() == [(b"w", 2)]
    worker.increment(2)
    assert hall.list() == [(b"w", 3)]
    assert {number for number, _ in client.responses()} == ids
    hall.check_empty()


def test_a_call_that_ended_without_a_response_is_answered_with_a_failure(hall: Hall, client: Client) -> None:
    """The original's rr_stream says nothing but INCREMENT where it does not like the size."""
    worker = hall.worker(slots=2)
    silent = client.track(RR_STREAM, b"me", b"1000")
    number = client.track(COPY)
    _, note = worker.take()
    worker.increment()
    hall.pass_time(10)  # nobody knows yet which one has ended
    worker.hear()
    assert client.responses() == []
    worker.finish(note)
    assert client.responses() == [(number, ())]
    assert hall.list() == [(b"w", 2)]
    hall.pass_time(UNANSWERED_PAUSE)
    assert client.failures() == [(silent, "its worker ended it without an answer")]
    assert hall.list() == [(b"w", 2)]
    hall.check_empty()


def test_an_increment_before_the_response_of_a_short_call_does_not_end_a_long_one(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=2)
    numbers = [client.track(ONCE), client.track(ONCE)]
    long, short = worker.take()
    worker.increment()
    worker.respond(short)
    hall.pass_time(UNANSWERED_PAUSE * 10)
    worker.hear()
    assert client.responses() == [(numbers[1], ())]
    worker.increment()
    hall.pass_time(UNANSWERED_PAUSE - 0.1, step=0.1)
    worker.respond(long)
    assert client.responses() == [(numbers[0], ())]
    assert hall.list() == [(b"w", 2)]
    hall.check_empty()


def test_an_increment_of_a_cast_does_not_end_a_long_call(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=3)
    numbers = [client.track(ONCE), client.track(ONCE)]
    long, short = worker.take()
    worker.increment()
    worker.respond(short)
    client.execute(ONCE)
    worker.increment()  # for the cast: only the long one runs
    hall.pass_time(UNANSWERED_PAUSE * 2)
    worker.hear()
    worker.finish(long)
    assert client.responses() == [(number, ()) for number in reversed(numbers)]
    hall.check_empty()


def test_a_call_that_ended_without_a_response_waits_for_one_for_a_moment(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    number = client.track(COPY)
    note = worker.take_one()
    worker.increment()
    hall.pass_time(UNANSWERED_PAUSE - 0.1, step=0.1)
    worker.respond(note)
    hall.pass_time(UNANSWERED_PAUSE)
    assert client.responses() == [(number, ())]


def test_an_increment_for_a_call_of_a_former_life_ends_no_other_call(hall: Hall, client: Client) -> None:
    """The line broke and the worker did not notice: it goes on with what it had, and then says INCREMENT for it."""
    worker = hall.worker(slots=2)
    lost = client.track(ONCE)
    worker.take_one()
    worker.vanish()
    assert [number for number, _ in client.failures()] == [lost]
    worker.ping()
    number = client.track(ONCE)
    note = worker.hear()[-1]
    worker.increment()
    hall.pass_time(UNANSWERED_PAUSE + 2)
    worker.finish(note, b"y")
    assert client.responses() == [(number, (b"y",))]
    assert hall.list() == [(b"w", 2)]
    hall.check_empty()


# What a worker drops


@pytest.fixture
def hasty_hall() -> Hall:
    return Hall(times=Times(ready_pause=0.0, call_limit=100.0))


def live(hall: Hall, worker: RoundRobinWorker, seconds: int) -> None:
    """The worker is there all the time, and answers each PING."""
    for _ in range(seconds):
        hall.pass_time(1.0)
        worker.pong()


def test_a_call_that_its_worker_drops_ends_with_a_failure_and_its_slot_comes_back(hasty_hall: Hall) -> None:
    client, worker = hasty_hall.client(), hasty_hall.worker()
    dropped = client.track(ONCE)
    note = worker.take_one()
    live(hasty_hall, worker, 99)
    assert client.responses() == []
    live(hasty_hall, worker, 1)
    assert client.failures() == [(dropped, "its worker has said nothing about it for 100 s")]
    assert hasty_hall.list() == [(b"w", 1)]
    hasty_hall.check_empty()
    worker.finish(note)  # it was only slow
    assert client.responses() == []
    assert hasty_hall.list() == [(b"w", 1)]


def test_a_late_increment_of_a_call_that_was_given_up_does_not_end_another(hasty_hall: Hall) -> None:
    client, worker = hasty_hall.client(), hasty_hall.worker()
    client.track(ONCE)
    slow = worker.take_one()
    live(hasty_hall, worker, 100)
    client.hear()
    number = client.track(ONCE)
    other = worker.take_one()
    worker.finish(slow)
    live(hasty_hall, worker, 10)
    assert client.responses() == []
    worker.finish(other)
    assert client.responses() == [(number, ())]
    assert hasty_hall.list() == [(b"w", 1)]
    hasty_hall.check_empty()


def test_the_slot_of_a_cast_that_its_worker_drops_comes_back(hasty_hall: Hall) -> None:
    client, worker = hasty_hall.client(), hasty_hall.worker()
    client.execute(ONCE)
    worker.take_one()
    live(hasty_hall, worker, 100)
    assert hasty_hall.list() == [(b"w", 1)]
    hasty_hall.check_empty()


def test_the_slot_of_a_worker_that_answers_and_says_no_increment_comes_back(hasty_hall: Hall) -> None:
    client, worker = hasty_hall.client(), hasty_hall.worker()
    number = client.track(ONCE)
    worker.respond(worker.take_one())
    assert client.responses() == [(number, ())]
    live(hasty_hall, worker, 100)
    assert (hasty_hall.list(), client.responses()) == ([(b"w", 1)], [])
    hasty_hall.check_empty()


@pytest.mark.parametrize("increments", [0, 1])
def test_a_stream_whose_worker_stops_speaking_of_it_ends(hasty_hall: Hall, increments: int) -> None:
    native, worker = hasty_hall.native_client(), hasty_hall.worker()
    native.stream(1, "feed", "60:me")
    worker.respond(worker.take_one(), packet(b"0", b"one"))
    assert worker.take_one().args[0] == b"mqs_more"
    worker.increment(increments)
    for _ in range(100):  # also words that the stream is still wanted, which it does not answer
        hasty_hall.pass_time(1.0)
        for note in worker.hear():
            if note.command == PING:
                worker.say(Note(PONG, note.id, (), note.path[::-1]))
    failure = Failed("its worker has said nothing about it for 100 s")
    assert native.results() == [(1, b"one"), (1, failure)]
    assert hasty_hall.list() == [(b"w", 1)]
    hasty_hall.check_empty()


def test_a_caller_that_is_slow_to_read_is_waited_for(hasty_hall: Hall) -> None:
    native, worker = hasty_hall.native_client(), hasty_hall.worker()
    native.call(1, "copy")
    value = bytes(WINDOW_BYTES * 2)
    worker.finish(worker.take_one(), value)
    live(hasty_hall, worker, 250)
    first = native.hear()
    native.grant(1, len(value) * 2)
    pieces = [*first, *native.hear()]
    assert msgspec.msgpack.decode(b"".join(piece.payload for piece in pieces)) == value
    assert [bool(piece.subtype & LAST) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    hasty_hall.check_empty()


# When a worker is ready


def test_a_worker_gets_no_call_until_it_is_ready() -> None:
    """The original installs its commands when it has the response to REGISTER, and drops what comes before."""
    hall = Hall(times=Times())
    client, native = hall.client(), hall.native_client()
    waiting = client.track(COPY)
    worker = hall.worker(slots=2)
    native.call(1, "copy")  # and it is no unknown command
    assert hall.list() == [(b"w", 2)]
    hall.pass_time(READY_PAUSE - 0.1, step=0.1)
    assert (worker.take(), native.results()) == ([], [])
    hall.pass_time(0.1)
    first, second = worker.take()
    assert first.id == waiting
    assert hall.list() == [(b"w", 0)]
    for note in (first, second):
        worker.finish(note, b"x")
    assert native.results() == [(1, b"x")]
    hall.check_empty()


def test_a_worker_that_says_ping_after_it_registered_is_ready() -> None:
    hall = Hall(times=Times())
    client = hall.client()
    number = client.track(COPY)
    worker = hall.worker(slots=None)
    worker.ping()  # as the original greets
    worker.register(1)
    assert [note.command for note in worker.hear()] == [PONG]
    worker.ping()
    assert [note.id for note in worker.hear()][1:] == [number]


def test_a_worker_that_registers_again_is_ready() -> None:
    hall = Hall(times=Times())
    client, worker = hall.client(), hall.worker()
    hall.pass_time(READY_PAUSE)
    worker.register(1)
    client.track(COPY)
    worker.finish(worker.take_one())
    worker.vanish()
    client.track(COPY)
    worker.ping()  # it was lost, and has its commands
    assert [note.args for note in worker.hear()] == [(), (COPY,)]


def test_a_worker_may_leave_before_it_is_ready() -> None:
    hall = Hall(times=Times())
    client, worker = hall.client(), hall.worker()
    client.track(COPY)
    worker.deregister()
    hall.pass_time(READY_PAUSE)
    assert (worker.take(), hall.list()) == ([], [])


# Who is here


def test_a_worker_enters_the_table_with_no_slots_for_jobs(hall: Hall) -> None:
    hall.worker(b"\xff\x00", 3)
    (info,) = [worker.info for worker in hall.registry.workers.values()]
    assert (info.id, info.name, info.slots) == ("roundrobin/%%ff00", "%%ff00", 0)
    assert hall.board.list_offers(info.id) == ["copy", "feed", "once", "ping", "rr_stream"]


def test_whatever_a_worker_says_is_a_sign_of_life(hall: Hall) -> None:
    worker = hall.worker()
    hall.registry.heard.clear()
    worker.ping()
    assert hall.registry.heard == ["roundrobin/w"]


def test_a_worker_that_deregisters_leaves_the_table(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    worker.deregister()
    assert hall.registry.workers == {}
    assert hall.list() == []
    client.track(COPY)
    assert worker.take() == []
    worker.deregister()  # of somebody who is unknown
    worker.ping()
    assert hall.registry.workers == {}


def test_a_worker_that_deregisters_may_answer_what_it_has(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=2)
    first, second, third = (client.track(COPY) for _ in range(3))
    notes = worker.take()
    worker.deregister()
    assert hall.list() == []
    worker.finish(notes[0])
    assert worker.take() == []
    assert hall.registry.workers
    worker.finish(notes[1])
    assert hall.registry.workers == {}
    assert [number for number, _ in client.responses()] == [first, second]
    assert hall.worker(b"x").take_one().id == third


def test_a_call_is_not_sent_to_a_worker_that_has_just_deregistered(hall: Hall, client: Client) -> None:
    worker, other = hall.worker(b"w"), hall.worker(b"x")
    with hall.together():
        number = client.track(ONCE)
        worker.deregister()
    assert worker.take() == []
    assert other.take_one().id == number
    hall.pass_time(1)
    assert hall.registry.workers.keys() == {"roundrobin/x"}


def test_a_native_cast_is_sent_even_so_for_nobody_would_send_it_again(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    with hall.together():
        native.cast(1, "once", b"x")
        worker.deregister()
    assert worker.take_one().args == (ONCE, b"x")
    worker.increment()
    assert hall.registry.workers == {}


def test_a_worker_that_deregistered_may_register_again_before_it_has_ended(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    client.track(COPY)
    number = client.track(COPY)
    note = worker.take_one()
    worker.deregister()
    worker.register(1)
    assert worker.take_one().id == number
    worker.finish(note)
    assert hall.list() == [(b"w", 1)]


def test_so_many_workers_are_in_the_table(hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_WORKERS", 2)
    peers = [hall.worker(b"w%d" % number, slots=None) for number in range(3)]
    for worker in peers:
        worker.track(b"\x08", b"1", id=b"1234")
    assert [name for name, _ in hall.list()] == [b"w0", b"w1"]
    assert peers[1].hear() == [Note(RESPONSE, b"1234")]
    assert peers[2].hear() == [Note(RESPONSE, b"1234", (FAILURE, b"the table of workers is full"))]
    peers[0].deregister()
    peers[2].register(1)
    assert [name for name, _ in hall.list()] == [b"w1", b"w2"]
    assert hall.door.dropped == {"too many workers": 1}


def test_who_knows_pings_is_remembered_up_to_a_limit(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_WORKERS", 2)
    for name in (b"a", b"b", b"c"):
        hall.client(name).ping()
    for name, is_lost in ((b"a", False), (b"c", True)):
        hall.worker(name)
        hall.pass_time(IDLE + EXPIRY + 1)
        assert bool(hall.door.workers.lost) == is_lost


# Lost workers


def silence(hall: Hall, seconds: float) -> None:
    """Nobody says a word."""
    hall.pass_time(seconds)


def test_repeatable_calls_of_a_lost_worker_are_served_elsewhere(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=10)
    ids = [client.track(PING) for _ in range(5)] + [client.track(COPY) for _ in range(5)]
    assert len(worker.take()) == 10
    worker.vanish()
    assert hall.registry.workers == {}
    other = hall.worker(b"x", 10)
    notes = other.take()
    assert [note.id for note in notes] == ids
    for note in notes:
        other.finish(note)
    assert [number for number, _ in client.responses()] == ids
    hall.check_empty()


def test_other_calls_of_a_lost_worker_are_answered_with_a_failure(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=10)
    ids = [client.track(ONCE) for _ in range(10)]
    client.execute(ONCE)
    worker.take()
    worker.vanish()
    text = "worker roundrobin/w was lost while it had the call"
    assert client.failures() == [(number, text) for number in ids]
    other = hall.worker(b"x", 10)
    assert [note.command for note in other.take()] == [EXEC]  # it waited when the worker was lost
    other.increment()
    hall.check_empty()


def test_casts_of_a_lost_worker_are_lost_unless_they_are_repeatable(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=2)
    client.execute(ONCE)
    number = client.execute(COPY)
    assert len(worker.take()) == 2
    worker.vanish()
    other = hall.worker(b"x", 2)
    assert other.take_one().id == number
    other.increment()
    assert client.hear() == []
    hall.check_empty()


def test_what_never_reached_a_worker_is_served_elsewhere_even_if_not_repeatable(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=3)
    lost = client.track(ONCE)
    worker.take_one()
    hall.undeliverable.add(b"w")
    with hall.together():
        ids = [client.track(ONCE), client.execute(ONCE)]
    assert client.failures() == [(lost, "worker roundrobin/w was lost while it had the call")]
    other = hall.worker(b"x", 3)
    notes = other.take()
    assert sorted(note.id for note in notes) == ids
    for note in notes:
        other.finish(note)
    assert client.responses() == [(ids[0], ())]
    hall.check_empty()


def test_a_call_that_reached_its_second_worker_has_begun(hall: Hall, client: Client) -> None:
    hall.worker(b"w")
    hall.undeliverable.add(b"w")
    number = client.track(ONCE)
    worker = hall.worker(b"x")
    assert worker.take_one().id == number
    worker.vanish()
    assert client.failures() == [(number, "worker roundrobin/x was lost while it had the call")]
    hall.check_empty()


def test_what_waits_is_not_lost_with_a_worker_that_has_no_slot_for_it(hall: Hall, client: Client) -> None:
    hall.worker(slots=1)
    hall.undeliverable.add(b"w")
    with hall.together():
        ids = [client.track(ONCE) for _ in range(3)]
    assert client.responses() == []
    assert sorted(note.id for note in hall.worker(b"x", 3).take()) == ids


def test_however_many_workers_are_gone_an_undelivered_call_is_served_at_last(hall: Hall, client: Client) -> None:
    for name in range(20):
        hall.worker(b"w%d" % name)
        hall.undeliverable.add(b"w%d" % name)
    number = client.track(COPY)
    assert hall.registry.workers == {}
    worker = hall.worker(b"x")
    assert worker.take_one().id == number
    worker.vanish()  # this one may have begun it, which is the first try
    other = hall.worker(b"y")
    other.finish(other.take_one())
    assert client.responses() == [(number, ())]


def test_a_call_whose_workers_are_lost_again_and_again_is_given_up(hall: Hall, client: Client) -> None:
    number = client.track(COPY)
    tries = 0
    while not (responses := client.responses()):
        worker = hall.worker(b"w%d" % tries)
        assert worker.take_one().id == number
        worker.vanish()
        tries += 1
    assert tries == 6
    assert responses[0][1][0] == FAILURE
    hall.check_empty()


def test_a_call_that_was_not_handed_over_when_its_worker_was_lost_has_never_begun(hall: Hall, client: Client) -> None:
    worker, other = hall.worker(b"w"), hall.worker(b"x")
    with hall.together():
        number = client.track(ONCE)
        hall.door.workers.lose(b"w", (), hall.now)
    assert worker.take() == []
    assert other.take_one().id == number


def test_a_silent_worker_is_asked_and_then_lost(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    worker.ping()
    worker.hear()
    number = client.track(ONCE)
    assert worker.take_one().id == number
    silence(hall, EXPIRY / 3 - 1)
    assert worker.hear() == []
    silence(hall, 1)
    assert [note.command for note in worker.hear()] == [PING]
    silence(hall, EXPIRY)
    assert {note.command for note in worker.hear()} == {PING}
    assert len(client.failures()) == 1
    assert hall.list() == []


def test_a_worker_that_answers_is_not_lost_however_long_it_works(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    number = client.track(ONCE)
    note = worker.take_one()
    for _ in range(100):
        silence(hall, EXPIRY / 2)
        worker.pong()
    worker.finish(note)
    assert client.responses() == [(number, ())]


def test_an_idle_worker_is_asked_seldom(hall: Hall) -> None:
    worker = hall.worker()
    worker.ping()
    worker.hear()
    silence(hall, IDLE)
    assert worker.hear() == []
    silence(hall, EXPIRY / 3)
    worker.pong()
    silence(hall, IDLE + EXPIRY - 1)
    assert hall.list() == [(b"w", 1)]
    silence(hall, 1)
    assert hall.list() == []


def test_a_worker_that_was_idle_for_long_is_not_lost_with_its_next_call(hall: Hall, client: Client) -> None:
    """Its silence before is no silence about the call."""
    worker = hall.worker()
    worker.ping()
    worker.hear()
    silence(hall, IDLE - 5)
    number = client.track(ONCE)
    note = worker.take_one()
    silence(hall, 3)
    worker.finish(note)
    assert client.responses() == [(number, ())]


def test_a_foreman_that_was_stopped_for_long_asks_before_it_gives_workers_up(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    worker.ping()
    worker.hear()
    number = client.track(ONCE)
    note = worker.take_one()
    hall.pass_time(1000, step=1000)
    worker.finish(note)
    assert client.responses() == [(number, ())]


def test_a_worker_that_never_spoke_of_pings_is_not_lost_for_its_silence(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    number = client.track(ONCE)
    note = worker.take_one()
    silence(hall, 1000)
    assert {question.command for question in worker.hear()} == {PING}
    worker.finish(note)
    assert client.responses() == [(number, ())]
    hall.undeliverable.add(b"w")
    silence(hall, 1000)
    assert hall.list() == []  # but for a question that finds nobody


def test_a_lost_worker_that_speaks_again_is_registered_again(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=7)
    worker.ping()
    worker.vanish()
    assert hall.list() == []
    hall.connect(b"w")
    hall.pass_time(1.0)
    assert [note.command for note in worker.hear()][-1] == PING
    worker.ping()
    assert hall.list() == [(b"w", 7)]
    number = client.track(COPY)
    assert [note.id for note in worker.hear() if note.command == TRACKEXEC] == [number]


def test_a_lost_worker_that_registers_has_the_slots_that_it_tells(hall: Hall, client: Client) -> None:
    """Not those of before, even for a moment: calls wait."""
    worker = hall.worker(slots=7)
    worker.vanish()
    for _ in range(10):
        client.track(COPY)
    worker.register(2)
    assert len(worker.take()) == 2
    assert hall.list() == [(b"w", 0)]


@pytest.mark.parametrize("to", [(), (b"c",)])
def test_whatever_else_a_lost_worker_says_brings_it_back(hall: Hall, to: tuple[bytes, ...]) -> None:
    """Also a value that looks like a word about itself."""
    worker = hall.worker(slots=7)
    worker.vanish()
    worker.say(Note(RESPONSE, b"1234", (b"\x08", b"1"), to))
    assert hall.list() == [(b"w", 7)]


def test_a_lost_worker_that_deregisters_stays_away(hall: Hall) -> None:
    worker = hall.worker()
    worker.vanish()
    worker.deregister()
    worker.ping()
    assert hall.list() == []


def test_a_worker_that_was_leaving_is_not_expected_back(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    client.track(ONCE)
    worker.deregister()
    worker.vanish()
    worker.ping()
    assert hall.list() == []
    assert len(client.failures()) == 1


def test_lost_workers_are_remembered_for_a_while(hall: Hall) -> None:
    worker = hall.worker()
    worker.vanish()
    assert hall.door.workers.list_slots() == {b"w": 1}
    silence(hall, REMEMBER)
    assert hall.door.workers.list_slots() == {}
    worker.ping()
    assert hall.list() == []


def test_so_many_lost_workers_are_remembered(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LOST >= 2
    monkeypatch.setattr(lost_workers, "MAX_LOST", 2)
    for name in (b"a", b"b", b"c"):
        hall.worker(name).vanish()
    assert list(hall.door.workers.lost.list_slots()) == [b"b", b"c"]


def test_a_hint_about_somebody_who_is_still_there_does_no_harm(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    hall.door.on_disconnect(b"w", hall.now)
    hall.settle()
    assert [note.command for note in worker.hear()] == [PING]
    hall.door.on_disconnect(b"x", hall.now)
    hall.settle()
    assert hall.list() == [(b"w", 1)]


def test_whoever_wants_to_know_hears_of_every_change(hall: Hall, client: Client) -> None:
    changes: list[dict[bytes, int]] = []
    workers = hall.door.workers
    workers.on_change = lambda: changes.append(workers.list_slots())
    worker = hall.worker(slots=1)
    assert changes[-1] == {b"w": 1}
    worker.register(2)
    assert changes[-1] == {b"w": 2}
    worker.vanish()
    assert changes[-1] == {b"w": 2}
    worker.register(3)
    client.track(COPY)
    worker.deregister()
    assert changes[-1] == {}
    worker.register(4)
    hall.dismiss("roundrobin/w", immediate=True)
    assert changes[-1] == {}


# Dismissed


def test_a_dismissed_worker_ends_what_it_has_and_gets_nothing_new(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=2)
    number = client.track(ONCE)
    note = worker.take_one()
    hall.dismiss("roundrobin/w")
    client.track(ONCE)
    assert worker.take() == []
    worker.finish(note)
    assert client.responses() == [(number, ())]
    assert hall.registry.workers == {}
    worker.ping()
    assert hall.registry.workers == {}
    worker.register(1)
    assert len([note for note in worker.hear() if note.command == TRACKEXEC]) == 1


def test_a_worker_that_is_dismissed_at_once_loses_what_it_has(hall: Hall, client: Client) -> None:
    worker, other = hall.worker(), hall.worker(b"x", slots=1)
    ids = [client.track(ONCE), client.track(COPY)]
    hall.dismiss("roundrobin/x", immediate=True)
    assert client.responses() == []
    assert other.take_one().id == ids[1]
    worker.finish(worker.take_one())
    assert worker.take_one().id == ids[1]
    hall.dismiss("roundrobin/w", immediate=True)
    hall.dismiss("roundrobin/w", immediate=True)
    hall.dismiss("roundrobin/nobody")
    assert hall.registry.workers == {}
    worker.ping()
    assert hall.registry.workers == {}


def test_a_worker_that_the_foreman_drains_is_willing_again_when_it_registers(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    hall.registry.workers["roundrobin/w"].draining = True
    client.track(COPY)
    assert worker.take() == []
    worker.register(1)
    assert len(worker.take()) == 1


# Calls of gandy's own clients


def test_a_native_ping_is_answered_with_pong(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.call(1, "ping")
    note = worker.take_one()
    assert (note.command, note.args, note.path, len(note.id)) == (TRACKEXEC, (PING,), (), 8)
    worker.respond(note)
    assert native.results() == [(1, "pong")]
    assert hall.list() == [(b"w", 0)]
    worker.increment()
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


@pytest.mark.parametrize(("payload", "value"), [((), None), ((b"one",), b"one"), ((b"one", b"two"), [b"one", b"two"])])
def test_payload_frames_are_values(hall: Hall, native: NativeClient, payload: tuple[bytes, ...], value: object) -> None:
    worker = hall.worker()
    native.call(1, "copy", b"bytes", "text", 17)
    note = worker.take_one()
    assert note.args == (COPY, b"bytes", b"text", b"17")
    worker.finish(note, *payload)
    assert native.results() == [(1, value)]
    hall.check_empty()


def test_a_failure_status_is_a_failure_of_a_native_call(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker(slots=3)
    native.call(1, "copy")
    native.call(2, "ping")
    native.stream(3, "feed")
    for note, texts in zip(worker.take(), ((b"a", b"b"), (), (b"c",)), strict=True):
        worker.finish(note, FAILURE, *texts)
    assert native.results() == [(1, Failed("a b")), (2, Failed("the worker failed")), (3, Failed("c"))]
    hall.check_empty()


@pytest.mark.parametrize(
    "args", [({"a": 1},), (1.5,), (True,), (None,), (b"",), ("",), ([b"x"],), tuple(range(1000))], ids=str
)
def test_arguments_that_no_frame_can_hold_are_a_failure(hall: Hall, native: NativeClient, args: tuple[object]) -> None:
    worker = hall.worker()
    native.call(1, "copy", *args)
    ((_, failure),) = native.results()
    assert failure.text.startswith("the arguments cannot be written as frames: ")
    assert worker.take() == []
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


@pytest.mark.parametrize(
    ("flags", "body"), [(PICKLED, b"\x80\x05]\x94."), (0, b""), (0, b"\x93"), (0, b"\x01"), (0, b"\x91\xa1\xff")]
)
def test_arguments_that_are_none_are_a_failure(hall: Hall, native: NativeClient, flags: int, body: bytes) -> None:
    hall.worker()
    native.say(calls.CALL, flags, 1, 0, calls.encode_target("copy") + body)
    ((_, failure),) = native.results()
    assert failure.text.startswith("the arguments cannot be written as frames: ")
    hall.check_empty()


def test_a_native_call_may_be_for_one_worker(hall: Hall, native: NativeClient) -> None:
    one, two = hall.worker(b"w1", 5), hall.worker(b"w2", 5)
    for seq in range(3):
        native.call(seq, "copy", b"x", worker="roundrobin/w2")
    assert [note.args for note in two.take()] == [(COPY, b"x")] * 3
    assert one.take() == []


def test_a_native_cast_is_an_exec(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker(slots=3)
    native.cast(1, "once", b"x")
    native.cast(2, "feed", b"x")
    assert [(note.command, note.args) for note in worker.take()] == [(EXEC, (ONCE, b"x")), (EXEC, (FEED, b"x"))]
    assert hall.list() == [(b"w", 1)]
    worker.increment(2)
    assert hall.list() == [(b"w", 3)]
    assert native.results() == []
    hall.check_empty()


def test_large_arguments_are_gathered_with_credit(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    body = msgspec.msgpack.encode([b"x" * 500_000])
    credit = WINDOW_BYTES
    at = MAX_PIECE_BYTES
    native.say(calls.CALL, MORE, 1, 0, calls.encode_target("copy") + body[:at])
    while at < len(body):
        assert credit > 0, "the credit is used up"
        piece = body[at : at + MAX_PIECE_BYTES]
        at += len(piece)
        credit -= len(piece) + FRAME_COST
        assert worker.take() == []
        native.say(calls.BODY, LAST if at == len(body) else 0, 1, 0, piece)
        credit += sum(frame.padding for frame in native.hear())
    assert worker.take_one().args == (COPY, b"x" * 500_000)


def test_arguments_have_a_limit(hall: Hall, native: NativeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_calls, "MAX_FLOW_BYTES", 1000)
    hall.worker()
    native.say(calls.CALL, MORE, 1, 0, calls.encode_target("copy") + bytes(600))
    native.say(calls.BODY, 0, 1, 0, bytes(401))
    assert native.results() == [(1, Failed("arguments may have 1,000 bytes there"))]
    native.say(calls.BODY, 0, 1, 0, bytes(401))
    hall.check_empty()


def test_a_cast_with_large_arguments_is_an_exec(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    body = msgspec.msgpack.encode([b"x" * 100_000])
    native.say(calls.CALL, MORE | CAST, 1, 0, calls.encode_target("copy") + body[:50_000])
    native.say(calls.BODY, LAST, 1, 0, body[50_000:])
    assert [(note.command, len(note.args[1])) for note in worker.take()] == [(EXEC, 100_000)]
    worker.increment()
    assert native.hear() == []
    hall.check_empty()


def test_large_values_are_told_with_credit(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.call(1, "copy")
    worker.finish(worker.take_one(), b"y" * 1_000_000)
    assert hall.list() == [(b"w", 0)]  # the value is on its way
    body = b""
    while True:
        frames = native.hear()
        assert frames
        body += b"".join(frame.payload for frame in frames)
        if frames[-1].subtype & LAST:
            break
        native.grant(1, sum(len(frame.payload) + FRAME_COST for frame in frames))
    assert msgspec.msgpack.decode(body) == b"y" * 1_000_000
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


def test_the_increment_may_come_after_a_large_value_was_read(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.call(1, "copy")
    worker.respond(worker.take_one(), b"y" * 500_000)
    native.hear()
    native.grant(1, 500_000)
    assert native.hear()[-1].subtype & LAST
    assert hall.list() == [(b"w", 0)]
    worker.increment()
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


@pytest.mark.parametrize("is_returned", [False, True])
def test_a_large_value_that_nobody_wants_any_more_is_dropped(
    hall: Hall, native: NativeClient, is_returned: bool
) -> None:
    worker = hall.worker()
    native.call(1, "copy")
    note = worker.take_one()
    worker.respond(note, b"y" * 500_000)
    if is_returned:
        worker.increment()
    native.cancel(1)
    native.grant(1, 500_000)
    if not is_returned:
        assert hall.list() == [(b"w", 0)]
        worker.increment()
    assert hall.list() == [(b"w", 1)]
    assert not [frame for frame in native.hear() if frame.subtype & LAST]
    hall.check_empty()


def test_a_cancelled_call_keeps_its_slot_until_the_worker_has_ended_it(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.call(1, "copy")
    note = worker.take_one()
    native.cancel(1)
    assert worker.take() == []
    assert hall.list() == [(b"w", 0)]
    worker.finish(note, b"y")
    assert native.hear() == []
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


def test_a_cancelled_call_may_have_its_increment_before_its_response(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.call(1, "copy")
    note = worker.take_one()
    native.cancel(1)
    worker.increment()
    assert hall.list() == [(b"w", 1)]
    worker.respond(note, b"y")
    assert native.hear() == []
    hall.check_empty()


def test_a_call_that_is_cancelled_before_its_arguments_are_complete_costs_nothing(
    hall: Hall, native: NativeClient
) -> None:
    worker = hall.worker()
    native.say(calls.CALL, MORE, 1, 0, calls.encode_target("copy") + bytes(600))
    assert hall.list() == [(b"w", 0)]
    native.cancel(1)
    assert worker.take() == []
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


def test_a_call_that_is_cancelled_before_it_goes_out_never_does(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    with hall.together():
        native.call(1, "once", b"x")
        native.cancel(1)
    assert worker.take() == []
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


def test_a_native_caller_hears_that_its_worker_was_lost(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.call(1, "ping")
    worker.vanish()
    assert native.results() == [(1, Refused(LOST))]


def test_a_native_caller_hears_where_its_call_has_never_begun(hall: Hall, native: NativeClient) -> None:
    """It may try again: BUSY."""
    hall.worker(slots=2)
    hall.undeliverable.add(b"w")
    with hall.together():
        native.call(1, "once")
        native.call(2, "once")
    assert native.results() == [(1, Refused(BUSY)), (2, Refused(BUSY))]
    assert hall.registry.workers == {}


def test_a_native_call_that_ended_without_a_response_has_failed(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.stream(1, "rr_stream", b"60:me", b"1000")
    worker.take_one()
    worker.increment()
    hall.pass_time(UNANSWERED_PAUSE + 1)
    assert native.results() == [(1, Failed("its worker ended it without an answer"))]
    hall.check_empty()


def test_jobs_ask_nothing_of_these_workers(hall: Hall, native: NativeClient) -> None:
    """YIELD is never for them, but would do no harm."""
    worker = hall.worker()
    native.call(1, "copy")
    peer = next(iter(hall.door.workers._by_peer))
    hall.door.on_out(peer, calls.encode(calls.YIELD, 0, 0, 1), hall.now)
    hall.door.on_out(peer, calls.encode(calls.CREDIT, 0, 0, 1), hall.now)
    worker.finish(worker.take_one())
    assert native.results() == [(1, None)]


# Streams for gandy's own clients


@pytest.fixture
def streaming(hall: Hall, native: NativeClient) -> tuple[RoundRobinWorker, Note]:
    """A worker that was asked for a stream by call 1."""
    worker = hall.worker()
    native.stream(1, "feed", b"7:me", b"1024")
    note = worker.take_one()
    assert note.args == (FEED, b"7:me", b"1024")
    return worker, note


Streaming = tuple[RoundRobinWorker, Note]


def test_a_stream_of_one_packet(hall: Hall, native: NativeClient, streaming: Streaming) -> None:
    worker, note = streaming
    worker.finish(note, packet(b"2", b"data"))
    assert native.results() == [(1, b"data"), (1, END)]
    assert worker.take() == []
    hall.check_empty()


def test_an_empty_stream(hall: Hall, native: NativeClient, streaming: Streaming) -> None:
    worker, note = streaming
    worker.finish(note, packet(b"2"))
    assert native.results() == [(1, END)]
    hall.check_empty()


def test_a_stream_of_several_packets_is_fetched_one_by_one(
    hall: Hall, native: NativeClient, streaming: Streaming
) -> None:
    worker, note = streaming
    worker.finish(note, packet(b"0", b"one"))
    for data, state in ((b"two", b"0"), (b"", b"0"), (b"three", b"2")):
        question = worker.take_one()
        assert (question.command, question.args) == (TRACKEXEC, (b"mqs_more", b"7:me", HANDLE, b"0"))
        worker.respond(question, packet(state, data))
    assert native.results() == [(1, b"one"), (1, b"two"), (1, b"three"), (1, END)]
    assert worker.take() == []
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


def test_a_stream_holds_its_slot_until_its_end(hall: Hall, native: NativeClient, streaming: Streaming) -> None:
    """The original says INCREMENT right behind its first packet."""
    worker, note = streaming
    worker.finish(note, packet(b"0", b"one"))
    assert hall.list() == [(b"w", 0)]
    worker.respond(worker.take_one(), packet(b"2"))
    assert hall.list() == [(b"w", 1)]


def test_streams_without_a_host_are_read_by_gandy(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.stream(1, "feed")
    worker.finish(worker.take_one(), packet(b"0", b"one"))
    assert worker.take_one().args[1] == b"60:gandy"


def test_a_packed_stream_is_unpacked(hall: Hall, native: NativeClient, streaming: Streaming) -> None:
    worker, note = streaming
    data = zlib.compress(b"data" * 1000)
    worker.finish(note, packet(b"0", data[:10], b"Z"))
    worker.respond(worker.take_one(), packet(b"2", data[10:], b"Z"))
    results = native.results()
    assert results[-1] == (1, END)
    assert b"".join(value for _, value in results[:-1]) == b"data" * 1000


def test_the_next_packet_is_asked_for_when_the_caller_has_room(
    hall: Hall, native: NativeClient, streaming: Streaming
) -> None:
    worker, note = streaming
    worker.finish(note, packet(b"0", b"x" * 1_000_000))
    read = native.results()
    assert worker.take() == []
    while not (questions := worker.take()):
        native.grant(1, 100_000)
        read += native.results()
    assert b"".join(value for _, value in read) == b"x" * 1_000_000
    worker.respond(questions[0], packet(b"2", b"y"))
    assert native.results() == [(1, b"y"), (1, END)]
    hall.check_empty()


@pytest.mark.parametrize(
    "payload",
    [
        (packet(b"1"),),
        (packet(b"9"),),
        (b"20",),
        (),
        (packet(b"2", b"no zlib", b"Z"),),
    ],
)
def test_a_broken_or_aborted_stream_is_a_failure(
    hall: Hall, native: NativeClient, streaming: Streaming, payload: tuple[bytes, ...]
) -> None:
    worker, note = streaming
    worker.finish(note, *payload)
    ((_, failure),) = native.results()
    assert failure.text.startswith("the stream is broken: ")
    hall.check_empty()


@pytest.mark.parametrize("payload", [(packet(b"1"),), (packet(b"2", handle=b"other"),), (FAILURE, b"gone")])
def test_a_stream_may_break_in_the_middle(
    hall: Hall, native: NativeClient, streaming: Streaming, payload: tuple[bytes, ...]
) -> None:
    worker, note = streaming
    worker.finish(note, packet(b"0", b"one"))
    worker.respond(worker.take_one(), *payload)
    (_, value), (_, failure) = native.results()
    assert value == b"one"
    assert failure.text.startswith("the stream is broken: ")
    hall.check_empty()


def test_a_stream_that_is_cancelled_is_aborted(hall: Hall, native: NativeClient, streaming: Streaming) -> None:
    worker, note = streaming
    worker.finish(note, packet(b"0", b"one"))
    question = worker.take_one()
    native.cancel(1)
    assert worker.take_one().args == (b"mqs_more", b"7:me", HANDLE, b"1")
    assert hall.list() == [(b"w", 1)]
    worker.respond(question, packet(b"0", b"two"))
    assert native.results() == [(1, b"one")]
    hall.check_empty()


def test_a_stream_that_is_cancelled_before_its_first_packet_is_not_read(
    hall: Hall, native: NativeClient, streaming: Streaming
) -> None:
    worker, note = streaming
    native.cancel(1)
    worker.finish(note, packet(b"0", b"one"))
    assert native.results() == []
    assert [question.args[-1] for question in worker.take()] in ([], [b"1"])
    hall.check_empty()


def test_a_stream_that_is_wanted_as_a_value_is_one(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.call(1, "rr_stream", b"me", b"1024")
    worker.finish(worker.take_one(), packet(b"0", b"one"))
    assert native.results() == []
    worker.respond(worker.take_one(), packet(b"2", b"two"))
    assert native.results() == [(1, b"onetwo")]
    hall.check_empty()


def test_a_stream_that_is_too_long_for_a_value_is_a_failure(
    hall: Hall, native: NativeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_calls, "MAX_FLOW_BYTES", 5)
    worker = hall.worker()
    native.call(1, "rr_stream", b"me", b"1024")
    worker.finish(worker.take_one(), packet(b"0", b"one"))
    worker.respond(worker.take_one(), packet(b"2", b"two"))
    assert native.results() == [(1, Failed("the stream is broken: it has more than 5 bytes: ask for a stream"))]
    hall.check_empty()


def test_a_worker_hears_that_its_stream_is_still_wanted(hall: Hall, native: NativeClient, streaming: Streaming) -> None:
    worker, note = streaming
    hall.pass_time(60)
    assert {question.command for question in worker.hear()} == {PING}  # there is no stream yet
    worker.finish(note, packet(b"0", b"x" * 1_000_000))
    hall.pass_time(31)
    notes = [question for question in worker.hear() if question.command == TRACKEXEC]
    assert [question.args for question in notes] == [(b"ongoing", b"7:me")] * 2
    for question in notes:
        worker.respond(question, SUCCESS)
    assert not hall.door.dropped, "it was asked, so its answers are no nonsense"


def test_a_value_is_wanted_of_a_stream_of_a_worker_that_is_lost(
    hall: Hall, native: NativeClient, streaming: Streaming
) -> None:
    worker, note = streaming
    worker.finish(note, packet(b"0", b"one"))
    worker.vanish()
    assert native.results() == [(1, b"one"), (1, Refused(LOST))]
    hall.check_empty()


def test_a_native_caller_who_is_gone_frees_the_slot_as_if_it_had_cancelled(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker(slots=2)
    native.call(1, "copy")
    native.stream(2, "feed")
    first, second = worker.take()
    worker.finish(second, packet(b"0", b"x" * 500_000))
    native.cut()
    assert worker.take_one().args[-1] == b"1"
    worker.finish(first)
    assert hall.list() == [(b"w", 2)]
    hall.check_empty()


def test_a_value_that_is_asked_for_as_a_stream_is_its_only_one(hall: Hall, native: NativeClient) -> None:
    worker = hall.worker()
    native.stream(1, "copy")
    worker.finish(worker.take_one(), b"y")
    assert native.results() == [(1, b"y")]
    hall.check_empty()
