"""Assigns a worker's slots to tasks of jobs: which wait, and which have slots. Knows no foreman.

Foremen share the slots by rank (`core.shares`). Of one foreman's tasks, the oldest goes first. Tasks with a time go
before the others, and hold their slots until that time. Function tasks may also wait in a slot behind one that runs;
they are taken back when another slot is free.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.shares import share_slots
from gandy.moments import Shared
from gandy.worker.call_slots import BorrowedSlots
from gandy.worker.ensemble_clock import EnsembleClock, TimedStart
from gandy.worker.order import Order
from gandy.worker.runner import Runner
from gandy.worker.shard_queue import ShardQueue
from gandy.worker.spawn import NotStartedError

LOOK_SECONDS: Final = 0.002  # until we check, while a slot is free, that a task that was about to begin has begun
NOTED_LATENESS: Final = 0.05  # seconds; a task that begins later than that after its time has a note in its ending


class TaskScheduler:
    """Runs on the current loop. Calls `request_start` when its user should call `start`."""

    def __init__(
        self,
        runner: Runner,
        call_slots: BorrowedSlots,
        clock: EnsembleClock,
        slots: int,
        report: Callable[[AttemptKey, Ending], None],
        request_start: Callable[[], None],
    ) -> None:
        """`call_slots`: the slots that calls borrow. `report` gets tasks that end without having begun."""
        self._runner = runner
        self._call_slots = call_slots
        self._clock = clock
        self._slots = slots
        self.allowed = slots  # slots that tasks may use now: fewer while the worker is short of something
        self._report = report
        self._request_start = request_start
        self.queues: list[ShardQueue] = []  # one for each foreman
        self.on_shared: Callable[[], None] = lambda: None  # called when slots were shared among several queues
        self._taken: dict[AttemptKey, Order] = {}  # tasks that run or are held
        self._busy = 0  # the sum of their slots
        self._held: dict[AttemptKey, TimedStart] = {}  # tasks that wait for their time
        self.late: dict[AttemptKey, float] = {}  # by how many seconds tasks began late; see `add_lateness`
        self._looking: asyncio.TimerHandle | None = None  # see LOOK_SECONDS

    @property
    def ready(self) -> int:
        """How many tasks could begin as soon as there are slots."""
        return sum(queue.ready for queue in self.queues)

    @property
    def busy(self) -> int:
        """The slots of tasks that run or are held."""
        return self._busy

    @property
    def waiting(self) -> list[Order]:
        """The tasks that wait for slots, except for those that wait behind another task."""
        return [order for queue in self.queues for order in queue.waiting.values()]

    @property
    def unstarted(self) -> list[AttemptKey]:
        return [*(attempt for queue in self.queues for attempt in (*queue.waiting, *queue.behind)), *self._held]

    def put_timed_first(self, queue: ShardQueue) -> None:
        """Let tasks with a time have the next slots of their queue, the earliest first."""
        timed = [(order.at, attempt) for attempt, order in queue.waiting.items() if order.at is not None]
        for _, attempt in sorted(timed, reverse=True):
            queue.waiting.move_to_end(attempt, last=False)

    # Sharing out slots

    def start(self) -> None:
        """Start the tasks that fit, those of the highest rank first."""
        borrowed = self._call_slots.borrowed
        limit = min(self._slots - borrowed, self.allowed)
        if len(self.queues) == 1:
            self._start_queue(self.queues[0], limit, limit, borrowed)
        else:
            self._share(limit, borrowed)
        if self._call_slots.wanted:
            self._call_slots.report_yielded(self._slots - self._busy)

    def _share(self, limit: int, borrowed: int) -> None:
        """Share the slots among all queues, and start the tasks that fit."""
        shares = share_slots(limit, {queue: queue.use for queue in self.queues})
        first = next(iter(shares), None)
        # A task behind another one begins by itself, so only the queue that has the next slot anyway may have some.
        if any(queue.behind for queue in self.queues if queue is not first):
            self._clear_behind(first)
            shares = share_slots(limit, {queue: queue.use for queue in self.queues})
        for queue, capacity in shares.items():
            queue.capacity = capacity
            self._start_queue(queue, capacity, limit, borrowed, may_put_behind=queue is first)
        self.on_shared()

    def _clear_behind(self, first: ShardQueue | None) -> None:
        """Take back all tasks that wait behind others, except for those of the first queue."""
        for queue in self.queues:
            while queue is not first and queue.behind:
                self._runner.pool.take_back(next(iter(queue.behind.values())))

    def _start_queue(
        self, queue: ShardQueue, capacity: int, limit: int, borrowed: int, may_put_behind: bool = True
    ) -> None:
        """Start tasks of one queue in its `capacity`, and in the `limit` for all queues."""
        waiting = queue.waiting
        while waiting or (queue.behind and self._busy < limit and queue.started < capacity):
            if not waiting:
                if self._take_back(queue):
                    continue
                break
            order = next(iter(waiting.values()))
            slots = order.slots
            fits = self._busy + slots <= limit and queue.started + slots <= capacity
            # A task that needs more slots than there are runs alone.
            is_alone = not self._taken and not borrowed and capacity >= limit
            if not self.allowed or not (fits or is_alone):
                # Not while calls borrow slots: a task behind another one begins by itself, and takes its slot.
                if order.python is not None and not borrowed and may_put_behind:
                    self._put_behind(queue)
                break
            self._take(order, queue)

    def _take(self, order: Order, queue: ShardQueue) -> None:
        """Give a task its slots."""
        attempt, slots = order.attempt, order.slots
        del queue.waiting[attempt]
        queue.waiting_slots -= slots
        queue.started += slots
        self._taken[attempt] = order
        self._busy += slots
        if order.at is None:
            self._runner.start(order)
        else:
            self._hold(order, order.at)

    def drop(self, order: Order) -> bool:
        """Forget a task that has not begun. False: it has begun or ended."""
        attempt, queue = order.attempt, get_queue(order)
        if attempt in queue.behind:
            self._runner.pool.take_back(queue.behind[attempt])
        held = self._held.pop(attempt, None)
        if held is not None:
            held.cancel()
            self.on_free(attempt)
        return queue.remove(attempt) is not None or held is not None

    def add_lateness(self, attempt: AttemptKey, ending: Ending) -> Ending:
        """Add a note to the ending of a task that is in `late`."""
        note = f"began {self.late.pop(attempt):.3f} s after its time"
        return replace(ending, note=f"{ending.note}; {note}" if ending.note else note)

    # What the runner reports

    def on_free(self, attempt: AttemptKey) -> None:
        order = self._taken.pop(attempt)
        self._busy -= order.slots
        get_queue(order).started -= order.slots

    def on_followed(self, attempt: AttemptKey) -> None:
        order = self._find_behind(attempt).behind.pop(attempt).order
        self._taken[attempt] = order
        self._busy += 1
        get_queue(order).started += 1

    def on_returned(self, order: Order) -> None:
        """A function task cannot begin where it waited: it goes to the front of the queue."""
        attempt, queue = order.attempt, get_queue(order)
        queue.behind.pop(attempt, None)
        if attempt in self._taken:
            self.on_free(attempt)
        queue.add(order)
        queue.waiting.move_to_end(attempt, last=False)
        self._request_start()

    def _find_behind(self, attempt: AttemptKey) -> ShardQueue:
        return next(queue for queue in self.queues if attempt in queue.behind)

    # Tasks with a time

    def _hold(self, order: Order, at: Shared) -> None:
        """Keep a task's slots until its time. If that has passed, start it now: a job is better late than never."""
        attempt = order.attempt
        self._clock.update()
        if not self._clock.is_known:
            self._return_held(attempt)
            return
        if self._clock.seconds_since(at) >= 0:
            self._start_held(order, at)
            return
        act = partial(self._start_held, order, at)
        self._held[attempt] = self._clock.call_at(at, act, lambda _why: self._on_time_lost(attempt))
        if order.python is not None and not order.python.fresh:
            with suppress(NotStartedError):  # then starting the task fails too, at its time
                self._runner.pool.warm(len(self._taken))

    def _start_held(self, order: Order, at: Shared) -> None:
        self._held.pop(order.attempt, None)
        self._runner.start(order)
        late = self._clock.seconds_since(at)
        if late > NOTED_LATENESS:
            self.late[order.attempt] = late

    def _on_time_lost(self, attempt: AttemptKey) -> None:
        """The clock is lost: give the task back, since another worker may know the shared time."""
        del self._held[attempt]
        self._return_held(attempt)
        self._request_start()

    def _return_held(self, attempt: AttemptKey) -> None:
        self.on_free(attempt)
        self._report(attempt, Ending(cause=Cause.RETURNED))

    # Function tasks behind others

    def _put_behind(self, queue: ShardQueue) -> None:
        """Let tasks wait in busy slots, so that a slot process need not wait for us between two tasks."""
        while queue.waiting:
            attempt, order = next(iter(queue.waiting.items()))
            if order.slots != 1 or order.at is not None or (task := self._runner.put_behind(order)) is None:
                return
            queue.remove(attempt)
            queue.behind[attempt] = task

    def _take_back(self, queue: ShardQueue) -> bool:
        """Take back a task that waits in a busy slot, for a free one. False: it is about to begin where it is."""
        attempt, task = next(iter(queue.behind.items()))
        if self._runner.pool.begins_soon(task):
            if self._looking is None:
                self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_again)
            return False
        self._runner.pool.take_back(task)
        assert attempt not in queue.behind, f"{attempt} neither waits nor runs"
        return True

    def _look_again(self) -> None:
        self._looking = None
        self._request_start()


def get_queue(order: Order) -> ShardQueue:
    """The queue of an order that is a task of a job."""
    queue = order.queue
    assert isinstance(queue, ShardQueue), "calls have no part in this"
    return queue
