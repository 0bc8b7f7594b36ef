"""The ping-pong door among workers and callers that do what they like, with a referee who believes only messages.

The referee does not know the door's table. It keeps its own account of who is here and who has which job, from what
was said to the door and what came out, and knows from it what had to come out.
"""

from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.crews import ClientSeat, Table

from gandy.core.call_dispatch import GRACE
from gandy.core.switchboard import Switchboard
from gandy.doors.base import Outgoing
from gandy.doors.pingpong.door import PingPongDoor
from gandy.doors.pingpong.wire import (
    BROKER_WORDS,
    WORKER_WORDS,
    Exit,
    FromBroker,
    FromWorker,
    Ping,
    PingPongJob,
    Pong,
    Ready,
    Result,
    decode_broker,
    decode_worker,
    encode,
)
from gandy.errors import RemoteProtocolError
from gandy.wire import calls
from gandy.wire.calls import BUSY, FAILED, LAST, LOST, REFUSED

EXPIRY = 4.0
LARGE = 400_000  # bytes of a result for which the first credit is not enough
NAMES = (b"a", b"b")

names = st.sampled_from(NAMES)
choices = st.integers(0, 59)

counts = st.none() | st.binary(max_size=64)
results = st.binary(max_size=20).filter(lambda data: data not in WORKER_WORDS)
jobs = st.binary(max_size=20).filter(lambda data: data not in BROKER_WORDS)


@given(st.just(Ready()) | st.builds(Ping, counts) | st.builds(Result, results))
def test_what_a_worker_says_is_what_is_heard(message: FromWorker) -> None:
    assert decode_worker(encode(message)) == message


@given(st.just(Exit()) | st.builds(Pong, counts) | st.builds(PingPongJob, jobs))
def test_what_a_broker_says_is_what_is_heard(message: FromBroker) -> None:
    assert decode_broker(encode(message)) == message


words = st.sampled_from([b"", b"READY", b"PING", b"PONG", b"EXIT"])


@given(st.lists(words | st.binary(max_size=70), max_size=5))
def test_all_frames_mean_something_or_are_an_error(frames: list[bytes]) -> None:
    for decode in (decode_worker, decode_broker):
        try:
            message: FromWorker | FromBroker = decode(frames)
        except RemoteProtocolError:
            continue
        assert encode(message) == frames


@dataclass(eq=False)
class Made:
    """A call as the referee knows it."""

    seq: int
    is_complete: bool = True
    is_wanted: bool = True
    sent_to: bytes | None = None  # the worker that has or had it
    is_delivered: bool = False
    value: bytes | None = None  # what the worker gave
    end: int | None = None  # 0 for a value, -1 for a failure, else the code of a refusal


@dataclass(eq=False)
class Man:
    """A worker as the referee knows it."""

    is_here: bool = False  # and may be given calls, unless it has one or is to leave
    is_leaving: bool = False
    was_told: bool = False  # EXIT, and it has been heard now and then since
    heard: float = 0.0
    job: Made | None = None
    telling: Made | None = None  # the call whose result is not told to its caller
    owed: list[tuple[bytes, ...]] = field(default_factory=list)  # messages that it must be sent now


class PingPong(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.board = Switchboard(0.0)
        self.board.now = self.now = 100.0
        self.registry = Table()
        self.door = PingPongDoor(self.board, self.registry, "job", EXPIRY)
        self.client = ClientSeat(self.board)
        self.men = {name: Man() for name in NAMES}
        self.calls: list[Made] = []
        self.say_ready(b"a")

    # What is said

    def say(self, name: bytes, *frames: bytes) -> None:
        man = self.men[name]
        self.door.on_message([name, b"", *frames], self.now)
        if man.is_here or man.was_told:
            man.heard = self.now

    @rule(name=names, luck=st.integers(0, 3))
    def say_ready(self, name: bytes, luck: int = 0) -> None:
        man = self.men[name]
        if luck:
            return
        job, man.job = man.job, None
        man.heard = self.now
        if man.is_leaving:
            man.is_here, man.is_leaving, man.was_told = False, False, True
            man.owed = [(b"EXIT",)]
        else:
            man.is_here, man.was_told = True, False
            man.owed = [(b"PONG",)]
        self.say(name, b"READY")
        self.settle()
        self.must_end(job, LOST)

    @rule(name=names, count=st.sampled_from([None, b"", b"17"]))
    def say_ping(self, name: bytes, count: bytes | None) -> None:
        man = self.men[name]
        man.heard = self.now
        if not man.was_told:
            man.is_here = True
            man.owed = [(b"PONG",) if count is None else (b"PONG", count)]
        self.say(name, *([b"PING"] if count is None else [b"PING", count]))
        self.settle()

    @rule(name=names, is_large=st.booleans())
    def say_result(self, name: bytes, is_large: bool) -> None:
        man = self.men[name]
        before = sum(self.door.dropped.values())
        job, man.job = man.job, None
        if job is None:
            self.say(name, b"a result of nothing")
            self.settle()
            assert sum(self.door.dropped.values()) == before + 1
            return
        job.value = b"%d" % job.seq + bytes(LARGE if is_large else 0)
        if is_large and job.is_wanted:
            man.telling = job
        self.finish(man)
        self.say(name, job.value)
        self.settle()
        if man.telling is None:
            self.must_end(job, 0)
        assert sum(self.door.dropped.values()) == before

    def finish(self, man: Man) -> None:
        man.heard = self.now
        if man.is_leaving:
            man.is_here, man.is_leaving, man.was_told = False, False, True
            man.owed = [(b"EXIT",)]

    @rule(name=names, frames=st.sampled_from([(b"READY", b""), (b"PING", b"", b""), (), (b"PING", bytes(65))]))
    def say_nonsense(self, name: bytes, frames: tuple[bytes, ...]) -> None:
        before = sum(self.door.dropped.values())
        self.say(name, *frames)
        self.settle()
        assert sum(self.door.dropped.values()) == before + 1

    @rule(name=names, luck=st.integers(0, 3))
    def say_result_in_two_frames(self, name: bytes, luck: int = 0) -> None:
        man = self.men[name]
        if luck:
            return
        job, man.job = man.job, None
        if job is not None:
            self.finish(man)
        self.say(name, b"one", b"two")
        self.settle()
        self.must_end(job, -1)

    # What callers do

    @rule(is_complete=st.sampled_from([True, True, True, False]))
    def call(self, is_complete: bool) -> None:
        made = Made(len(self.calls), is_complete)
        self.calls.append(made)
        args = msgspec.msgpack.encode([b"%d" % made.seq])
        flags = 0 if is_complete else calls.MORE
        self.client.say(
            calls.CALL, flags, made.seq, 0, calls.encode_target("job") + (args if is_complete else args[:1])
        )
        self.settle()

    @rule(which=choices)
    def complete(self, which: int) -> None:
        made = self.pick(which, lambda made: not made.is_complete)
        if made is not None:
            made.is_complete = True
            self.client.body(made.seq, msgspec.msgpack.encode([b"%d" % made.seq])[1:], True)
            self.settle()

    @rule(which=choices)
    def cancel(self, which: int) -> None:
        made = self.pick(which, lambda made: True)
        if made is None:
            return
        made.is_wanted = False
        self.client.cancel(made.seq)
        for man in self.men.values():
            if man.telling is made:
                man.telling = None
        self.settle()

    @rule(which=choices)
    def grant(self, which: int) -> None:
        telling = [man for man in self.men.values() if man.telling is not None]
        if telling:
            man = telling[which % len(telling)]
            made, man.telling = man.telling, None
            assert made is not None
            self.client.say(calls.CREDIT, 0, made.seq, LARGE)
            self.settle()
            self.must_end(made, 0)

    # What the crew does

    @rule(name=names, luck=st.integers(0, 1))
    def dismiss(self, name: bytes, luck: int) -> None:
        man = self.men[name]
        if luck and man.job is None:
            return
        if man.is_here and man.job is not None:
            man.is_leaving = True
        elif man.is_here:
            man.is_here, man.was_told, man.heard = False, True, self.now
            man.owed = [(b"EXIT",)]
        self.door.on_dismiss(f"pingpong/{name.decode()}", False, self.now)
        self.settle()

    @rule(name=names, luck=st.integers(0, 3))
    def kill(self, name: bytes, luck: int = 0) -> None:
        man = self.men[name]
        if luck:
            return
        job, man.job = man.job, None
        if man.is_here:
            man.is_here, man.is_leaving, man.was_told, man.heard = False, False, True, self.now
            man.owed = [(b"EXIT",)]
        self.door.on_dismiss(f"pingpong/{name.decode()}", True, self.now)
        self.settle()
        self.must_end(job, LOST)

    @rule(name=names, luck=st.integers(0, 3))
    def disconnect(self, name: bytes, luck: int = 0) -> None:
        man = self.men[name]
        if luck:
            return
        self.door.on_disconnect(name, self.now)
        parcels = list(self.door.outbox)
        self.door.outbox.clear()
        assert [outgoing.frames for outgoing in parcels] in ([], [[name, b"", b"PONG"]])
        assert parcels or not (man.is_here or man.was_told)
        job = self.lose(man)
        for outgoing in parcels:
            self.door.on_undelivered(outgoing, self.now)
        self.settle()
        self.must_end(job, LOST)

    def lose(self, man: Man) -> Made | None:
        job, man.job = man.job, None
        man.is_here = man.is_leaving = man.was_told = False
        return job

    @rule(seconds=st.sampled_from([0.5, EXPIRY / 2, EXPIRY]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.board.now = self.now
        for man in self.men.values():
            if self.now - man.heard >= EXPIRY and man.job is None:
                man.is_here = man.was_told = False
        self.door.on_time(self.now)
        self.settle()

    @precondition(lambda self: any(man.job is not None for man in self.men.values()))
    @rule()
    def work_long(self) -> None:
        """Longer than the expiry, and silently."""
        self.pass_time(EXPIRY)

    @precondition(lambda self: any(man.is_here and man.job is None for man in self.men.values()))
    @rule(luck=st.integers(0, 5))
    def call_a_worker_that_is_gone(self, luck: int) -> None:
        """The next job cannot be delivered."""
        if luck:
            return
        made = Made(len(self.calls))
        self.calls.append(made)
        args = msgspec.msgpack.encode([b"%d" % made.seq])
        self.client.say(calls.CALL, 0, made.seq, 0, calls.encode_target("job") + args)
        self.settle(is_delivered=False)
        if made.sent_to is not None:
            self.must_end(made, BUSY)

    # What the referee reads

    def pick(self, which: int, is_right: object) -> Made | None:
        assert callable(is_right)
        found = [made for made in self.calls if made.end is None and made.is_wanted and is_right(made)]
        return found[which % len(found)] if found else None

    def must_end(self, made: Made | None, how: int) -> None:
        assert made is None or made.end == (how if made.is_wanted else None)

    def settle(self, is_delivered: bool = True) -> None:
        """As the program around does, until no side has anything to say."""
        while self.pass_on() or self.deliver(is_delivered):
            pass
        for name, man in self.men.items():
            assert not man.owed, name
        self.read_ends()
        self.board.dispatcher.check()
        self.door.workers.check()

    def pass_on(self) -> bool:
        peers = [peer for peer in self.board.touched if peer is not self.client.peer]
        for peer in peers:
            self.board.touched.discard(peer)
            data = b"".join(peer.out)
            peer.out.clear()
            assert peer.on_out is not None
            peer.on_out(peer, data, self.now)
        return bool(peers)

    def deliver(self, is_delivered: bool) -> bool:
        parcels = list(self.door.outbox)
        self.door.outbox.clear()
        for outgoing in parcels:
            name, empty, *frames = outgoing.frames
            assert empty == b""
            man = self.men[name]
            if frames[0] in BROKER_WORDS:
                assert outgoing.call == -1
                assert tuple(frames) == man.owed.pop(0)
            else:
                self.give(name, man, int(frames[0]), outgoing, is_delivered)
        return bool(parcels)

    def give(self, name: bytes, man: Man, number: int, outgoing: Outgoing, is_delivered: bool) -> None:
        made = self.calls[number]
        assert made.sent_to is None, "a job runs once"
        assert made.is_complete
        assert outgoing.call >= 0
        assert man.is_here, "a job is given to a worker that is here"
        assert not man.is_leaving
        assert man.job is None, "a worker has one job"
        assert man.telling is None
        assert not man.owed, "PONG comes first"
        made.sent_to, made.is_delivered = name, is_delivered
        man.job = made
        if not is_delivered:
            self.lose(man)
            self.door.on_undelivered(outgoing, self.now)

    def read_ends(self) -> None:
        for kind, flags, seq, _, payload in self.client.hear():
            if kind != calls.RESULT or not flags & LAST:
                continue
            made = self.calls[seq]
            assert made.end is None, "a call ends once"
            assert made.is_wanted
            if flags & REFUSED:
                made.end = calls.decode_refusal(payload)[0]
                assert made.end in (LOST, BUSY)
                assert (made.end == BUSY) == (not made.is_delivered), "what has begun is lost, all else can go again"
            elif flags & FAILED:
                made.end = -1
            else:
                made.end = 0
                assert made.value is not None
                if len(made.value) < LARGE:
                    assert msgspec.msgpack.decode(payload) == made.value

    # What must hold

    @invariant()
    def the_table_lists_who_is_here(self) -> None:
        if hasattr(self, "men"):
            here = {f"pingpong/{name.decode()}" for name, man in self.men.items() if man.is_here or man.telling}
            assert set(self.registry.workers) == here

    @invariant()
    def nobody_waits_without_need(self) -> None:
        if hasattr(self, "men") and self.board.waiting.count:
            for name, man in self.men.items():
                is_free = man.is_here and not (man.is_leaving or man.job or man.telling)
                assert not is_free or len(self.board.dispatcher.offers.workers[f"pingpong/{name.decode()}"].serves) == 1

    def teardown(self) -> None:
        """In the end all peers go, and each call has ended."""
        if not hasattr(self, "men"):
            return
        for name in NAMES:
            self.kill(name)
        for which in range(len(NAMES)):
            self.grant(which)
        self.pass_time(EXPIRY)
        self.now += GRACE
        self.board.now = self.now
        self.board.dispatcher.on_time(self.now)
        for frame in self.client.hear():
            self.calls[frame.seq].end = calls.UNKNOWN
        assert all(made.end is not None for made in self.calls if made.is_wanted)
        assert not self.door.workers._workers
        assert not self.door.workers._expires
        assert not self.door.workers.peers
        assert not self.registry.workers


PingPong.TestCase.settings = settings(max_examples=250, stateful_step_count=60)
TestPingPong = PingPong.TestCase
