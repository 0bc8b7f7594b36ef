"""The worker table: which workers are here, which are expected back, and whose turn it is.

A worker has one account of slots for every kind of work. The least recently used worker with a free slot is next.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from msgspec import Struct

from gandy.core.extensions import MachineLoad
from gandy.core.held import HeldAttempts
from gandy.core.slots import SlotAccount
from gandy.moments import LONG_AGO, NEVER, Monotonic

# Prefixes of the ids of workers of other doors. No other worker may have such an id.
ROUND_ROBIN: Final = "roundrobin/"
PING_PONG: Final = "pingpong/"


class WorkerInfo(Struct, frozen=True):
    """What a worker says about itself. Its id is new for each start of the worker, and outlives its links."""

    id: str
    name: str
    slots: int
    tags: frozenset[str] = frozenset()
    ahead: int = 0  # slots' worth of tasks that it takes beyond its slots, and gives back if asked
    key: str | None = None  # that it connected with; None if unknown, as of a worker of an earlier foreman
    folder: str = ""  # where it keeps results until they are acknowledged, on its own machine
    reports_begun: bool = False  # what it begins; else all that it is given counts as begun at once
    shares_slots: bool = False  # with other shards, and is told what is wanted of it
    version: str = ""  # of gandy
    takes_tasks: bool = True  # else all its slots are for calls


def worker_name(worker: str) -> str:
    """The name in a gandy worker's id, which is the name and a number for each start."""
    return worker.rpartition("-")[0] or worker


class ServedCall(Protocol):
    """What the account of a worker needs to know of a call: see `core.calls`."""

    slots: int


class KnownWorker:
    """A worker, what it holds, and what it may get."""

    def __init__(self, info: WorkerInfo, connected: bool = False, absent_since: Monotonic = LONG_AGO) -> None:
        self.info = info
        self.connected = connected
        self.absent_since = absent_since  # if it is not connected
        self.draining = False  # gets nothing new
        self.dismissed = False  # must leave at once; what it held is not lost by accident
        self.refusals = 0  # in a row, of tasks that it should have had a slot for
        self.ask_again_at = NEVER  # if it refused the last task; until then it gets nothing new
        self.problem = ""  # what it is short of, and so uses fewer slots than it has
        self.machine: MachineLoad | None = None  # how busy it was when the worker last said so
        self.knows_time = False  # the shared one, and so it can begin tasks at a time
        self.last_heard = Monotonic(0.0)
        self.replaced_at = LONG_AGO  # when a new worker in its folder said first that it is dead
        self.last_moved = Monotonic(0.0)  # when it was given tasks, or ended some
        self.turn = 0  # the lower, the longer ago it was used
        self.slots = SlotAccount(shared=info.slots)
        self.held = HeldAttempts(self.slots)
        self.serves: Mapping[int, ServedCall] = {}  # calls that it runs, by our numbers

    def introduce(self, info: WorkerInfo) -> None:
        """Take what the worker says about itself now."""
        self.info = info
        self.slots.resize(info.slots)

    @property
    def all_slots(self) -> int:
        """Those of all shards. While other shards use some of them, this one may use fewer."""
        slots = self.slots
        return slots.most + slots.reserved if self.info.shares_slots and not self.problem else slots.total

    @property
    def machine_now(self) -> MachineLoad | None:
        """How busy its machine is; None if the worker is away, or does not say."""
        return self.machine if self.connected else None

    @property
    def is_replaced(self) -> bool:
        """True if a new worker in its folder says that it is dead, and it was not heard of since."""
        return self.last_heard <= self.replaced_at

    @property
    def free(self) -> int:
        return max(0, self.slots.free_for_tasks) if self.is_willing else 0

    @property
    def room(self) -> int:
        """Free slots, and all places to wait."""
        return max(0, self.slots.shared + self.info.ahead - self.slots.by_tasks) if self.is_willing else 0

    @property
    def waiting(self) -> int:
        """Slots that its tasks lack, without tasks that are recalled."""
        return -self.slots.free_for_tasks - len(self.held.recalled)

    @property
    def has_spare_slots(self) -> bool:
        """True if tasks may have slots that no task has. Calls may have them."""
        return self.info.takes_tasks and self.slots.by_tasks < self.slots.shared

    @property
    def is_laden(self) -> bool:
        """True if more was given to it than it has slots for. Calls that have slots do not count: they come and go."""
        return self.connected and self.slots.by_tasks > self.slots.shared

    @property
    def is_willing(self) -> bool:
        return self.info.takes_tasks and self.connected and not self.draining and self.ask_again_at == NEVER


class WorkerTable:
    """All workers by id, and for the dispatcher: whose turn it is, and whose account changed."""

    def __init__(self) -> None:
        self._workers: dict[str, KnownWorker] = {}
        self._turns: OrderedDict[str, KnownWorker] = OrderedDict()  # with room, least recently used first
        self._turn = 0  # that was given last
        self._changed: dict[str, KnownWorker] = {}  # since the dispatcher looked
        self.spare: dict[str, KnownWorker] = {}  # with a slot that no task holds
        self.laden: dict[str, KnownWorker] = {}  # with more tasks than slots
        self.refusing: dict[str, KnownWorker] = {}  # that are asked again after a pause

    def __iter__(self) -> Iterator[KnownWorker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def find(self, worker: str) -> KnownWorker | None:
        return self._workers.get(worker)

    def add(self, worker: KnownWorker) -> KnownWorker:
        self._workers[worker.info.id] = worker
        self.settle(worker)
        return worker

    def remove(self, worker: KnownWorker) -> None:
        for table in (self._workers, self._turns, self._changed, self.spare, self.laden, self.refusing):
            table.pop(worker.info.id, None)

    def pause(self, worker: KnownWorker, until: Monotonic) -> None:
        """The worker refused a task. `settle` follows."""
        worker.refusals += 1
        worker.ask_again_at = until
        self.refusing[worker.info.id] = worker

    def resume(self, worker: KnownWorker) -> None:
        """The worker may be asked again. `settle` follows."""
        worker.ask_again_at = NEVER
        self.refusing.pop(worker.info.id, None)

    def forgive(self, worker: KnownWorker) -> None:
        """The worker said something about its slots, so a refusal before that proves nothing. `settle` follows."""
        if worker.refusals:
            worker.refusals = 0
            self.resume(worker)

    def settle(self, worker: KnownWorker) -> None:
        """The worker's account changed: put it in the tables where it belongs now."""
        name = worker.info.id
        self._changed[name] = worker
        if worker.room == 0:
            self._turns.pop(name, None)
        elif name not in self._turns:
            self._line_up(worker)
        _keep(self.spare, worker, worker.has_spare_slots)
        _keep(self.laden, worker, worker.is_laden)

    def use(self, worker: KnownWorker) -> None:
        """Put a worker that had its turn at the end of the line."""
        self.settle(worker)
        if worker.info.id in self._turns:
            self._turns.move_to_end(worker.info.id)
            self._line_up(worker)

    def _line_up(self, worker: KnownWorker) -> None:
        self._turn += 1
        worker.turn = self._turn
        self._turns[worker.info.id] = worker

    def in_turn(self) -> list[KnownWorker]:
        """Workers with free slots or places to wait, in turn."""
        return list(self._turns.values())

    def take_changed(self) -> list[KnownWorker]:
        """Workers whose account changed since the last look: with a thousand workers, mostly one or two."""
        changed = list(self._changed.values())
        self._changed.clear()
        return changed

    def sort_by_turn(self, workers: list[KnownWorker]) -> list[KnownWorker]:
        """Those of the workers with free slots or places to wait, in turn."""
        return sorted((worker for worker in workers if worker.info.id in self._turns), key=_get_turn)

    def check(self) -> None:
        """What must hold after every step; for tests."""
        for worker in self._workers.values():
            name, slots = worker.info.id, worker.slots
            slots.check([held.slots for held in worker.held.values()], [call.slots for call in worker.serves.values()])
            worker.held.check()
            assert (worker.room > 0) == (name in self._turns)
            assert worker.has_spare_slots == (name in self.spare)
            assert worker.is_laden == (name in self.laden)
            assert (worker.ask_again_at < NEVER) == (name in self.refusing)
        for table in (self._turns, self._changed, self.spare, self.laden, self.refusing):
            assert self._workers.keys() >= table.keys()
        turns = [worker.turn for worker in self._turns.values()]
        assert turns == sorted(turns)


def _keep(table: dict[str, KnownWorker], worker: KnownWorker, belongs: bool) -> None:
    if belongs:
        table[worker.info.id] = worker
    else:
        table.pop(worker.info.id, None)


def _get_turn(worker: KnownWorker) -> int:
    return worker.turn
