"""Process groups from the start of their first process until nothing of them lives. Knows attempts only by number.

When the first process of a family ends, the rest is killed, and what left the group: at once unless it was a success,
else at the next `sweep`. Nobody outlives `close`, nor the worker for long.
"""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Final

from gandy.core.model import AttemptKey
from gandy.worker.groups import ask_to_end, is_dead, is_gone, reap_orphans, signal_group
from gandy.worker.reaper import Reaper
from gandy.worker.spawn import make_start_error
from gandy.worker.strays import Strays
from gandy.worker.table import NO_ATTEMPT, GroupTable

SETTLE_PAUSE: Final = 0.002  # seconds between looks at a dying group, which has no event; it doubles each time
LONGEST_PAUSE: Final = 0.1  # seconds; a look reads the whole process table
SETTLE_SECONDS: Final = 5.0  # a process stuck in the kernel may never die; then the slot is given back without it


class Families:
    """All process groups of one worker, and what they share."""

    def __init__(self, table: GroupTable, grace: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.table = table
        self.strays = Strays(table.mark)
        self.grace = grace
        self.memory = MemoryMeter()
        self.living: set[Family] = set()
        self._reaper = Reaper(self.loop)
        _listen_to_children()

    def adopt(
        self, group: int, on_exit: Callable[[], None], on_gone: Callable[[], None], attempt: AttemptKey = NO_ATTEMPT
    ) -> "Family":
        """Take care of a child that was just spawned; without an attempt it is a slot process.

        `on_exit` is called when it has ended, and `on_gone` when nothing of its group lives, neither from within this.
        Raises: NotStartedError, ShortageError, and then it is dead.
        """
        row = None
        try:
            row = self.table.add(group, attempt)
            family = Family(self, group, row, on_exit, on_gone, attempt)
            self._reaper.watch(group, family.on_exit)
        except OSError as error:
            signal_group(group, signal.SIGKILL)
            os.waitpid(group, 0)
            if row is not None:  # else another group may get the number, and be killed by the watchdog
                self.table.remove(row)
                self.table.tidy()
            raise make_start_error("cannot watch it", error) from error
        self.living.add(family)
        return family

    def prepare(self) -> None:
        """Before a child is spawned. Raises: NotStartedError, ShortageError: it could not be watched."""
        try:
            self._reaper.prepare()
        except OSError as error:
            raise make_start_error("cannot watch it", error) from error

    def look(self) -> None:
        """Hear of those that have ended by now."""
        self._reaper.look()

    def kill_now(self) -> None:
        """Everything; what has ended is told as ever."""
        for family in self.living:
            family.kill_now()

    def kill_all(self) -> None:
        """For good, and nothing is told any more."""
        for family in self.living:
            family.cancel_timers()
            signal_group(family.group, signal.SIGKILL)
        self._reaper.close()

    def close(self) -> None:
        """After `kill_all`."""
        for family in self.living:
            if family.ended is None:
                os.waitpid(family.group, 0)
            reap_orphans(family.group)
        self.living.clear()
        self.strays.kill_all()


class Family:
    """One process group."""

    ended: float | None = None  # its first process, in monotonic time
    exit_code = 0  # once it has ended; below zero: a signal
    peak_memory_bytes: int | None = None
    note = ""
    _grace: asyncio.TimerHandle | None = None  # while it has time to end by itself
    _settling: asyncio.TimerHandle | None = None  # while its first process is dead and others are not
    _patience = 0.0  # in the loop's time, for the rest of the group

    def __init__(
        self,
        families: Families,
        group: int,
        row: int,
        on_exit: Callable[[], None],
        on_gone: Callable[[], None],
        attempt: AttemptKey,
    ) -> None:
        self.group = group
        self.attempt = attempt  # that it runs for; of a slot process, the last one
        self.row = row  # of the table
        self.keeps_row = False  # when it is gone; then the row must be removed by who wanted that
        self._families = families
        self._on_exit = on_exit
        self._on_gone = on_gone

    def ask_to_end(self) -> None:
        """SIGTERM, and SIGKILL after the grace period."""
        ask_to_end(self.group)
        self._grace = self._families.loop.call_later(self._families.grace, self.kill_now)

    def kill_now(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        signal_group(self.group, signal.SIGKILL)

    def cancel_timers(self) -> None:
        for timer in (self._grace, self._settling):
            if timer is not None:
                timer.cancel()

    def on_exit(self) -> None:
        # Before the wait: as long as nobody waited for the first process, no other group can get its number.
        if self._grace is None:
            signal_group(self.group, signal.SIGKILL)
        _pid, status, usage = os.wait4(self.group, 0)
        self.ended = time.monotonic()
        self.exit_code = os.waitstatus_to_exitcode(status)
        self.peak_memory_bytes = self._families.memory.read(usage)
        self._on_exit()
        if is_gone(self.group) and not self._has_strays():
            self._finish()
        else:
            self._patience = self._families.loop.time() + self._families.grace + SETTLE_SECONDS
            self._settle()

    def _settle(self, pause: float = SETTLE_PAUSE) -> None:
        if is_dead(self.group) and not self._has_strays():
            reap_orphans(self.group)
            self._finish()
        elif self._families.loop.time() > self._patience:
            self.note = "some of its processes do not die"
            self._families.strays.forget(self.attempt)
            self._finish()
        else:
            self._settling = self._families.loop.call_later(pause, self._settle, min(2 * pause, LONGEST_PAUSE))

    def _has_strays(self) -> bool:
        """Kill what has left the group, if the attempt may be tried again: the next one must not run beside it."""
        may_be_tried_again = self.exit_code != 0 or self._grace is not None
        return may_be_tried_again and self._families.strays.kill(self.attempt)

    def _finish(self) -> None:
        if self._grace is not None:  # nothing else can still be pending: this is the end of settling
            self._grace.cancel()
        families = self._families
        if not self.keeps_row:
            families.table.remove(self.row)
        families.living.discard(self)
        self._on_gone()  # usually the next one starts here
        families.table.tidy()


def _listen_to_children() -> None:
    """With SIGCHLD ignored, as a careless parent may leave it, the kernel drops exit codes."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


class MemoryMeter:
    """Tells how much memory a child used, where that can be known.

    Linux begins a child's count at what its parent had when it spawned it, so below that nothing is known.
    """

    def __init__(self) -> None:
        self._own_kib = 0  # our own peak when we last looked; it only grows

    def read(self, usage: resource.struct_rusage) -> int | None:
        if usage.ru_maxrss <= self._own_kib:
            return None
        self._own_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return usage.ru_maxrss * 1024 if usage.ru_maxrss > self._own_kib else None
