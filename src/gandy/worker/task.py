"""One running attempt, be it a command or a call. A record; others act."""

import asyncio
import time
from typing import TYPE_CHECKING

from gandy.core.model import Cause
from gandy.worker.families import Family
from gandy.worker.order import Order
from gandy.worker.output import Sheets

if TYPE_CHECKING:
    from gandy.worker.slot_process import SlotProcess


class Task:
    """What is known about a running attempt so far."""

    family: Family  # the processes that end with it; set when they run, as are the sheets
    sheets: Sheets
    process: "SlotProcess"  # of a call: where it runs, or waits
    is_silent = False  # it wrote nothing, and its sheets are with the next task already; or it has a log of its own
    started: float | None = None  # the time of day
    ended: float | None = None  # as long after `started` as it took, whatever the wall clock did meanwhile
    _began = 0.0  # in monotonic time
    cause: Cause | None = None  # once somebody, or the task itself, has decided it
    is_lost = False  # killed because its worker dies: there is no ending to tell
    note = ""
    exit_code: int | None = None
    signal: int | None = None
    peak_memory_bytes: int | None = None
    result = b""
    timeout: asyncio.TimerHandle | None = None

    def __init__(self, order: Order, oom_count: int | None) -> None:
        self.order = order
        self.attempt = order.attempt
        self.oom_count = oom_count  # when it started

    def note_begin(self) -> None:
        self.started, self._began = time.time(), time.monotonic()

    def note_end(self, moment: float) -> None:
        """At a moment of monotonic time. Of a task that never began, the time of day will do."""
        self.ended = time.time() if self.started is None else self.started + moment - self._began

    def cancel_timeout(self) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
            self.timeout = None
