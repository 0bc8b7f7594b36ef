"""Assigns a worker's slots to tasks of jobs: which wait, and which have slots. Knows no foreman.

The oldest task goes first. Tasks with a time go before the others, and hold their slots until that time. Function tasks
may also wait in a slot behind one that runs; they are taken back when another slot is free.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.moments import Shared
from gandy.worker.call_slots import CallSlots
from gandy.worker.ensemble_clock import EnsembleClock, TimedStart
from gandy.worker.order import Order
from gandy.worker.runner import Runner
from gandy.worker.running_task import RunningTask
from gandy.worker.spawn import NotStartedError

LOOK_SECONDS: Final = 0.002  # until we check, while a slot is free, that a task that was about to begin has begun
NOTED_LATENESS: Final = 0.05  # seconds; a task that begins later than that after its time has a note in its ending


class TaskScheduler:
    """Runs on the current loop. Calls `request_start` when its user should call `start`."""

    def __init__(
        self,
        runner: Runner,
        call_slots: CallSlots,
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
        self._waiting: OrderedDict[AttemptKey, Order] = OrderedDict()
        self._taken: dict[AttemptKey, int] = {}  # slots of each task that runs or is held
        self._busy = 0  # the sum of these
        self._held: dict[AttemptKey, TimedStart] = {}  # tasks that wait for their time
        self.late: dict[AttemptKey, float] = {}  # by how many seconds tasks began late; see `add_lateness`
        self._behind: dict[AttemptKey, RunningTask] = {}  # function tasks that wait in a slot, behind another one
        self._looking: asyncio.TimerHandle | None = None  # see LOOK_SECONDS

    @property
    def ready(self) -> int:
        """How many tasks could begin as soon as there are slots."""
        return len(self._waiting) + len(self._behind)

    @property
    def busy(self) -> int:
        """The slots of tasks that run or are held."""
        return self._busy

    @property
    def waiting(self) -> list[AttemptKey]:
        """The attempts that wait for slots, except for those that wait behind another task."""
        return list(self._waiting)

    @property
    def unstarted(self) -> list[AttemptKey]:
        return [*self._waiting, *self._behind, *self._held]

    def add(self, order: Order) -> None:
        self._waiting[order.attempt] = order

    def put_timed_first(self) -> None:
        """Let tasks with a time have the next slots, the earliest first."""
        timed = [(order.at, attempt) for attempt, order in self._waiting.items() if order.at is not None]
        for _, attempt in sorted(timed, reverse=True):
            self._waiting.move_to_end(attempt, last=False)

    def start(self) -> None:
        """Start the tasks that fit, the oldest first."""
        borrowed = self._call_slots.borrowed
        limit = min(self._slots - borrowed, self.allowed)
        while self._waiting or (self._behind and self._busy < limit):
            if not self._waiting:
                if self._take_back():
                    continue
                break
            order = next(iter(self._waiting.values()))
            attempt, slots = order.attempt, order.slots
            # A task that needs more slots than there are runs alone.
            if not self.allowed or ((self._taken or borrowed) and self._busy + slots > limit):
                # Not while calls borrow slots: a task behind another one begins by itself, and takes its slot.
                if order.python is not None and not borrowed:
                    self._put_behind()
                break
            del self._waiting[attempt]
            self._taken[attempt] = slots
            self._busy += slots
            if order.at is None:
                self._runner.start(order)
            else:
                self._hold(order, order.at)
        if self._call_slots.wanted:
            self._call_slots.report_yielded(self._slots - self._busy)

    def drop(self, attempt: AttemptKey) -> bool:
        """Forget a task that has not begun. False: it has begun or ended."""
        if attempt in self._behind:
            self._runner.pool.take_back(self._behind[attempt])
        held = self._held.pop(attempt, None)
        if held is not None:
            held.cancel()
            self.on_free(attempt)
        return self._waiting.pop(attempt, None) is not None or held is not None

    def add_lateness(self, attempt: AttemptKey, ending: Ending) -> Ending:
        """Add a note to the ending of a task that is in `late`."""
        note = f"began {self.late.pop(attempt):.3f} s after its time"
        return replace(ending, note=f"{ending.note}; {note}" if ending.note else note)

    # What the runner reports

    def on_free(self, attempt: AttemptKey) -> None:
        self._busy -= self._taken.pop(attempt)

    def on_followed(self, attempt: AttemptKey) -> None:
        del self._behind[attempt]
        self._taken[attempt] = 1
        self._busy += 1

    def on_returned(self, order: Order) -> None:
        """A function task cannot begin where it waited: it goes to the front of the queue."""
        attempt = order.attempt
        self._behind.pop(attempt, None)
        self._busy -= self._taken.pop(attempt, 0)
        self._waiting[attempt] = order
        self._waiting.move_to_end(attempt, last=False)
        self._request_start()

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

    def _put_behind(self) -> None:
        """Let tasks wait in busy slots, so that a slot process need not wait for us between two tasks."""
        while self._waiting:
            attempt, order = next(iter(self._waiting.items()))
            if order.slots != 1 or order.at is not None or (task := self._runner.put_behind(order)) is None:
                return
            del self._waiting[attempt]
            self._behind[attempt] = task

    def _take_back(self) -> bool:
        """Take back a task that waits in a busy slot, for a free one. False: it is about to begin where it is."""
        attempt, task = next(iter(self._behind.items()))
        if self._runner.pool.begins_soon(task):
            if self._looking is None:
                self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_again)
            return False
        self._runner.pool.take_back(task)
        assert attempt not in self._behind, f"{attempt} neither waits nor runs"
        return True

    def _look_again(self) -> None:
        self._looking = None
        self._request_start()
