"""The worker table: who is here, who is expected back, and whose turn it is.

One account of slots for every kind of work. The order of use is the least recently used worker with a free slot.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from gandy.core.model import AttemptKey, TaskKey

# What ids of workers begin with that came in by another door: nobody else may have such an id.
ROUND_ROBIN: Final = "roundrobin/"
PING_PONG: Final = "pingpong/"


class WorkerInfo(Struct, frozen=True):
    """What a worker tells about itself. The id is made anew for each start of a worker, and outlives its links."""

    id: str
    name: str
    slots: int
    tags: frozenset[str] = frozenset()
    ahead: int = 0  # slots' worth of tasks that it takes beyond its slots, and gives back if asked
    key: str | None = None  # that it came in with; None: not known, as of one that an earlier foreman had


def tell_name(worker: str) -> str:
    """The name in a gandy worker's id, which is the name and a number for each start."""
    return worker.rpartition("-")[0] or worker


class Worker(Struct, eq=False):
    """A worker and what it holds."""

    info: WorkerInfo
    connected: bool = False
    draining: bool = False  # gets nothing new
    dismissed: bool = False  # was told to leave at once; what it held is not lost by accident
    refusing: bool = False  # gets nothing new until it says something
    knows_time: bool = False  # the shared one, and so it can begin tasks at a time
    absent_since: float = 0.0  # where it is not connected
    last_heard: float = 0.0
    last_moved: float = 0.0  # when it was given tasks, or ended some
    used: int = 0  # slots taken by what it holds
    lent: int = 0  # slots for tasks that calls of commands have
    turn: int = 0  # the lower, the longer ago it was used
    held: dict[AttemptKey, int] = field(default_factory=dict)  # attempts, with the slots of each
    recalled: set[AttemptKey] = field(default_factory=set)  # of these, the ones that are wanted back
    ungiven: set[AttemptKey] = field(default_factory=set)  # of these, the ones that are not sent to it yet

    @property
    def free(self) -> int:
        return max(0, self.info.slots - self.used - self.lent) if self.is_willing else 0

    @property
    def room(self) -> int:
        """Free slots, and all places to wait."""
        return max(0, self.info.slots + self.info.ahead - self.used) if self.is_willing else 0

    def tell_room(self, per_slot: int) -> int:
        """Free slots, and places to wait, but not more than so many for each slot."""
        return max(0, self.room - max(0, self.info.ahead - per_slot * self.info.slots))

    @property
    def waiting(self) -> int:
        """Slots that what it holds lacks, as far as nobody has asked for it back."""
        return self.used + self.lent - self.info.slots - len(self.recalled)

    @property
    def busy(self) -> int:
        """Slots that its tasks have."""
        return max(0, min(self.used, self.info.slots - self.lent))

    def list_unbegun(self) -> Iterator[AttemptKey]:
        """What waits here for slots, as far as can be told: tasks begin in the order in which they are given."""
        if not self.info.slots:  # it is away since we started, and nobody knows how many it has
            return
        lacking = self.used - self.busy
        for attempt in reversed(self.held):
            if lacking <= 0:
                return
            yield attempt
            lacking -= self.held[attempt]

    @property
    def is_laden(self) -> bool:
        """Whether some of what it holds waits there, and could be had back."""
        return self.connected and self.used > self.info.slots and self.waiting > 0

    @property
    def is_willing(self) -> bool:
        return self.connected and not self.draining and not self.refusing

    def holds(self, task: TaskKey) -> bool:
        """Whether it has an attempt at this task, perhaps one that is about to be killed."""
        return any(attempt.task_key == task for attempt in self.held)

    def take(self, attempt: AttemptKey, slots: int) -> None:
        self.used += slots - self.held.get(attempt, 0)
        self.held[attempt] = slots

    def release(self, attempt: AttemptKey) -> bool:
        self.ungiven.discard(attempt)
        self.recalled.discard(attempt)
        slots = self.held.pop(attempt, None)
        self.used -= slots or 0
        return slots is not None


class WorkerTable:
    """All workers by id, and for whoever gives out tasks: whose turn it is, and whose account changed."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._turns: OrderedDict[str, Worker] = OrderedDict()  # with room, least recently used first
        self._turn = 0  # that was given last
        self._changed: dict[str, Worker] = {}  # since somebody looked
        self.spare: dict[str, Worker] = {}  # with a slot that no task holds
        self.laden: dict[str, Worker] = {}  # where something waits that could be had back

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def find(self, worker: str) -> Worker | None:
        return self._workers.get(worker)

    def add(self, worker: Worker) -> Worker:
        self._workers[worker.info.id] = worker
        self.settle(worker)
        return worker

    def remove(self, worker: Worker) -> None:
        for table in (self._workers, self._turns, self._changed, self.spare, self.laden):
            table.pop(worker.info.id, None)

    def settle(self, worker: Worker) -> None:
        """The worker's account changed: see whether it still has a turn."""
        name = worker.info.id
        self._changed[name] = worker
        if worker.room == 0:
            self._turns.pop(name, None)
        elif name not in self._turns:
            self._line_up(worker)
        _keep(self.spare, worker, worker.used < worker.info.slots)
        _keep(self.laden, worker, worker.is_laden)

    def use(self, worker: Worker) -> None:
        """It was this worker's turn; now it is the last in line."""
        self.settle(worker)
        if worker.info.id in self._turns:
            self._turns.move_to_end(worker.info.id)
            self._line_up(worker)

    def _line_up(self, worker: Worker) -> None:
        self._turn += 1
        worker.turn = self._turn
        self._turns[worker.info.id] = worker

    def in_turn(self) -> list[Worker]:
        """Those with room, free or to wait."""
        return list(self._turns.values())

    def changed_in_turn(self) -> list[Worker]:
        """Of these, the ones whose account changed since the last look: with a thousand workers, mostly one or two."""
        with_room = [worker for name, worker in self._changed.items() if name in self._turns]
        return sorted(with_room, key=_tell_turn)

    def forget_changes(self) -> None:
        self._changed.clear()

    def check(self) -> None:
        """What must hold after every step; for tests."""
        for worker in self._workers.values():
            assert worker.used == sum(worker.held.values())
            assert (worker.room > 0) == (worker.info.id in self._turns)
            assert (worker.used < worker.info.slots) == (worker.info.id in self.spare)
            if worker.info.id not in self.laden:  # calls may have lent slots since
                assert not worker.connected or worker.used - worker.info.slots <= len(worker.recalled)
            assert worker.ungiven | worker.recalled <= set(worker.held)
        assert all(worker in self._workers for worker in (*self._turns, *self._changed, *self.spare, *self.laden))
        assert self.in_turn() == sorted(self._turns.values(), key=_tell_turn)


def _keep(table: dict[str, Worker], worker: Worker, belongs: bool) -> None:
    if belongs:
        table[worker.info.id] = worker
    else:
        table.pop(worker.info.id, None)


def _tell_turn(worker: Worker) -> int:
    return worker.turn
