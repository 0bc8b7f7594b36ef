"""Reduces the slots of a worker that is short of something until the shortage is over, and logs it."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gandy.clocks import read_monotonic
from gandy.worker.slot_limit import SlotLimit
from gandy.worker.task_scheduler import TaskScheduler

log = logging.getLogger("gandy.worker")

DISK_PERIOD: Final = 1.0  # seconds between two checks of the room on the disk: filling the reserve takes longer


class Throttle:
    """One per worker, on the current loop. `on_change` is called when `slots` or `problem` has changed."""

    def __init__(self, slots: int, folder: Path, scheduler: TaskScheduler, on_change: Callable[[bool], None]) -> None:
        """`on_change` gets True if the worker uses fewer slots than before."""
        self.slots = slots
        self.problem = ""
        self._folder = folder
        self._scheduler = scheduler
        self._on_change = on_change
        self._limit = SlotLimit(slots)
        self._recovering: asyncio.TimerHandle | None = None

    def on_shortage(self, problem: str) -> None:
        """Something failed because the worker is short of this."""
        self._limit.on_shortage(problem, self._scheduler.busy, read_monotonic())
        self._apply()
        if self._recovering is None:
            self._wait_to_recover()

    def look_at_disk(self) -> None:
        """Start nothing while the disk of the output is nearly full."""
        with suppress(OSError):  # the folder was removed; the next task makes it again
            status = os.statvfs(self._folder)
            self._limit.on_disk(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)
        self._apply()

    def close(self) -> None:
        if self._recovering is not None:
            self._recovering.cancel()

    def _wait_to_recover(self) -> None:
        self._recovering = None
        if self._limit.next_look is not None:
            pause = max(0.0, self._limit.next_look - read_monotonic())
            self._recovering = asyncio.get_running_loop().call_later(pause, self._recover)

    def _recover(self) -> None:
        self._limit.on_time(read_monotonic())
        self._apply()
        self._wait_to_recover()

    def _apply(self) -> None:
        slots, problem = self._limit.slots, self._limit.problem
        if (slots, problem) == (self.slots, self.problem):
            return
        if problem and not self.problem:
            log.warning("this worker is short of %s; until that is over it takes fewer tasks", problem)
        elif self.problem and not problem:
            log.info("this worker is no longer short of %s", self.problem)
        uses_less = slots < self.slots
        self.slots, self.problem = slots, problem
        self._scheduler.allowed = slots
        self._on_change(uses_less)
