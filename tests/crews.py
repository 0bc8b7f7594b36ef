"""Clients and workers of a switchboard, driven by the test."""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.limits import MAX_QUEUED_BYTES, MAX_QUEUED_CALLS
from gandy.wire import calls
from gandy.wire.calls import Offer


class Frame(NamedTuple):
    """One message of the CALLS extension."""

    kind: int
    subtype: int = 0
    seq: int = 0
    padding: int = 0
    payload: bytes = b""


def read_all(data: bytes) -> list[Frame]:
    """Every frame in the bytes, which hold whole frames of calls and nothing else."""
    frames: list[Frame] = []
    assert calls.read_frames(data, 0, lambda *frame: frames.append(Frame(*frame))) == len(data)
    return frames


def feed(board: Switchboard, peer: Peer, data: bytes) -> int:
    """As a link does: plain frames take the short path. Returns where another frame, or a part of one, begins."""
    pass_on = board.pass_calls if peer.worker is None else board.pass_results
    return calls.read_frames(data, 0, partial(board.on_frame, peer), partial(pass_on, peer))


class Seat:
    """A link to the switchboard, and a hand that plays the peer at its other end."""

    def __init__(self, board: Switchboard) -> None:
        self.board = board
        self.peer = board.add_peer()

    def say(self, kind: int, subtype: int = 0, seq: int = 0, padding: int = 0, payload: bytes = b"") -> None:
        self.feed(calls.encode(kind, subtype, seq, padding, payload))

    def feed(self, data: bytes) -> None:
        """Whole frames, at once."""
        assert feed(self.board, self.peer, data) == len(data)
        self.board.dispatcher.check()

    def hear(self) -> list[Frame]:
        """The frames that it was sent since the last call."""
        assert (self.peer in self.board.touched) == bool(self.peer.out)
        data = b"".join(self.peer.out)
        self.peer.out.clear()
        self.board.touched.discard(self.peer)
        return read_all(data)

    def cut(self) -> None:
        self.board.dispatcher.on_cut(self.peer, self.board.now)
        self.board.dispatcher.check()


class ClientSeat(Seat):
    """Makes calls. The body of each is its number, so that workers can tell which one they got."""

    def call(
        self,
        seq: int,
        name: str = "ping",
        flags: int = 0,
        age_ms: int = 0,
        worker: str = "",
        at: float | None = None,
    ) -> None:
        flags |= (calls.DIRECT if worker else 0) | (0 if at is None else calls.AT)
        target = calls.encode_target(name, worker) + (b"" if at is None else calls.encode_time(at))
        self.say(calls.CALL, flags, seq, age_ms, target + b"%d" % seq)

    def cast(self, seq: int, name: str = "ping", flags: int = 0, age_ms: int = 0, worker: str = "") -> None:
        self.call(seq, name, flags | calls.CAST, age_ms, worker)

    def body(self, seq: int, payload: bytes = b"", last: bool = False) -> None:
        self.say(calls.BODY, calls.LAST if last else 0, seq, 0, payload)

    def cancel(self, seq: int) -> None:
        self.say(calls.CANCEL, 0, seq)

    def results(self) -> list[tuple[int, bytes | int]]:
        """The numbers of calls with (a piece of) a value, or the code of a refusal."""
        heard: list[tuple[int, bytes | int]] = []
        for frame in self.hear():
            assert frame.kind == calls.RESULT
            is_refused = frame.subtype & calls.REFUSED
            heard.append((frame.seq, calls.decode_refusal(frame.payload)[0] if is_refused else frame.payload))
        return heard


class WorkerSeat(Seat):
    """Runs calls, and knows them by their callers' numbers."""

    def __init__(
        self, board: Switchboard, name: str, slots: int, reserved: int = 0, account: KnownWorker | None = None
    ) -> None:
        super().__init__(board)
        self.name = name
        self.slots = slots
        self.reserved = reserved
        self.account = account or KnownWorker(WorkerInfo(name, name, slots - reserved), connected=True)
        self.numbers: dict[int, int] = {}  # from callers' numbers to those of this link
        self.others: list[Frame] = []  # all that it heard beside calls
        board.dispatcher.on_worker(self.peer, self.account, board.now)

    def announce(self, *offers: str | Offer, knows_time: bool = False) -> None:
        said = [Offer(offer) if isinstance(offer, str) else offer for offer in offers]
        self.say(calls.ANNOUNCE, payload=calls.encode_announcement(self.slots, self.reserved, said, knows_time))

    def take(self) -> list[int]:
        """The calls that it got since the last time."""
        taken = []
        for frame in self.hear():
            if frame.kind != calls.CALL:
                self.others.append(frame)
                continue
            _, end = calls.read_name(frame.payload)
            if frame.subtype & calls.DIRECT:
                _, end = calls.read_name(frame.payload, end)
            if frame.subtype & calls.AT:
                _, end = calls.read_time(frame.payload, end)
            caller = int(frame.payload[end:])
            self.numbers[caller] = frame.seq
            taken.append(caller)
        return taken

    def take_others(self) -> list[Frame]:
        """Other frames that it got."""
        assert self.take() == []
        heard, self.others = self.others, []
        return heard

    def give(self, call: int, piece: bytes) -> None:
        """A piece of a result."""
        self.say(calls.RESULT, calls.WHOLE, self.numbers[call], 0, piece)

    def end(self, *ended: int) -> None:
        for call in ended:
            self.say(calls.RESULT, calls.LAST | calls.WHOLE, self.numbers.pop(call), 0, b"done")

    def credit(self, call: int, count: int) -> None:
        self.say(calls.CREDIT, 0, self.numbers[call], count)

    def yield_slots(self, slots: int, number: int) -> None:
        self.say(calls.YIELDED, 0, number, slots)

    def use(self, slots: int) -> None:
        """Jobs use this many of its slots from now on."""
        has_room = slots < self.account.slots.by_tasks
        self.account.slots.by_tasks = slots
        if has_room:
            self.board.dispatcher.drain(self.peer, self.board.now)
            self.board.dispatcher.check()


class Table:
    """A worker table that accepts and records all changes."""

    def __init__(self) -> None:
        self.workers: dict[str, KnownWorker] = {}
        self.heard: list[str] = []

    def add(self, info: WorkerInfo) -> KnownWorker:
        assert info.id not in self.workers
        worker = self.workers[info.id] = KnownWorker(info, connected=True)
        return worker

    def remove(self, worker: str) -> None:
        del self.workers[worker]

    def on_heard(self, worker: KnownWorker) -> None:
        assert self.workers[worker.info.id] is worker
        self.heard.append(worker.info.id)


class Crew:
    """A switchboard long after its start, and all its peers."""

    def __init__(
        self, now: float = 100.0, max_queued: int = MAX_QUEUED_CALLS, max_bytes: int = MAX_QUEUED_BYTES
    ) -> None:
        self.board = Switchboard(0.0, max_queued, max_bytes)
        self.board.now = now

    def client(self) -> ClientSeat:
        return ClientSeat(self.board)

    def worker(
        self, name: str = "w", slots: int = 1, offers: Iterable[str | Offer] = ("ping",), reserved: int = 0
    ) -> WorkerSeat:
        worker = WorkerSeat(self.board, name, slots, reserved)
        worker.announce(*offers)
        return worker

    def pass_time(self, seconds: float) -> None:
        """Time passes, and the switchboard checks its deadlines."""
        self.board.now += seconds
        self.board.dispatcher.on_time(self.board.now)
        self.board.dispatcher.check()

    def share(self, seconds: float = 0.0) -> None:
        self.board.now += seconds
        self.board.dispatcher.share(self.board.now)
        self.board.dispatcher.check()


def a_full_crew(waiting: int = 0, **limits: int) -> tuple[Crew, ClientSeat, WorkerSeat]:
    """A client, and a worker whose one slot has call 0; behind it calls from 1 on wait."""
    crew = Crew(**limits)
    client, worker = crew.client(), crew.worker()
    for seq in range(waiting + 1):
        client.call(seq)
    assert worker.take() == [0]
    return crew, client, worker


def used_by_jobs(crew: Crew, slots: int = 1, reserved: int = 0) -> WorkerSeat:
    """A worker whose slots jobs have, all that they may have."""
    worker = crew.worker(slots=slots, reserved=reserved)
    worker.use(slots - reserved)
    return worker
