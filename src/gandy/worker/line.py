"""The tasks of jobs on a worker until they end: which wait for slots, and which have some. Knows no foreman.

The oldest goes first. Those with a time go before the others, and hold their slots until then. Calls may also wait in a
slot, behind one that runs, and come back when another slot is free.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec.structs import replace

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.worker.appointments import Appointment
from gandy.worker.order import Order
from gandy.worker.runner import Runner
from gandy.worker.serving import Serving
from gandy.worker.spawn import NotStartedError

LOOK_SECONDS: Final = 0.002  # until we look whether a call has begun that seemed about to, while a slot is free
WORTH_TELLING: Final = 0.05  # seconds after its time that a task began, from which on its ending says so


class Line:
    """On the current loop. Whoever has it calls `start` when asked for it by `ask_for_start`."""

    def __init__(
        self,
        runner: Runner,
        serving: Serving,
        slots: int,
        report: Callable[[AttemptKey, Ending], None],
        ask_for_start: Callable[[], None],
    ) -> None:
        """`serving` borrows some of the slots; `report` hears how those ended that did not begin."""
        self._runner = runner
        self._serving = serving
        self._slots = slots
        self.allowed = slots  # that tasks may have now: fewer while the worker is short of something
        self._report = report
        self._ask_for_start = ask_for_start
        self._waiting: OrderedDict[AttemptKey, tuple[Order, int]] = OrderedDict()  # for slots, so many each
        self._taken: dict[AttemptKey, int] = {}  # slots of what runs or is held
        self._busy = 0  # slots, all of these
        self._held: dict[AttemptKey, Appointment] = {}  # until their time
        self._late: dict[AttemptKey, float] = {}  # seconds after their time that some began
        self._behind: dict[AttemptKey, Order] = {}  # calls that wait in a slot, behind another one
        self._looking: asyncio.TimerHandle | None = None  # whether calls have begun that seemed about to

    @property
    def ready(self) -> int:
        """How many could begin as soon as there are slots."""
        return len(self._waiting) + len(self._behind)

    @property
    def busy(self) -> int:
        """Slots of what runs or is held."""
        return self._busy

    @property
    def waiting(self) -> list[AttemptKey]:
        """What waits for slots of its own."""
        return list(self._waiting)

    @property
    def unstarted(self) -> list[AttemptKey]:
        return [*self._waiting, *self._behind, *self._held]

    def add(self, order: Order, slots: int) -> None:
        self._waiting[order.attempt] = (order, slots)

    def put_timed_first(self) -> None:
        """What has a time gets the next slots, the earliest first."""
        timed = [(order.at, attempt) for attempt, (order, _) in self._waiting.items() if order.at is not None]
        for _, attempt in sorted(timed, reverse=True):
            self._waiting.move_to_end(attempt, last=False)

    def start(self) -> None:
        """Start what fits, the oldest first."""
        borrowed = self._serving.borrowed
        limit = min(self._slots - borrowed, self.allowed)
        while self._waiting or (self._behind and self._busy < limit):
            if not self._waiting:
                if self._have_back():
                    continue
                break
            attempt, (order, slots) = next(iter(self._waiting.items()))
            if not self.allowed or ((self._taken or borrowed) and self._busy + slots > limit):
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
        if self._serving.wanted:
            self._serving.tell_yielded(self._slots - self._busy)

    def drop(self, attempt: AttemptKey) -> bool:
        """Forget one that has not begun. False: it has, or has ended."""
        if attempt in self._behind:
            self._runner.take_back(attempt)
        held = self._held.pop(attempt, None)
        if held is not None:
            held.cancel()
            self.on_free(attempt)
        return self._waiting.pop(attempt, None) is not None or held is not None

    def tell_lateness(self, attempt: AttemptKey, ending: Ending) -> Ending:
        """How it ended, and how long after its time it began, if that is worth telling."""
        late = self._late.pop(attempt, None)
        if late is None:
            return ending
        note = f"began {late:.3f} s after its time"
        return replace(ending, note=f"{ending.note}; {note}" if ending.note else note)

    # What the runner tells

    def on_free(self, attempt: AttemptKey) -> None:
        self._busy -= self._taken.pop(attempt)

    def on_followed(self, attempt: AttemptKey) -> None:
        del self._behind[attempt]
        self._taken[attempt] = 1
        self._busy += 1

    def on_returned(self, order: Order) -> None:
        """A call that cannot begin where it waited is the next one to begin, when a slot is free."""
        attempt = order.attempt
        self._behind.pop(attempt, None)
        slots = self._taken.pop(attempt, 0)
        self._busy -= slots
        self._waiting[attempt] = (order, slots or 1)
        self._waiting.move_to_end(attempt, last=False)
        self._ask_for_start()

    # Those with a time

    def _hold(self, order: Order, at: float) -> None:
        """Until its time, with its slots. If that is over, it begins now: a job is better late than never."""
        attempt, appointments = order.attempt, self._serving.appointments
        self._serving.on_clock()
        if not appointments.knows_time:
            self._return_held(attempt)
            return
        if appointments.tell_late(at) >= 0:
            self._start_held(order, at)
            return
        act = partial(self._start_held, order, at)
        self._held[attempt] = appointments.make(at, act, lambda _why: self._on_time_lost(attempt))
        if order.python is not None and not order.python.fresh:
            with suppress(NotStartedError):  # then it ends with that, at its time
                self._runner.warm(len(self._taken))

    def _start_held(self, order: Order, at: float) -> None:
        self._held.pop(order.attempt, None)
        self._runner.start(order)
        late = self._serving.appointments.tell_late(at)
        if late > WORTH_TELLING:
            self._late[order.attempt] = late

    def _on_time_lost(self, attempt: AttemptKey) -> None:
        """Nobody knows any more when it should begin. The foreman may."""
        del self._held[attempt]
        self._return_held(attempt)
        self._ask_for_start()

    def _return_held(self, attempt: AttemptKey) -> None:
        self.on_free(attempt)
        self._report(attempt, Ending(cause=Cause.RETURNED))

    # Those behind others

    def _put_behind(self) -> None:
        """Calls may wait in busy slots, so that those need not wait for us."""
        while self._waiting:
            attempt, (order, slots) = next(iter(self._waiting.items()))
            if slots != 1 or order.at is not None or not self._runner.put_behind(order):
                return
            del self._waiting[attempt]
            self._behind[attempt] = order

    def _have_back(self) -> bool:
        """Nothing else waits, so a free slot gets what waits in a busy one. False: it begins there before that."""
        attempt = next(iter(self._behind))
        if self._runner.begins_soon(attempt):
            if self._looking is None:
                self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_again)
            return False
        self._runner.take_back(attempt)
        assert attempt not in self._behind, f"{attempt} neither waits nor runs"
        return True

    def _look_again(self) -> None:
        self._looking = None
        self._ask_for_start()
