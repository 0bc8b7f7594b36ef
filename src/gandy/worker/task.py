"""One running attempt, be it a command or a call. A record; others act."""

import asyncio
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
    is_silent = False  # it wrote nothing, and its sheets are with the next task already
    started: float | None = None
    ended: float | None = None
    cause: Cause | None = None  # once somebody, or the task itself, has decided it
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

    def cancel_timeout(self) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
            self.timeout = None
