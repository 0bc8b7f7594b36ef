"""The ping-pong door between a real switchboard and workers played by hand."""

import msgspec
import pytest
from tests.crews import ClientSeat, Frame, Table

from gandy.core.switchboard import Switchboard
from gandy.core.workers import WorkerInfo
from gandy.doors.base import Door, Outgoing
from gandy.doors.pingpong import job_slot, workers
from gandy.doors.pingpong.door import EXPIRY, INVALID, NO_JOB, TOO_MANY, UNKNOWN_WORKER, PingPongDoor
from gandy.doors.pingpong.limits import MAX_BODY_BYTES, MAX_WORKERS
from gandy.limits import MAX_PIECE_BYTES, MAX_QUEUED_BYTES
from gandy.wire import calls
from gandy.wire.calls import BUSY, CAST, FAILED, FRAME_COST, LAST, LOST, MORE, REFUSED, WHOLE, WINDOW_BYTES

READY, PING, PONG, EXIT = [b"", b"READY"], [b"", b"PING"], [b"", b"PONG"], [b"", b"EXIT"]
DONE = LAST | WHOLE

pack = msgspec.msgpack.encode


class BrokerHarness:
    """A door, the switchboard behind it, a client, and the program around: what the switchboard says is passed on."""

    def __init__(self, expiry: float = EXPIRY) -> None:
        self.now = 100.0
        self.board = Switchboard(0.0)
        self.board.now = self.now
        self.registry = Table()
        self.door = PingPongDoor(self.board, self.registry, "job", expiry)
        self.client = ClientSeat(self.board)

    def settle(self) -> None:
        touched = self.board.touched
        while peers := [peer for peer in touched if peer is not self.client.peer]:
            touched.discard(peers[0])
            data = b"".join(peers[0].out)
            peers[0].out.clear()
            assert peers[0].on_out is not None
            peers[0].on_out(peers[0], data, self.now)
        self.board.dispatcher.check()
        self.door.workers.check()

    def say(self, name: bytes, *messages: list[bytes]) -> None:
        for message in messages:
            self.door.on_message([name, *message], self.now)
        self.settle()

    def sent(self) -> list[tuple[bytes, ...]]:
        """What workers were sent since the last look: routing id and the frames behind the empty one."""
        parcels = list(self.door.outbox)
        self.door.outbox.clear()
        assert all(outgoing.frames[1] == b"" for outgoing in parcels)
        return [(outgoing.frames[0], *outgoing.frames[2:]) for outgoing in parcels]

    def call(self, seq: int, *args: object, flags: int = 0, body: bytes | None = None, worker: str = "") -> None:
        payload = calls.encode_target("job", worker) + (pack(args) if body is None else body)
        self.client.say(calls.CALL, flags | (calls.DIRECT if worker else 0), seq, 0, payload)
        self.settle()

    def body(self, seq: int, piece: bytes, is_last: bool = False) -> None:
        self.client.body(seq, piece, is_last)
        self.settle()

    def ends(self) -> list[tuple[int, int, object]]:
        """Each end that the client heard: number, flags, and value, text or code of a refusal."""
        heard: list[tuple[int, int, object]] = []
        for _, flags, seq, _, payload in self.client.hear():
            if flags & REFUSED:
                heard.append((seq, flags, calls.decode_refusal(payload)[0]))
            elif flags & FAILED:
                failure = calls.decode_failure(payload)
                heard.append((seq, flags, f"{failure.kind}: {failure.message}"))
            else:
                heard.append((seq, flags, msgspec.msgpack.decode(payload)))
        return heard

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.board.now = self.now
        self.door.on_time(self.now)
        self.settle()

    def lose(self, index: int = -1) -> None:
        """What is in the outbox, or one of it, cannot be delivered."""
        outgoing = list(self.door.outbox)[index]
        self.door.outbox.clear()
        self.door.on_undelivered(outgoing, self.now)
        self.settle()

    def dismiss(self, worker: str, immediate: bool = False) -> None:
        self.door.on_dismiss(worker, immediate, self.now)
        self.settle()


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


@pytest.fixture
def busy(harness: BrokerHarness) -> BrokerHarness:
    """With worker w, which has call 1."""
    harness.say(b"w", READY)
    harness.call(1, b"work")
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"work")]
    return harness


def test_it_is_a_door(harness: BrokerHarness) -> None:
    door: Door = harness.door
    door.on_connect(0.0)
    assert not door.outbox


# Who is here


@pytest.mark.parametrize("word", [READY, PING])
def test_a_worker_that_says_ready_or_ping_is_registered_and_gets_a_pong(
    harness: BrokerHarness, word: list[bytes]
) -> None:
    harness.say(b"w", word)
    assert harness.sent() == [(b"w", b"PONG")]
    assert harness.registry.workers["pingpong/w"].info == WorkerInfo("pingpong/w", "w", 0)
    assert harness.board.dispatcher.offers.list_names("pingpong/w") == ["job"]


def test_a_ping_with_a_count_gets_a_pong_with_that_count(harness: BrokerHarness) -> None:
    harness.say(b"w", [b"", b"PING", b"17"], PING, [b"", b"PING", b""])
    assert harness.sent() == [(b"w", b"PONG", b"17"), (b"w", b"PONG"), (b"w", b"PONG", b"")]


def test_ready_twice_is_one_worker(harness: BrokerHarness) -> None:
    harness.say(b"w", READY, READY, PING)
    assert harness.sent() == [(b"w", b"PONG")] * 3
    assert list(harness.registry.workers) == ["pingpong/w"]
    assert harness.registry.heard == ["pingpong/w"] * 2


def test_a_silent_worker_is_removed_without_exit(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.pass_time(EXPIRY - 0.1)
    assert harness.registry.workers
    harness.pass_time(0.1)
    assert not harness.registry.workers
    assert harness.board.dispatcher.offers.list_names("pingpong/w") == []
    assert harness.sent() == [(b"w", b"PONG")]


@pytest.mark.parametrize("message", [READY, PING, [b"", b"a result of nothing"], [b"nonsense"]])
def test_any_message_renews_the_time(harness: BrokerHarness, message: list[bytes]) -> None:
    harness.say(b"a", READY)
    harness.say(b"b", READY)
    harness.pass_time(EXPIRY - 1)
    harness.say(b"a", message)
    harness.pass_time(EXPIRY - 1)
    assert list(harness.registry.workers) == ["pingpong/a"]
    harness.pass_time(1)
    assert not harness.registry.workers


def test_a_worker_that_expired_comes_back_with_a_ping(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.pass_time(EXPIRY)
    harness.call(1, b"work")
    harness.say(b"w", PING)
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"PONG"), (b"w", b"work")]


def test_there_is_a_limit_to_workers(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_WORKERS == 10_000
    monkeypatch.setattr(workers, "MAX_WORKERS", 2)
    for name in (b"a", b"b", b"c"):
        harness.say(name, READY, PING)
    assert harness.sent() == [(b"a", b"PONG")] * 2 + [(b"b", b"PONG")] * 2
    assert harness.door.dropped == {TOO_MANY: 2}
    harness.pass_time(EXPIRY)
    harness.say(b"c", PING)
    assert harness.sent() == [(b"c", b"PONG")]


def test_a_flood_of_workers_does_no_harm(harness: BrokerHarness) -> None:
    for number in range(10_050):
        harness.door.on_message([b"%d" % number, *READY], harness.now)
    assert len(harness.registry.workers) == len(harness.door.outbox) == 10_000
    assert harness.door.dropped == {TOO_MANY: 50}


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"w"],
        [b"w", b""],
        [b"w", b"READY"],
        [b"w", b"x", b"y"],
        [b"w", b"", b"READY", b""],
        [b"w", b"", b"a", b"b"],
    ],
)
def test_an_invalid_message_is_counted_and_registers_no_worker(harness: BrokerHarness, frames: list[bytes]) -> None:
    harness.door.on_message(frames, harness.now)
    harness.settle()
    assert harness.door.dropped == {INVALID: 1}
    assert not harness.sent()
    assert not harness.registry.workers


# Calls


def test_a_job_and_its_result(busy: BrokerHarness) -> None:
    busy.say(b"w", [b"", b"\x00done"])
    assert busy.ends() == [(1, DONE, b"\x00done")]
    assert not any(peer.serves for peer in busy.board.dispatcher.offers.workers.values())
    busy.call(2, "tëxt")
    assert busy.sent() == [(b"w", "tëxt".encode())]
    busy.say(b"w", [b"", b"PONG"])
    assert busy.ends() == [(2, DONE, b"PONG")]


def test_the_parcel_of_a_job_tells_its_call(busy: BrokerHarness) -> None:
    busy.say(b"w", [b"", b"done"])
    busy.call(2, b"more")
    assert list(busy.door.outbox) == [Outgoing([b"w", b"", b"more"], 1)]


def test_a_result_makes_ready_at_once(busy: BrokerHarness) -> None:
    busy.call(2, b"more")
    assert busy.sent() == []
    busy.say(b"w", [b"", b"done"])
    assert busy.sent() == [(b"w", b"more")]


def test_a_ping_does_not_make_a_busy_worker_ready(busy: BrokerHarness) -> None:
    busy.call(2, b"more")
    busy.say(b"w", PING)
    assert busy.sent() == [(b"w", b"PONG")]


def test_a_worker_can_be_called_by_name(harness: BrokerHarness) -> None:
    harness.say(b"a", READY)
    harness.say(b"b", READY)
    harness.sent()
    harness.call(1, b"one", worker="pingpong/b")
    assert harness.sent() == [(b"b", b"one")]


def test_a_ten_second_job_with_a_three_second_expiry_runs_once() -> None:
    harness = BrokerHarness(expiry=3.0)
    harness.say(b"w", READY)
    harness.call(1, b"long")
    harness.call(2, b"next")
    for _ in range(20):
        harness.pass_time(0.5)
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"long")]
    harness.say(b"w", [b"", b"done"])
    assert harness.ends() == [(1, DONE, b"done")]
    assert harness.sent() == [(b"w", b"next")]


@pytest.mark.parametrize("message", [PING, [b"nonsense"]])
def test_a_silent_worker_that_is_heard_again_still_has_its_job(busy: BrokerHarness, message: list[bytes]) -> None:
    busy.pass_time(EXPIRY)
    busy.say(b"w", message)
    busy.call(2, b"more")
    assert (b"w", b"more") not in busy.sent()
    busy.pass_time(EXPIRY)
    busy.say(b"w", [b"", b"done"])
    assert busy.ends() == [(1, DONE, b"done")]


def test_an_unknown_workers_result_is_dropped(harness: BrokerHarness) -> None:
    harness.say(b"w", [b"", b"done"])
    assert harness.door.dropped == {UNKNOWN_WORKER: 1}
    assert not harness.registry.workers


def test_a_second_result_is_dropped(busy: BrokerHarness) -> None:
    busy.say(b"w", [b"", b"done"], [b"", b"done"])
    assert busy.ends() == [(1, DONE, b"done")]
    assert busy.door.dropped == {NO_JOB: 1}


@pytest.mark.parametrize("word", ["PONG", b"PONG", "EXIT", b"EXIT"])
def test_a_job_that_is_a_word_is_refused(harness: BrokerHarness, word: str | bytes) -> None:
    harness.say(b"w", READY)
    harness.call(1, word)
    ((_, flags, text),) = harness.ends()
    assert flags == LAST | FAILED
    assert "ValueError: this can be no job: the bytes" in str(text)
    harness.call(2, b"READY")
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"READY")]


@pytest.mark.parametrize(
    "body",
    [
        pack([]),
        pack([b"a", b"b"]),
        pack([1]),
        pack([None]),
        pack([[b"a"]]),
        pack(b"a"),
        b"",
        b"\x91\xa1\xff",
        b"\x91" * 60_000,
        b"\x91\x81\x90\x01",
        b"\x91\xc1",
        pack([b"a"]) + b"b",
    ],
)
def test_anything_but_one_text_or_bytes_fails(harness: BrokerHarness, body: bytes) -> None:
    harness.say(b"w", READY)
    harness.call(1, body=body)
    assert harness.ends() == [(1, LAST | FAILED, "TypeError: job takes one argument, bytes or text")]
    harness.call(2, b"work")
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"work")]


def test_pickles_fail(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.call(1, body=b"a pickle", flags=calls.PICKLED)
    assert harness.ends() == [(1, LAST | FAILED, "TypeError: job takes bytes, and no pickles")]


def test_a_stream_is_one_value(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.call(1, b"work", flags=calls.STREAM)
    harness.say(b"w", [b"", b"done"])
    assert harness.ends() == [(1, DONE, b"done")]


def test_the_result_of_a_cast_is_dropped_and_the_slot_is_free(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.call(1, b"one", flags=CAST)
    harness.call(2, b"two", flags=CAST)
    harness.say(b"w", [b"", bytes(200_000)])
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"one"), (b"w", b"two")]
    assert harness.ends() == []


def test_a_cancelled_job_keeps_the_slot_until_its_result(busy: BrokerHarness) -> None:
    busy.client.cancel(1)
    busy.settle()
    busy.call(2, b"more")
    assert busy.sent() == []
    busy.say(b"w", [b"", bytes(1 << 20)])  # an answer to no job
    assert busy.sent() == [(b"w", b"more")]
    assert busy.ends() == []


def test_what_is_said_of_other_calls_is_not_heard(busy: BrokerHarness) -> None:
    """Of a call that has ended here, and YIELD, which is about slots of jobs."""
    (peer,) = busy.door.workers.peers
    for kind in (calls.BODY, calls.CREDIT, calls.CANCEL, calls.YIELD):
        busy.door.on_out(peer, calls.encode(kind, 0, 7, 1), busy.now)
    busy.door.on_out(peer, calls.encode(calls.YIELD, 0, 0, 1), busy.now)
    busy.door.on_out(busy.client.peer, calls.encode(calls.CALL, 0, 0), busy.now)
    busy.settle()
    busy.say(b"w", [b"", b"done"])
    assert busy.ends() == [(1, DONE, b"done")]


# Large arguments and large results


def test_large_arguments_are_collected_and_credit_is_granted(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    job = bytes(range(256)) * 2000
    data = pack([job])
    pieces = [data[at : at + MAX_PIECE_BYTES] for at in range(0, len(data), MAX_PIECE_BYTES)]
    harness.call(1, body=pieces[0], flags=MORE)
    for piece in pieces[1:-1]:
        harness.body(1, piece)
    harness.sent()
    granted = [frame.padding for frame in harness.client.hear() if frame.kind == calls.CREDIT]
    assert granted == [2 * (MAX_PIECE_BYTES + FRAME_COST)] * 3
    harness.body(1, pieces[-1], is_last=True)
    assert harness.sent() == [(b"w", job)]
    harness.say(b"w", [b"", b"done"])
    assert harness.ends() == [(1, DONE, b"done")]


def test_arguments_that_are_too_large_fail(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.call(1, body=bytes(MAX_PIECE_BYTES), flags=MORE)
    for _ in range(MAX_BODY_BYTES // MAX_PIECE_BYTES - 1):
        harness.body(1, bytes(MAX_PIECE_BYTES))
    assert all(frame.kind == calls.CREDIT for frame in harness.client.hear())
    harness.body(1, b"x")
    assert harness.ends() == [(1, LAST | FAILED, "ValueError: a job may have 16,777,216 bytes, and this one has more")]
    harness.body(1, b"x", is_last=True)
    harness.call(2, b"work")
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"work")]


def test_incomplete_arguments_of_all_calls_have_a_limit(
    harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_QUEUED_BYTES >= 10 * MAX_BODY_BYTES
    monkeypatch.setattr(job_slot, "MAX_QUEUED_BYTES", 100)
    harness.say(b"a", READY)
    harness.say(b"b", READY)
    harness.call(1, body=bytes(60), flags=MORE)
    harness.call(2, body=bytes(20), flags=MORE)
    harness.body(2, bytes(20))
    assert harness.ends() == []
    harness.body(2, b"x")
    assert harness.ends() == [(2, LAST | REFUSED, BUSY)]


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_call_that_has_not_begun_ends_with_its_caller(harness: BrokerHarness, is_cancelled: bool) -> None:
    harness.say(b"w", READY)
    harness.call(1, body=b"part", flags=MORE)
    if is_cancelled:
        harness.client.cancel(1)
    else:
        harness.client.cut()
        harness.client = ClientSeat(harness.board)
    harness.settle()
    harness.call(2, b"work")
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"work")]


def test_a_large_result_goes_out_as_credit_allows(busy: BrokerHarness) -> None:
    value = bytes(range(256)) * 4000
    busy.say(b"w", [b"", value])
    got: list[Frame] = busy.client.hear()
    assert [len(frame.payload) for frame in got] == [MAX_PIECE_BYTES] * 4
    assert WINDOW_BYTES == 4 * MAX_PIECE_BYTES
    busy.call(2, b"more")
    assert busy.sent() == []
    while not got[-1].subtype & LAST:
        busy.client.say(calls.CREDIT, 0, 1, MAX_PIECE_BYTES + FRAME_COST)
        busy.settle()
        got += busy.client.hear()
    assert {frame.subtype for frame in got[:-1]} == {0}
    assert got[-1].subtype == DONE
    assert pack(value) == b"".join(frame.payload for frame in got)
    assert busy.sent() == [(b"w", b"more")]


def test_without_any_credit_nothing_goes_out(busy: BrokerHarness) -> None:
    busy.say(b"w", [b"", bytes(1 << 20)])
    spent = sum(len(frame.payload) + FRAME_COST for frame in busy.client.hear())
    for count, pieces in ((spent - WINDOW_BYTES, 0), (1, 1)):
        busy.client.say(calls.CREDIT, 0, 1, count)
        busy.settle()
        assert len(busy.client.hear()) == pieces


def test_credit_before_the_result_counts(busy: BrokerHarness) -> None:
    busy.client.say(calls.CREDIT, 0, 1, 1 << 20)
    busy.settle()
    busy.say(b"w", [b"", bytes(1 << 20)])
    assert busy.client.hear()[-1].subtype == DONE


def have_large_result(harness: BrokerHarness) -> None:
    """Most of it waits for credit."""
    harness.say(b"w", [b"", bytes(1 << 20)])
    assert len(harness.client.hear()) == 4


def take_large_result(harness: BrokerHarness) -> None:
    harness.client.say(calls.CREDIT, 0, 1, 1 << 20)
    harness.settle()
    frames = harness.client.hear()
    assert (frames[-1].seq, frames[-1].subtype) == (1, DONE)


def test_a_result_is_not_lost_with_its_worker(busy: BrokerHarness) -> None:
    have_large_result(busy)
    busy.pass_time(EXPIRY)
    busy.say(b"w", [b"", b"a result of nothing"])
    assert busy.door.dropped == {UNKNOWN_WORKER: 1}
    busy.door.on_disconnect(b"w", busy.now)
    busy.lose()
    take_large_result(busy)
    assert not busy.registry.workers


@pytest.mark.parametrize("word", [READY, PING])
def test_a_worker_can_come_back_while_its_result_goes_out(busy: BrokerHarness, word: list[bytes]) -> None:
    have_large_result(busy)
    busy.pass_time(EXPIRY)
    busy.call(2, b"more")
    busy.say(b"w", word)
    take_large_result(busy)
    assert busy.sent() == [(b"w", b"PONG"), (b"w", b"more")]
    assert list(busy.registry.workers) == ["pingpong/w"]


def test_ready_does_not_lose_a_result_that_is_here(busy: BrokerHarness) -> None:
    have_large_result(busy)
    busy.say(b"w", READY)
    take_large_result(busy)


@pytest.mark.parametrize("has_left", [True, False])
def test_the_rest_of_a_cancelled_result_is_dropped(busy: BrokerHarness, has_left: bool) -> None:
    have_large_result(busy)
    if has_left:
        busy.pass_time(EXPIRY)
    busy.client.cancel(1)
    busy.settle()
    assert bool(busy.registry.workers) != has_left
    assert not any(peer.serves for peer in busy.board.dispatcher.offers.workers.values())


# Answers that make no sense


@pytest.mark.parametrize("frames", [[b"", b"part one", b"part two"], [b"", bytes(MAX_BODY_BYTES + 1)]], ids=[1, 2])
def test_an_answer_that_is_no_result_fails_the_call(busy: BrokerHarness, frames: list[bytes]) -> None:
    busy.call(2, b"more")
    busy.say(b"w", frames)
    ((number, flags, text),) = busy.ends()
    assert (number, flags) == (1, LAST | FAILED)
    assert "the answer of worker pingpong/w is not a result" in str(text)
    assert busy.sent() == [(b"w", b"more")]
    assert not busy.door.dropped


def test_a_bad_ping_is_no_answer(busy: BrokerHarness) -> None:
    busy.say(b"w", [b"", b"PING", b"1", b"2"], [b"no empty frame"])
    assert busy.door.dropped == {INVALID: 2}
    busy.say(b"w", [b"", b"done"])
    assert busy.ends() == [(1, DONE, b"done")]


# Workers that are lost


def test_ready_of_a_busy_worker_loses_its_call(busy: BrokerHarness) -> None:
    busy.call(2, b"more")
    busy.say(b"w", READY)
    assert busy.ends() == [(1, LAST | REFUSED, LOST)]
    assert busy.sent() == [(b"w", b"PONG"), (b"w", b"more")]
    assert list(busy.registry.workers) == ["pingpong/w"]


def test_ready_of_a_silent_worker_loses_its_call(busy: BrokerHarness) -> None:
    busy.pass_time(EXPIRY)
    busy.say(b"w", READY)
    assert busy.ends() == [(1, LAST | REFUSED, LOST)]


def test_a_disconnected_worker_is_asked_and_lost_if_it_is_not_there(busy: BrokerHarness) -> None:
    busy.door.on_disconnect(b"w", busy.now)
    busy.door.on_disconnect(b"nobody", busy.now)
    assert [outgoing.frames for outgoing in busy.door.outbox] == [[b"w", *PONG]]
    assert busy.ends() == []
    busy.lose()
    assert busy.ends() == [(1, LAST | REFUSED, LOST)]
    assert not busy.registry.workers
    busy.pass_time(EXPIRY)
    busy.door.on_undelivered(Outgoing([b"w", *PONG]), busy.now)


def test_a_silent_worker_can_be_lost(busy: BrokerHarness) -> None:
    busy.pass_time(EXPIRY)
    busy.door.on_disconnect(b"w", busy.now)
    busy.lose()
    assert busy.ends() == [(1, LAST | REFUSED, LOST)]


def test_a_call_that_did_not_reach_its_worker_has_not_begun(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.call(1, b"work")
    harness.lose()
    ((_, flags, code),) = harness.ends()
    assert (flags, code) == (LAST | REFUSED, BUSY)
    assert not harness.registry.workers


def test_a_call_that_was_about_to_be_sent_has_not_begun(harness: BrokerHarness) -> None:
    harness.say(b"v", READY)
    harness.say(b"w", READY)
    harness.sent()
    harness.door.on_disconnect(b"w", harness.now)
    harness.call(1, b"one")
    harness.call(2, b"two")
    harness.door.on_undelivered(harness.door.outbox.popleft(), harness.now)
    harness.settle()
    assert harness.ends() == [(2, LAST | REFUSED, BUSY)]
    assert harness.sent() == [(b"v", b"one")]


def test_a_call_of_incomplete_arguments_has_not_begun(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.call(1, body=b"part", flags=MORE)
    harness.call(2, b"work")
    harness.pass_time(EXPIRY)
    (frame,) = harness.client.hear()
    assert frame.subtype == LAST | REFUSED
    assert calls.decode_refusal(frame.payload) == (
        BUSY,
        "worker pingpong/w was silent for too long, and the call has not begun there",
    )
    harness.say(b"v", READY)
    assert harness.sent() == [(b"w", b"PONG"), (b"v", b"PONG"), (b"v", b"work")]


def test_a_call_on_its_way_to_the_door_has_not_begun(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.client.say(calls.CALL, 0, 1, 0, calls.encode_target("job") + pack([b"work"]))
    harness.door.on_undelivered(harness.door.outbox.pop(), harness.now)
    harness.settle()
    assert harness.ends() == [(1, LAST | REFUSED, BUSY)]
    assert harness.sent() == []


def test_a_lost_worker_can_come_back(busy: BrokerHarness) -> None:
    busy.door.on_disconnect(b"w", busy.now)
    busy.lose()
    busy.ends()
    busy.say(b"w", READY)
    busy.call(2, b"more")
    assert busy.sent() == [(b"w", b"PONG"), (b"w", b"more")]


# Workers that are told to leave


@pytest.mark.parametrize("immediate", [True, False])
def test_an_idle_worker_is_removed_and_told_to_leave(harness: BrokerHarness, immediate: bool) -> None:
    harness.say(b"w", READY)
    harness.dismiss("pingpong/w", immediate)
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"EXIT")]
    assert not harness.registry.workers
    harness.dismiss("pingpong/w", immediate)
    harness.dismiss("pingpong/nobody", immediate)
    assert harness.sent() == []


def test_a_busy_worker_leaves_after_its_result(busy: BrokerHarness) -> None:
    busy.call(2, b"more")
    busy.dismiss("pingpong/w")
    busy.dismiss("pingpong/w")
    busy.say(b"w", PING)
    busy.pass_time(EXPIRY)
    assert busy.sent() == [(b"w", b"PONG")]
    busy.say(b"w", [b"", b"done"])
    assert busy.sent() == [(b"w", b"EXIT")]
    assert busy.ends() == [(1, DONE, b"done")]
    assert not busy.registry.workers


def test_a_large_last_result_is_told_before_the_worker_is_forgotten(busy: BrokerHarness) -> None:
    busy.dismiss("pingpong/w")
    have_large_result(busy)
    assert busy.sent() == [(b"w", b"EXIT")]
    busy.dismiss("pingpong/w", immediate=True)
    take_large_result(busy)
    assert not busy.registry.workers


def test_a_bad_last_answer_lets_the_worker_go(busy: BrokerHarness) -> None:
    busy.dismiss("pingpong/w")
    busy.say(b"w", [b"", b"a", b"b"])
    assert busy.sent() == [(b"w", b"EXIT")]
    assert not busy.registry.workers


@pytest.mark.parametrize("seconds", [0.0, EXPIRY])
@pytest.mark.parametrize("is_leaving", [True, False])
def test_a_busy_worker_can_be_told_to_leave_at_once(busy: BrokerHarness, seconds: float, is_leaving: bool) -> None:
    busy.pass_time(seconds)
    if is_leaving:
        busy.dismiss("pingpong/w")
    busy.dismiss("pingpong/w", immediate=True)
    assert busy.sent() == [(b"w", b"EXIT")]
    assert busy.ends() == [(1, LAST | REFUSED, LOST)]
    busy.say(b"w", [b"", b"an answer to no job"])
    assert busy.door.dropped == {NO_JOB: 1}
    assert not busy.registry.workers


def test_ready_of_a_leaving_worker_gets_exit(busy: BrokerHarness) -> None:
    busy.dismiss("pingpong/w")
    busy.say(b"w", READY)
    assert busy.sent() == [(b"w", b"EXIT")]
    assert busy.ends() == [(1, LAST | REFUSED, LOST)]
    assert not busy.registry.workers


def test_a_leaving_worker_can_be_lost(busy: BrokerHarness) -> None:
    busy.dismiss("pingpong/w")
    busy.door.on_disconnect(b"w", busy.now)
    busy.lose()
    assert busy.ends() == [(1, LAST | REFUSED, LOST)]


def test_a_ping_that_crossed_the_exit_does_not_register(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.dismiss("pingpong/w")
    harness.sent()
    harness.pass_time(EXPIRY - 1)
    harness.say(b"w", PING)
    harness.pass_time(EXPIRY - 1)
    harness.say(b"w", PING)
    assert harness.sent() == []
    assert not harness.registry.workers
    harness.pass_time(EXPIRY)
    harness.say(b"w", PING)
    assert harness.sent() == [(b"w", b"PONG")]


def test_ready_after_exit_is_a_new_start(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.dismiss("pingpong/w")
    harness.say(b"w", READY)
    harness.call(1, b"work")
    assert harness.sent() == [(b"w", b"PONG"), (b"w", b"EXIT"), (b"w", b"PONG"), (b"w", b"work")]


def test_an_exit_that_cannot_be_delivered_ends_the_matter(harness: BrokerHarness) -> None:
    harness.say(b"w", READY)
    harness.dismiss("pingpong/w")
    harness.lose()
    harness.say(b"w", PING)
    assert harness.sent() == [(b"w", b"PONG")]
    assert list(harness.registry.workers) == ["pingpong/w"]
