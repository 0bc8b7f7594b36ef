"""The calls of a round-robin worker: slots, calls that it drops, and calls and streams for gandy's own clients."""

import zlib

import msgspec
import pytest
from tests.roundrobin import (
    COPY,
    END,
    EXEC,
    FAILURE,
    FEED,
    HANDLE,
    ONCE,
    PING,
    PONG,
    RR_STREAM,
    SUCCESS,
    TRACKEXEC,
    Client,
    DoorHarness,
    Failed,
    NativeClient,
    PlainMessage,
    Refused,
    RoundRobinWorker,
    packet,
)

from gandy.doors.roundrobin import worker_calls
from gandy.doors.roundrobin.worker_calls import UNANSWERED_PAUSE, Times
from gandy.limits import MAX_PIECE_BYTES, MAX_SLOTS
from gandy.wire import calls
from gandy.wire.calls import BUSY, CAST, FRAME_COST, LAST, LOST, MORE, PICKLED, WINDOW_BYTES

# Slots


def test_exec_costs_a_slot_and_has_no_response(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=2)
    client.execute(PING)
    message = worker.take_one()
    assert message.command == EXEC
    assert harness.list() == [(b"w", 1)]
    worker.respond(message, b"an answer to nothing")
    assert client.hear() == []
    worker.increment()
    assert harness.list() == [(b"w", 2)]
    harness.check_empty()


def test_the_slot_comes_back_with_increment_and_not_with_the_response(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    client.track(COPY)
    number = client.track(COPY)
    message = worker.take_one()
    worker.respond(message)
    assert len(client.responses()) == 1
    assert harness.list() == [(b"w", 0)]
    assert worker.take() == []
    worker.increment()
    assert worker.take_one().id == number


def test_increments_that_nothing_was_taken_for_return_nothing(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=2)
    worker.increment(3)
    assert harness.list() == [(b"w", 2)]
    assert harness.door.dropped == {"INCREMENT": 3}
    client.track(COPY)
    worker.finish(worker.take_one())
    worker.increment(3)
    assert harness.list() == [(b"w", 2)]


def test_increments_of_strangers_and_of_lost_workers_return_nothing(harness: DoorHarness, client: Client) -> None:
    stranger = harness.worker(b"x", slots=None)
    stranger.increment()
    assert harness.list() == []
    worker = harness.worker(slots=2)
    client.track(COPY)
    worker.deregister()
    worker.finish(worker.take_one())
    worker.increment()
    assert harness.list() == []
    assert harness.registry.workers == {}


@pytest.mark.parametrize(
    ("frame", "slots"), [(b"10", 10), (b"10\0junk", 10), (b"-3", 0), (b"many", 0), (b"", 0), (b"9" * 19, MAX_SLOTS)]
)
def test_slots_are_what_the_frame_begins_with(harness: DoorHarness, frame: bytes, slots: int) -> None:
    worker = harness.worker(slots=None)
    worker.say(PlainMessage(TRACKEXEC, b"1234", (b"\x08", frame) if frame else (b"\x08",)))
    assert harness.list() == [(b"w", slots)]


def test_registering_again_overwrites_the_free_slots(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=3)
    for _ in range(5):
        client.track(COPY)
    first = worker.take()
    worker.register(1)
    assert len(worker.take()) == 1
    assert harness.list() == [(b"w", 0)]
    for message in first:
        worker.respond(message)
    worker.increment()
    assert len(worker.take()) == 1


def test_a_worker_that_says_that_it_has_no_free_slot_gets_calls_as_slots_come_back(
    harness: DoorHarness, client: Client
) -> None:
    worker = harness.worker(slots=1)
    ids = [client.track(COPY) for _ in range(2)]
    message = worker.take_one()
    worker.register(0)
    assert worker.take() == []
    worker.finish(message)
    assert worker.take_one().id == ids[1]


def test_slots_are_never_more_than_the_protocol_of_calls_can_tell(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=MAX_SLOTS + 1)
    client.track(COPY)
    worker.register(MAX_SLOTS)
    assert harness.list() == [(b"w", MAX_SLOTS - 1)]


def test_an_increment_may_come_before_its_response(harness: DoorHarness, client: Client) -> None:
    """The original's threads send in any order."""
    worker = harness.worker(slots=1)
    ids = [client.track(COPY) for _ in range(2)]
    first = worker.take_one()
    worker.increment()
    assert harness.list() == [(b"w", 0)]
    second = worker.take_one()
    worker.respond(first)
    worker.finish(second)
    assert [number for number, _ in client.responses()] == ids
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


def test_increments_before_responses_in_any_order_return_each_slot_once(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=3)
    ids = {client.track(COPY) for _ in range(3)}
    messages = worker.take()
    worker.increment(2)
    assert harness.list() == [(b"w", 2)]
    for message in reversed(messages):
        worker.respond(message)
    assert harness.list() == [(b"w", 2)]
    worker.increment(2)
    assert harness.list() == [(b"w", 3)]
    assert {number for number, _ in client.responses()} == ids
    harness.check_empty()


def test_a_call_that_ended_without_a_response_is_answered_with_a_failure(harness: DoorHarness, client: Client) -> None:
    """The original's rr_stream says nothing but INCREMENT where it does not like the size."""
    worker = harness.worker(slots=2)
    silent = client.track(RR_STREAM, b"me", b"1000")
    number = client.track(COPY)
    _, message = worker.take()
    worker.increment()
    harness.pass_time(10)  # the door does not know yet which one has ended
    worker.hear()
    assert client.responses() == []
    worker.finish(message)
    assert client.responses() == [(number, ())]
    assert harness.list() == [(b"w", 2)]
    harness.pass_time(UNANSWERED_PAUSE)
    assert client.failures() == [(silent, "its worker ended it without an answer")]
    assert harness.list() == [(b"w", 2)]
    harness.check_empty()


def test_an_increment_before_the_response_of_a_short_call_does_not_end_a_long_one(
    harness: DoorHarness, client: Client
) -> None:
    worker = harness.worker(slots=2)
    numbers = [client.track(ONCE), client.track(ONCE)]
    long, short = worker.take()
    worker.increment()
    worker.respond(short)
    harness.pass_time(UNANSWERED_PAUSE * 10)
    worker.hear()
    assert client.responses() == [(numbers[1], ())]
    worker.increment()
    harness.pass_time(UNANSWERED_PAUSE - 0.1, step=0.1)
    worker.respond(long)
    assert client.responses() == [(numbers[0], ())]
    assert harness.list() == [(b"w", 2)]
    harness.check_empty()


def test_an_increment_of_a_cast_does_not_end_a_long_call(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=3)
    numbers = [client.track(ONCE), client.track(ONCE)]
    long, short = worker.take()
    worker.increment()
    worker.respond(short)
    client.execute(ONCE)
    worker.increment()  # for the cast: only the long one runs
    harness.pass_time(UNANSWERED_PAUSE * 2)
    worker.hear()
    worker.finish(long)
    assert client.responses() == [(number, ()) for number in reversed(numbers)]
    harness.check_empty()


def test_a_call_that_ended_without_a_response_waits_for_one_for_a_moment(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    number = client.track(COPY)
    message = worker.take_one()
    worker.increment()
    harness.pass_time(UNANSWERED_PAUSE - 0.1, step=0.1)
    worker.respond(message)
    harness.pass_time(UNANSWERED_PAUSE)
    assert client.responses() == [(number, ())]


def test_an_increment_for_a_call_of_a_former_life_ends_no_other_call(harness: DoorHarness, client: Client) -> None:
    """The line broke and the worker did not notice: it goes on with what it had, and then says INCREMENT for it."""
    worker = harness.worker(slots=2)
    lost = client.track(ONCE)
    worker.take_one()
    worker.vanish()
    assert [number for number, _ in client.failures()] == [lost]
    worker.ping()
    number = client.track(ONCE)
    message = worker.hear()[-1]
    worker.increment()
    harness.pass_time(UNANSWERED_PAUSE + 2)
    worker.finish(message, b"y")
    assert client.responses() == [(number, (b"y",))]
    assert harness.list() == [(b"w", 2)]
    harness.check_empty()


# What a worker drops


@pytest.fixture
def hasty_harness() -> DoorHarness:
    return DoorHarness(times=Times(ready_pause=0.0, call_limit=100.0))


def live(harness: DoorHarness, worker: RoundRobinWorker, seconds: int) -> None:
    """The worker is there all the time, and answers each PING."""
    for _ in range(seconds):
        harness.pass_time(1.0)
        worker.pong()


def test_a_call_that_its_worker_drops_ends_with_a_failure_and_its_slot_comes_back(hasty_harness: DoorHarness) -> None:
    client, worker = hasty_harness.client(), hasty_harness.worker()
    dropped = client.track(ONCE)
    message = worker.take_one()
    live(hasty_harness, worker, 99)
    assert client.responses() == []
    live(hasty_harness, worker, 1)
    assert client.failures() == [(dropped, "its worker has sent nothing about it for 100 s")]
    assert hasty_harness.list() == [(b"w", 1)]
    hasty_harness.check_empty()
    worker.finish(message)  # it was only slow
    assert client.responses() == []
    assert hasty_harness.list() == [(b"w", 1)]


def test_a_late_increment_of_a_call_that_was_given_up_does_not_end_another(hasty_harness: DoorHarness) -> None:
    client, worker = hasty_harness.client(), hasty_harness.worker()
    client.track(ONCE)
    slow = worker.take_one()
    live(hasty_harness, worker, 100)
    client.hear()
    number = client.track(ONCE)
    other = worker.take_one()
    worker.finish(slow)
    live(hasty_harness, worker, 10)
    assert client.responses() == []
    worker.finish(other)
    assert client.responses() == [(number, ())]
    assert hasty_harness.list() == [(b"w", 1)]
    hasty_harness.check_empty()


def test_the_slot_of_a_cast_that_its_worker_drops_comes_back(hasty_harness: DoorHarness) -> None:
    client, worker = hasty_harness.client(), hasty_harness.worker()
    client.execute(ONCE)
    worker.take_one()
    live(hasty_harness, worker, 100)
    assert hasty_harness.list() == [(b"w", 1)]
    hasty_harness.check_empty()


def test_the_slot_of_a_worker_that_answers_and_says_no_increment_comes_back(hasty_harness: DoorHarness) -> None:
    client, worker = hasty_harness.client(), hasty_harness.worker()
    number = client.track(ONCE)
    worker.respond(worker.take_one())
    assert client.responses() == [(number, ())]
    live(hasty_harness, worker, 100)
    assert (hasty_harness.list(), client.responses()) == ([(b"w", 1)], [])
    hasty_harness.check_empty()


@pytest.mark.parametrize("increments", [0, 1])
def test_a_stream_whose_worker_stops_speaking_of_it_ends(hasty_harness: DoorHarness, increments: int) -> None:
    native, worker = hasty_harness.native_client(), hasty_harness.worker()
    native.stream(1, "feed", "60:me")
    worker.respond(worker.take_one(), packet(b"0", b"one"))
    assert worker.take_one().args[0] == b"mqs_more"
    worker.increment(increments)
    for _ in range(100):  # also words that the stream is still wanted, which it does not answer
        hasty_harness.pass_time(1.0)
        for message in worker.hear():
            if message.command == PING:
                worker.say(PlainMessage(PONG, message.id, (), message.path[::-1]))
    failure = Failed("its worker has sent nothing about it for 100 s")
    assert native.results() == [(1, b"one"), (1, failure)]
    assert hasty_harness.list() == [(b"w", 1)]
    hasty_harness.check_empty()


def test_a_caller_that_is_slow_to_read_is_waited_for(hasty_harness: DoorHarness) -> None:
    native, worker = hasty_harness.native_client(), hasty_harness.worker()
    native.call(1, "copy")
    value = bytes(WINDOW_BYTES * 2)
    worker.finish(worker.take_one(), value)
    live(hasty_harness, worker, 250)
    first = native.hear()
    native.grant(1, len(value) * 2)
    pieces = [*first, *native.hear()]
    assert msgspec.msgpack.decode(b"".join(piece.payload for piece in pieces)) == value
    assert [bool(piece.subtype & LAST) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    hasty_harness.check_empty()


# Calls of gandy's own clients


def test_a_native_ping_is_answered_with_pong(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.call(1, "ping")
    message = worker.take_one()
    assert (message.command, message.args, message.path, len(message.id)) == (TRACKEXEC, (PING,), (), 8)
    worker.respond(message)
    assert native.results() == [(1, "pong")]
    assert harness.list() == [(b"w", 0)]
    worker.increment()
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


@pytest.mark.parametrize(("payload", "value"), [((), None), ((b"one",), b"one"), ((b"one", b"two"), [b"one", b"two"])])
def test_payload_frames_are_values(
    harness: DoorHarness, native: NativeClient, payload: tuple[bytes, ...], value: object
) -> None:
    worker = harness.worker()
    native.call(1, "copy", b"bytes", "text", 17)
    message = worker.take_one()
    assert message.args == (COPY, b"bytes", b"text", b"17")
    worker.finish(message, *payload)
    assert native.results() == [(1, value)]
    harness.check_empty()


def test_a_failure_status_is_a_failure_of_a_native_call(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker(slots=3)
    native.call(1, "copy")
    native.call(2, "ping")
    native.stream(3, "feed")
    for message, texts in zip(worker.take(), ((b"a", b"b"), (), (b"c",)), strict=True):
        worker.finish(message, FAILURE, *texts)
    assert native.results() == [(1, Failed("a b")), (2, Failed("the worker failed")), (3, Failed("c"))]
    harness.check_empty()


@pytest.mark.parametrize(
    "args", [({"a": 1},), (1.5,), (True,), (None,), (b"",), ("",), ([b"x"],), tuple(range(1000))], ids=str
)
def test_arguments_that_no_frame_can_hold_are_a_failure(
    harness: DoorHarness, native: NativeClient, args: tuple[object]
) -> None:
    worker = harness.worker()
    native.call(1, "copy", *args)
    ((_, failure),) = native.results()
    assert failure.text.startswith("the arguments cannot be written as frames: ")
    assert worker.take() == []
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


@pytest.mark.parametrize(
    ("flags", "body"), [(PICKLED, b"\x80\x05]\x94."), (0, b""), (0, b"\x93"), (0, b"\x01"), (0, b"\x91\xa1\xff")]
)
def test_arguments_that_are_none_are_a_failure(
    harness: DoorHarness, native: NativeClient, flags: int, body: bytes
) -> None:
    harness.worker()
    native.say(calls.CALL, flags, 1, 0, calls.encode_target("copy") + body)
    ((_, failure),) = native.results()
    assert failure.text.startswith("the arguments cannot be written as frames: ")
    harness.check_empty()


def test_a_native_call_may_be_for_one_worker(harness: DoorHarness, native: NativeClient) -> None:
    one, two = harness.worker(b"w1", 5), harness.worker(b"w2", 5)
    for seq in range(3):
        native.call(seq, "copy", b"x", worker="roundrobin/w2")
    assert [message.args for message in two.take()] == [(COPY, b"x")] * 3
    assert one.take() == []


def test_a_native_cast_is_an_exec(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker(slots=3)
    native.cast(1, "once", b"x")
    native.cast(2, "feed", b"x")
    assert [(message.command, message.args) for message in worker.take()] == [
        (EXEC, (ONCE, b"x")),
        (EXEC, (FEED, b"x")),
    ]
    assert harness.list() == [(b"w", 1)]
    worker.increment(2)
    assert harness.list() == [(b"w", 3)]
    assert native.results() == []
    harness.check_empty()


def test_large_arguments_are_gathered_with_credit(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
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


def test_arguments_have_a_limit(harness: DoorHarness, native: NativeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_calls, "MAX_FLOW_BYTES", 1000)
    harness.worker()
    native.say(calls.CALL, MORE, 1, 0, calls.encode_target("copy") + bytes(600))
    native.say(calls.BODY, 0, 1, 0, bytes(401))
    assert native.results() == [(1, Failed("this worker takes at most 1,000 bytes of arguments"))]
    native.say(calls.BODY, 0, 1, 0, bytes(401))
    harness.check_empty()


def test_a_cast_with_large_arguments_is_an_exec(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    body = msgspec.msgpack.encode([b"x" * 100_000])
    native.say(calls.CALL, MORE | CAST, 1, 0, calls.encode_target("copy") + body[:50_000])
    native.say(calls.BODY, LAST, 1, 0, body[50_000:])
    assert [(message.command, len(message.args[1])) for message in worker.take()] == [(EXEC, 100_000)]
    worker.increment()
    assert native.hear() == []
    harness.check_empty()


def test_large_values_are_told_with_credit(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.call(1, "copy")
    worker.finish(worker.take_one(), b"y" * 1_000_000)
    assert harness.list() == [(b"w", 0)]  # the value is on its way
    body = b""
    while True:
        frames = native.hear()
        assert frames
        body += b"".join(frame.payload for frame in frames)
        if frames[-1].subtype & LAST:
            break
        native.grant(1, sum(len(frame.payload) + FRAME_COST for frame in frames))
    assert msgspec.msgpack.decode(body) == b"y" * 1_000_000
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


def test_the_increment_may_come_after_a_large_value_was_read(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.call(1, "copy")
    worker.respond(worker.take_one(), b"y" * 500_000)
    native.hear()
    native.grant(1, 500_000)
    assert native.hear()[-1].subtype & LAST
    assert harness.list() == [(b"w", 0)]
    worker.increment()
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


@pytest.mark.parametrize("is_returned", [False, True])
def test_a_large_value_of_a_cancelled_call_is_dropped(
    harness: DoorHarness, native: NativeClient, is_returned: bool
) -> None:
    worker = harness.worker()
    native.call(1, "copy")
    message = worker.take_one()
    worker.respond(message, b"y" * 500_000)
    if is_returned:
        worker.increment()
    native.cancel(1)
    native.grant(1, 500_000)
    if not is_returned:
        assert harness.list() == [(b"w", 0)]
        worker.increment()
    assert harness.list() == [(b"w", 1)]
    assert not [frame for frame in native.hear() if frame.subtype & LAST]
    harness.check_empty()


def test_a_cancelled_call_keeps_its_slot_until_the_worker_has_ended_it(
    harness: DoorHarness, native: NativeClient
) -> None:
    worker = harness.worker()
    native.call(1, "copy")
    message = worker.take_one()
    native.cancel(1)
    assert worker.take() == []
    assert harness.list() == [(b"w", 0)]
    worker.finish(message, b"y")
    assert native.hear() == []
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


def test_a_cancelled_call_may_have_its_increment_before_its_response(
    harness: DoorHarness, native: NativeClient
) -> None:
    worker = harness.worker()
    native.call(1, "copy")
    message = worker.take_one()
    native.cancel(1)
    worker.increment()
    assert harness.list() == [(b"w", 1)]
    worker.respond(message, b"y")
    assert native.hear() == []
    harness.check_empty()


def test_a_call_that_is_cancelled_before_its_arguments_are_complete_costs_nothing(
    harness: DoorHarness, native: NativeClient
) -> None:
    worker = harness.worker()
    native.say(calls.CALL, MORE, 1, 0, calls.encode_target("copy") + bytes(600))
    assert harness.list() == [(b"w", 0)]
    native.cancel(1)
    assert worker.take() == []
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


def test_a_call_that_is_cancelled_before_it_goes_out_never_does(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    with harness.together():
        native.call(1, "once", b"x")
        native.cancel(1)
    assert worker.take() == []
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


def test_a_native_caller_hears_that_its_worker_was_lost(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.call(1, "ping")
    worker.vanish()
    assert native.results() == [(1, Refused(LOST))]


def test_a_native_caller_hears_where_its_call_has_never_begun(harness: DoorHarness, native: NativeClient) -> None:
    """It may try again: BUSY."""
    harness.worker(slots=2)
    harness.undeliverable.add(b"w")
    with harness.together():
        native.call(1, "once")
        native.call(2, "once")
    assert native.results() == [(1, Refused(BUSY)), (2, Refused(BUSY))]
    assert harness.registry.workers == {}


def test_a_native_call_that_ended_without_a_response_has_failed(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.stream(1, "rr_stream", b"60:me", b"1000")
    worker.take_one()
    worker.increment()
    harness.pass_time(UNANSWERED_PAUSE + 1)
    assert native.results() == [(1, Failed("its worker ended it without an answer"))]
    harness.check_empty()


def test_jobs_ask_nothing_of_these_workers(harness: DoorHarness, native: NativeClient) -> None:
    """YIELD is never for them, but would do no harm."""
    worker = harness.worker()
    native.call(1, "copy")
    peer = next(iter(harness.door.workers._by_peer))
    harness.door.on_out(peer, calls.encode(calls.YIELD, 0, 0, 1), harness.now)
    harness.door.on_out(peer, calls.encode(calls.CREDIT, 0, 0, 1), harness.now)
    worker.finish(worker.take_one())
    assert native.results() == [(1, None)]


# Streams for gandy's own clients


@pytest.fixture
def streaming(harness: DoorHarness, native: NativeClient) -> tuple[RoundRobinWorker, PlainMessage]:
    """A worker that was asked for a stream by call 1."""
    worker = harness.worker()
    native.stream(1, "feed", b"7:me", b"1024")
    message = worker.take_one()
    assert message.args == (FEED, b"7:me", b"1024")
    return worker, message


Streaming = tuple[RoundRobinWorker, PlainMessage]


def test_a_stream_of_one_packet(harness: DoorHarness, native: NativeClient, streaming: Streaming) -> None:
    worker, message = streaming
    worker.finish(message, packet(b"2", b"data"))
    assert native.results() == [(1, b"data"), (1, END)]
    assert worker.take() == []
    harness.check_empty()


def test_an_empty_stream(harness: DoorHarness, native: NativeClient, streaming: Streaming) -> None:
    worker, message = streaming
    worker.finish(message, packet(b"2"))
    assert native.results() == [(1, END)]
    harness.check_empty()


def test_a_stream_of_several_packets_is_fetched_one_by_one(
    harness: DoorHarness, native: NativeClient, streaming: Streaming
) -> None:
    worker, message = streaming
    worker.finish(message, packet(b"0", b"one"))
    for data, state in ((b"two", b"0"), (b"", b"0"), (b"three", b"2")):
        question = worker.take_one()
        assert (question.command, question.args) == (TRACKEXEC, (b"mqs_more", b"7:me", HANDLE, b"0"))
        worker.respond(question, packet(state, data))
    assert native.results() == [(1, b"one"), (1, b"two"), (1, b"three"), (1, END)]
    assert worker.take() == []
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


def test_a_stream_holds_its_slot_until_its_end(
    harness: DoorHarness, native: NativeClient, streaming: Streaming
) -> None:
    """The original says INCREMENT right behind its first packet."""
    worker, message = streaming
    worker.finish(message, packet(b"0", b"one"))
    assert harness.list() == [(b"w", 0)]
    worker.respond(worker.take_one(), packet(b"2"))
    assert harness.list() == [(b"w", 1)]


def test_streams_without_a_host_are_read_by_gandy(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.stream(1, "feed")
    worker.finish(worker.take_one(), packet(b"0", b"one"))
    assert worker.take_one().args[1] == b"60:gandy"


def test_a_packed_stream_is_unpacked(harness: DoorHarness, native: NativeClient, streaming: Streaming) -> None:
    worker, message = streaming
    data = zlib.compress(b"data" * 1000)
    worker.finish(message, packet(b"0", data[:10], b"Z"))
    worker.respond(worker.take_one(), packet(b"2", data[10:], b"Z"))
    results = native.results()
    assert results[-1] == (1, END)
    assert b"".join(value for _, value in results[:-1]) == b"data" * 1000


def test_the_next_packet_is_asked_for_when_the_caller_has_room(
    harness: DoorHarness, native: NativeClient, streaming: Streaming
) -> None:
    worker, message = streaming
    worker.finish(message, packet(b"0", b"x" * 1_000_000))
    read = native.results()
    assert worker.take() == []
    while not (questions := worker.take()):
        native.grant(1, 100_000)
        read += native.results()
    assert b"".join(value for _, value in read) == b"x" * 1_000_000
    worker.respond(questions[0], packet(b"2", b"y"))
    assert native.results() == [(1, b"y"), (1, END)]
    harness.check_empty()


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
    harness: DoorHarness, native: NativeClient, streaming: Streaming, payload: tuple[bytes, ...]
) -> None:
    worker, message = streaming
    worker.finish(message, *payload)
    ((_, failure),) = native.results()
    assert failure.text.startswith("the stream is broken: ")
    harness.check_empty()


@pytest.mark.parametrize("payload", [(packet(b"1"),), (packet(b"2", handle=b"other"),), (FAILURE, b"gone")])
def test_a_stream_may_break_in_the_middle(
    harness: DoorHarness, native: NativeClient, streaming: Streaming, payload: tuple[bytes, ...]
) -> None:
    worker, message = streaming
    worker.finish(message, packet(b"0", b"one"))
    worker.respond(worker.take_one(), *payload)
    (_, value), (_, failure) = native.results()
    assert value == b"one"
    assert failure.text.startswith("the stream is broken: ")
    harness.check_empty()


def test_a_stream_that_is_cancelled_is_aborted(
    harness: DoorHarness, native: NativeClient, streaming: Streaming
) -> None:
    worker, message = streaming
    worker.finish(message, packet(b"0", b"one"))
    question = worker.take_one()
    native.cancel(1)
    assert worker.take_one().args == (b"mqs_more", b"7:me", HANDLE, b"1")
    assert harness.list() == [(b"w", 1)]
    worker.respond(question, packet(b"0", b"two"))
    assert native.results() == [(1, b"one")]
    harness.check_empty()


def test_a_stream_that_is_cancelled_before_its_first_packet_is_not_read(
    harness: DoorHarness, native: NativeClient, streaming: Streaming
) -> None:
    worker, message = streaming
    native.cancel(1)
    worker.finish(message, packet(b"0", b"one"))
    assert native.results() == []
    assert [question.args[-1] for question in worker.take()] in ([], [b"1"])
    harness.check_empty()


def test_a_stream_that_is_wanted_as_a_value_is_one(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.call(1, "rr_stream", b"me", b"1024")
    worker.finish(worker.take_one(), packet(b"0", b"one"))
    assert native.results() == []
    worker.respond(worker.take_one(), packet(b"2", b"two"))
    assert native.results() == [(1, b"onetwo")]
    harness.check_empty()


def test_a_stream_that_is_too_long_for_a_value_is_a_failure(
    harness: DoorHarness, native: NativeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_calls, "MAX_FLOW_BYTES", 5)
    worker = harness.worker()
    native.call(1, "rr_stream", b"me", b"1024")
    worker.finish(worker.take_one(), packet(b"0", b"one"))
    worker.respond(worker.take_one(), packet(b"2", b"two"))
    assert native.results() == [(1, Failed("the stream is broken: it has more than 5 bytes: ask for a stream"))]
    harness.check_empty()


def test_a_worker_hears_that_its_stream_is_still_wanted(
    harness: DoorHarness, native: NativeClient, streaming: Streaming
) -> None:
    worker, message = streaming
    harness.pass_time(60)
    assert {question.command for question in worker.hear()} == {PING}  # there is no stream yet
    worker.finish(message, packet(b"0", b"x" * 1_000_000))
    harness.pass_time(31)
    messages = [question for question in worker.hear() if question.command == TRACKEXEC]
    assert [question.args for question in messages] == [(b"ongoing", b"7:me")] * 2
    for question in messages:
        worker.respond(question, SUCCESS)
    assert not harness.door.dropped, "it was asked, so its answers are no nonsense"


def test_a_value_is_wanted_of_a_stream_of_a_worker_that_is_lost(
    harness: DoorHarness, native: NativeClient, streaming: Streaming
) -> None:
    worker, message = streaming
    worker.finish(message, packet(b"0", b"one"))
    worker.vanish()
    assert native.results() == [(1, b"one"), (1, Refused(LOST))]
    harness.check_empty()


def test_a_native_caller_who_is_gone_frees_the_slot_as_if_it_had_cancelled(
    harness: DoorHarness, native: NativeClient
) -> None:
    worker = harness.worker(slots=2)
    native.call(1, "copy")
    native.stream(2, "feed")
    first, second = worker.take()
    worker.finish(second, packet(b"0", b"x" * 500_000))
    native.cut()
    assert worker.take_one().args[-1] == b"1"
    worker.finish(first)
    assert harness.list() == [(b"w", 2)]
    harness.check_empty()


def test_a_value_that_is_asked_for_as_a_stream_is_its_only_one(harness: DoorHarness, native: NativeClient) -> None:
    worker = harness.worker()
    native.stream(1, "copy")
    worker.finish(worker.take_one(), b"y")
    assert native.results() == [(1, b"y")]
    harness.check_empty()


def test_a_late_response_does_not_answer_a_call_of_the_next_foreman() -> None:
    """Each foreman begins its ids somewhere else. Found by the simulator: one call got the value of another."""
    before, after = DoorHarness(first_id=0), DoorHarness(first_id=500)
    before.worker()
    before.native_client().call(1, "copy", b"old")
    old = before.inboxes[b"w"].pop()
    worker, client = after.worker(), after.native_client()
    client.call(1, "copy", b"new")
    message = worker.take_one()
    worker.respond(old, b"old")
    assert client.results() == []
    worker.respond(message, b"new")
    assert client.results() == [(1, b"new")]
