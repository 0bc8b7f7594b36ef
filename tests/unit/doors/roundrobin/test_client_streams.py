"""Streams of gandy workers, as round-robin clients fetch them."""

from collections.abc import Callable

import msgspec
import pytest
from tests.roundrobin import (
    COPY,
    FAILURE,
    FEED,
    RR_STREAM,
    SUCCESS,
    Client,
    DoorHarness,
    Job,
    NativeWorker,
    give_pieces,
)

from gandy.doors.roundrobin import client_streams
from gandy.doors.roundrobin.client_streams import PACKET_PATIENCE
from gandy.wire import calls
from gandy.wire.calls import FRAME_COST, LAST, STREAM, WHOLE, WINDOW_BYTES

PACKET = 8192
HEAD = 11  # bytes of a packet before its data


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


def test_a_stream_of_one_packet(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
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
    harness.check_empty()


def test_a_plain_value_may_be_a_stream(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    number = client.track(FEED)
    worker.give(worker.take_one(), b"all")
    assert read_packet(client, number)[::2] == (b"2", b"all")
    harness.check_empty()


def test_an_empty_stream(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    number = client.track(FEED)
    worker.end(worker.take_one())
    assert read_packet(client, number)[::2] == (b"2", b"")
    harness.check_empty()


def test_a_stream_is_read_packet_by_packet(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
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
    harness.check_empty()


def test_a_reader_that_is_faster_gets_what_there_is_after_a_moment(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, handle = begin()
    number = client.more(handle)
    worker.add(job, b"little")
    assert client.hear() == []
    harness.pass_time(PACKET_PATIENCE)
    assert read_packet(client, number) == (b"0", handle, b"little")
    number = client.more(handle)
    harness.pass_time(PACKET_PATIENCE)
    assert read_packet(client, number) == (b"0", handle, b"")


def test_a_stream_goes_on_as_it_is_read(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
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


def test_a_value_of_a_stream_may_be_larger_than_the_window(
    harness: DoorHarness, client: Client, worker: NativeWorker
) -> None:
    number = client.track(FEED)
    job = worker.take_one()
    give_pieces(worker, job, msgspec.msgpack.encode(b"x" * 1_000_000), WHOLE)
    worker.end(job)
    state, handle, data = read_packet(client, number)
    while state == b"0":
        state, _, more = read_packet(client, client.more(handle))
        data += more
    assert data == b"x" * 1_000_000
    harness.check_empty()


def test_a_value_of_a_stream_has_a_limit(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, handle = begin()
    monkeypatch.setattr(client_streams, "MAX_FLOW_BYTES", 1000)
    for _ in range(2):
        worker.add(job, bytes(900))  # each has its own limit
    worker.result(job, 0, bytes(900))
    worker.result(job, 0, bytes(900))
    assert worker.take_others()[-1].kind == calls.CANCEL
    assert read_packet(client, client.more(handle)) == (b"1", handle, b"")
    harness.check_empty()


def test_a_reader_may_abort_a_stream(harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin) -> None:
    job, handle = begin()
    number = client.more(handle, flag=b"1")
    assert read_packet(client, number) == (b"1", handle, b"")
    assert worker.take_others()[-1].kind == calls.CANCEL
    worker.end(job)
    number = client.more(handle)
    assert client.failures() == [(number, "there is no such stream any more")]
    harness.check_empty()


def test_a_packet_that_is_asked_for_twice_is_sent_once(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, handle = begin()
    first, second = client.more(handle), client.more(handle)
    assert client.failures() == [(first, "the next packet was asked for again")]
    worker.end(job)
    assert read_packet(client, second) == (b"2", handle, b"")
    harness.check_empty()


@pytest.mark.parametrize("args", [(), (b"60:me",), (b"60:me", b"handle78"), (b"60:me", b"handle78", b"0")])
def test_there_must_be_such_a_stream(harness: DoorHarness, client: Client, args: tuple[bytes, ...]) -> None:
    number = client.track(b"mqs_more", *args)
    assert client.failures() == [(number, "there is no such stream any more")]


def test_a_stream_is_its_readers_alone(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    _, handle = begin()
    other = harness.client(b"d")
    number = other.more(handle)
    assert other.failures() == [(number, "there is no such stream any more")]
    other.track(b"ongoing", b"60:me")
    assert other.hear()[0].args == (FAILURE,)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_stream_that_fails(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin, is_begun: bool
) -> None:
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
    harness.check_empty()


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_stream_whose_worker_is_lost(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin, is_begun: bool
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
        other = harness.native_worker("other")
        job = other.take_one()
        other.add(job, b"anew")
        other.end(job)
        assert read_packet(client, number)[::2] == (b"2", b"anew")
    harness.check_empty()


def test_a_value_that_is_not_bytes_breaks_a_stream(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
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
    harness.check_empty()


def test_a_stream_whose_reader_is_silent_is_given_up(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, handle = begin(b"30:me")
    worker.take_others()
    harness.pass_time(29)
    assert worker.take_others() == []
    harness.pass_time(1)
    assert [frame.kind for frame in worker.take_others()] == [calls.CANCEL]
    worker.end(job)
    client.more(handle)
    assert len(client.failures()) == 1
    harness.check_empty()


@pytest.mark.parametrize("word", ["mqs_more", "ongoing"])
def test_a_reader_that_speaks_renews_its_lease(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin, word: str
) -> None:
    _, handle = begin(b"30:me", b"x" * 60_000)
    worker.take_others()
    for _ in range(5):
        harness.pass_time(25)
        if word == "ongoing":
            number = client.track(b"ongoing", b"30:me")
            assert client.responses() == [(number, (SUCCESS,))]
        else:
            read_packet(client, client.more(handle))
    assert not [frame for frame in worker.take_others() if frame.kind == calls.CANCEL]


def test_a_reader_that_waits_is_not_silent(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    client.track(FEED, b"1:me")
    job = worker.take_one()
    harness.pass_time(100)  # until the worker begins, there is no stream
    worker.add(job, b"x")
    harness.pass_time(0.5)
    assert client.hear() == []
    harness.pass_time(1)
    assert len(client.responses()) == 1


@pytest.mark.parametrize("args", [(), (b"60:me",)])
def test_there_may_be_no_stream_that_is_ongoing(harness: DoorHarness, client: Client, args: tuple[bytes, ...]) -> None:
    number = client.track(b"ongoing", *args)
    assert client.responses() == [(number, (FAILURE,))]


def test_exec_about_a_stream_has_no_response(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, handle = begin()
    client.execute(b"ongoing", b"60:me")
    client.execute(b"mqs_more", b"60:me", handle, b"1")
    assert client.hear() == []
    worker.end(job)
    harness.check_empty()


def test_a_client_that_is_gone_leaves_its_stream(
    harness: DoorHarness, client: Client, worker: NativeWorker, begin: Begin
) -> None:
    job, _ = begin()
    client.vanish()
    assert worker.take_others()[-1].kind == calls.CANCEL
    worker.end(job)
    harness.check_empty()


def test_frames_for_calls_that_are_over_are_nothing(harness: DoorHarness, client: Client, worker: NativeWorker) -> None:
    client.track(COPY)
    peer = next(iter(harness.door.clients.peers - {harness.door.clients._caster}))
    harness.door.on_out(peer, calls.encode(calls.RESULT, LAST, 99) + calls.encode(calls.YIELD, 0, 0), harness.now)
    worker.give(worker.take_one())
    assert len(client.responses()) == 1
