"""The round-robin door among peers that do what they like, with a referee who believes only frames.

Every message carries a token, which the worker that serves it gives back. From what was said and what came out the
referee knows which answers may come, to which peer, how many slots each worker has left, and, at the end, that nothing
is missing.
"""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.roundrobin import (
    COPY,
    EXEC,
    FAILURE,
    FEED,
    ONCE,
    PING,
    PONG,
    RESPONSE,
    TRACKEXEC,
    Client,
    DoorHarness,
    Failed,
    Job,
    NativeWorker,
    PlainMessage,
    Refused,
    RoundRobinWorker,
)

from gandy.core.workers import KnownWorker
from gandy.doors.base import name_peer
from gandy.doors.roundrobin.worker_calls import UNANSWERED_PAUSE
from gandy.wire.calls import BUSY, CAST, LOST, UNKNOWN

CLIENTS = (b"c1", b"c2")
WORKERS = (b"w1", b"w2", b"\x00w3")
NAMES = {COPY: "copy", ONCE: "once", FEED: "feed"}
CODES = {name: code for code, name in NAMES.items()}

choices = st.integers(0, 59)
codes = st.sampled_from([COPY, ONCE, FEED])
luck = st.sampled_from([True, False, False])


@dataclass(eq=False)
class Ask:
    """A message that a response is to come for. `token`: of the message, or of the stream that it wants more of."""

    token: bytes
    is_more: bool = False


@dataclass(eq=False)
class Asker:
    """A client as the referee knows it."""

    hand: Client
    is_here: bool = True
    asks: dict[bytes, list[Ask]] = field(default_factory=dict)  # by id: some ids are used twice
    failed: Counter[bytes] = field(default_factory=Counter)  # of these, without a word which one of them


@dataclass(eq=False)
class Server:
    """A round-robin worker as the referee knows it."""

    hand: RoundRobinWorker
    name: str
    account: KnownWorker | None = None  # as it stands in the table: another one is another life
    told: int = 0  # slots, as it said
    free: int = 0
    unreturned: int = 0  # calls that it got and has not said INCREMENT for
    messages: list[PlainMessage] = field(default_factory=list)  # calls that it has not answered
    old: list[PlainMessage] = field(default_factory=list)  # that it has
    is_here: bool = True  # connected
    is_registered: bool = False
    is_silent: bool = False  # it answers no questions


class RoundRobin(RuleBasedStateMachine):
    @initialize(slots=st.lists(st.integers(0, 3), min_size=3, max_size=3))
    def begin(self, slots: list[int]) -> None:
        self.harness = DoorHarness()
        self.askers = {name: Asker(self.harness.client(name)) for name in CLIENTS}
        self.servers = {
            name: Server(self.harness.worker(name, None), name_peer("roundrobin/", name)) for name in WORKERS
        }
        self.native = self.harness.native_client()
        self.natives: list[NativeWorker] = []
        self.jobs: list[tuple[NativeWorker, Job]] = []
        self.calls: dict[int, bytes] = {}  # of the native client, with their tokens
        self.tokens = 0
        self.seen = 0  # of all that was delivered
        self.codes: dict[bytes, bytes] = {}  # by token
        self.twice: set[tuple[bytes, ...]] = set()  # clients, and ids that they used again
        self.begun: Counter[bytes] = Counter()  # how often a token reached a worker
        self.holders: dict[bytes, object] = {}  # who has it
        self.streams: dict[bytes, bytes] = {}  # what a client has read, by token
        self.given: dict[bytes, bytes] = {}  # what native workers gave
        self.served: Counter[str] = Counter()
        for server, count in zip(self.servers.values(), slots, strict=True):
            server.hand.ping()
            self.send_slots(server, count)

    def make_token(self, code: bytes) -> bytes:
        self.tokens += 1
        token = b"%d" % self.tokens
        self.codes[token] = code
        return token

    def pick(self, which: int) -> Server:
        return self.servers[WORKERS[which % len(WORKERS)]]

    # What clients do

    @rule(who=st.sampled_from(CLIENTS), code=codes, use_id_twice=luck)
    def track(self, who: bytes, code: bytes, use_id_twice: bool) -> None:
        asker = self.askers[who]
        if not asker.is_here:
            return
        used = [number for number, asks in asker.asks.items() if self.codes.get(asks[0].token) in (COPY, ONCE)]
        number = asker.hand.make_id()
        if use_id_twice and used and code != FEED:
            number = used[0]
            self.twice.add((who, number))
        token = self.make_token(code)
        asker.asks.setdefault(number, []).append(Ask(token))
        asker.hand.track(code, b"60:me", token, id=number)
        self.look()

    @rule(who=st.sampled_from(CLIENTS), code=codes)
    def execute(self, who: bytes, code: bytes) -> None:
        if self.askers[who].is_here:
            self.askers[who].hand.execute(code, b"60:me", self.make_token(code))
            self.look()

    @rule(who=st.sampled_from(CLIENTS), is_unlucky=luck)
    def lose_client(self, who: bytes, is_unlucky: bool) -> None:
        asker = self.askers[who]
        if asker.is_here and is_unlucky:
            asker.is_here = False
            asker.asks.clear()
            asker.failed.clear()
            asker.hand.vanish()
            self.look()

    @rule(who=st.sampled_from(CLIENTS))
    def return_client(self, who: bytes) -> None:
        if not self.askers[who].is_here:
            self.settle()  # no peer comes back before its end was noticed
            self.askers[who].is_here = True
            self.harness.connect(who)
            self.look()

    @rule(who=st.sampled_from(CLIENTS))
    def ask_nonsense(self, who: bytes) -> None:
        if self.askers[who].is_here:
            number = self.askers[who].hand.make_id()
            self.askers[who].asks.setdefault(number, []).append(Ask(b""))
            self.askers[who].hand.track(b"\x99", id=number)
            self.look()

    @rule(code=codes)
    def call(self, code: bytes) -> None:
        seq = next(number for number in range(1000) if number not in self.calls)
        token = self.calls[seq] = self.make_token(code)
        if code == FEED:
            self.native.stream(seq, NAMES[code], b"60:me", token)
        else:
            self.native.call(seq, NAMES[code], b"60:me", token)
        self.look()

    @rule(code=codes)
    def cast(self, code: bytes) -> None:
        self.native.call(0, NAMES[code], b"60:me", self.make_token(code), flags=CAST)
        self.look()

    @rule(which=choices)
    def cancel(self, which: int) -> None:
        if self.calls:
            seq = list(self.calls)[which % len(self.calls)]
            self.look()  # what came until now came
            if self.calls.pop(seq, None) is not None:
                self.native.cancel(seq)
                self.look()

    # What round-robin workers do

    @rule(which=choices, slots=st.integers(-1, 3))
    def register(self, which: int, slots: int) -> None:
        server = self.pick(which)
        if server.is_here:
            self.settle()
            self.send_slots(server, slots)

    def send_slots(self, server: Server, slots: int) -> None:
        server.told = server.free = max(0, slots)
        server.is_registered = True
        server.hand.register(slots)
        self.look()

    @rule(which=choices)
    def deregister(self, which: int) -> None:
        server = self.pick(which)
        if server.is_here:
            server.is_registered = False
            server.hand.deregister()
            self.look()

    @rule(which=choices, message=choices, is_failure=luck)
    def respond(self, which: int, message: int, is_failure: bool) -> None:
        server = self.pick(which)
        if server.is_here and server.messages:
            self.answer(server, server.messages[message % len(server.messages)], is_failure)

    def answer(self, server: Server, message: PlainMessage, is_failure: bool = False) -> None:
        server.messages.remove(message)
        server.old.append(message)
        server.hand.respond(message, *([FAILURE, b"no"] if is_failure else [make_value(message)]))
        self.look()

    @rule(which=choices)
    def increment(self, which: int) -> None:
        """Honest or not, in any order with responses."""
        server = self.pick(which)
        if server.is_here:
            if server.account is not None and server.unreturned:
                server.unreturned -= 1
                server.free += 1
            server.hand.increment()
            self.look()

    @rule(which=choices, message=choices, forgery=st.integers(0, 3))
    def respond_wrongly(self, which: int, message: int, forgery: int) -> None:
        server = self.pick(which)
        messages = server.messages if forgery else server.old
        if not (server.is_here and messages):
            return
        right = messages[message % len(messages)]
        if forgery == 0:  # again; it may be one that the worker was given once more after its return
            if any((other.id, other.path) == (right.id, right.path) for other in server.messages):
                return
            wrong = PlainMessage(RESPONSE, right.id, (b"twice",), right.path[::-1])
        elif forgery == 1:
            wrong = PlainMessage(RESPONSE, right.id + b"x", (b"wrong id",), right.path[::-1])
        elif forgery == 2:
            wrong = PlainMessage(RESPONSE, right.id, (b"wrong client",), (b"c3",))
        else:
            server = next(other for other in self.servers.values() if other is not server)
            if not server.is_here or any(other.path == right.path for other in server.messages):
                return
            wrong = PlainMessage(RESPONSE, right.id, (b"wrong worker",), right.path[::-1])
        server.hand.say(wrong)
        self.look()

    @rule(which=choices, is_noticed=st.booleans(), is_unlucky=luck)
    def lose_worker(self, which: int, is_noticed: bool, is_unlucky: bool) -> None:
        server = self.pick(which)
        if server.is_here and is_unlucky:
            server.is_here = False
            if is_noticed:
                server.hand.vanish()
            else:
                self.harness.undeliverable.add(server.hand.id)
            self.look()

    @rule(which=choices)
    def return_worker(self, which: int) -> None:
        """The same process: it still knows what it had."""
        server = self.pick(which)
        if not server.is_here:
            self.settle()
            server.is_here, server.is_silent = True, False
            self.harness.connect(server.hand.id)
            server.hand.ping()
            self.look()

    @rule(which=choices, is_silent=st.booleans())
    def fall_silent(self, which: int, is_silent: bool) -> None:
        server = self.pick(which)
        if server.is_silent and not is_silent and server.is_here:
            server.hand.ping()
            self.look()
        server.is_silent = is_silent

    @rule(which=choices, is_immediate=st.booleans(), is_unlucky=luck)
    def dismiss(self, which: int, is_immediate: bool, is_unlucky: bool) -> None:
        server = self.pick(which)
        if is_unlucky:
            server.is_registered = server.is_registered and server.account is None  # a lost one is not asked
            self.harness.dismiss(server.name, is_immediate)
            self.look()

    # What native workers do

    @precondition(lambda self: len(self.natives) < 2)
    @rule(slots=st.integers(1, 2))
    def add_native(self, slots: int) -> None:
        self.tokens += 1
        worker = self.harness.native_worker(f"n{self.tokens}", slots, ("copy", "once", "feed"))
        self.natives.append(worker)
        self.look()

    @rule(which=choices, size=st.sampled_from([0, 10, 9_000, 60_000]))
    def add_value(self, which: int, size: int) -> None:
        """To a stream."""
        jobs = [(worker, job) for worker, job in self.jobs if job.name == "feed"]
        if jobs:
            worker, job = jobs[which % len(jobs)]
            token = job.args[1]
            if len(self.given[token]) < 150_000:  # there is credit
                data = (token + b":") * (size // (len(token) + 1))
                self.given[token] += data
                worker.add(job, data)
                self.look()

    @rule(which=choices, is_failure=luck)
    def end_job(self, which: int, is_failure: bool) -> None:
        if self.jobs:
            worker, job = self.jobs.pop(which % len(self.jobs))
            self.finish_job(worker, job, is_failure)

    def finish_job(self, worker: NativeWorker, job: Job, is_failure: bool = False) -> None:
        if is_failure:
            worker.fail(job, "no")
        elif job.name == "feed":
            worker.end(job)
        else:
            worker.give(job, job.args[1])
        self.look()

    @rule(which=choices, is_unlucky=luck)
    def cut_native(self, which: int, is_unlucky: bool) -> None:
        if self.natives and is_unlucky:
            worker = self.natives.pop(which % len(self.natives))
            self.jobs = [(other, job) for other, job in self.jobs if other is not worker]
            worker.cut()
            self.look()

    # Time

    @rule(seconds=st.sampled_from([1, 3, 20]))
    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.harness.pass_time(1)
            self.look()

    @rule()
    def hold(self) -> None:
        """Several things happen before anything goes out."""
        self.harness.is_patient = True

    @rule()
    def settle(self) -> None:
        self.harness.is_patient = False
        self.harness.settle()
        self.look()

    # The referee

    def look(self) -> None:
        for server in self.servers.values():
            self.look_at(server)
        for routing_id, message in self.harness.log[self.seen :]:
            self.seen += 1
            if routing_id in self.askers:
                self.hear_client(self.askers[routing_id], message)
            else:
                self.hear_worker(self.servers[routing_id], message)
        for asker in self.askers.values():
            asker.hand.hear()
        for worker in self.natives:
            self.take_jobs(worker)
        for seq, value in self.native.results():
            self.hear_native(seq, value)
        if self.seen < len(self.harness.log):  # a peer answered what came
            self.look()

    def look_at(self, server: Server) -> None:
        """Whether it is still the same life."""
        account = self.harness.registry.workers.get(server.name)
        if account is not server.account:
            self.holders = {token: holder for token, holder in self.holders.items() if holder is not server.account}
            server.account = account
            server.unreturned = 0
            server.free = server.told
            # A late response to one message cannot be told from that to another one with the same id.
            server.messages = [message for message in server.messages if (*message.path, message.id) not in self.twice]

    def hear_worker(self, server: Server, message: PlainMessage) -> None:
        server.hand.hear()
        if message.command == PING:
            if server.is_here and not server.is_silent:
                server.hand.say(PlainMessage(PONG, message.id))
        elif message.command in (EXEC, TRACKEXEC):
            assert server.account is not None
            server.free -= 1
            server.unreturned += 1
            assert server.free >= 0, "no worker gets more than it has slots for"
            self.begin_token(read_token(message), message.args[0], server.account)
            if message.command == TRACKEXEC:
                server.messages.append(message)
        else:
            assert message.command in (RESPONSE, PONG)

    def begin_token(self, token: bytes, code: bytes, holder: object) -> None:
        assert self.codes[token] == code
        self.begun[token] += 1
        assert code == COPY or self.begun[token] == 1, "what may not run twice reached two workers"
        assert token not in self.holders, "it is with a worker that was not lost"
        self.holders[token] = holder

    def take_jobs(self, worker: NativeWorker) -> None:
        for job in worker.take():
            token = job.args[1]
            self.begun[token] += 1
            assert CODES[job.name] == COPY or self.begun[token] == 1
            self.jobs.append((worker, job))
            self.given[token] = b""

    def hear_client(self, asker: Asker, message: PlainMessage) -> None:
        if message.command == PING:
            asker.hand.say(PlainMessage(PONG, message.id))
            return
        assert message.command == RESPONSE
        asks = asker.asks.get(message.id, [])
        assert len(asks) > asker.failed[message.id], "it was not asked, or it is answered already"
        if message.args[0] == FAILURE:
            self.served["failures"] += 1
            asker.failed[message.id] += 1
        else:
            self.served["values"] += 1
            ask = find_ask(asks, message.args[0])
            asks.remove(ask)
            if self.codes[ask.token] == FEED:
                self.hear_packet(asker, ask, message.args[0])
        if len(asks) == asker.failed[message.id]:
            del asker.asks[message.id], asker.failed[message.id]

    def hear_packet(self, asker: Asker, ask: Ask, packet: bytes) -> None:
        state, handle, data = packet[:1], packet[3:11], packet[11:]
        if handle == b"RRWORKER":
            assert (state, data) == (b"2", ask.token)
            return
        assert handle[-1:] == b"\0"
        self.streams[handle] = self.streams.get(handle, b"") + data
        self.served["packets"] += 1
        if state == b"2":
            assert self.streams[handle] in self.given.values()
        elif state == b"0" and asker.is_here:
            number = asker.hand.make_id()
            asker.asks[number] = [Ask(ask.token, is_more=True)]
            asker.hand.track(b"mqs_more", b"60:me", handle, b"0", id=number)

    def hear_native(self, seq: int, value: object) -> None:
        assert seq in self.calls, "an answer to no call"
        token = self.calls[seq]
        if isinstance(value, Refused):
            assert value.code in (LOST, BUSY, UNKNOWN)
            assert value.code == LOST or token not in self.begun, "it has begun, and may not be tried again"
        elif self.codes[token] == FEED and isinstance(value, bytes):
            return  # more is to come
        elif self.codes[token] != FEED and not isinstance(value, Failed):
            assert value == token
        self.served["native"] += 1
        del self.calls[seq]

    @invariant()
    def accounts_agree(self) -> None:
        if self.harness.is_patient:
            return
        self.harness.board.dispatcher.check()
        listed = dict(self.harness.list())
        assert listed == {name: self.servers[name].free for name in listed}
        for name, server in self.servers.items():
            if server.is_registered and server.is_here and not server.is_silent:
                assert name in listed

    def teardown(self) -> None:
        """In the end all peers behave, and nothing is left."""
        if not hasattr(self, "harness"):
            return
        self.settle()
        for server in self.servers.values():
            if not server.is_here:
                server.hand.vanish()
            server.is_silent = False
        self.look()
        best = self.servers[WORKERS[0]]
        best.is_here = True
        self.harness.connect(best.hand.id)
        self.send_slots(best, 3)
        for _ in range(5):
            while self.work():
                pass
            self.pass_time(int(UNANSWERED_PAUSE) + 1)
        assert not self.calls
        assert all(not asker.asks for asker in self.askers.values()), "each is answered"
        self.harness.check_empty()

    def work(self) -> bool:
        """Each peer does what it has to do."""
        is_busy = False
        for server in self.servers.values():
            for message in list(server.messages) if server.is_here else []:
                self.answer(server, message)
                is_busy = True
            while server.is_here and server.unreturned:
                server.unreturned -= 1
                server.free += 1
                server.hand.increment()
                self.look()
                is_busy = True
        jobs, self.jobs = self.jobs, []
        for worker, job in jobs:
            self.finish_job(worker, job)
        return is_busy or bool(jobs)


def read_token(message: PlainMessage) -> bytes:
    return message.args[2]


def find_ask(asks: list[Ask], value: bytes) -> Ask:
    """The one that a value is for. Packets of a stream do not show it, so no client uses the id of one twice."""
    if value[1:3] == b"R\x08":
        (ask,) = asks
        return ask
    return next(ask for ask in asks if ask.token == value)


def make_value(message: PlainMessage) -> bytes:
    """What a worker gives: the token, or a stream of it."""
    token = read_token(message)
    return b"2R\x08RRWORKER" + token if message.args[0] == FEED else token


RoundRobin.TestCase.settings = settings(max_examples=150, stateful_step_count=60)
test_every_message_is_answered_once = RoundRobin.TestCase


def test_the_referee_sees_enough() -> None:
    """A machine that only ever fails proves nothing."""
    machine = RoundRobin()
    machine.begin([1, 1, 1])
    machine.track(b"c1", COPY, False)
    machine.respond(0, 0, False)
    machine.respond(1, 0, False)
    machine.respond(2, 0, False)
    assert machine.served == {"values": 1}
    machine.teardown()
