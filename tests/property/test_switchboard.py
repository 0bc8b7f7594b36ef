"""A switchboard among clients and workers that come and go, with a referee who believes only frames.

The referee keeps accounts of its own from what goes in and what comes out, and knows from them who had to get a call,
who has to wait, and how each call may end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.crews import Frame, feed

from gandy.core.call_dispatch import GRACE
from gandy.core.sharing import TURN
from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.errors import RemoteProtocolError
from gandy.limits import MAX_CREDIT, MAX_PIECE_BYTES
from gandy.wire import calls
from gandy.wire.calls import BUSY, CAST, DIRECT, EXPIRED, FRAME_COST, LAST, LOST, MORE, REFUSED, UNKNOWN, Offer

NAMES = ("a", "b", "c")
MAX_CLIENTS, MAX_WORKERS, MAX_SLOTS = 3, 4, 3

choices = st.integers(0, 59)
sizes = st.sampled_from([0, 1, 50, MAX_PIECE_BYTES])


class Tape(list[bytes | bytearray]):
    """What is sent to a peer, noted also in the order of all that is sent to any peer."""

    def __init__(self, log: "list[tuple[End, bytes]]", end: "End") -> None:
        super().__init__()
        self._log, self._end = log, end

    def append(self, data: bytes | bytearray) -> None:
        super().append(data)
        self._log.append((self._end, bytes(data)))


class End:
    """The peer at the other end of a link."""

    def __init__(self, board: Switchboard, log: "list[tuple[End, bytes]]") -> None:
        self.peer = board.add_peer()
        self.peer.out = Tape(log, self)
        self.is_gone = False
        self.rest = b""  # of a frame that is not complete


class ClientEnd(End):
    def __init__(self, board: Switchboard, log: list[tuple[End, bytes]]) -> None:
        super().__init__(board, log)
        self.calls: dict[int, Made] = {}  # that it has not heard the end of


class WorkerEnd(End):
    def __init__(self, board: Switchboard, log: list[tuple[End, bytes]], name: str, slots: int, reserved: int) -> None:
        super().__init__(board, log)
        self.name, self.slots, self.reserved = name, slots, reserved
        self.account = KnownWorker(WorkerInfo(name, name, slots - reserved), connected=True)
        self.offers: dict[str, int] = {}
        self.runs: dict[int, Made] = {}
        self.in_use = self.yielded = 0
        self.asked = (0, 0)  # number and slots of the last YIELD
        board.dispatcher.on_worker(self.peer, self.account, board.now)

    @property
    def free(self) -> int:
        by_jobs = min(self.account.slots.by_tasks, self.slots - self.reserved - self.yielded)
        return 0 if self.account.draining else self.slots - self.in_use - by_jobs

    def can_take(self, name: str) -> bool:
        return name in self.offers and self.offers[name] <= self.free


@dataclass(eq=False)
class Made:
    """A call as the referee knows it. `worker`: the only one that may have it. `state`: new, waiting, running, over."""

    id: int
    client: ClientEnd
    seq: int
    name: str
    flags: int
    deadline: float
    worker: WorkerEnd | None
    size: int
    state: str = "new"
    is_wanted: bool = True
    is_cancelled: bool = False  # its worker was told so
    is_complete: bool = True
    slots: int = 0
    sent: bytearray = field(default_factory=bytearray)  # in BODY
    received: bytearray = field(default_factory=bytearray)
    credit: int = calls.WINDOW_BYTES  # of its worker
    client_credit: int = calls.WINDOW_BYTES


def is_silent(made: Made) -> bool:
    """No client waits for the end of a cast that was sent as a whole."""
    return bool(made.flags & CAST) and made.is_complete


class Calls(RuleBasedStateMachine):
    """Honest peers, except where a rule says otherwise, and every kind of bad luck."""

    @initialize(
        max_queued=st.sampled_from([2, 4, 100]),
        max_bytes=st.sampled_from([60, 100_000, 1 << 30]),
        slots=st.lists(st.integers(1, MAX_SLOTS), min_size=1, max_size=2),
        now=st.sampled_from([0.0, 100.0]),
    )
    def begin(self, max_queued: int, max_bytes: int, slots: list[int], now: float) -> None:
        self.max_queued, self.max_bytes = max_queued, max_bytes
        self.board = Switchboard(0.0, max_queued, max_bytes)
        self.board.now = now
        self.log: list[tuple[End, bytes]] = []
        self.clients: list[ClientEnd] = []
        self.workers: list[WorkerEnd] = []
        self.all_ends: list[End] = []
        self.waiting: list[Made] = []  # in the order in which they came
        self.known: dict[str, float] = {}  # commands, and since when no worker offers them
        self.made = self.born = 0
        self.table: list[WorkerEnd] = []  # of workers, as seed 002 keeps it
        for _ in range(2):
            self.add_client()
        for count in slots:
            self.add_worker(count, 0, "abc")

    @property
    def now(self) -> float:
        return self.board.now

    # What clients do

    @precondition(lambda self: len(self.clients) < MAX_CLIENTS)
    @rule()
    def add_client(self) -> None:
        self.clients.append(ClientEnd(self.board, self.log))
        self.all_ends.append(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(
        who=choices,
        name=st.sampled_from(NAMES),
        flags=st.sampled_from([0, 0, 0, calls.STREAM, MORE, CAST, CAST | MORE]),
        age_ms=st.sampled_from([0, 0, 500, 3_000]),
        where=st.sampled_from([None, None, 0, 1]),
    )
    def call(self, who: int, name: str, flags: int, age_ms: int, where: int | None) -> None:
        client = self.clients[who % len(self.clients)]
        worker = None if where is None or not self.workers else self.workers[where % len(self.workers)]
        seq = next(number for number in range(1_000) if number not in client.calls)
        age_ms = 0 if flags & CAST else age_ms  # a cast that expires vanishes without a word: see the unit tests
        flags |= DIRECT if worker else 0
        self.made += 1
        payload = calls.encode_target(name, worker.name if worker else "") + b"%d" % self.made
        deadline = self.now + age_ms / 1000 if age_ms else inf
        made = Made(self.made, client, seq, name, flags, deadline, worker, len(payload))
        made.is_complete = not flags & MORE
        if not (flags & CAST and made.is_complete):
            client.calls[seq] = made
        is_known = self.learn(name)
        self.newcomer = made
        self.hear(client, Frame(calls.CALL, flags, seq, age_ms, payload))
        if made.state == "new" and is_silent(made) and (not is_known or self.is_full(made) or self.is_lost(made)):
            self.end(made)
        elif made.state == "new":
            assert is_known
            made.state = "waiting"
            self.waiting.append(made)

    def learn(self, name: str) -> bool:
        """Just after a start, every command is expected."""
        if name not in self.known and self.now < GRACE and len(self.known) < self.max_queued:
            self.known[name] = self.now
        return name in self.known

    def is_full(self, made: Made) -> bool:
        others = [other for other in self.waiting if other is not made]
        return len(others) >= self.max_queued or sum(other.size for other in others) + made.size > self.max_bytes

    def is_lost(self, made: Made) -> bool:
        return made.worker is not None and made.name not in made.worker.offers

    @rule(which=choices, size=sizes, is_last=st.booleans())
    def send_arguments(self, which: int, size: int, is_last: bool) -> None:
        made = self.pick(which, lambda made: not made.is_complete and made.client_credit > 0)
        if made is None:
            return
        piece = bytes([made.id % 256]) * size
        made.sent += piece
        made.client_credit -= size + FRAME_COST
        made.is_complete = is_last
        if made.state == "waiting":
            made.size += size
        if is_silent(made):  # its number is taken only until all of it has come
            del made.client.calls[made.seq]
            if made.state == "waiting" and self.is_full(made):
                self.end(made)
        self.hear(made.client, Frame(calls.BODY, LAST if is_last else 0, made.seq, 0, piece))

    @rule(which=choices)
    def cancel(self, which: int) -> None:
        made = self.pick(which)
        if made is not None:
            self.abandon(made)
            self.hear(made.client, Frame(calls.CANCEL, 0, made.seq))
            assert made.state == "over" or made.is_cancelled

    def abandon(self, made: Made) -> None:
        del made.client.calls[made.seq]
        made.is_wanted = False
        if made.state == "waiting":
            self.end(made)

    @rule(which=choices, count=st.sampled_from([1, MAX_PIECE_BYTES, 0xFFFF_FFFF]))
    def grant(self, which: int, count: int) -> None:
        made = self.pick(which)
        if made is not None:
            before = made.credit
            self.hear(made.client, Frame(calls.CREDIT, 0, made.seq, count))
            assert made.credit == (min(MAX_CREDIT, before + count) if made.state == "running" else before)

    @precondition(lambda self: self.clients)
    @rule(who=choices, luck=st.integers(0, 4))
    def cut_client(self, who: int, luck: int = 0) -> None:
        if luck == 0:
            self.lose_client(self.clients[who % len(self.clients)])

    @rule(which=choices, luck=st.integers(0, 4))
    def use_a_number_twice(self, which: int, luck: int) -> None:
        made = self.pick(which)
        if made is not None and luck == 0:
            payload = calls.encode_target(made.name)
            if self.learn(made.name):
                with pytest.raises(RemoteProtocolError):
                    self.hear(made.client, Frame(calls.CALL, 0, made.seq, 0, payload))
                self.lose_client(made.client)

    def lose_client(self, client: ClientEnd) -> None:
        self.clients.remove(client)
        running = [made for made in client.calls.values() if made.state == "running"]
        client.is_gone = True
        for made in list(client.calls.values()):
            self.abandon(made)
        self.step(lambda: self.board.dispatcher.on_cut(client.peer, self.now))
        assert all(made.is_cancelled for made in running)

    # What workers do

    @precondition(lambda self: len(self.workers) < MAX_WORKERS)
    @rule(
        slots=st.integers(1, MAX_SLOTS), reserved=st.integers(0, MAX_SLOTS), names=st.sampled_from(["a", "bc", "abc"])
    )
    def add_worker(self, slots: int, reserved: int, names: str) -> None:
        self.born += 1
        worker = WorkerEnd(self.board, self.log, f"w{self.born}", slots, min(slots, reserved))
        self.workers.append(worker)
        self.all_ends.append(worker)
        self.send_offers(worker, dict.fromkeys(names, 1))

    @precondition(lambda self: self.workers)
    @rule(who=choices, offers=st.dictionaries(st.sampled_from(NAMES), st.integers(1, MAX_SLOTS)))
    def announce(self, who: int, offers: dict[str, int]) -> None:
        worker = self.workers[who % len(self.workers)]
        self.send_offers(worker, {name: min(slots, worker.slots) for name, slots in offers.items()})

    def send_offers(self, worker: WorkerEnd, offers: dict[str, int]) -> None:
        self.change_offers(worker, offers)
        said = [Offer(*offer) for offer in offers.items()]
        self.hear(worker, Frame(calls.ANNOUNCE, payload=calls.encode_announcement(worker.slots, worker.reserved, said)))

    def change_offers(self, worker: WorkerEnd, offers: dict[str, int]) -> None:
        before, worker.offers = worker.offers, offers
        for name in before.keys() | offers.keys():
            if name in before and not any(name in other.offers for other in self.workers):
                self.known[name] = self.now
            self.known.setdefault(name, self.now)
        for made in [made for made in self.waiting if is_silent(made) and self.is_lost(made)]:
            self.end(made)

    @rule(which=choices, size=sizes)
    def give_piece(self, which: int, size: int) -> None:
        made = self.pick_run(which, lambda made: made.credit > 0)
        if made is not None:
            made.credit -= size + FRAME_COST + len(b"%d:" % made.id)
            self.hear(*self.send_result(made, calls.WHOLE, bytes(size)))

    @rule(which=choices, flags=st.sampled_from([calls.WHOLE, calls.FAILED]))
    def end_call(self, which: int, flags: int) -> None:
        made = self.pick_run(which)
        if made is not None:
            worker, frame = self.send_result(made, LAST | flags, b"")
            del worker.runs[frame.seq]
            worker.in_use -= made.slots
            made.state = "ending"
            self.hear(worker, frame)
            assert made.client.calls.get(made.seq) is not made
            made.state = "over"

    def send_result(self, made: Made, flags: int, rest: bytes) -> tuple[WorkerEnd, Frame]:
        worker, number = next(
            (worker, number) for worker in self.workers for number, run in worker.runs.items() if run is made
        )
        return worker, Frame(calls.RESULT, flags, number, 0, b"%d:" % made.id + rest)

    @rule(which=choices, count=st.sampled_from([1, MAX_PIECE_BYTES]))
    def grant_arguments(self, which: int, count: int) -> None:
        made = self.pick_run(which, lambda made: bool(made.flags & MORE))
        if made is not None:
            before = made.client_credit
            worker, frame = self.send_result(made, 0, b"")
            self.hear(worker, Frame(calls.CREDIT, 0, frame.seq, count))
            is_heard = made.client.calls.get(made.seq) is made
            assert made.client_credit == before + (count if is_heard else 0)

    @precondition(lambda self: self.workers)
    @rule(who=choices, luck=st.integers(0, 2))
    def cut_worker(self, who: int, luck: int = 0) -> None:
        if luck == 0:
            self.lose_worker(self.workers[who % len(self.workers)])

    def lose_worker(self, worker: WorkerEnd) -> None:
        self.workers.remove(worker)
        worker.is_gone = True
        self.change_offers(worker, {})
        runs = list(worker.runs.values())
        self.step(lambda: self.board.dispatcher.on_cut(worker.peer, self.now))
        for made in runs:
            assert made.client.calls.get(made.seq) is not made, "its client has heard of it"
            made.state = "over"

    @precondition(lambda self: self.workers)
    @rule(who=choices, used=st.integers(0, MAX_SLOTS + 1))
    def run_jobs(self, who: int, used: int) -> None:
        worker = self.workers[who % len(self.workers)]
        before, worker.account.slots.by_tasks = worker.account.slots.by_tasks, used
        if used < before:
            self.step(lambda: self.board.dispatcher.drain(worker.peer, self.now))

    @precondition(lambda self: self.workers)
    @rule(who=choices, slots=st.integers(0, MAX_SLOTS), is_stale=st.booleans())
    def leave_slots(self, who: int, slots: int, is_stale: bool) -> None:
        worker = self.workers[who % len(self.workers)]
        number, asked = worker.asked
        given = min(slots, asked)
        if is_stale:
            number, given = number - 1 & 0xFFFF_FFFF, min(slots, worker.slots - worker.reserved)
        else:
            worker.yielded = given
        self.hear(worker, Frame(calls.YIELDED, 0, number, given))

    @precondition(lambda self: self.workers)
    @rule(who=choices, luck=st.integers(0, 9))
    def drain_worker(self, who: int, luck: int) -> None:
        if luck == 0:
            self.workers[who % len(self.workers)].account.draining = True

    # What time does

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, GRACE]))
    def pass_time(self, seconds: float) -> None:
        self.board.now += seconds
        for name, since in list(self.known.items()):
            if self.now - since >= GRACE and not any(name in worker.offers for worker in self.workers):
                del self.known[name]
        for made in [made for made in self.waiting if is_silent(made) and made.name not in self.known]:
            self.end(made)
        self.step(lambda: self.board.dispatcher.on_time(self.now))
        assert all(made.deadline > self.now and made.name in self.known for made in self.waiting)

    @rule(seconds=st.sampled_from([0.25, TURN]))  # halves of halves add up exactly
    def share(self, seconds: float) -> None:
        self.board.now += seconds
        self.step(lambda: self.board.dispatcher.share(self.now))

    # What the referee reads

    def pick(self, which: int, is_right: Callable[[Made], bool] = lambda made: True) -> Made | None:
        """One that its client has not heard the end of."""
        found = [made for client in self.clients for made in client.calls.values() if is_right(made)]
        return found[which % len(found)] if found else None

    def pick_run(self, which: int, is_right: Callable[[Made], bool] = lambda made: True) -> Made | None:
        found = [made for worker in self.workers for made in worker.runs.values() if is_right(made)]
        return found[which % len(found)] if found else None

    def end(self, made: Made) -> None:
        assert made.state in ("new", "waiting", "running"), "a call ends once"
        if made.state == "waiting":
            self.waiting.remove(made)
        made.state = "over"

    def hear(self, end: End, frame: Frame) -> None:
        data = calls.encode(*frame)
        self.step(lambda: self.check_read(feed(self.board, end.peer, data), data))

    def check_read(self, size: int, data: bytes) -> None:
        assert size == len(data)

    def step(self, act: Callable[[], None]) -> None:
        act()
        self.board.dispatcher.check()
        log = self.log[:]
        self.log.clear()
        for end, data in log:
            end.rest += data
            frames: list[Frame] = []
            size = calls.read_frames(end.rest, 0, lambda *frame, frames=frames: frames.append(Frame(*frame)))
            end.rest = end.rest[size:]
            for frame in frames:
                self.read(end, frame)
        self.flush()

    def flush(self) -> None:
        for peer in self.board.touched:
            assert peer.out
            peer.out.clear()
        self.board.touched.clear()
        assert not any(end.rest or (end.peer.out and not end.is_gone) for end in self.all_ends)

    def read(self, end: End, frame: Frame) -> None:
        if isinstance(end, ClientEnd):
            if not end.is_gone:  # else it is told in the step of its end, and nothing is written
                self.read_as_client(end, frame)
            assert not (end.is_gone and end.peer in self.board.touched)
        elif isinstance(end, WorkerEnd):
            assert not end.is_gone
            self.read_as_worker(end, frame)

    def read_as_client(self, client: ClientEnd, frame: Frame) -> None:
        made = client.calls[frame.seq]
        if frame.kind == calls.CREDIT:
            made.client_credit += frame.padding
            return
        assert frame.kind == calls.RESULT
        assert not made.flags & CAST or frame.subtype & LAST
        if frame.subtype & REFUSED:
            assert frame.subtype == REFUSED | LAST
            self.read_refusal(made, *calls.decode_refusal(frame.payload))
            self.end(made)
        else:
            assert made.state == ("ending" if frame.subtype & LAST else "running")
            assert frame.payload.startswith(b"%d:" % made.id), "the right result"
        if frame.subtype & LAST:
            del client.calls[frame.seq]

    def read_refusal(self, made: Made, code: int, text: str) -> None:
        assert text
        if code == BUSY:
            assert made.state in ("new", "waiting")
            assert self.is_full(made)
        elif code == LOST:
            is_lost = any(
                made in end.runs.values() for end in self.all_ends if isinstance(end, WorkerEnd) and end.is_gone
            )
            assert is_lost if made.state == "running" else self.is_lost(made)
        elif code == EXPIRED:
            assert made.state == "waiting"
            assert made.deadline <= self.now
        else:
            assert code == UNKNOWN
            assert made.name not in self.known

    def read_as_worker(self, worker: WorkerEnd, frame: Frame) -> None:
        if frame.kind == calls.CALL:
            self.read_call(worker, frame)
        elif frame.kind == calls.YIELD:
            worker.asked = (frame.seq, frame.padding)
            assert 0 <= frame.padding <= worker.slots - worker.reserved
            worker.yielded = worker.yielded if frame.padding else 0
        elif frame.kind == calls.BODY:
            made = worker.runs[frame.seq]
            made.received += frame.payload
            assert made.sent.startswith(made.received)
            assert not frame.subtype & LAST or made.received == made.sent
        elif frame.kind == calls.CREDIT:
            worker.runs[frame.seq].credit += frame.padding
        else:
            assert frame.kind == calls.CANCEL
            made = worker.runs[frame.seq]
            assert not made.is_wanted
            assert not made.is_cancelled
            made.is_cancelled = True

    def read_call(self, worker: WorkerEnd, frame: Frame) -> None:
        name, end = calls.read_name(frame.payload)
        if frame.subtype & DIRECT:
            _, end = calls.read_name(frame.payload, end)
        made = self.find_unsent(int(frame.payload[end:]))
        assert (made.name, made.flags) == (name.decode(), frame.subtype)
        assert made.deadline > self.now
        assert frame.padding == (0 if made.deadline == inf else max(1, int((made.deadline - self.now) * 1000)))
        assert worker.can_take(made.name)
        self.check_turn(worker, made)
        if made.state == "waiting":
            self.waiting.remove(made)
        assert frame.seq not in worker.runs
        worker.runs[frame.seq] = made
        made.state, made.slots = "running", worker.offers[made.name]
        worker.in_use += made.slots

    def find_unsent(self, number: int) -> Made:
        """A call that waits or has just come: one that has been at a worker never gets there again."""
        made = next(made for made in (self.newcomer, *self.waiting) if made.id == number)
        assert made.state in ("new", "waiting")
        return made

    def check_turn(self, worker: WorkerEnd, made: Made) -> None:
        """Seed 002: a worker that is looked at goes to the bottom of the table; those that wait go before newcomers."""
        if made.worker is not None:
            assert made.worker is worker
            before = [other for other in self.waiting if other.worker is worker]
        else:
            before = [other for other in self.waiting if other.worker is None and other.name == made.name]
            self.table = [other for other in self.table if other in self.workers]
            self.table += [other for other in self.workers if other not in self.table]
            able = next(index for index, other in enumerate(self.table) if other.can_take(made.name))
            assert worker is self.table[able]
            self.table = self.table[able + 1 :] + self.table[: able + 1]
        assert before[:1] in ([], [made])

    # What must hold

    @invariant()
    def slots_are_never_over_or_under(self) -> None:
        for worker in self.workers:
            assert worker.peer.count_free() == worker.free
            assert 0 <= worker.in_use <= worker.slots
            assert worker.in_use == sum(made.slots for made in worker.runs.values())
            assert worker.account.slots.lent == max(0, worker.in_use - worker.reserved)
            assert len(worker.account.serves) == len(worker.runs)
            assert self.board.dispatcher.offers.list_names(worker.name) == sorted(worker.offers)

    @invariant()
    def nobody_waits_without_need(self) -> None:
        assert self.board.waiting.count == len(self.waiting) <= self.max_queued
        for made in self.waiting:
            assert made.worker is not None or not any(worker.can_take(made.name) for worker in self.workers)

    @invariant()
    def a_worker_has_all_that_was_sent_for_its_calls(self) -> None:
        for worker in self.workers:
            assert all(made.received == made.sent for made in worker.runs.values() if made.is_wanted)

    def teardown(self) -> None:
        """In the end, all clients have heard of their calls, and nothing is left of them."""
        if not hasattr(self, "board"):
            return
        if self.made % 2:
            for client in self.clients[:]:
                self.lose_client(client)
        for worker in self.workers[:]:
            self.lose_worker(worker)
        self.pass_time(GRACE)
        assert not any(client.calls for client in self.clients)
        for client in self.clients[:]:
            self.lose_client(client)
        assert self.waiting == []
        assert not self.board.dispatcher.needs_ticks
        waiting = self.board.waiting
        offers = self.board.dispatcher.offers
        tables = [waiting.commands, offers.workers, offers.commands, self.board.touched]
        for peer in (end.peer for end in self.all_ends):
            tables += [peer.calls, peer.serves, peer.offers, peer.direct, peer.missing]
        assert not any(tables)
        assert self.board.waiting.count == waiting.bytes == 0


# More than 10,000 steps: 260 runs of up to 50.
Calls.TestCase.settings = settings(max_examples=260, stateful_step_count=50)
TestCalls = Calls.TestCase
