"""A crew at the round-robin door on simulated time: lines delay and break, workers die, hang and come back.

Each message is answered once, with its own value or with the reason why not, whoever serves it; and nothing is left.
"""

from collections import Counter, deque
from collections.abc import Callable
from math import inf

import pytest
from tests.roundrobin import (
    COPY,
    EXEC,
    FAILURE,
    FEED,
    INCREMENT,
    ONCE,
    PING,
    PONG,
    REGISTER,
    RESPONSE,
    TRACKEXEC,
    DoorHarness,
    Failed,
    Job,
    NativeClient,
    NativeWorker,
    PlainMessage,
    Refused,
    read_message,
)

from gandy.doors.base import Outgoing
from gandy.doors.roundrobin.worker_calls import Times
from gandy.testing.simulation import Simulation
from gandy.wire.calls import BUSY, CANCEL, LOST, UNKNOWN

HORIZON = 20.0  # seconds of messages and bad luck
END = 90.0  # by then all of them are answered
CODES = {COPY: "copy", ONCE: "once", FEED: "feed"}
DURATIONS = (0.0, 0.01, 0.5, 3.0)
INSTALLING = 0.5  # seconds from the response to REGISTER until a worker has its commands
CALL_LIMIT = 15.0  # seconds; far more than any call takes here, and what is dropped ends before the end


class Line:
    """A connection: in order, late, and once it is cut nothing comes through."""

    def __init__(self, crew: "Crew", routing_id: bytes, owner: "SimWorker | SimClient") -> None:
        self.crew, self.sim, self.routing_id, self.owner = crew, crew.sim, routing_id, owner
        self.is_up = True
        self._last = [0.0, 0.0]
        crew.harness.lines[routing_id] = self
        crew.harness.undeliverable.discard(routing_id)
        crew.harness.connect(routing_id)

    def send(self, message: PlainMessage, is_upwards: bool = True) -> None:
        self._last[is_upwards] = max(self._last[is_upwards], self.sim.now + self.sim.random.choice((0.0, 0.001, 0.2)))
        self.sim.call_later(self._last[is_upwards] - self.sim.now, lambda: self._deliver(message, is_upwards))

    def _deliver(self, message: PlainMessage, is_upwards: bool) -> None:
        if self.is_up and is_upwards:
            self.crew.harness.say(self.routing_id, message.frames)
        elif self.is_up:
            self.owner.hear(self, message)

    def cut(self) -> None:
        """The socket notices a moment later."""
        self.is_up = False
        self.crew.harness.undeliverable.add(self.routing_id)
        self.sim.call_later(0.02, self._tell)

    def _tell(self) -> None:
        self.crew.harness.door.on_disconnect(self.routing_id, self.sim.now)
        self.crew.harness.settle()


class SimHall(DoorHarness):
    """A harness with lines, and the simulation's time."""

    def __init__(self, sim: Simulation) -> None:
        super().__init__(now=sim.now, times=Times(call_limit=CALL_LIMIT))
        self.sim = sim
        self.lines: dict[bytes, Line] = {}
        self.look: Callable[[], None] = lambda: None
        self.is_looking = False
        self.tick()

    def settle(self) -> None:
        super().settle()
        if self.board.touched and not self.is_looking:  # gandy's own workers and clients have something to read
            self.is_looking = True
            self.sim.call_later(self.sim.random.choice((0.0, 0.05)), self.look)

    def say(self, routing_id: bytes, frames: list[bytes]) -> None:
        self.now = self.board.now = self.sim.now
        super().say(routing_id, frames)

    def deliver(self, outgoing: Outgoing) -> None:
        self.lines[outgoing.frames[0]].send(read_message(outgoing.frames[1:]), is_upwards=False)

    def tick(self) -> None:
        self.now = self.board.now = self.sim.now
        self.board.on_time(self.now)
        self.door.on_time(self.now)
        self.settle()
        if self.sim.now < END:
            self.sim.call_later(0.5, self.tick)


class SimWorker:
    """A worker like the original: it answers and says INCREMENT, now in this order and now in that.

    It drops what comes before its commands are installed without a word, and with bad luck anything else.
    """

    def __init__(self, crew: "Crew", name: bytes) -> None:
        self.crew, self.sim, self.name = crew, crew.sim, name
        self.starts = 0
        self.start()

    def start(self) -> None:
        """With a new routing id, as the original has after each start."""
        self.starts += 1
        self.is_hanging = False
        self.ready_at = inf
        self.streams: dict[bytes, deque[bytes]] = {}
        self.line = Line(self.crew, b"%s:%d" % (self.name, self.starts), self)
        self.say(PlainMessage(PING, b"greeting"))
        self.say(PlainMessage(TRACKEXEC, b"0001", (REGISTER, b"%d" % self.sim.random.choice((1, 2, 10)))))

    def say(self, message: PlainMessage) -> None:
        if not self.is_hanging:
            self.line.send(message)

    def die(self) -> None:
        if self.line.is_up:
            self.line.cut()
        self.is_hanging = True
        self.sim.call_later(self.sim.random.choice((0.1, 5.0)), self.start)

    def hang(self) -> None:
        self.is_hanging = True
        self.sim.call_later(30.0, self.die)

    def lose_line(self) -> None:
        """ZeroMQ connects again by itself, with the same routing id; the worker does not notice."""
        line = self.line
        if line.is_up:
            line.cut()
            self.sim.call_later(self.sim.random.choice((0.1, 2.0)), lambda: self._reconnect(line))

    def _reconnect(self, line: Line) -> None:
        if self.line is line:  # else it has died meanwhile
            self.line = Line(self.crew, line.routing_id, self)

    def hear(self, line: Line, message: PlainMessage) -> None:
        if self.is_hanging:
            return
        if message.command == PING:
            self.say(PlainMessage(PONG, message.id, (), message.path[::-1]))
        elif message.command == RESPONSE and self.ready_at == inf:
            self.ready_at = self.sim.now + self.sim.random.uniform(0, INSTALLING)
        elif message.command in (EXEC, TRACKEXEC) and self.drops_it():
            self.crew.dropped += 1
        elif message.command in (EXEC, TRACKEXEC) and message.args[0] in CODES:
            self.crew.begin(message.args[2], message.args[0])
            starts = self.starts
            self.sim.call_later(self.sim.random.choice(DURATIONS), lambda: self._finish(starts, message))
        elif message.command == TRACKEXEC:
            packets = (
                self.streams.get(message.args[2], deque()) if message.args[0] == b"mqs_more" else deque([b"\x14\0"])
            )
            self.say(
                PlainMessage(
                    RESPONSE, message.id, (packets.popleft(),) if packets else (FAILURE, b"no"), message.path[::-1]
                )
            )

    def drops_it(self) -> bool:
        return self.sim.now < self.ready_at or self.sim.random.random() < self.crew.drops

    def _finish(self, starts: int, message: PlainMessage) -> None:
        if starts != self.starts:  # that was another process
            return
        words = (
            [PlainMessage(RESPONSE, message.id, (self._serve(message),), message.path[::-1])]
            if message.command == TRACKEXEC
            else []
        )
        words.append(PlainMessage(EXEC, b"0002", (INCREMENT,)))
        if self.sim.random.random() < 0.5:
            words.reverse()
        for word in words:
            self.say(word)

    def _serve(self, message: PlainMessage) -> bytes:
        token = message.args[2]
        if message.args[0] != FEED:
            return token
        handle = b"%08d" % int(token)
        if message.path:  # a client, which would have to ask for more by address: one packet
            return b"2R\x08" + handle + token
        self.streams[handle] = deque([b"0R\x08" + handle + token, b"0R\x08" + handle, b"2R\x08" + handle + token])
        return b"0R\x08" + handle


class SimClient:
    """A client like the original; reads streams to their end."""

    def __init__(self, crew: "Crew", name: bytes) -> None:
        self.crew, self.sim = crew, crew.sim
        self.line = Line(crew, name, self)
        self.asked: dict[bytes, bytes] = {}  # ids with tokens
        self.streams: dict[bytes, bytes] = {}  # by token
        self.numbers = 0

    def ask(self, code: bytes) -> None:
        if not self.line.is_up:
            return
        token = self.crew.make_token(code)
        if self.sim.random.random() < 0.2:
            self.line.send(PlainMessage(EXEC, b"0000", (code, b"60:me", token)))
        else:
            self.track(token, code, b"60:me", token)

    def track(self, token: bytes, *args: bytes) -> None:
        self.numbers += 1
        number = self.numbers.to_bytes(4, "little")
        self.asked[number] = token
        self.line.send(PlainMessage(TRACKEXEC, number, args))

    def hear(self, line: Line, message: PlainMessage) -> None:
        if message.command == PING:
            line.send(PlainMessage(PONG, message.id, (), message.path[::-1]))
            return
        assert message.command == RESPONSE
        token = self.asked.pop(message.id)  # a second answer, or one to somebody else, would not find it
        if message.args[0] == FAILURE:
            self.crew.endings["failure"] += 1
        elif self.crew.codes[token] == FEED:
            self.hear_packet(token, message.args[0])
        else:
            assert message.args == (token,)
            self.crew.endings["value"] += 1

    def hear_packet(self, token: bytes, packet: bytes) -> None:
        state, handle, data = packet[:1], packet[3:11], packet[11:]
        self.streams[token] = self.streams.get(token, b"") + data
        if state == b"0":
            self.track(token, b"mqs_more", b"60:me", handle, b"0")
        elif state == b"1":
            self.crew.endings["aborted"] += 1
        else:
            assert set(self.streams[token].split(b":")) - {b""} == {token}
            self.crew.endings["stream"] += 1

    def vanish(self) -> None:
        self.asked.clear()
        self.line.cut()


class SimNative(NativeWorker):
    """A gandy worker."""

    def __init__(self, crew: "Crew", name: str) -> None:
        super().__init__(crew.harness, name, 3, tuple(CODES.values()))
        self.crew, self.name = crew, name
        self.running: set[int] = set()
        self.is_up = True

    def look(self) -> None:
        if not self.is_up:
            return
        for job in self.take():
            self.crew.begin(job.args[1], {name: code for code, name in CODES.items()}[job.name])
            self.running.add(job.number)
            self._later(job, self.crew.sim.random.choice((0, 1, 4)) if job.name == "feed" else 0)
        cancelled = {frame.seq for frame in self.others if frame.kind == CANCEL} & self.running
        self.others.clear()
        for number in sorted(cancelled):
            self.running.discard(number)
            self.result(Job(number, "", 0, b""), 1)

    def _later(self, job: Job, pieces: int) -> None:
        self.crew.sim.call_later(self.crew.sim.random.choice(DURATIONS), lambda: self._go_on(job, pieces))

    def _go_on(self, job: Job, pieces: int) -> None:
        self.board.now = self.harness.now = self.crew.sim.now
        if not self.is_up or job.number not in self.running:
            return
        token = job.args[1]
        if pieces:
            self.add(job, (token + b":") * self.crew.sim.random.choice((1, 2_000)))
            self._later(job, pieces - 1)
            return
        self.running.discard(job.number)
        if self.crew.sim.random.random() < 0.1:
            self.crew.failed += 1
            self.fail(job, "no")
        elif job.name == "feed":
            self.add(job, token)
            self.end(job)
        else:
            self.give(job, token)

    def die(self) -> None:
        self.is_up = False
        self.cut()
        self.crew.natives.remove(self)
        self.crew.sim.call_later(2.0, lambda: self.crew.natives.append(SimNative(self.crew, self.name)))


class Crew:
    def __init__(self, seed: int, blows: int | None = None) -> None:
        self.sim = Simulation(seed)
        self.harness = SimHall(self.sim)
        self.codes: dict[bytes, bytes] = {}
        self.begun: Counter[bytes] = Counter()
        self.endings: Counter[str] = Counter()
        self.drops = 0.0 if blows == 0 else self.sim.random.choice((0.0, 0.0, 0.05, 0.3))
        self.dropped = 0  # messages that workers said nothing about
        self.failed = 0  # calls that a worker said to have failed
        self.calls: dict[int, bytes] = {}  # of the native client
        self.native = NativeClient(self.harness)
        self.workers = [SimWorker(self, b"w%d" % number) for number in range(3)]
        self.natives = [SimNative(self, "n1")]
        self.clients = [SimClient(self, b"c%d" % number) for number in range(3)]
        self.made = 0
        self.harness.look = self._look
        self._ask()
        for _ in range(self.sim.random.randint(0, 12) if blows is None else blows):
            self.sim.call_later(self.sim.random.uniform(0, HORIZON), self._strike)

    def make_token(self, code: bytes) -> bytes:
        self.made += 1
        token = b"%d" % self.made
        self.codes[token] = code
        return token

    def begin(self, token: bytes, code: bytes) -> None:
        assert self.codes[token] == code
        self.begun[token] += 1
        assert code == COPY or self.begun[token] == 1, "what may not run twice reached two workers"

    def _ask(self) -> None:
        if self.sim.now > HORIZON:
            return
        code = self.sim.random.choice(list(CODES))
        if self.sim.random.random() < 0.3:
            self._call(code)
        else:
            self.sim.random.choice(self.clients).ask(code)
        self.sim.call_later(self.sim.random.choice((0.0, 0.1, 0.5)), self._ask)

    def _call(self, code: bytes) -> None:
        self.harness.board.now = self.harness.now = self.sim.now
        token = self.make_token(code)
        self.calls[self.made] = token
        if code == FEED:
            self.native.stream(self.made, CODES[code], b"60:me", token)
        else:
            self.native.call(self.made, CODES[code], b"60:me", token)

    def _look(self) -> None:
        """What came to gandy's own workers and clients."""
        self.harness.is_looking = False
        for native in self.natives:
            native.look()
        for seq, value in self.native.results():
            token = self.calls[seq]  # a second end would not find it
            if isinstance(value, Refused):
                assert value.code in (LOST, BUSY, UNKNOWN)
                assert value.code == LOST or token not in self.begun
            elif self.codes[token] == FEED and isinstance(value, bytes):
                continue
            elif self.codes[token] != FEED and not isinstance(value, Failed):
                assert value == token
            self.endings["native"] += 1
            self.endings["failed natively"] += isinstance(value, Failed)
            del self.calls[seq]

    def _strike(self) -> None:
        worker = self.sim.random.choice(self.workers)
        blow = self.sim.random.choice(("die", "hang", "line", "native", "client", "dismiss"))
        if blow == "native" and self.natives:
            self.natives[0].die()
        elif blow == "client":
            client = self.sim.random.choice(self.clients)
            if client.line.is_up:
                client.vanish()
        elif blow == "dismiss" and self.harness.registry.workers:
            name = self.sim.random.choice(list(self.harness.registry.workers))
            self.harness.now = self.harness.board.now = self.sim.now
            self.harness.dismiss(name, immediate=self.sim.random.random() < 0.5)
        elif worker.is_hanging:
            return
        elif blow == "die":
            worker.die()
        elif blow == "hang":
            worker.hang()
        elif blow == "line":
            worker.lose_line()

    def run(self) -> None:
        self.sim.call_later(HORIZON + 10, self._help)
        self.sim.call_later(END - 0.01, self.check_end)
        self.sim.run()

    def _help(self) -> None:
        """In the end there is a worker for what still waits."""
        SimWorker(self, b"last")

    def check_end(self) -> None:
        assert not self.calls, "each call has ended"
        assert not any(client.asked for client in self.clients), "each message is answered"
        self.harness.check_empty()


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_every_message_is_answered_once(first: int) -> None:
    endings: Counter[str] = Counter()
    for seed in range(first, first + 25):
        crew = Crew(seed)
        crew.run()
        endings += crew.endings
    assert {"value", "failure", "stream", "aborted", "native"} <= endings.keys()  # all of that was tried


@pytest.mark.parametrize("seed", range(40))
def test_without_bad_luck_only_what_failed_has_failed(seed: int) -> None:
    crew = Crew(seed, blows=0)
    crew.run()
    assert set(crew.begun) == set(crew.codes)
    assert set(crew.begun.values()) == {1}
    assert crew.dropped == 0
    told = crew.endings["failure"] + crew.endings["aborted"] + crew.endings["failed natively"]
    assert told <= crew.failed  # a cast tells nobody


def test_same_seed_gives_the_same_run() -> None:
    first, second = Crew(7), Crew(7)
    first.run()
    second.run()
    assert (first.endings, first.begun) == (second.endings, second.begun)
