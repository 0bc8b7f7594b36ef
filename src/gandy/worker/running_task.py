"""A record of one attempt that runs on this worker, as a shell task or in a slot process. Starts and ends nothing."""

import asyncio
from typing import TYPE_CHECKING

from gandy.clocks import read_monotonic, read_wall
from gandy.core.model import Cause, Ending
from gandy.moments import Monotonic, Wall
from gandy.worker.order import Order
from gandy.worker.output import OutputFiles
from gandy.worker.process_groups import ProcessGroup

if TYPE_CHECKING:
    from gandy.worker.slot_process import SlotProcess


class RunningTask:
    """What is known about the attempt so far. Defaults are class attributes, since most tasks change few of them."""

    group: ProcessGroup  # the processes that end with it; set when they run, like `files`
    files: OutputFiles
    process: "SlotProcess"  # of a function task: where it runs, or waits
    is_behind = False  # a function task that waits in a slot process behind another one
    is_silent = False  # there is no output to keep: it printed nothing, or wrote to a log file
    started: Wall | None = None
    _began: Monotonic  # the same moment by the other clock; set with `started`
    cause: Cause | None = None  # why it ends, as soon as that is decided by a kill or by its ending
    note = ""  # of a kill: the reason
    ending: Ending | None = None  # once it has ended; never set if it was killed because its worker dies
    timeout: asyncio.TimerHandle | None = None

    def __init__(self, order: Order, oom_count: int | None) -> None:
        self.order = order
        self.attempt = order.attempt
        self.oom_count = oom_count  # when it started

    def note_begin(self) -> None:
        self.started, self._began = read_wall(), read_monotonic()

    def has_run(self, seconds: float) -> bool:
        """True if it began at least this many seconds ago."""
        return self.started is not None and read_monotonic() - self._began >= seconds

    def compute_ended(self, moment: Monotonic) -> Wall:
        """Return the wall time of this moment, computed from `started`: the wall clock may have stepped since."""
        return read_wall() if self.started is None else self.started + (moment - self._began)

    def cancel_timeout(self) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
            self.timeout = None
