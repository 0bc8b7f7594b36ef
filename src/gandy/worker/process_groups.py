"""Process groups, each from the start of its first process until all its processes are dead.

When the first process of a group ends, the rest of the group is killed. Processes that left the group are killed too:
at once if the first process failed, otherwise at the next sweep. None outlives `close`. Knows attempts only by number.
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

SETTLE_PAUSE: Final = 0.002  # seconds between checks of a dying group, for which there is no event; it doubles
LONGEST_PAUSE: Final = 0.1  # seconds; a check reads the whole process table
SETTLE_SECONDS: Final = 5.0  # a process stuck in the kernel may never die; then its slot is freed all the same
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
        """Watch a child that was just spawned. Without an attempt, it is a slot process.

        `on_exit` is called when the child has ended, and `on_gone` when its whole group is dead; neither from within
        this method. Raises: NotStartedError, ShortageError; the child is dead then.
        """
        row = None
        try:
            row = self.table.add(pgid, attempt)
            group = ProcessGroup(self, pgid, row, on_exit, on_gone, attempt)
            self._reaper.watch(pgid, group.on_exit)
        except OSError as error:
            signal_group(pgid, signal.SIGKILL)
            os.waitpid(pgid, 0)
            if row is not None:  # the watchdog would kill another group that gets the same number
                self.table.remove(row)
                self.table.tidy()
            raise make_start_error("cannot watch it", error) from error
        self.living.add(group)
        return group

    def prepare(self) -> None:
        """Make sure that the next child can be watched; call this before spawning. Raises: NotStartedError,
        ShortageError."""
        try:
            self._reaper.prepare()
        except OSError as error:
            raise make_start_error("cannot watch it", error) from error

    def look(self) -> None:
        """Handle the first processes that have ended by now."""
        self._reaper.look()

    def keep_sweeping(self, list_running: Callable[[], Iterable[AttemptKey]]) -> None:
        """Periodically kill processes that finished tasks left behind, if finding them is cheap."""
        if self.strays.is_quick:
            self.strays.sweep(list_running())
            self._sweeping = self.loop.call_later(SWEEP_PERIOD, self.keep_sweeping, list_running)

    def kill_now(self) -> None:
        """Kill everything; `on_exit` and `on_gone` are called as usual."""
        for group in self.living:
            group.kill_now()

    def kill_all(self) -> None:
        """Kill everything, and call nothing back any more."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for group in self.living:
            group.cancel_timers()
            signal_group(group.pgid, signal.SIGKILL)
        self._reaper.close()

    def close(self) -> None:
        """Reap what `kill_all` has killed."""
        for group in self.living:
            if group.ended is None:
                os.waitpid(group.pgid, 0)
            reap_orphans(group.pgid)
        self.living.clear()
        self.strays.kill_all()


class ProcessGroup:
    """The processes of one task, or a slot process with its children."""

    ended: Monotonic | None = None  # when its first process ended
    exit_code = 0  # of the first process, once it has ended; negative: a signal
    peak_memory_bytes: int | None = None
    note = ""
    _grace: asyncio.TimerHandle | None = None  # during the grace period, after SIGTERM
    _settling: asyncio.TimerHandle | None = None  # while the first process is dead and others are not
    _give_up_at = NEVER  # when we stop waiting for the rest of the group to die

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
        self.attempt = attempt  # that it runs; of a slot process, the last one
        self.row = row  # of the table
        self.has_failed = False  # a slot process's last task failed, whatever the exit code of the process
        self.keeps_row = False  # if set, the row stays when the group is gone, and its user removes it
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
            # Before `wait4`: until the first process is reaped, no other group can get its number.
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
        """Kill what has left the group if the task may be tried again: it must not run beside the next attempt."""
        may_be_tried_again = self.exit_code != 0 or self._grace is not None or self.has_failed
        return may_be_tried_again and self._groups.strays.kill(self.attempt)

    def _finish(self) -> None:
        if self._grace is not None:  # the other timer cannot be pending: settling ends here
            self._grace.cancel()
        groups = self._groups
        if not self.keeps_row:
            groups.table.remove(self.row)
        groups.living.discard(self)
        self._on_gone()  # usually this starts the next task, which reuses the row that was removed
        groups.table.tidy()


def _stop_ignoring_children() -> None:
    # With SIGCHLD ignored, as a careless parent may leave it, the kernel drops exit codes.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


class ChildMemory:
    """The peak memory of children, if it can be known.

    Linux starts a child's peak at what its parent used when it spawned the child, so a lower peak is not known.
    """

    def __init__(self) -> None:
        self._own_kib = 0  # our own peak when we last looked; it only grows

    def read_peak(self, usage: resource.struct_rusage) -> int | None:
        if usage.ru_maxrss <= self._own_kib:
            return None
        self._own_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return usage.ru_maxrss * 1024 if usage.ru_maxrss > self._own_kib else None
