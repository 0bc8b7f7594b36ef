"""One running attempt, be it a command or a call. A record; others act."""

import asyncio

from gandy.core.model import Cause
from gandy.worker.families import Family
from gandy.worker.order import Order
from gandy.worker.output import Sheets


class Task:
    """What is known about a running attempt so far."""

    def __init__(self, order: Order, oom_count: int | None) -> None:
        self.order = order
        self.attempt = order.attempt
        self.oom_count = oom_count  # when it started
        self.family: Family  # the processes that end with it; set when they run, as are the sheets
        self.sheets: Sheets
        self.is_silent = False  # it wrote nothing, and its sheets are with the next task already
        self.started: float | None = None
        self.ended: float | None = None
        self.cause: Cause | None = None  # once somebody, or the task itself, has decided it
        self.note = ""
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.peak_memory_bytes: int | None = None
        self.result = b""
        self.timeout: asyncio.TimerHandle | None = None

    def cancel_timeout(self) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
            self.timeout = None
