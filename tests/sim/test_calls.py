"""Calls in a crew on simulated time: links delay and tear, workers and clients vanish, and every call ends once."""

from collections.abc import Callable
from itertools import count

import pytest
from tests.crews import feed

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.testing.simulation import Simulation
from gandy.wire import calls
from gandy.wire.calls import FRAME_COST, LAST, REFUSED, WHOLE, WINDOW_BYTES, Offer

COMMANDS = ("add", "cook", "count")
HORIZON = 8.0  # seconds in which new calls are made
END = 30.0  # by then all of them have ended, whatever happened


class Pipe:
    """One direction of a link: in order, late, and in pieces that have nothing to do with frames."""

    def __init__(self, sim: Simulation, read: Callable[[bytes], int], after: Callable[[], None]) -> None:
        self._sim = sim
        self._read = read
        self._after = after
        self._buffer = b""
        self._last = 0.0
        self.is_cut = False

    def send(self, data: bytes) -> None:
        at = self._sim.random.randrange(len(data) + 1) if self._sim.random.random() < 0.3 else len(data)
        for piece in filter(None, (data[:at], data[at:])):
            self._last = max(self._last, self._sim.now + self._sim.random.choice((0.0, 0.001, 0.05)))
            self._sim.call_later(self._last - self._sim.now, lambda piece=piece: self._deliver(piece))  # type: ignore[misc]

    def _deliver(self, piece: bytes) -> None:
        if not self.is_cut:
            self._buffer += piece
            self._buffer = self._buffer[self._read(self._buffer) :]
            self._after()


class Board:
    """The foreman's part: a switchboard between links."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.board = Switchboard(sim.now, max_queued=30)
        self._pipes: dict[Peer, Pipe] = {}
        self._tick()

    def join(self, on_frame: calls.OnFrame) -> tuple[Peer, Pipe]:
        """A link; gives the pipe to write to."""
        peer = self.board.add_peer()
        self._pipes[peer] = Pipe(self.sim, lambda data: calls.read_frames(data, 0, on_frame), lambda: None)

        def hear(data: bytes) -> int:
            self.board.now = self.sim.now
            return feed(self.board, peer, data)

        return peer, Pipe(self.sim, hear, self.flush)

    def cut(self, peer: Peer, pipe: Pipe) -> None:
        pipe.is_cut = self._pipes.pop(peer).is_cut = True
        self.board.on_cut(peer, self.sim.now)
        self.flush()

    def flush(self) -> None:
        self.board.check()
        for peer in sorted(self.board.touched, key=lambda peer: peer.number):  # the same order in every run
            self._pipes[peer].send(b"".join(peer.out))
            peer.out.clear()
        self.board.touched.clear()

    def _tick(self) -> None:
        if self.sim.now < END:
            self.sim.call_later(0.5, self._tick)
        self.board.on_time(self.sim.now)
        self.board.share(self.sim.now)
        self.flush()


class SimWorker:
    """Offers commands, and ends each call once, with a value, an error or a stream; or dies with it."""

    def __init__(self, crew: "SimCrew", name: str) -> None:
        self.crew, self.sim, self.name = crew, crew.sim, name
        self.slots = self.sim.random.choice((1, 2, 5))
        self.running: dict[int, int] = {}  # credit of each call
        self.start()

    def start(self) -> None:
        self.running.clear()
        self.peer, self.pipe = self.crew.board.join(self.on_frame)
        self.crew.board.board.on_worker(
            self.peer, KnownWorker(WorkerInfo(self.name, self.name, self.slots), connected=True)
        )
        names = self.sim.random.sample(COMMANDS, self.sim.random.randint(1, len(COMMANDS)))
        offers = [Offer(name, self.sim.random.choice((1, 1, self.slots))) for name in names]
        self.pipe.send(calls.encode(calls.ANNOUNCE, 0, 0, 0, calls.encode_announcement(self.slots, 0, offers)))

    def die(self) -> None:
        self.crew.board.cut(self.peer, self.pipe)
        self.sim.call_later(self.sim.random.choice((0.1, 3.0, 10.0)), self.start)

    def on_frame(self, kind: int, subtype: int, seq: int, padding: int, _payload: bytes) -> None:
        pipe = self.pipe
        if kind == calls.CALL:
            assert seq not in self.running
            self.running[seq] = WINDOW_BYTES
            self.crew.max_running = max(self.crew.max_running, len(self.running))
            self._go_on(pipe, seq, 0 if subtype & calls.CAST else self.sim.random.choice((0, 0, 3, 30)))
        elif kind == calls.CREDIT and seq in self.running:
            self.running[seq] += padding
        elif kind == calls.CANCEL and seq in self.running:
            self.sim.call_later(0.01, lambda: self._end(pipe, seq))

    def _go_on(self, pipe: Pipe, seq: int, pieces: int) -> None:
        """A piece when there is credit, and at last the end."""
        if pipe is not self.pipe or seq not in self.running:
            return
        size = self.sim.random.choice((1, 20_000))
        if pieces and self.running[seq] > 0:
            self.running[seq] -= size + FRAME_COST
            pipe.send(calls.encode(calls.RESULT, WHOLE, seq, 0, bytes(size)))
            pieces -= 1
        delay = self.sim.random.choice((0.0, 0.02, 0.3))
        self.sim.call_later(delay, lambda: self._go_on(pipe, seq, pieces) if pieces else self._end(pipe, seq))

    def _end(self, pipe: Pipe, seq: int) -> None:
        if pipe is self.pipe and self.running.pop(seq, None) is not None:
            pipe.send(calls.encode(calls.RESULT, LAST | WHOLE, seq))


class SimClient:
    """Makes calls, gives some of them up, and counts how each ended."""

    def __init__(self, crew: "SimCrew") -> None:
        self.crew, self.sim = crew, crew.sim
        self.numbers = count(1)
        self.start()

    def start(self) -> None:
        self.waiting: set[int] = set()  # for an end
        self.peer, self.pipe = self.crew.board.join(self.on_frame)
        self._call()

    def die(self) -> None:
        self.crew.board.cut(self.peer, self.pipe)
        self.waiting.clear()
        self.sim.call_later(self.sim.random.choice((0.1, 3.0)), self.start)

    def _call(self) -> None:
        pipe = self.pipe
        if self.sim.now > HORIZON or pipe.is_cut:
            return
        number = next(self.numbers)
        flags = calls.CAST if self.sim.random.random() < 0.1 else 0
        left_ms = self.sim.random.choice((0, 0, 500))
        pipe.send(
            calls.encode(calls.CALL, flags, number, left_ms, calls.encode_target(self.sim.random.choice(COMMANDS)))
        )
        if not flags:
            self.waiting.add(number)
            if self.sim.random.random() < 0.2:
                self.sim.call_later(self.sim.random.choice((0.0, 0.3)), lambda: self._give_up(pipe, number))
        self.sim.call_later(self.sim.random.choice((0.0, 0.05, 0.5)), self._call)

    def _give_up(self, pipe: Pipe, number: int) -> None:
        if pipe is self.pipe and number in self.waiting:
            self.waiting.remove(number)
            pipe.send(calls.encode(calls.CANCEL, 0, number))

    def on_frame(self, kind: int, subtype: int, seq: int, _padding: int, payload: bytes) -> None:
        assert kind == calls.RESULT
        if seq not in self.waiting:
            return  # it was given up, or it is a second end: then the switchboard would not know it any more
        if subtype & LAST:
            self.waiting.remove(seq)
            self.crew.endings.append(calls.decode_refusal(payload)[0] if subtype & REFUSED else 0)
        else:
            self.pipe.send(calls.encode(calls.CREDIT, 0, seq, len(payload) + FRAME_COST))


class SimCrew:
    """A board with three clients and four workers, and bad luck."""

    def __init__(self, seed: int) -> None:
        self.sim = Simulation(seed)
        self.board = Board(self.sim)
        self.endings: list[int] = []  # 0 for those of workers, else the code of a refusal
        self.max_running = 0
        self.workers = [SimWorker(self, f"w{number}") for number in range(4)]
        self.clients = [SimClient(self) for _ in range(3)]
        for _ in range(self.sim.random.randint(0, 12)):
            self.sim.call_later(self.sim.random.uniform(0, HORIZON), self._strike)

    def _strike(self) -> None:
        victims: list[SimWorker | SimClient] = [*self.workers, *self.clients]
        victim = self.sim.random.choice(victims)
        if not victim.pipe.is_cut:
            victim.die()

    def run(self) -> None:
        self.sim.run()
        assert [client.waiting for client in self.clients] == [set()] * len(self.clients)
        assert [worker.running for worker in self.workers] == [{}] * len(self.workers)
        for peer in [*(client.peer for client in self.clients), *(worker.peer for worker in self.workers)]:
            assert not peer.calls
            assert not peer.serves
            assert peer.slots.by_calls == 0
        assert self.board.board.queued == 0


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_every_call_ends_once_and_nothing_is_left(first: int) -> None:
    endings: set[int] = set()
    for seed in range(first, first + 25):
        crew = SimCrew(seed)
        crew.run()
        endings.update(crew.endings)
    assert endings >= {0, calls.LOST, calls.EXPIRED}  # all of that was tried


def test_same_seed_gives_the_same_run() -> None:
    first, second = SimCrew(7), SimCrew(7)
    first.run()
    second.run()
    assert first.endings == second.endings
    assert first.max_running == second.max_running
