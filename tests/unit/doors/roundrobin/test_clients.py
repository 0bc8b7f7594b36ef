"""Clients at the round-robin door: gandy's own workers serve them, and nobody is kept waiting by somebody else."""

from collections.abc import Callable

import msgspec
import pytest
from tests.roundrobin import (
    COPY,
    FAILURE,
    FEED,
    ONCE,
    PING,
    RESPONSE,
    RR_STREAM,
    SUCCESS,
    Client,
    Hall,
    Job,
    NativeWorker,
    Note,
)

from gandy.doors.roundrobin import client_streams, clients
from gandy.doors.roundrobin.client_streams import MAX_STREAM_WAIT
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire import calls
from gandy.wire.calls import BUSY, FRAME_COST, LAST, REFUSED, STREAM, WHOLE, WINDOW_BYTES

PACKET = 8192
HEAD = 11  # bytes of a packet before its data


@pytest.fixture
def hall() -> Hall:
    return Hall()


@pytest.fixture
def client(hall: Hall) -> Client:
    return hall.client()


@pytest.fixture
def worker(hall: Hall) -> NativeWorker:
    return hall.native_worker(slots=3)


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
    hall: Hall, client: Client, worker: NativeWorker, value: object, payload: tuple[bytes, ...]
) -> None:
    client.track(COPY, b"x", b"y", id=b"1234")
    job = worker.take_one()
    assert (job.name, job.args, job.flags & STREAM) == ("copy", [b"x", b"y"], 0)
    worker.give(job, value)
    assert client.hear() == [Note(RESPONSE, b"1234", payload)]
    hall.check_empty()


def test_a_ping_has_no_payload_whatever_its_worker_says(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(PING)
    job = worker.take_one()
    assert job.args == []
    worker.give(job, "pong")
    assert client.responses() == [(number, ())]


@pytest.mark.parametrize("body", [msgspec.msgpack.encode(value) for value in (1.5, {"a": 1}, [b"x", b""])] + [b"\xc1"])
def test_a_value_that_no_frame_can_hold_is_a_failure(
    hall: Hall, client: Client, worker: NativeWorker, body: bytes
) -> None:
    number = client.track(COPY)
    worker.result(worker.take_one(), LAST | WHOLE, body)
    ((failed, text),) = client.failures()
    assert failed == number
    assert text.startswith("the value cannot be written as frames: ")
    hall.check_empty()


def test_a_failure_is_a_status_and_a_text(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(COPY)
    worker.fail(worker.take_one(), "no")
    assert client.responses() == [(number, (FAILURE, b"no"))]
    hall.check_empty()


@pytest.mark.parametrize(("kind", "text"), [("KeyError", "KeyError"), ("", "it failed")])
def test_a_failure_without_a_text_is_no_empty_frame(
    hall: Hall, client: Client, worker: NativeWorker, kind: str, text: str
) -> None:
    """An empty frame would end the message."""
    number = client.track(COPY)
    worker.fail(worker.take_one(), "", kind)
    assert client.failures() == [(number, text)]


def test_a_refusal_of_a_worker_is_a_failure(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(COPY)
    worker.result(worker.take_one(), LAST | REFUSED, calls.encode_refusal(BUSY, "not now"))
    assert client.failures() == [(number, "not now")]
    hall.check_empty()


def test_a_value_in_pieces_is_put_together_with_credit(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(COPY)
    job = worker.take_one()
    body = msgspec.msgpack.encode(b"y" * 1_000_000)
    give_pieces(worker, job, body, LAST | WHOLE)
    assert client.responses() == [(number, (b"y" * 1_000_000,))]
    hall.check_empty()


def test_a_value_has_a_limit(hall: Hall, client: Client, worker: NativeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_FLOW_BYTES", 1000)
    number = client.track(COPY)
    job = worker.take_one()
    worker.result(job, 0, bytes(1001))
    assert client.failures() == [(number, "its value has more than 1,000 bytes")]
    assert [frame.kind for frame in worker.take_others()] == [calls.CANCEL]
    worker.result(job, LAST)
    hall.check_empty()


def test_pieces_of_a_lost_worker_are_not_mixed_with_those_of_the_next(hall: Hall, client: Client) -> None:
    number = client.track(COPY)
    worker = hall.native_worker("n1")
    worker.result(worker.take_one(), 0, msgspec.msgpack.encode(b"y" * 1000)[:500])
    worker.cut()
    other = hall.native_worker("n2")
    other.give(other.take_one(), b"z")
    assert client.responses() == [(number, (b"z",))]
    hall.check_empty()


def test_calls_of_a_lost_native_worker_are_served_elsewhere_if_repeatable(hall: Hall, client: Client) -> None:
    worker = hall.native_worker("n1", 2)
    once, copy = client.track(ONCE), client.track(COPY)
    worker.take()
    worker.cut()
    assert client.failures() == [(once, "worker n1 was lost while it had the call")]
    other = hall.worker()
    note = other.take_one()
    assert note.id == copy
    other.finish(note)
    assert client.responses() == [(copy, ())]
    hall.check_empty()


def give_pieces(worker: NativeWorker, job: Job, body: bytes, last: int) -> None:
    """As a gandy worker does: each piece when there is credit, and the end without."""
    credit = WINDOW_BYTES
    for at in range(0, len(body), MAX_PIECE_BYTES):
        piece = body[at : at + MAX_PIECE_BYTES]
        is_end = at + MAX_PIECE_BYTES >= len(body)
        if not (is_end and last & LAST):
            credit += sum(frame.padding for frame in worker.take_others() if frame.kind == calls.CREDIT)
            assert credit > 0, "nobody grants credit any more"
            credit -= len(piece) + FRAME_COST
        worker.result(job, last if is_end else 0, piece)


# Arguments


@pytest.mark.parametrize("size", [MAX_PIECE_BYTES, 5 * MAX_PIECE_BYTES, 1_000_000])
def test_large_arguments_go_in_pieces_with_credit(hall: Hall, client: Client, worker: NativeWorker, size: int) -> None:
    number = client.track(COPY, b"x" * size, b"y")
    job = worker.take_whole()
    assert job.args == [b"x" * size, b"y"]
    worker.give(job)
    assert client.responses() == [(number, ())]
    hall.check_empty()


def test_large_arguments_wait_too(hall: Hall, client: Client) -> None:
    number = client.track(COPY, b"x" * 400_000)
    worker = hall.native_worker()
    job = worker.take_whole()
    assert job.args == [b"x" * 400_000]
    worker.give(job)
    assert client.responses() == [(number, ())]


def test_large_arguments_are_sent_again_from_their_beginning(hall: Hall, client: Client) -> None:
    worker = hall.native_worker("n1")
    client.track(COPY, b"x" * 1_000_000)
    worker.take_whole()
    worker.cut()
    other = hall.native_worker("n2")
    assert other.take_whole().args == [b"x" * 1_000_000]


def test_large_arguments_are_one_message_for_a_round_robin_worker(hall: Hall, client: Client) -> None:
    number = client.track(COPY, b"x" * 1_000_000)
    worker = hall.worker()
    note = worker.take_one()
    assert note.args == (COPY, b"x" * 1_000_000)
    worker.finish(note, b"y" * 1_000_000)
    assert client.responses() == [(number, (b"y" * 1_000_000,))]
    hall.check_empty()


def test_large_casts_go_in_pieces_with_credit(hall: Hall, client: Client, worker: NativeWorker) -> None:
    client.execute(ONCE, b"x" * 1_000_000)
    job = worker.take_whole()
    assert job.args == [b"x" * 1_000_000]
    worker.give(job)
    assert client.hear() == []
    hall.check_empty()


# Casts


@pytest.mark.parametrize("code", [COPY, FEED])
def test_a_cast_is_over_with_its_value_however_large(
    hall: Hall, client: Client, worker: NativeWorker, code: bytes
) -> None:
    """Nobody reads it, but its worker waits for credit, and its slot with it."""
    client.execute(code)
    job = worker.take_one()
    give_pieces(worker, job, msgspec.msgpack.encode(b"y" * 1_000_000), LAST | WHOLE)
    assert client.hear() == []
    hall.check_empty()


def test_a_cast_that_fails_is_over(hall: Hall, client: Client, worker: NativeWorker) -> None:
    client.execute(COPY)
    worker.fail(worker.take_one(), "no")
    assert client.hear() == []
    hall.check_empty()


# Clients that are gone


def test_waiting_calls_of_a_client_that_is_gone_vanish_and_its_casts_stay(hall: Hall, client: Client) -> None:
    client.track(COPY)
    cast = client.execute(ONCE)
    client.vanish()
    worker = hall.worker(slots=5)
    assert worker.take_one().id == cast
    worker.increment()
    hall.check_empty()


def test_the_response_to_a_client_that_is_gone_is_dropped_and_the_slot_comes_back(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    client.track(COPY)
    client.vanish()
    assert hall.list() == [(b"w", 0)]
    worker.finish(worker.take_one())
    assert hall.list() == [(b"w", 1)]
    assert client.hear() == []
    hall.check_empty()


def test_native_workers_hear_that_a_client_is_gone(hall: Hall, client: Client, worker: NativeWorker) -> None:
    client.track(COPY)
    client.execute(ONCE)
    track, cast = worker.take()
    client.vanish()
    assert [(frame.kind, frame.seq) for frame in worker.take_others()] == [(calls.CANCEL, track.number)]
    worker.give(track)
    worker.give(cast)
    hall.check_empty()


def test_messages_of_a_client_that_is_gone_which_wait_for_their_turn(
    hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 1)
    for _ in range(3):
        client.track(COPY)
    casts = [client.execute(ONCE) for _ in range(3)]
    client.vanish()
    worker = hall.worker(slots=5)
    for cast in casts:  # as many at a time as if it were still there
        assert [note.id for note in worker.take()] == [cast]
        worker.increment()
    hall.check_empty()


def test_clients_that_are_gone_count_as_long_as_something_is_left(
    hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 1)
    client.execute(ONCE)
    client.vanish()
    other = hall.client(b"other")
    number = other.track(COPY)
    assert other.failures() == [(number, "too many clients have something under way already")]
    worker = hall.worker()
    worker.take()
    worker.increment()
    other.track(COPY)
    assert len(worker.take()) == 1


def test_whoever_waits_hears_that_the_server_ends(hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 1)
    numbers = [client.track(COPY), client.track(COPY)]
    client.execute(COPY)
    hall.door.close()
    hall.settle()
    assert client.failures() == [(number, "the server was stopped") for number in numbers]


def test_a_client_that_comes_back_begins_anew(hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of its first life does not count for the second."""
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 1)
    cast = client.execute(ONCE, b"x" * 1000)
    client.vanish()
    client.track(COPY)
    client.track(COPY)
    worker = hall.worker(slots=5)
    first, second = worker.take()
    assert first.id == cast
    worker.increment()
    assert worker.take() == []
    worker.finish(second)
    worker.finish(worker.take_one())
    assert len(client.responses()) == 2
    hall.check_empty()


def test_a_client_whose_response_cannot_be_sent_is_gone(hall: Hall, client: Client) -> None:
    worker = hall.worker(slots=2)
    client.track(COPY)
    client.track(COPY)
    first, _ = worker.take()
    hall.undeliverable.add(b"c")
    worker.finish(first)
    assert len(hall.door.clients) == 0
    worker.increment()
    hall.pass_time(1)
    assert hall.list() == [(b"w", 2)]


def test_a_worker_may_be_a_client_too(hall: Hall) -> None:
    both, worker = hall.worker(b"both"), hall.worker()
    worker.track(ONCE)
    number = both.track(ONCE)
    assert both.take_one().path == (b"w",)
    assert worker.take_one().id == number
    both.vanish()
    assert hall.client(b"w").failures() == [
        (b"\x02\x00\x00\x00", "worker roundrobin/both was lost while it had the call")
    ]
    assert len(hall.door.clients) == 0


def test_a_call_of_a_client_that_is_gone_before_it_goes_out_never_does(hall: Hall, client: Client) -> None:
    worker = hall.worker()
    with hall.together():
        client.track(ONCE)
        hall.door.clients.on_gone(b"c", hall.now)
    assert worker.take() == []
    assert hall.list() == [(b"w", 1)]


# Floods


def test_a_flood_of_one_client_does_not_keep_another_waiting(
    hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_UNDER_WAY", 10)
    monkeypatch.setattr(clients, "MAX_WAITING", 20)
    flood = [client.track(COPY) for _ in range(100)]
    assert [number for number, _ in client.failures()] == flood[30:]
    other = hall.client(b"d")
    number = other.track(COPY)
    worker = hall.worker()
    for _ in range(11):
        worker.finish(worker.take_one())
    assert other.responses() == [(number, ())]
    while notes := worker.take():
        worker.finish(notes[0])
    assert [number for number, _ in client.responses()] == flood[:30]
    hall.check_empty()


def test_messages_of_one_client_have_so_many_bytes(hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_BYTES", 1000)
    alone = client.track(COPY, bytes(2000))  # alone, any message may go
    client.track(COPY, bytes(1))
    assert client.failures() == [(b"\2\0\0\0", "1 messages of this client are under way already")]
    worker = hall.worker()
    worker.finish(worker.take_one())
    assert client.responses() == [(alone, ())]
    ids = [client.track(COPY, bytes(400)) for _ in range(3)]
    assert [number for number, _ in client.failures()] == ids[2:]
    worker.finish(worker.take_one())  # one is still under way, and there is room for another
    ids[2] = client.track(COPY, bytes(400))
    for _ in range(2):
        worker.finish(worker.take_one())
    assert [number for number, _ in client.responses()] == ids
    hall.check_empty()


def test_so_many_clients_have_something_under_way(hall: Hall, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 1)
    client.track(COPY)
    other = hall.client(b"d")
    number = other.track(COPY)
    other.execute(COPY)
    assert other.failures() == [(number, "too many clients have something under way already")]
    worker = hall.worker()
    worker.finish(worker.take_one())
    other.track(COPY)
    assert other.hear() == []
    assert len(worker.take()) == 1


def test_where_too_much_waits_already_a_message_is_answered_at_once(hall: Hall, client: Client) -> None:
    hall.board._waiting.max_calls = 1
    ids = [client.track(COPY) for _ in range(2)]
    assert [number for number, _ in client.failures()] == ids[1:]


def test_numbers_of_calls_are_not_used_twice(hall: Hall, client: Client) -> None:
    hall.door.clients._next = 0xFFFF_FFFF
    ids = [client.track(COPY) for _ in range(2)]
    hall.door.clients._next = 0xFFFF_FFFF
    ids.append(client.track(COPY))
    worker = hall.worker(slots=3)
    assert sorted(note.id for note in worker.take()) == ids


# Streams of native workers


def read_packet(client: Client, number: bytes) -> tuple[bytes, bytes, bytes]:
    """State, handle and data of the one packet that came as the answer to a message."""
    ((answered, (frame,)),) = client.responses()
    assert answered == number
    assert frame[1:3] == b"R\x08"
    assert len(frame) <= PACKET
    return frame[:1], frame[3:HEAD], frame[HEAD:]


Begin = Callable[..., tuple[Job, bytes]]


@pytest.fixture
def begin(client: Client, worker: NativeWorker) -> Begin:
    """Ask for a stream, which gives more than a packet; gives the job, and the handle."""

    def ask(host: bytes = b"60:me", data: bytes = b"x" * (PACKET - HEAD)) -> tuple[Job, bytes]:
        number = client.track(FEED, host)
        job = worker.take_one()
        worker.add(job, data)
        state, handle, first = read_packet(client, number)
        assert (state, first) == (b"0", data[: PACKET - HEAD])
        return job, handle

    return ask


def test_a_stream_of_one_packet(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(RR_STREAM, b"STREAM_ID", b"1024")
    job = worker.take_one()
    assert (job.name, job.args, job.flags & STREAM) == ("rr_stream", [b"STREAM_ID", b"1024"], STREAM)
    for value in (b"one", "two", 3, None):
        worker.add(job, value)
    assert client.hear() == []
    worker.end(job)
    state, handle, data = read_packet(client, number)
    assert (state, data) == (b"2", b"onetwo3")
    assert len(handle) == 8
    hall.check_empty()


def test_a_plain_value_may_be_a_stream(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(FEED)
    worker.give(worker.take_one(), b"all")
    assert read_packet(client, number)[::2] == (b"2", b"all")
    hall.check_empty()


def test_an_empty_stream(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(FEED)
    worker.end(worker.take_one())
    assert read_packet(client, number)[::2] == (b"2", b"")
    hall.check_empty()


def test_a_stream_is_read_packet_by_packet(hall: Hall, client: Client, worker: NativeWorker, begin: Begin) -> None:
    job, handle = begin(data=b"x" * 10_000)
    worker.add(job, b"y" * 10_000)
    worker.end(job)
    data = b"x" * (PACKET - HEAD)
    state = b"0"
    while state == b"0":
        state, again, more = read_packet(client, client.more(handle))
        assert again == handle
        data += more
    assert state == b"2"
    assert data == b"x" * 10_000 + b"y" * 10_000
    hall.check_empty()


def test_a_reader_that_is_faster_gets_what_there_is_after_a_moment(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, handle = begin()
    number = client.more(handle)
    worker.add(job, b"little")
    assert client.hear() == []
    hall.pass_time(MAX_STREAM_WAIT)
    assert read_packet(client, number) == (b"0", handle, b"little")
    number = client.more(handle)
    hall.pass_time(MAX_STREAM_WAIT)
    assert read_packet(client, number) == (b"0", handle, b"")


def test_a_stream_goes_on_as_it_is_read(hall: Hall, client: Client, worker: NativeWorker, begin: Begin) -> None:
    """The worker has credit for what the reader takes, and no more."""
    job, handle = begin()
    credit = WINDOW_BYTES - (PACKET - HEAD) - FRAME_COST
    given = received = PACKET - HEAD
    while given < 2_000_000:
        credit += sum(frame.padding for frame in worker.take_others())
        while credit > 0:
            worker.add(job, b"x" * 30_000)
            given += 30_000
            credit -= len(msgspec.msgpack.encode(b"x" * 30_000)) + FRAME_COST
            credit += sum(frame.padding for frame in worker.take_others())
        assert given - received <= 2 * WINDOW_BYTES
        received += len(read_packet(client, client.more(handle))[2])


def test_a_value_of_a_stream_may_be_larger_than_the_window(hall: Hall, client: Client, worker: NativeWorker) -> None:
    number = client.track(FEED)
    job = worker.take_one()
    give_pieces(worker, job, msgspec.msgpack.encode(b"x" * 1_000_000), WHOLE)
    worker.end(job)
    state, handle, data = read_packet(client, number)
    while state == b"0":
        state, _, more = read_packet(client, client.more(handle))
        data += more
    assert data == b"x" * 1_000_000
    hall.check_empty()


def test_a_value_of_a_stream_has_a_limit(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, handle = begin()
    monkeypatch.setattr(client_streams, "MAX_FLOW_BYTES", 1000)
    for _ in range(2):
        worker.add(job, bytes(900))  # each has its own limit
    worker.result(job, 0, bytes(900))
    worker.result(job, 0, bytes(900))
    assert worker.take_others()[-1].kind == calls.CANCEL
    assert read_packet(client, client.more(handle)) == (b"1", handle, b"")
    hall.check_empty()


def test_a_reader_may_abort_a_stream(hall: Hall, client: Client, worker: NativeWorker, begin: Begin) -> None:
    job, handle = begin()
    number = client.more(handle, flag=b"1")
    assert read_packet(client, number) == (b"1", handle, b"")
    assert worker.take_others()[-1].kind == calls.CANCEL
    worker.end(job)
    number = client.more(handle)
    assert client.failures() == [(number, "there is no such stream, or not any more")]
    hall.check_empty()


def test_a_packet_that_is_asked_for_twice_is_sent_once(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, handle = begin()
    first, second = client.more(handle), client.more(handle)
    assert client.failures() == [(first, "the next packet was asked for again")]
    worker.end(job)
    assert read_packet(client, second) == (b"2", handle, b"")
    hall.check_empty()


@pytest.mark.parametrize("args", [(), (b"60:me",), (b"60:me", b"handle78"), (b"60:me", b"handle78", b"0")])
def test_there_must_be_such_a_stream(hall: Hall, client: Client, args: tuple[bytes, ...]) -> None:
    number = client.track(b"mqs_more", *args)
    assert client.failures() == [(number, "there is no such stream, or not any more")]


def test_a_stream_is_its_readers_alone(hall: Hall, client: Client, worker: NativeWorker, begin: Begin) -> None:
    _, handle = begin()
    other = hall.client(b"d")
    number = other.more(handle)
    assert other.failures() == [(number, "there is no such stream, or not any more")]
    other.track(b"ongoing", b"60:me")
    assert other.hear()[0].args == (FAILURE,)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_stream_that_fails(hall: Hall, client: Client, worker: NativeWorker, begin: Begin, is_begun: bool) -> None:
    """Before the first packet, with its reason. Later there is only the word for it."""
    if not is_begun:
        number = client.track(FEED)
        job = worker.take_one()
        worker.add(job, b"little")
        worker.fail(job, "no")
        assert client.failures() == [(number, "no")]
    else:
        job, handle = begin(data=b"x" * 9000)
        worker.fail(job, "no")
        assert client.hear() == []
        assert read_packet(client, client.more(handle)) == (b"1", handle, b"")
    hall.check_empty()


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_stream_whose_worker_is_lost(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin, is_begun: bool
) -> None:
    number = client.track(RR_STREAM, b"60:me", b"1024")
    job = worker.take_one()
    worker.add(job, b"x" * (10_000 if is_begun else 10))
    handle = read_packet(client, number)[1] if is_begun else b""
    worker.result(job, 0, b"half a value")
    worker.cut()
    if is_begun:
        assert read_packet(client, client.more(handle)) == (b"1", handle, b"")
    else:
        other = hall.native_worker("other")
        job = other.take_one()
        other.add(job, b"anew")
        other.end(job)
        assert read_packet(client, number)[::2] == (b"2", b"anew")
    hall.check_empty()


def test_a_value_that_is_not_bytes_breaks_a_stream(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    number = client.track(FEED)
    job = worker.take_one()
    worker.add(job, {"a": 1})
    ((failed, text),) = client.failures()
    assert failed == number
    assert text.startswith("the stream cannot be written as bytes: ")
    worker.end(job)
    job, handle = begin()
    worker.add(job, 1.5)
    assert read_packet(client, client.more(handle)) == (b"1", handle, b"")
    worker.end(job)
    hall.check_empty()


def test_a_stream_whose_reader_is_silent_is_given_up(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, handle = begin(b"30:me")
    worker.take_others()
    hall.pass_time(29)
    assert worker.take_others() == []
    hall.pass_time(1)
    assert [frame.kind for frame in worker.take_others()] == [calls.CANCEL]
    worker.end(job)
    client.more(handle)
    assert len(client.failures()) == 1
    hall.check_empty()


@pytest.mark.parametrize("word", ["mqs_more", "ongoing"])
def test_a_reader_that_speaks_renews_its_lease(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin, word: str
) -> None:
    _, handle = begin(b"30:me", b"x" * 60_000)
    worker.take_others()
    for _ in range(5):
        hall.pass_time(25)
        if word == "ongoing":
            number = client.track(b"ongoing", b"30:me")
            assert client.responses() == [(number, (SUCCESS,))]
        else:
            read_packet(client, client.more(handle))
    assert not [frame for frame in worker.take_others() if frame.kind == calls.CANCEL]


def test_a_reader_that_waits_is_not_silent(hall: Hall, client: Client, worker: NativeWorker) -> None:
    client.track(FEED, b"1:me")
    job = worker.take_one()
    hall.pass_time(100)  # until the worker begins, there is no stream
    worker.add(job, b"x")
    hall.pass_time(0.5)
    assert client.hear() == []
    hall.pass_time(1)
    assert len(client.responses()) == 1


@pytest.mark.parametrize("args", [(), (b"60:me",)])
def test_there_may_be_no_stream_that_is_ongoing(hall: Hall, client: Client, args: tuple[bytes, ...]) -> None:
    number = client.track(b"ongoing", *args)
    assert client.responses() == [(number, (FAILURE,))]


def test_exec_about_a_stream_has_no_response(hall: Hall, client: Client, worker: NativeWorker, begin: Begin) -> None:
    job, handle = begin()
    client.execute(b"ongoing", b"60:me")
    client.execute(b"mqs_more", b"60:me", handle, b"1")
    assert client.hear() == []
    worker.end(job)
    hall.check_empty()


def test_a_client_that_is_gone_leaves_its_stream(
    hall: Hall, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, _ = begin()
    client.vanish()
    assert worker.take_others()[-1].kind == calls.CANCEL
    worker.end(job)
    hall.check_empty()


def test_frames_for_calls_that_are_over_are_nothing(hall: Hall, client: Client, worker: NativeWorker) -> None:
    client.track(COPY)
    peer = next(iter(hall.door.clients.peers - {hall.door.clients._caster}))
    hall.door.on_out(peer, calls.encode(calls.RESULT, LAST, 99) + calls.encode(calls.YIELD, 0, 0), hall.now)
    worker.give(worker.take_one())
    assert len(client.responses()) == 1
