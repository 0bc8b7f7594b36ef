"""Clients at the round-robin door: values, arguments, casts, clients that are gone, and floods."""

import msgspec
import pytest
from tests.roundrobin import (
    COPY,
    FAILURE,
    FEED,
    ONCE,
    PING,
    RESPONSE,
    Client,
    DoorHarness,
    NativeWorker,
    PlainMessage,
    give_pieces,
)

from gandy.doors.roundrobin import clients
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire import calls
from gandy.wire.calls import BUSY, LAST, REFUSED, STREAM, WHOLE

# Values


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (None, ()),
        (b"", ()),
        ("", ()),
        (b"one", (b"one",)),
        ("text", (b"text",)),
        (17, (b"17",)),
        ([], ()),
        ([b"one", "two", 3], (b"one", b"two", b"3")),
    ],
)
def test_a_native_worker_answers_with_frames(
    harness: DoorHarness, client: Client, worker: NativeWorker, value: object, payload: tuple[bytes, ...]
) -> None:
    client.track(COPY, b"x", b"y", id=b"1234")
    job = worker.take_one()
    assert (job.name, job.args, job.flags & STREAM) == ("copy", [b"x", b"y"], 0)
    worker.give(job, value)
    assert client.hear() == [PlainMessage(RESPONSE, b"1234", payload)]
    harness.check_empty()


def test_a_ping_has_no_payload_whatever_its_worker_says(
    harness: DoorHarness, client: Client, worker: NativeWorker
) -> None:
    number = client.track(PING)
    job = worker.take_one()
    assert job.args == []
    worker.give(job, "pong")
    assert client.responses() == [(number, ())]


@pytest.mark.parametrize("body", [msgspec.msgpack.encode(value) for value in (1.5, {"a": 1}, [b"x", b""])] + [b"\xc1"])
def test_a_value_that_no_frame_can_hold_is_a_failure(
    harness: DoorHarness, client: Client, worker: NativeWorker, body: bytes
) -> None:
    number = client.track(COPY)
    worker.result(worker.take_one(), LAST | WHOLE, body)
    ((failed, text),) = client.failures()
    assert failed == number
    assert text.startswith("the value cannot be written as frames: ")
    harness.check_empty()


def test_a_failure_is_a_status_and_a_text(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    number = client.track(COPY)
    worker.fail(worker.take_one(), "no")
    assert client.responses() == [(number, (FAILURE, b"no"))]
    harness.check_empty()


@pytest.mark.parametrize(("kind", "text"), [("KeyError", "KeyError"), ("", "it failed")])
def test_a_failure_without_a_text_is_no_empty_frame(
    harness: DoorHarness, client: Client, worker: NativeWorker, kind: str, text: str
) -> None:
    """An empty frame would end the message."""
    number = client.track(COPY)
    worker.fail(worker.take_one(), "", kind)
    assert client.failures() == [(number, text)]


def test_a_refusal_of_a_worker_is_a_failure(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    number = client.track(COPY)
    worker.result(worker.take_one(), LAST | REFUSED, calls.encode_refusal(BUSY, "not now"))
    assert client.failures() == [(number, "not now")]
    harness.check_empty()


def test_a_value_in_pieces_is_put_together_with_credit(
    harness: DoorHarness, client: Client, worker: NativeWorker
) -> None:
    number = client.track(COPY)
    job = worker.take_one()
    body = msgspec.msgpack.encode(b"y" * 1_000_000)
    give_pieces(worker, job, body, LAST | WHOLE)
    assert client.responses() == [(number, (b"y" * 1_000_000,))]
    harness.check_empty()


def test_a_value_has_a_limit(
    harness: DoorHarness, client: Client, worker: NativeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_FLOW_BYTES", 1000)
    number = client.track(COPY)
    job = worker.take_one()
    worker.result(job, 0, bytes(1001))
    assert client.failures() == [(number, "its value has more than 1,000 bytes")]
    assert [frame.kind for frame in worker.take_others()] == [calls.CANCEL]
    worker.result(job, LAST)
    harness.check_empty()


def test_pieces_of_a_lost_worker_are_not_mixed_with_those_of_the_next(harness: DoorHarness, client: Client) -> None:
    number = client.track(COPY)
    worker = harness.native_worker("n1")
    worker.result(worker.take_one(), 0, msgspec.msgpack.encode(b"y" * 1000)[:500])
    worker.cut()
    other = harness.native_worker("n2")
    other.give(other.take_one(), b"z")
    assert client.responses() == [(number, (b"z",))]
    harness.check_empty()


def test_calls_of_a_lost_native_worker_are_served_elsewhere_if_repeatable(harness: DoorHarness, client: Client) -> None:
    worker = harness.native_worker("n1", 2)
    once, copy = client.track(ONCE), client.track(COPY)
    worker.take()
    worker.cut()
    assert client.failures() == [(once, "worker n1 was lost while it had the call")]
    other = harness.worker()
    message = other.take_one()
    assert message.id == copy
    other.finish(message)
    assert client.responses() == [(copy, ())]
    harness.check_empty()


# Arguments


@pytest.mark.parametrize("size", [MAX_PIECE_BYTES, 5 * MAX_PIECE_BYTES, 1_000_000])
def test_large_arguments_go_in_pieces_with_credit(
    harness: DoorHarness, client: Client, worker: NativeWorker, size: int
) -> None:
    number = client.track(COPY, b"x" * size, b"y")
    job = worker.take_whole()
    assert job.args == [b"x" * size, b"y"]
    worker.give(job)
    assert client.responses() == [(number, ())]
    harness.check_empty()


def test_large_arguments_wait_too(harness: DoorHarness, client: Client) -> None:
    number = client.track(COPY, b"x" * 400_000)
    worker = harness.native_worker()
    job = worker.take_whole()
    assert job.args == [b"x" * 400_000]
    worker.give(job)
    assert client.responses() == [(number, ())]


def test_large_arguments_are_sent_again_from_their_beginning(harness: DoorHarness, client: Client) -> None:
    worker = harness.native_worker("n1")
    client.track(COPY, b"x" * 1_000_000)
    worker.take_whole()
    worker.cut()
    other = harness.native_worker("n2")
    assert other.take_whole().args == [b"x" * 1_000_000]


def test_large_arguments_are_one_message_for_a_round_robin_worker(harness: DoorHarness, client: Client) -> None:
    number = client.track(COPY, b"x" * 1_000_000)
    worker = harness.worker()
    message = worker.take_one()
    assert message.args == (COPY, b"x" * 1_000_000)
    worker.finish(message, b"y" * 1_000_000)
    assert client.responses() == [(number, (b"y" * 1_000_000,))]
    harness.check_empty()


def test_large_casts_go_in_pieces_with_credit(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    client.execute(ONCE, b"x" * 1_000_000)
    job = worker.take_whole()
    assert job.args == [b"x" * 1_000_000]
    worker.give(job)
    assert client.hear() == []
    harness.check_empty()


# Casts


@pytest.mark.parametrize("code", [COPY, FEED])
def test_a_cast_is_over_with_its_value_however_large(
    harness: DoorHarness, client: Client, worker: NativeWorker, code: bytes
) -> None:
    """No client reads it, but its worker waits for credit, and its slot with it."""
    client.execute(code)
    job = worker.take_one()
    give_pieces(worker, job, msgspec.msgpack.encode(b"y" * 1_000_000), LAST | WHOLE)
    assert client.hear() == []
    harness.check_empty()


def test_a_cast_that_fails_is_over(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    client.execute(COPY)
    worker.fail(worker.take_one(), "no")
    assert client.hear() == []
    harness.check_empty()


# Clients that are gone


def test_waiting_calls_of_a_client_that_is_gone_vanish_and_its_casts_stay(harness: DoorHarness, client: Client) -> None:
    client.track(COPY)
    cast = client.execute(ONCE)
    client.vanish()
    worker = harness.worker(slots=5)
    assert worker.take_one().id == cast
    worker.increment()
    harness.check_empty()


def test_the_response_to_a_client_that_is_gone_is_dropped_and_the_slot_comes_back(
    harness: DoorHarness, client: Client
) -> None:
    worker = harness.worker()
    client.track(COPY)
    client.vanish()
    assert harness.list() == [(b"w", 0)]
    worker.finish(worker.take_one())
    assert harness.list() == [(b"w", 1)]
    assert client.hear() == []
    harness.check_empty()


def test_native_workers_hear_that_a_client_is_gone(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    client.track(COPY)
    client.execute(ONCE)
    track, cast = worker.take()
    client.vanish()
    assert [(frame.kind, frame.seq) for frame in worker.take_others()] == [(calls.CANCEL, track.number)]
    worker.give(track)
    worker.give(cast)
    harness.check_empty()


def test_messages_of_a_client_that_is_gone_which_wait_for_their_turn(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 1)
    for _ in range(3):
        client.track(COPY)
    casts = [client.execute(ONCE) for _ in range(3)]
    client.vanish()
    worker = harness.worker(slots=5)
    for cast in casts:  # as many at a time as if it were still there
        assert [message.id for message in worker.take()] == [cast]
        worker.increment()
    harness.check_empty()


def test_clients_that_are_gone_count_as_long_as_something_is_left(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 1)
    client.execute(ONCE)
    client.vanish()
    other = harness.client(b"other")
    number = other.track(COPY)
    assert other.failures() == [(number, "too many clients have something under way already")]
    worker = harness.worker()
    worker.take()
    worker.increment()
    other.track(COPY)
    assert len(worker.take()) == 1


def test_clients_that_wait_get_a_failure_when_the_server_ends(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 1)
    numbers = [client.track(COPY), client.track(COPY)]
    client.execute(COPY)
    harness.door.close()
    harness.settle()
    assert client.failures() == [(number, "the server was stopped") for number in numbers]


def test_a_client_that_comes_back_begins_anew(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of its first life does not count for the second."""
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 1)
    cast = client.execute(ONCE, b"x" * 1000)
    client.vanish()
    client.track(COPY)
    client.track(COPY)
    worker = harness.worker(slots=5)
    first, second = worker.take()
    assert first.id == cast
    worker.increment()
    assert worker.take() == []
    worker.finish(second)
    worker.finish(worker.take_one())
    assert len(client.responses()) == 2
    harness.check_empty()


def test_a_client_whose_response_cannot_be_sent_is_gone(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=2)
    client.track(COPY)
    client.track(COPY)
    first, _ = worker.take()
    harness.undeliverable.add(b"c")
    worker.finish(first)
    assert len(harness.door.clients) == 0
    worker.increment()
    harness.pass_time(1)
    assert harness.list() == [(b"w", 2)]


def test_a_worker_may_be_a_client_too(harness: DoorHarness) -> None:
    both, worker = harness.worker(b"both"), harness.worker()
    worker.track(ONCE)
    number = both.track(ONCE)
    assert both.take_one().path == (b"w",)
    assert worker.take_one().id == number
    both.vanish()
    assert harness.client(b"w").failures() == [
        (b"\x02\x00\x00\x00", "worker roundrobin/both was lost while it had the call")
    ]
    assert len(harness.door.clients) == 0


def test_a_call_of_a_client_that_is_gone_before_it_goes_out_never_does(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    with harness.together():
        client.track(ONCE)
        harness.door.clients.on_gone(b"c", harness.now)
    assert worker.take() == []
    assert harness.list() == [(b"w", 1)]


# Floods


def test_a_flood_of_one_client_does_not_keep_another_waiting(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 10)
    monkeypatch.setattr(clients, "MAX_WAITING_MESSAGES", 20)
    flood = [client.track(COPY) for _ in range(100)]
    assert [number for number, _ in client.failures()] == flood[30:]
    other = harness.client(b"d")
    number = other.track(COPY)
    worker = harness.worker()
    for _ in range(11):
        worker.finish(worker.take_one())
    assert other.responses() == [(number, ())]
    while messages := worker.take():
        worker.finish(messages[0])
    assert [number for number, _ in client.responses()] == flood[:30]
    harness.check_empty()


def test_messages_of_one_client_have_so_many_bytes(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENT_BYTES", 1000)
    alone = client.track(COPY, bytes(2000))  # alone, any message may go
    client.track(COPY, bytes(1))
    assert client.failures() == [(b"\2\0\0\0", "1 messages of this client are under way already")]
    worker = harness.worker()
    worker.finish(worker.take_one())
    assert client.responses() == [(alone, ())]
    ids = [client.track(COPY, bytes(400)) for _ in range(3)]
    assert [number for number, _ in client.failures()] == ids[2:]
    worker.finish(worker.take_one())  # one is still under way, and there is room for another
    ids[2] = client.track(COPY, bytes(400))
    for _ in range(2):
        worker.finish(worker.take_one())
    assert [number for number, _ in client.responses()] == ids
    harness.check_empty()


def test_so_many_clients_have_something_under_way(
    harness: DoorHarness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 1)
    client.track(COPY)
    other = harness.client(b"d")
    number = other.track(COPY)
    other.execute(COPY)
    assert other.failures() == [(number, "too many clients have something under way already")]
    worker = harness.worker()
    worker.finish(worker.take_one())
    other.track(COPY)
    assert other.hear() == []
    assert len(worker.take()) == 1


def test_where_too_much_waits_already_a_message_is_answered_at_once(harness: DoorHarness, client: Client) -> None:
    harness.board.waiting.max_calls = 1
    ids = [client.track(COPY) for _ in range(2)]
    assert [number for number, _ in client.failures()] == ids[1:]


def test_numbers_of_calls_are_not_used_twice(harness: DoorHarness, client: Client) -> None:
    harness.door.clients._next = 0xFFFF_FFFF
    ids = [client.track(COPY) for _ in range(2)]
    harness.door.clients._next = 0xFFFF_FFFF
    ids.append(client.track(COPY))
    worker = harness.worker(slots=3)
    assert sorted(message.id for message in worker.take()) == ids
