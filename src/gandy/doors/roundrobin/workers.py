"""Workers at the round-robin door: which of them have registered, with how many slots, and which are alive.

`worker_calls` has the calls of each worker; `lost_workers` remembers those that were lost.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from gandy.core.calls import OnOut, Peer
from gandy.core.workers import ROUND_ROBIN, KnownWorker, WorkerInfo
from gandy.doors.base import Outgoing, WorkerRegistry, name_peer
from gandy.doors.roundrobin.limits import MAX_WORKERS
from gandy.doors.roundrobin.lost_workers import LostWorkers
from gandy.doors.roundrobin.wire import PING, PONG, QueueMessage, encode
from gandy.doors.roundrobin.worker_calls import DoorParts, WorkerCalls
from gandy.limits import MAX_SLOTS
from gandy.moments import LONG_AGO, NEVER, Monotonic
from gandy.wire.calls import Announcement, Offer

QUIET: Final = 1 / 3  # of the expiry in silence, after which the worker gets a PING
ASK_PERIOD: Final = 1 / 5  # of the expiry, between two such PINGs
IDLE: Final = 60.0  # seconds that a worker without calls may be silent in addition
PAST: Final = 60.0  # seconds in which a worker that came back may still send INCREMENTs for calls from before


class RegisteredWorker:
    """One worker: its slots, its calls, and its last sign of life."""

    def __init__(self, routing_id: bytes, peer: Peer, account: KnownWorker, calls: WorkerCalls, now: Monotonic) -> None:
        self.id = routing_id
        self.peer = peer
        self.account = account
        self.calls = calls
        self.slots = 0  # that it registered
        self.ready_at = LONG_AGO  # when it can take calls
        self.heard = now
        self.asked = now
        self.asked_since = NEVER  # when we sent the first PING since its last message
        self.answers_pings = False

    @property
    def is_leaving(self) -> bool:
        """True if it deregistered, was dismissed, or is lost."""
        return self.calls.is_closed

    @property
    def free(self) -> int:
        """Slots for calls, now or as soon as the worker is ready."""
        return self.peer.count_free() if self.ready_at == LONG_AGO else self.slots


class Workers:
    """All workers of one door, by routing id."""

    def __init__(self, parts: DoorParts, registry: WorkerRegistry, on_out: OnOut) -> None:
        self.lost = LostWorkers()
        self.dropped: Counter[str] = Counter()
        self.on_change: Callable[[], None] = lambda: None  # a worker registered, or is gone
        self._parts = parts
        self._board = parts.board
        self._times = parts.times
        self._registry = registry
        self._on_out = on_out
        self._workers: dict[bytes, RegisteredWorker] = {}
        self._by_peer: dict[Peer, RegisteredWorker] = {}
        self._pingers: OrderedDict[bytes, None] = OrderedDict()  # peers that sent PING or PONG before they registered
        self._has_newcomers = False

    def list(self) -> list[tuple[bytes, int]]:
        """Registered workers with their free slots, in the order of their turns."""
        here = [worker for worker in self._workers.values() if not worker.is_leaving]
        here.sort(key=lambda worker: self._board.dispatcher.offers.next_turn(worker.peer))
        return [(worker.id, worker.free) for worker in here]

    def list_slots(self) -> dict[bytes, int]:
        """Registered and lost workers, with the slots that they registered."""
        here = {worker.id: worker.slots for worker in self._workers.values() if not worker.is_leaving}
        return here | self.lost.list_slots()

    def find_calls(self, peer: Peer) -> WorkerCalls | None:
        worker = self._by_peer.get(peer)
        return None if worker is None else worker.calls

    def has(self, routing_id: bytes) -> bool:
        return routing_id in self._workers

    # Registration

    def register(self, routing_id: bytes, slots: int, now: Monotonic, is_ready: bool = False) -> bool:
        """Register a worker with this many free slots. False if the table is full.

        With `is_ready`, the worker has not just started, and can take calls at once.
        """
        worker = self._workers.get(routing_id)
        if worker is None:
            if len(self._workers) >= MAX_WORKERS:
                self.dropped["too many workers"] += 1
                return False
            worker = self._add(routing_id, now)
            if self._times.ready_pause and not is_ready:
                worker.ready_at = now + self._times.ready_pause
        self.lost.discard(routing_id)
        worker.slots = max(0, min(slots, MAX_SLOTS))
        worker.calls.is_closed = worker.account.draining = False
        self._announce(worker)
        self.on_change()
        return True

    def _add(self, routing_id: bytes, now: Monotonic) -> RegisteredWorker:
        peer = self._board.add_peer(self._on_out)
        name = name_peer(ROUND_ROBIN, routing_id)
        account = self._registry.add(WorkerInfo(name, name.partition("/")[2], 0))
        self._board.dispatcher.on_worker(peer, account, self._board.now)
        calls = WorkerCalls(routing_id, peer, self._parts, now)
        worker = self._workers[routing_id] = self._by_peer[peer] = RegisteredWorker(
            routing_id, peer, account, calls, now
        )
        worker.answers_pings = routing_id in self._pingers
        if routing_id in self.lost:
            calls.outstanding.uncertain_until = now + PAST
        return worker

    def _announce(self, worker: RegisteredWorker) -> None:
        """Announce the slots that the worker says are free (roundrobin.md, rule 3), and those that its calls have.

        A worker that is not ready offers its commands, so that calls wait for it, but no slots.
        """
        slots = 0 if worker.is_leaving or worker.ready_at > LONG_AGO else worker.slots
        total = min(slots + worker.peer.slots.by_calls, MAX_SLOTS)
        is_offering = not worker.is_leaving and (total or worker.slots)
        offers = tuple(Offer(entry.name) for entry in self._parts.codes) if is_offering else ()
        self._board.dispatcher.announce(worker.peer, Announcement(total, total, offers), self._board.now)

    def deregister(self, routing_id: bytes, now: Monotonic) -> None:
        """It gets no more calls; those that it has may still be answered."""
        self.lost.discard(routing_id)
        worker = self._workers.get(routing_id)
        if worker is not None:
            worker.calls.is_closed = worker.account.draining = True
            self._announce(worker)
            self.on_change()
            self._maybe_remove(worker, now)

    def dismiss(self, name: str, immediate: bool, now: Monotonic) -> None:
        """The protocol cannot dismiss a worker: the worker just gets no more calls until it registers again."""
        worker = next((worker for worker in self._workers.values() if worker.account.info.id == name), None)
        if worker is not None and immediate:
            self._remove(worker, now)
        elif worker is not None:
            self.deregister(worker.id, now)

    def lose(self, routing_id: bytes, undelivered: Iterable[int], now: Monotonic) -> None:
        """A worker is gone, and has not received these calls. If it sends a message later, it is registered again."""
        worker = self._workers[routing_id]
        if not worker.is_leaving:
            self.lost.add(routing_id, worker.slots, now)
        self._remove(worker, now, undelivered)

    def _maybe_remove(self, worker: RegisteredWorker, now: Monotonic) -> None:
        if worker.is_leaving and not worker.peer.serves:
            self._remove(worker, now)

    def _remove(self, worker: RegisteredWorker, now: Monotonic, undelivered: Iterable[int] = ()) -> None:
        """Calls that the worker has received are lost. Others go to other workers."""
        worker.calls.is_closed = True
        self._announce(worker)  # first, or the switchboard would give it the refused calls again
        worker.calls.refuse_unbegun(set(undelivered))
        del self._workers[worker.id], self._by_peer[worker.peer]
        self._board.dispatcher.on_cut(worker.peer, now)
        self._registry.remove(worker.account.info.id)
        self.on_change()

    # Messages of a worker about its calls

    def on_increment(self, routing_id: bytes, now: Monotonic) -> None:
        worker = self._workers.get(routing_id)
        if worker is None:
            return
        if not worker.calls.on_increment(now):
            self.dropped["INCREMENT"] += 1
        self._maybe_remove(worker, now)

    def on_response(self, routing_id: bytes, message: QueueMessage, now: Monotonic) -> bool:
        """False if it answers nothing that this worker has."""
        worker = self._workers.get(routing_id)
        return worker is not None and worker.calls.on_response(message, now)

    # Liveness

    def on_heard(self, routing_id: bytes, command: bytes, now: Monotonic) -> None:
        """A message came from a peer, worker or not."""
        is_ping = command in (PING, PONG)
        worker = self._workers.get(routing_id)
        if worker is not None:
            worker.heard, worker.asked_since = now, NEVER
            worker.answers_pings = worker.answers_pings or is_ping
            self._registry.on_heard(worker.account)
            if command == PING:  # gandy's workers send it when they have the response to REGISTER
                self._make_ready(worker)
        elif is_ping:
            self._pingers[routing_id] = None
            if len(self._pingers) > MAX_WORKERS:
                self._pingers.popitem(last=False)

    def restore(self, routing_id: bytes, now: Monotonic) -> None:
        """A peer sent a message that is not about registration: if it is a lost worker, register it again."""
        slots = self.lost.find_slots(routing_id)
        if slots is not None:
            self.register(routing_id, slots, now, is_ready=True)

    def ask(self, routing_id: bytes) -> None:
        """Send a PING, to learn whether the peer is connected, and whether it answers."""
        self._parts.send(Outgoing([routing_id, *encode(QueueMessage(PING, self._parts.ids.take_long()))]))

    def on_connect(self) -> None:
        """A peer connected, perhaps a lost worker: the next `on_time` sends a PING to all of those."""
        self._has_newcomers = True

    def on_time(self, now: Monotonic) -> None:
        if self._has_newcomers:
            self._has_newcomers = False
            for routing_id in self.lost.list_slots():
                self.ask(routing_id)
        self.lost.expire(now)
        for worker in list(self._workers.values()):
            # Silence alone proves nothing: a worker may have nothing to send, or we may have been stopped for a while.
            expiry = self._times.expiry
            if now - worker.asked_since >= expiry - expiry * QUIET and worker.answers_pings:
                self.lose(worker.id, (), now)
                continue
            if worker.ready_at <= now:
                self._make_ready(worker)
            self._maybe_ask(worker, now)
            worker.calls.on_time(now)
            self._maybe_remove(worker, now)

    def _make_ready(self, worker: RegisteredWorker) -> None:
        if worker.ready_at > LONG_AGO:
            worker.ready_at = LONG_AGO
            self._announce(worker)

    def _maybe_ask(self, worker: RegisteredWorker, now: Monotonic) -> None:
        silence = now - worker.heard - (0.0 if worker.peer.serves else IDLE)
        if silence >= self._times.expiry * QUIET and now - worker.asked >= self._times.expiry * ASK_PERIOD:
            worker.asked = now
            worker.asked_since = min(worker.asked_since, now)
            self.ask(worker.id)
