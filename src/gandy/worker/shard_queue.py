"""The tasks of one conversation on a worker: which wait for slots, and how many slots the others have."""

from collections import OrderedDict
from itertools import chain
from typing import Final

from gandy.core.model import AttemptKey
from gandy.core.shards import NO_SHARD, Want
from gandy.core.shares import SlotUse
from gandy.talk.worker import WorkerSide
from gandy.worker.begun import BegunReporter
from gandy.worker.function_inputs import FunctionInputs
from gandy.worker.order import Order
from gandy.worker.running_task import RunningTask

NOTHING: Final = Want()


class ShardQueue:
    """One for each conversation. The scheduler of the worker moves tasks through all of them."""

    def __init__(self, side: WorkerSide, inputs: FunctionInputs, begun: BegunReporter) -> None:
        self.shard = NO_SHARD  # that the tasks come from, once the foreman has said so
        self.side = side
        self.inputs = inputs
        self.begun = begun
        self.waiting: OrderedDict[AttemptKey, Order] = OrderedDict()
        self.waiting_slots = 0  # of these
        self.behind: dict[AttemptKey, RunningTask] = {}  # function tasks that wait in a slot, behind another task
        self.started = 0  # slots of tasks that run or are held
        self.want = NOTHING
        self.capacity = side.slots.limit  # slots that its tasks may use, as they were shared last

    @property
    def ready(self) -> int:
        """How many tasks could begin as soon as there are slots."""
        return len(self.waiting) + len(self.behind)

    @property
    def use(self) -> SlotUse:
        return SlotUse(self.started, self._find_claim(), self.want)

    def _find_claim(self) -> Want:
        """The slots of tasks that wait here, with the rank of the first: foremen give those of highest rank first."""
        if not self.waiting and not self.behind:
            return NOTHING
        behind = (task.order for task in self.behind.values())  # these came before those that wait for slots
        first = next(chain(behind, self.waiting.values()))
        return Want(self.waiting_slots + len(self.behind), first.priority, first.attempt.job)

    @property
    def is_idle(self) -> bool:
        """True if the foreman neither has tasks here nor wants slots for some."""
        return not self.side.slots.running and not self.want.slots

    def on_want(self, want: Want) -> None:
        self.want = want

    def on_cut(self) -> None:
        """The link is gone: no slot is kept free for a foreman that may be dead."""
        self.want = NOTHING

    def add(self, order: Order) -> None:
        self.waiting[order.attempt] = order
        self.waiting_slots += order.slots

    def remove(self, attempt: AttemptKey) -> Order | None:
        """Take a task out of those that wait for slots. None: it is not among them."""
        order = self.waiting.pop(attempt, None)
        if order is not None:
            self.waiting_slots -= order.slots
        return order
