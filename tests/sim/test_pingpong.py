"""Ping-pong workers at their door on simulated time: links break, workers die, the broker starts again.

Each call ends once, with its own result or with the reason why not; no job runs twice; and everybody comes back.
"""

from collections import Counter

import msgspec
import pytest
from tests.crews import ClientSeat, Table

from gandy.core.switchboard import Switchboard
from gandy.doors.pingpong.door import PingPongDoor
from gandy.doors.pingpong.talk import PingPongWorker, Turn
from gandy.doors.pingpong.wire import Exit, PingPongJob
from gandy.testing.simulation import Simulation
from gandy.wire import calls
from gandy.wire.calls import BUSY, LAST, LOST, REFUSED, UNKNOWN

HORIZON = 25.0  # seconds of calls and bad luck
END = 75.0  # by then the longest jobs are done, and everybody is back
EXPIRY = 3.0
DURATIONS = (0.0, 0.1, 1.0, 4.0, 10.0)  # seconds of a job: some are longer than the expiry


class Link:
    """A connection of a frontend: in order, late, and once it is cut nothing comes through."""

    def __init__(self, sim: Simulation, routing_id: bytes, worker: "SimWorker") -> None:
        self.sim, self.routing_id, self.worker = sim, routing_id, worker
        self.is_up = True
        self._last = [0.0, 0.0]

    def send(self, broker: "Broker", frames: list[bytes], is_up: bool) -> None:
        self._last[is_up] = max(self._last[is_up], self.sim.now + self.sim.random.choice((0.0, 0.001, 0.2)))
        self.sim.call_later(self._last[is_up] - self.sim.now, lambda: self._deliver(broker, frames, is_up))

    def _deliver(self, broker: "Broker", frames: list[bytes], is_up: bool) -> None:
        if not self.is_up:
            return
        if is_up:
            broker.receive(self.routing_id, frames)
        else:
            self.worker.receive(self, frames)


class Broker:
    """A door with a switchboard, and a caller who is lost with them. One for each start."""

    def __init__(self, crew: "Crew") -> None:
        self.crew, self.sim = crew, crew.sim
        self.board = Switchboard(self.sim.now)
        self.registry = Table()
        self.door = PingPongDoor(self.board, self.registry, "job", EXPIRY)
        self.client = ClientSeat(self.board)
        self.links: dict[bytes, Link] = {}
        self.waiting: set[int] = set()  # calls that have not ended
        self.is_up = True
        self._tick()

    def stop(self) -> None:
        self.is_up = False
        self.crew.void |= self.waiting
        for link in list(self.links.values()):
            self.cut(link)

    def cut(self, link: Link) -> None:
        link.is_up = False
        del self.links[link.routing_id]
        self.sim.call_later(self.sim.random.choice((0.0, 0.5)), lambda: self._on_disconnect(link.routing_id))
        link.worker.on_cut(link)

    def _on_disconnect(self, routing_id: bytes) -> None:
        if self.is_up:
            self.door.on_disconnect(routing_id, self.sim.now)
            self.flush()

    def receive(self, routing_id: bytes, frames: list[bytes]) -> None:
        self.board.now = self.sim.now
        self.door.on_message([routing_id, *frames], self.sim.now)
        self.flush()

    def call(self, number: int) -> None:
        self.waiting.add(number)
        self.board.now = self.sim.now
        args = msgspec.msgpack.encode([b"%d" % number])
        self.client.say(calls.CALL, 0, number, 0, calls.encode_target("job") + args)
        self.flush()

    def flush(self) -> None:
        while self._pass_on() or self._send():
            pass
        for _, flags, number, _, payload in self.client.hear():
            assert flags & LAST
            self.waiting.remove(number)  # a second end would not find it
            if flags & REFUSED:
                code = calls.decode_refusal(payload)[0]
                assert code in (LOST, BUSY, UNKNOWN)
                assert code == LOST or number not in self.crew.begun, "what has begun must not go out again"
                self.crew.endings[code] += 1
            else:
                assert msgspec.msgpack.decode(payload) == b"result of %d" % number
                self.crew.endings[0] += 1
        self.board.check()
        self.door.workers.check()

    def _pass_on(self) -> bool:
        peers = sorted((peer for peer in self.board.touched if peer is not self.client.peer), key=lambda p: p.number)
        for peer in peers:
            self.board.touched.discard(peer)
            data = b"".join(peer.out)
            peer.out.clear()
            assert peer.on_out is not None
            peer.on_out(peer, data, self.sim.now)
        return bool(peers)

    def _send(self) -> bool:
        parcels = list(self.door.outbox)
        self.door.outbox.clear()
        for outgoing in parcels:
            link = self.links.get(outgoing.frames[0])
            if link is None:
                self.door.on_undelivered(outgoing, self.sim.now)
            else:
                link.send(self, outgoing.frames[1:], False)
        return bool(parcels)

    def _tick(self) -> None:
        if self.is_up:
            self.board.now = self.sim.now
            self.board.on_time(self.sim.now)
            self.door.on_time(self.sim.now)
            self.flush()
            if self.sim.now < END:
                self.sim.call_later(0.5, self._tick)


class SimWorker:
    """A process with a frontend. One without a thread for its jobs neither reads nor pings while it works."""

    def __init__(self, crew: "Crew", name: bytes) -> None:
        self.crew, self.sim, self.name = crew, crew.sim, name
        self.has_thread = self.sim.random.random() < 0.5
        self.has_identity = self.sim.random.random() < 0.5
        self.sees_cuts = self.sim.random.random() < 0.5
        self.frontends = 0
        self.start()

    def start(self) -> None:
        self.core = PingPongWorker(counts=self.sim.random.random() < 0.5)
        self.is_working = False
        self.unread: list[tuple[Link, list[bytes]]] = []
        self.connect()
        self.send(self.core.start(self.sim.now))
        self.wait()

    def connect(self) -> None:
        """To whoever is there; a frontend that finds nobody is dead."""
        self.frontends += 1
        routing_id = self.name if self.has_identity else b"%s-%d" % (self.name, self.frontends)
        self.broker = self.crew.broker
        self.link = Link(self.sim, routing_id, self)
        self.link.is_up = self.broker.is_up
        if self.link.is_up:
            self.broker.links[routing_id] = self.link

    def send(self, frames: list[bytes] | None) -> None:
        if frames is not None:
            self.link.send(self.broker, frames, True)

    def die(self) -> None:
        """Without a word; somebody starts it again."""
        core, link = self.core, self.link
        self.core = PingPongWorker()  # does nothing until it is started
        if link.is_up:
            self.broker.cut(link)
        assert self.core is not core
        self.sim.call_later(self.sim.random.choice((0.1, 2.0, 5.0)), self.start)

    @property
    def is_deaf(self) -> bool:
        return self.is_working and not self.has_thread

    def wait(self) -> None:
        core, at = self.core, self.core.next_deadline()
        if at < END:
            self.sim.call_later(max(0.0, at - self.sim.now), lambda: self.wake(core, at))

    def wake(self, core: PingPongWorker, at: float) -> None:
        if core is self.core and at == core.next_deadline() and not self.is_deaf:
            self.do(core.on_time(self.sim.now))
            self.wait()

    def do(self, turn: Turn) -> None:
        if turn.is_renewed:
            if self.link.is_up:
                self.broker.cut(self.link)
            self.connect()
            self.crew.renewals += 1
        for frames in turn.messages:
            self.send(frames)

    def on_cut(self, link: Link) -> None:
        if link is self.link and self.sees_cuts:
            core = self.core
            self.sim.call_later(0.1, lambda: self.notice(core, link))

    def notice(self, core: PingPongWorker, link: Link) -> None:
        if core is self.core and link is self.link and not self.is_deaf:
            self.do(core.on_disconnect(self.sim.now))
            self.wait()

    def receive(self, link: Link, frames: list[bytes]) -> None:
        if self.is_deaf:
            self.unread.append((link, frames))
        elif link is self.link:
            self.read(frames)
            self.wait()

    def read(self, frames: list[bytes]) -> None:
        core = self.core
        match core.on_frames(frames, self.sim.now):
            case PingPongJob(data):
                self.begin(core, data)
            case Exit():
                self.crew.exits += 1
                self.die()
            case None:
                pass

    def begin(self, core: PingPongWorker, data: bytes) -> None:
        number = int(data)
        assert number not in self.crew.begun, "a job runs once"
        assert not self.is_working, "one job at a time"
        self.crew.begun.add(number)
        self.is_working = True
        self.sim.call_later(self.sim.random.choice(DURATIONS), lambda: self.finish(core, data))

    def finish(self, core: PingPongWorker, data: bytes) -> None:
        if core is not self.core:
            return  # it died with the job
        self.is_working = False
        self.send(core.result(b"result of " + data, self.sim.now))
        unread, self.unread = self.unread, []
        for link, frames in unread:
            self.receive(link, frames)
        if (job := core.next_job()) is not None:
            self.begin(core, job.data)
        self.wait()


class Crew:
    def __init__(self, seed: int, workers: int = 4, blows: int | None = None) -> None:
        self.sim = Simulation(seed)
        self.begun: set[int] = set()
        self.void: set[int] = set()  # calls that ended with their broker
        self.endings: Counter[int] = Counter()  # 0 for results, else the code of a refusal
        self.made = self.exits = self.renewals = self.restarts = 0
        self.broker = Broker(self)
        self.workers = [SimWorker(self, b"w%d" % number) for number in range(workers)]
        self._call()
        for _ in range(self.sim.random.randint(0, 12) if blows is None else blows):
            self.sim.call_later(self.sim.random.uniform(0, HORIZON), self._strike)

    def _call(self) -> None:
        if self.sim.now > HORIZON:
            return
        if self.broker.is_up:
            self.made += 1
            self.broker.call(self.made)
        self.sim.call_later(self.sim.random.choice((0.1, 0.5, 2.0)), self._call)

    def _strike(self) -> None:
        worker = self.sim.random.choice(self.workers)
        blow = self.sim.random.choice(("die", "cut", "dismiss", "kill", "restart"))
        if blow == "restart":
            self.restart()
        elif not worker.link.is_up:
            return
        elif blow == "die":
            worker.die()
        elif blow == "cut":
            self.broker.cut(worker.link)
        elif worker.link.routing_id in self.broker.links:
            for name in list(self.broker.registry.workers)[:1]:
                self.broker.door.on_dismiss(name, blow == "kill", self.sim.now)
            self.broker.flush()

    def restart(self) -> None:
        if self.broker.is_up:
            self.restarts += 1
            self.broker.stop()
            self.sim.call_later(self.sim.random.choice((0.0, 1.0, 12.0)), self._start_broker)

    def _start_broker(self) -> None:
        self.broker = Broker(self)

    def run(self) -> None:
        self.sim.call_later(END - 0.01, self.check_end)
        self.sim.run()

    def check_end(self) -> None:
        assert self.broker.is_up
        assert not self.broker.waiting, "each call has ended"
        assert self.made == self.endings.total() + len(self.void)
        assert len(self.broker.registry.workers) == len(self.workers), "everybody is back"
        assert all(worker.link.is_up for worker in self.workers)
        assert not any(peer.serves for peer in self.broker.door.workers.peers)


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_every_call_ends_once_and_everybody_comes_back(first: int) -> None:
    endings: Counter[int] = Counter()
    exits = renewals = restarts = 0
    for seed in range(first, first + 25):
        crew = Crew(seed)
        crew.run()
        endings += crew.endings
        exits, renewals, restarts = exits + crew.exits, renewals + crew.renewals, restarts + crew.restarts
    assert endings.keys() >= {0, LOST}  # all of that was tried
    assert exits
    assert renewals
    assert restarts


@pytest.mark.parametrize("seed", range(10))
def test_without_bad_luck_no_job_is_lost_however_long(seed: int) -> None:
    """Jobs of ten seconds, an expiry of three, and workers that are silent while they work."""
    crew = Crew(seed, blows=0)
    crew.run()
    assert crew.endings == {0: crew.made}
    assert crew.begun == set(range(1, crew.made + 1))
    assert crew.renewals == 0


def test_same_seed_gives_the_same_run() -> None:
    first, second = Crew(7), Crew(7)
    first.run()
    second.run()
    assert (first.endings, first.begun, first.renewals) == (second.endings, second.begun, second.renewals)
