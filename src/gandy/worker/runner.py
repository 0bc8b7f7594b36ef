"""Runs shell tasks and says how each one ended. Counts no slots and knows no foreman.

A task ends when its first process ends; what is left of its process group is killed then, and only when nothing of
the group lives is the ending told.
"""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.worker.groups import ask_to_end, is_dead, is_gone, reap_orphans, signal_group
from gandy.worker.oom import OomCounter
from gandy.worker.order import Order
from gandy.worker.output import Outputs, Piece, Sheets, Stream, output_path
from gandy.worker.reaper import Reaper
from gandy.worker.spawn import NotStartedError, Spawner
from gandy.worker.table import GroupTable
from gandy.worker.watchdog import Watchdog

GRACE: Final = 5.0  # seconds between SIGTERM and SIGKILL, for a task to tidy up
SETTLE_PAUSE: Final = 0.002  # seconds between looks at a dying group, which has no event; it doubles each time
LONGEST_PAUSE: Final = 0.1  # seconds; a look reads the whole process table
SETTLE_SECONDS: Final = 5.0  # a process stuck in the kernel may never die; then the slot is given back without it
KILLED_EXIT_CODE: Final = 128 + signal.SIGKILL  # how a shell says that its child was killed


class _Task:
    """One running attempt."""

    def __init__(
        self, attempt: AttemptKey, sheets: Sheets, group: int, row: int, started: float, oom_count: int | None
    ) -> None:
        self.attempt = attempt
        self.sheets = sheets
        self.group = group
        self.row = row
        self.started = started
        self.oom_count = oom_count
        self.cause: Cause | None = None  # once somebody, or the task itself, has decided it
        self.note = ""
        self.timeout: asyncio.TimerHandle | None = None
        self.grace: asyncio.TimerHandle | None = None  # while it has time to end by itself
        self.settling: asyncio.TimerHandle | None = None  # while its first process is dead and others are not
        self.ended: float | None = None
        self.exit_code = 0  # below zero: a signal
        self.peak_memory_bytes: int | None = None
        self.patience = 0.0  # in the loop's time, for the rest of the group

    def cancel_timers(self) -> None:
        for timer in (self.timeout, self.grace, self.settling):
            if timer is not None:
                timer.cancel()


class Runner:
    """Runs orders on the current loop and calls `on_end` once for each, never from within `start`.

    Raises: GandyError where another worker uses the folder.
    """

    def __init__(
        self,
        folder: Path,
        on_end: Callable[[AttemptKey, Ending], None],
        grace: float = GRACE,
        on_free: Callable[[AttemptKey], None] = lambda _attempt: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.outputs = Outputs(folder)
        self._on_end = on_end
        self._on_free = on_free
        self._grace = grace
        self._tasks: dict[AttemptKey, _Task] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        _listen_to_children()
        folder.mkdir(parents=True, exist_ok=True)
        self._table = GroupTable(folder)
        self._spawner = Spawner()  # before the watchdog, which must not keep descriptors open either
        self._watchdog = Watchdog(self._table.path)
        self._reaper = Reaper(self._loop)
        self._oom = OomCounter()
        self._memory = _MemoryMeter()

    @property
    def running(self) -> tuple[AttemptKey, ...]:
        """In the order they were started."""
        return tuple(self._tasks)

    @property
    def swept(self) -> list[AttemptKey]:
        """Attempts that a killed worker had left running in this folder, and that were killed at the start."""
        return self._table.swept

    def is_running(self, attempt: AttemptKey) -> bool:
        return attempt in self._tasks

    def start(self, order: Order) -> None:
        """Run it now. What cannot be started ends at once, with NOT_STARTED."""
        if order.attempt in self._tasks:
            raise ValueError(f"{order.attempt} runs already")
        try:
            task = self._launch(order)
        except NotStartedError as error:
            ending = Ending(cause=Cause.NOT_STARTED, ended=time.time(), note=str(error))
            self._loop.call_soon(self._end_unstarted, order.attempt, ending)
            return
        self._tasks[order.attempt] = task
        self._idle.clear()
        if order.timeout is not None:
            note = f"ran longer than {order.timeout:g} seconds"
            task.timeout = self._loop.call_later(order.timeout, self.kill, order.attempt, Cause.TIMEOUT, note)

    def _end_unstarted(self, attempt: AttemptKey, ending: Ending) -> None:
        self._on_free(attempt)
        self._on_end(attempt, ending)

    def kill(self, attempt: AttemptKey, cause: Cause, note: str = "", *, immediate: bool = False) -> bool:
        """End the whole group: SIGTERM, and SIGKILL after the grace period or immediately. False: it does not run.

        The first cause stands.
        """
        task = self._tasks.get(attempt)
        if task is None:
            return False
        is_first = task.cause is None
        if is_first:
            task.cause, task.note = cause, note
        if immediate:
            self._kill_now(task)
        elif is_first:
            ask_to_end(task.group)
            task.grace = self._loop.call_later(self._grace, self._kill_now, task)
        return True

    def kill_all(self, cause: Cause, note: str = "", *, immediate: bool = False) -> None:
        for attempt in self.running:
            self.kill(attempt, cause, note, immediate=immediate)

    def read(self, attempt: AttemptKey, stream: Stream, offset: int, limit: int) -> Piece:
        """Output of a running or an ended attempt, for somebody who follows it."""
        # Asked before the reading: what a task writes last must not be missed.
        task = self._tasks.get(attempt)
        if task is None:
            path = output_path(self.outputs.folder, attempt, stream)
        else:
            path = task.sheets.out if stream == "out" else task.sheets.err
        data = self.outputs.read(path, offset, limit)
        return Piece(data, is_last=task is None and len(data) < limit)

    async def wait_idle(self) -> None:
        """Return once nothing runs."""
        while self._tasks:  # `on_end` may have started the next one
            await self._idle.wait()

    def close(self) -> None:
        """Give everything back. What still runs is killed, and its ending is not told."""
        for task in self._tasks.values():
            task.cancel_timers()
            signal_group(task.group, signal.SIGKILL)
        self._reaper.close()
        self._watchdog.close()
        for task in self._tasks.values():
            if task.ended is None:
                os.waitpid(task.group, 0)
            reap_orphans(task.group)
        self._tasks.clear()
        self._idle.set()
        self._spawner.close()
        self._oom.close()
        self._table.close()

    def _launch(self, order: Order) -> _Task:
        started, oom_count = time.time(), self._oom.read_recent()
        sheets = self.outputs.take()
        try:
            group = self._spawner.spawn(order, sheets)
            try:
                task = _Task(order.attempt, sheets, group, self._table.add(group, order.attempt), started, oom_count)
                self._reaper.watch(group, partial(self._on_exit, task))
            except OSError as error:
                signal_group(group, signal.SIGKILL)
                os.waitpid(group, 0)
                raise NotStartedError(f"cannot watch it: {error.strerror}") from error
        except NotStartedError:
            self.outputs.drop(sheets)
            raise
        return task

    def _kill_now(self, task: _Task) -> None:
        if task.grace is not None:
            task.grace.cancel()
            task.grace = None
        signal_group(task.group, signal.SIGKILL)

    def _on_exit(self, task: _Task) -> None:
        # Before the wait: as long as nobody waited for the first process, no other group can get its number.
        if task.grace is None:
            signal_group(task.group, signal.SIGKILL)
        _pid, status, usage = os.wait4(task.group, 0)
        task.ended = time.time()
        task.exit_code = os.waitstatus_to_exitcode(status)
        task.peak_memory_bytes = self._memory.read(usage)
        if task.timeout is not None:
            task.timeout.cancel()
        if task.cause is None:
            self._decide_cause(task)
        task.patience = self._loop.time() + self._grace + SETTLE_SECONDS
        self._settle(task)

    def _decide_cause(self, task: _Task) -> None:
        task.cause = Cause.EXIT if task.exit_code >= 0 else Cause.SIGNAL
        if task.cause is Cause.SIGNAL:
            task.note = f"killed by {_name_signal(-task.exit_code)}"
        if task.exit_code in (-signal.SIGKILL, KILLED_EXIT_CODE) and self._oom.read() != task.oom_count:
            task.note = "killed by the kernel, which was out of memory"

    def _settle(self, task: _Task, pause: float = SETTLE_PAUSE) -> None:
        if is_gone(task.group):
            self._finish(task)
        elif is_dead(task.group):
            reap_orphans(task.group)
            self._finish(task)
        elif self._loop.time() > task.patience:
            task.note = "; ".join(filter(None, (task.note, "some of its processes do not die")))
            self._finish(task)
        else:
            task.settling = self._loop.call_later(pause, self._settle, task, min(2 * pause, LONGEST_PAUSE))

    def _finish(self, task: _Task) -> None:
        task.cancel_timers()
        self._table.remove(task.row)
        del self._tasks[task.attempt]
        self._on_free(task.attempt)
        if not self._tasks:
            self._idle.set()
        self._on_end(task.attempt, self._make_ending(task))

    def _make_ending(self, task: _Task) -> Ending:
        assert task.cause is not None  # decided when its first process ended, if not before
        tail, problem = self.outputs.finish(task.sheets, task.attempt)
        return Ending(
            cause=task.cause,
            exit_code=task.exit_code if task.exit_code >= 0 else None,
            signal=-task.exit_code if task.exit_code < 0 else None,
            started=task.started,
            ended=task.ended,
            peak_memory_bytes=task.peak_memory_bytes,
            tail=tail,
            note="; ".join(filter(None, (task.note, problem))),
        )


def _listen_to_children() -> None:
    """With SIGCHLD ignored, as a careless parent may leave it, the kernel drops exit codes."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


class _MemoryMeter:
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


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"
