"""The workers of a ping-pong broker: the state of each, and when each of them expires.

A worker is a peer of the switchboard from the moment when it can take calls until its last result is delivered.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from gandy.core.calls import OnOut, Peer
from gandy.core.switchboard import Switchboard
from gandy.core.workers import PING_PONG, KnownWorker, WorkerInfo
from gandy.doors.base import WorkerRegistry, name_peer
from gandy.doors.pingpong.job_slot import HeldBytes, JobSlot
from gandy.doors.pingpong.limits import MAX_WORKERS
from gandy.doors.pingpong.talk import BROKER_LAW, HAS_JOB, BrokerEvent, WorkerState
from gandy.moments import Monotonic
from gandy.wire.calls import ANNOUNCE, Offer, encode_announcement

# pingpong.md, rule 8: any message restarts the expiry of a worker. A dismissed worker has the same time to leave.
_RENEWING: Final = frozenset(BrokerEvent) - {BrokerEvent.JOB, BrokerEvent.EXPIRED, BrokerEvent.GONE}


class BrokerWorker:
    """One worker, as the broker sees it."""

    __slots__ = ("account", "id", "routing_id", "slot", "state")

    def __init__(self, routing_id: bytes) -> None:
        self.routing_id = routing_id
        self.id = name_peer(PING_PONG, routing_id)
        self.state = WorkerState.ABSENT
        self.account: KnownWorker | None = None
        self.slot: JobSlot | None = None  # while it is a peer of the switchboard

    @property
    def has_left(self) -> bool:
        return self.state in (WorkerState.ABSENT, WorkerState.GOING)


class BrokerWorkers:
    """All workers of a broker, by routing id. `on_out` gets what the switchboard sends to them."""

    def __init__(
        self, board: Switchboard, registry: WorkerRegistry, command: str, expiry: float, on_out: OnOut
    ) -> None:
        self._board = board
        self._registry = registry
        self._command = command
        self._expiry = expiry
        self._on_out = on_out
        self._held = HeldBytes()
        self._workers: dict[bytes, BrokerWorker] = {}
        self._by_id: dict[str, BrokerWorker] = {}
        self._by_peer: dict[Peer, BrokerWorker] = {}
        self._expires: OrderedDict[bytes, Monotonic] = OrderedDict()  # routing ids, the next one first

    @property
    def peers(self) -> list[Peer]:
        return list(self._by_peer)

    def find(self, routing_id: bytes) -> BrokerWorker | None:
        return self._workers.get(routing_id)

    def find_by_id(self, worker_id: str) -> BrokerWorker | None:
        return self._by_id.get(worker_id)

    def find_by_peer(self, peer: Peer) -> BrokerWorker | None:
        return self._by_peer.get(peer)

    def find_or_add(self, routing_id: bytes) -> BrokerWorker | None:
        """None if there are too many workers."""
        worker = self._workers.get(routing_id)
        if worker is None and len(self._workers) < MAX_WORKERS:
            worker = self._workers[routing_id] = BrokerWorker(routing_id)
            self._by_id[worker.id] = worker
        return worker

    def move(self, worker: BrokerWorker, event: BrokerEvent, now: Monotonic) -> None:
        worker.state = BROKER_LAW[worker.state, event]
        if event in _RENEWING:
            self._expires[worker.routing_id] = now + self._expiry
            self._expires.move_to_end(worker.routing_id)
        elif event is BrokerEvent.GONE:
            self._expires.pop(worker.routing_id, None)

    def take_expired(self, now: Monotonic) -> Iterator[BrokerWorker]:
        while self._expires and next(iter(self._expires.values())) <= now:
            routing_id, _ = self._expires.popitem(last=False)
            yield self._workers[routing_id]

    def on_heard(self, worker: BrokerWorker) -> None:
        if worker.account is not None:
            self._registry.on_heard(worker.account)

    def admit(self, worker: BrokerWorker) -> None:
        """Offer the worker to the switchboard, if it was not offered before."""
        if worker.slot is None:
            peer = self._board.add_peer(self._on_out)
            worker.slot = JobSlot(self._board, peer, worker.id, self._command, self._held)
            self._by_peer[peer] = worker
            worker.account = self._registry.add(WorkerInfo(worker.id, worker.id.partition("/")[2], slots=0))
            self._board.dispatcher.on_worker(peer, worker.account, self._board.now)
        if not worker.slot.peer.offers:
            self._announce(worker.slot.peer, [Offer(self._command)])

    def withdraw(self, worker: BrokerWorker) -> None:
        """Give the worker no more calls."""
        if worker.slot is not None:
            self._announce(worker.slot.peer, [])

    def _announce(self, peer: Peer, offers: list[Offer]) -> None:
        self._board.on_frame(peer, ANNOUNCE, 0, 0, 0, encode_announcement(1, 1, offers))

    def maybe_forget(self, worker: BrokerWorker, now: Monotonic) -> None:
        """Remove the worker if it has left, and its last result is delivered."""
        if not worker.has_left or (worker.slot is not None and worker.slot.call is not None):
            return
        if worker.slot is not None:
            self._board.dispatcher.on_cut(worker.slot.peer, now)
            del self._by_peer[worker.slot.peer]
            worker.slot = worker.account = None
            self._registry.remove(worker.id)
        if worker.state is WorkerState.ABSENT:
            del self._workers[worker.routing_id]
            del self._by_id[worker.id]

    def check(self) -> None:
        """For tests: check what must hold after every step."""
        workers = self._workers.values()
        assert list(self._by_id.values()) == list(workers)
        assert set(self._by_peer.values()) == {worker for worker in workers if worker.slot is not None}
        calls = [worker.slot.call for worker in workers if worker.slot is not None and worker.slot.call is not None]
        assert self._held.total == sum(len(call.args) for call in calls)
        for worker in workers:
            self._check_worker(worker)

    def _check_worker(self, worker: BrokerWorker) -> None:
        slot, call = worker.slot, worker.slot.call if worker.slot is not None else None
        assert (call is not None and call.has_job) == (worker.state in HAS_JOB)
        assert slot is not None or worker.state is WorkerState.GOING
        if worker.has_left:
            assert (slot is not None) == (call is not None and call.flow.is_complete)
        if slot is not None:
            assert bool(slot.peer.offers) == (not worker.has_left and worker.state is not WorkerState.LEAVING)
            assert call is None or call.number in slot.peer.serves
        if worker.state is not WorkerState.LEAVING:
            is_watched = worker.state not in (WorkerState.ABSENT, WorkerState.SILENT)
            assert is_watched == (worker.routing_id in self._expires)
