"""Results that the foreman has not acknowledged, from the end of each task on. Sends nothing itself.

A task's slot counts as taken until its result is sent, so that the foreman's copy of the account is never ahead of the
worker's own. It counts as free as soon as the result is sent, so that a JOB that follows at once fits.
"""

from itertools import islice
from math import ceil
from typing import Final

from msgspec import Raw

from gandy.errors import LocalProtocolError
from gandy.limits import LAST_NUMBER, MAX_BATCH, MAX_BATCH_BYTES, MAX_BATCHES_UNDER_WAY
from gandy.talk.slots import Slots
from gandy.wire import payloads
from gandy.wire.messages import Task, TaskPair, TaskResult

READY_PER_RESULT: Final = 2  # tasks that must be ready for each result that waits to be sent with others


class UnacknowledgedResults:
    """The results of one worker, the oldest first. They outlive links: what a broken one carried is sent again."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self.by_pair: dict[TaskPair, TaskResult] = {}
        self._unsent: dict[TaskPair, Raw] = {}  # results that are in no batch, packed
        self._unsaved: list[Raw] = []  # results that `take_unsaved` has not returned
        self._batches: dict[int, dict[TaskPair, Task]] = {}  # sent batches, with the tasks whose slots they freed
        self._batch_count = 0
        self._updated: Task | None = None  # the task of the outstanding UPDATE, whose slot it freed

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def add(self, result: TaskResult) -> None:
        """Add the result of a task that ended.

        Raises: LocalProtocolError, if the task does not run here, or the result cannot be sent.
        """
        pair = result.pair
        if pair not in self._slots.running or pair in self.by_pair:
            raise LocalProtocolError(f"task {result.task} of job {result.job_id} does not run here")
        packed = _pack(result)
        self._unsent[pair] = packed
        self._unsaved.append(packed)
        self.by_pair[pair] = result

    def inherit(self, result: TaskResult) -> None:
        """Add a result that a former worker saved. Only before the first link."""
        self.by_pair[result.pair] = result

    def take_unsaved(self) -> list[Raw]:
        """Return the results that were added since the last call, packed."""
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

    def pack_all(self) -> list[Raw]:
        return [_pack(result) for result in self.by_pair.values()]

    def forget_all(self) -> None:
        """No foreman will ever ask for these results. Only while there is no link."""
        self.on_link()  # tasks of batches that are not acknowledged
        for pair in self.by_pair:
            self._slots.release(pair)
        self.by_pair.clear()
        self._unsent.clear()
        self._unsaved.clear()

    def count_room(self, ready: int) -> int:
        """Return how many more results may be held while `ready` tasks can begin here. 0: send all now.

        Each further result means that one more of the ready tasks has begun.
        """
        spare = ready - READY_PER_RESULT * len(self._unsent)
        return max(0, ceil(spare / (READY_PER_RESULT + 1)))

    def on_link(self) -> None:
        """A new link is up: nothing has been sent over it."""
        for tasks in self._batches.values():
            self._slots.take(tasks.values())
        self._batches.clear()
        self._unsent = {pair: _pack(result) for pair, result in self.by_pair.items()}

    # In batches, where both sides agreed to UPDATES

    def take_batch(self) -> tuple[int, bytes] | None:
        """Return the number and the payload of the next batch, with the oldest results, and free their slots.

        None: there are no results, or too many batches are not acknowledged yet.
        """
        if not self._unsent or len(self._batches) >= MAX_BATCHES_UNDER_WAY:
            return None
        size, tasks, packed = 0, dict[TaskPair, Task](), list[Raw]()
        for pair, part in islice(self._unsent.items(), MAX_BATCH):
            size += len(part)
            if size > MAX_BATCH_BYTES and packed:
                break
            tasks[pair] = self._slots.running.pop(pair)
            packed.append(part)
        for pair in tasks:
            del self._unsent[pair]
        self._batch_count = (self._batch_count + 1) & LAST_NUMBER
        self._batches[self._batch_count] = tasks
        return self._batch_count, payloads.encode(packed)

    def on_recorded(self, number: int) -> tuple[TaskResult, ...]:
        """The foreman has recorded a batch. Returns its results; none if there is no such batch."""
        return tuple(map(self.by_pair.pop, self._batches.pop(number, ())))

    # One by one, with UPDATE

    def on_update(self, result: TaskResult) -> None:
        """An UPDATE with this result is sent: free the slot of its task."""
        self._updated = self._slots.release(result.pair)

    def on_update_answered(self, pair: TaskPair) -> TaskResult:
        self._updated = None
        del self._unsent[pair]
        return self.by_pair.pop(pair)

    def take_back(self) -> None:
        """The UPDATE may not have arrived: its task holds its slot again until the next try."""
        if self._updated is not None:
            self._slots.take((self._updated,))
            self._updated = None


def _pack(result: TaskResult) -> Raw:
    """Raises: LocalProtocolError, if the result cannot be sent."""
    try:
        return Raw(payloads.encode(result))
    except (UnicodeEncodeError, OverflowError) as error:
        raise LocalProtocolError(f"the result of task {result.task} cannot be sent: {error}") from None
