"""Process groups, each from the start of its first process until all of it is dead. Knows attempts only by number.

When the first process of a group ends, the rest of the group is killed. Processes that left the group are killed too:
at once unless the first process was a success, else at the next sweep. None outlives `close`, nor the worker for long.
"""

import asyncio
import os
import resource
import signal
from collections.abc import Callable, Iterable
from typing import Final

from gandy.clocks import read_monotonic
from gandy.core.model import AttemptKey
from gandy.moments import NEVER, Monotonic
from gandy.worker.proc import ask_to_end, is_dead, is_gone, reap_orphans, signal_group
from gandy.worker.reaper import Reaper
from gandy.worker.spawn import make_start_error
from gandy.worker.strays import Strays
from gandy.worker.table import NO_ATTEMPT, GroupTable

SETTLE_PAUSE: Final = 0.002  # seconds between looks at a dying group, which has no event; it doubles each time
LONGEST_PAUSE: Final = 0.1  # seconds; a look reads the whole process table
SETTLE_SECONDS: Final = 5.0  # a process stuck in the kernel may never die; then the slot is given back without it
SWEEP_PERIOD: Final = 1.0  # seconds between two looks for what tasks left behind


class ProcessGroups:
    """All process groups of one worker, and what they share."""

    def __init__(self, table: GroupTable, grace: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.table = table
        self.strays = Strays(table.mark)
        self.grace = grace
        self.memory = ChildMemory()
        self.living: set[ProcessGroup] = set()
        self._reaper = Reaper(self.loop)
        self._sweeping: asyncio.TimerHandle | None = None
        _stop_ignoring_children()

    def adopt(
        self, pgid: int, on_exit: Callable[[], None], on_gone: Callable[[], None], attempt: AttemptKey = NO_ATTEMPT
    ) -> "ProcessGroup":
        """Take care of a child that was just spawned; without an attempt it is a slot process.

        `on_exit` is called when it has ended, and `on_gone` when all of its group is dead, neither from within this.
        Raises: NotStartedError, ShortageError, and then it is dead.
        """
        row = None
        try:
            row = self.table.add(pgid, attempt)
            group = ProcessGroup(self, pgid, row, on_exit, on_gone, attempt)
            self._reaper.watch(pgid, group.on_exit)
        except OSError as error:
            signal_group(pgid, signal.SIGKILL)
            os.waitpid(pgid, 0)
            if row is not None:  # else another group may get the number, and be killed by the watchdog
                self.table.remove(row)
                self.table.tidy()
            raise make_start_error("cannot watch it", error) from error
        self.living.add(group)
        return group

    def prepare(self) -> None:
        """Call this before a child is spawned. Raises: NotStartedError, ShortageError: it could not be watched."""
        try:
            self._reaper.prepare()
        except OSError as error:
            raise make_start_error("cannot watch it", error) from error

    def look(self) -> None:
        """Notice now which first processes have ended."""
        self._reaper.look()

    def keep_sweeping(self, list_running: Callable[[], Iterable[AttemptKey]]) -> None:
        """Now and then kill processes that tasks left behind, but none of those that run. Only where it is cheap."""
        if self.strays.is_quick:
            self.strays.sweep(list_running())
            self._sweeping = self.loop.call_later(SWEEP_PERIOD, self.keep_sweeping, list_running)

    def kill_now(self) -> None:
        """Kill everything; `on_exit` and `on_gone` are called as ever."""
        for group in self.living:
            group.kill_now()

    def kill_all(self) -> None:
        """Kill everything for good; from now on nothing is called back."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for group in self.living:
            group.cancel_timers()
            signal_group(group.pgid, signal.SIGKILL)
        self._reaper.close()

    def close(self) -> None:
        """Call this after `kill_all`."""
        for group in self.living:
            if group.ended is None:
                os.waitpid(group.pgid, 0)
            reap_orphans(group.pgid)
        self.living.clear()
        self.strays.kill_all()


class ProcessGroup:
    """The processes of one task, or a slot process with its children."""

    ended: Monotonic | None = None  # when its first process ended
    exit_code = 0  # once it has ended; below zero: a signal
    peak_memory_bytes: int | None = None
    note = ""
    _grace: asyncio.TimerHandle | None = None  # while it has time to end by itself
    _settling: asyncio.TimerHandle | None = None  # while its first process is dead and others are not
    _give_up_at = NEVER  # until then we wait for the rest of the group to die

    def __init__(
        self,
        groups: ProcessGroups,
        pgid: int,
        row: int,
        on_exit: Callable[[], None],
        on_gone: Callable[[], None],
        attempt: AttemptKey,
    ) -> None:
        self.pgid = pgid  # also the number of its first process
        self.attempt = attempt  # that it runs for; of a slot process, the last one
        self.row = row  # of the table
        self.has_failed = False  # whatever its exit code says: of a slot process, the last task
        self.keeps_row = False  # if set, its user removes the row, and not we when the group is gone
        self._groups = groups
        self._on_exit = on_exit
        self._on_gone = on_gone

    def ask_to_end(self) -> None:
        """Send SIGTERM, and SIGKILL after the grace period."""
        ask_to_end(self.pgid)
        self._grace = self._groups.loop.call_later(self._groups.grace, self.kill_now)

    def kill_now(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        signal_group(self.pgid, signal.SIGKILL)

    def kill_strays_quickly(self) -> bool:
        """Kill what has left the group, unless it takes long to find. True while any of it lives."""
        strays = self._groups.strays
        return strays.is_quick and strays.kill(self.attempt)

    def cancel_timers(self) -> None:
        for timer in (self._grace, self._settling):
            if timer is not None:
                timer.cancel()

    def on_exit(self) -> None:
        # During the grace period the rest of the group still has time to end by itself.
        if self._grace is None:
            # Before the wait: until the first process has been waited for, no other group can get its number.
            signal_group(self.pgid, signal.SIGKILL)
        _pid, status, usage = os.wait4(self.pgid, 0)
        self.ended = read_monotonic()
        self.exit_code = os.waitstatus_to_exitcode(status)
        self.peak_memory_bytes = self._groups.memory.read_peak(usage)
        self._on_exit()
        if is_gone(self.pgid) and not self._has_strays():
            self._finish()
        else:
            self._give_up_at = read_monotonic() + self._groups.grace + SETTLE_SECONDS
            self._settle()

    def _settle(self, pause: float = SETTLE_PAUSE) -> None:
        if is_dead(self.pgid) and not self._has_strays():
            reap_orphans(self.pgid)
            self._finish()
        elif read_monotonic() > self._give_up_at:
            self.note = "some of its processes do not die"
            self._groups.strays.forget(self.attempt)
            self._finish()
        else:
            self._settling = self._groups.loop.call_later(pause, self._settle, min(2 * pause, LONGEST_PAUSE))

    def _has_strays(self) -> bool:
        """Kill what has left the group, if the attempt may be tried again: the next one must not run beside it."""
        may_be_tried_again = self.exit_code != 0 or self._grace is not None or self.has_failed
        return may_be_tried_again and self._groups.strays.kill(self.attempt)

    def _finish(self) -> None:
        if self._grace is not None:  # no other timer can be pending: this is the end of settling
            self._grace.cancel()
        groups = self._groups
        if not self.keeps_row:
            groups.table.remove(self.row)
        groups.living.discard(self)
        self._on_gone()  # usually the next one starts here, and writes over the row that was removed
        groups.table.tidy()


def _stop_ignoring_children() -> None:
    # With SIGCHLD ignored, as a careless parent may leave it, the kernel drops exit codes.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


class ChildMemory:
    """How much memory children used, where that can be known.

    Linux begins a child's count at what its parent had when it spawned it, so below that nothing is known.
    """

    def __init__(self) -> None:
        self._own_kib = 0  # our own peak when we last looked; it only grows

    def read_peak(self, usage: resource.struct_rusage) -> int | None:
        if usage.ru_maxrss <= self._own_kib:
            return None
        self._own_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return usage.ru_maxrss * 1024 if usage.ru_maxrss > self._own_kib else None
