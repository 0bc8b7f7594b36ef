"""Runs shell tasks and function tasks, and reports how each ended. Counts no slots.

A shell task ends when its first process ends; what is left of its process group is killed then, and the ending is
reported when all of the group is dead. A function task ends when its function does; its slot process usually stays for
the next.
"""

import time
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from gandy.clocks import read_monotonic, read_wall
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.worker.endings import Endings, read_answer
from gandy.worker.finished_tasks import FinishedTasks
from gandy.worker.frames import REFUSED, Answer
from gandy.worker.memory_limits import MemoryLimits
from gandy.worker.order import Order
from gandy.worker.output import OutputPiece, Stream
from gandy.worker.pool import SlotPool
from gandy.worker.process_groups import ProcessGroups
from gandy.worker.running_task import RunningTask
from gandy.worker.running_tasks import RunningTasks
from gandy.worker.shell_tasks import ShellTasks
from gandy.worker.shortage import find_shortage
from gandy.worker.slot_process import SlotProcess
from gandy.worker.spawn import NotStartedError, ShortageError, Spawner
from gandy.worker.worker_folder import WorkerFolder

GRACE: Final = 5.0  # seconds between SIGTERM and SIGKILL, for a task to tidy up
KILL_SECONDS: Final = 1.0  # for killed processes to die when the worker itself dies; it cannot wait longer


class Runner:
    """Runs orders on the current loop and calls `on_end` once for each, never from within `start`.

    A caller that wants the endings of several shell tasks together, which costs less, passes `on_over` and calls
    `finished.report` later.
    """

    def __init__(
        self,
        folder: WorkerFolder,
        on_end: Callable[[AttemptKey, Ending], None],
        grace: float = GRACE,
        on_free: Callable[[Order], None] = lambda _order: None,
        on_followed: Callable[[AttemptKey], None] = lambda _attempt: None,
        on_returned: Callable[[Order], None] | None = None,
        on_over: Callable[[AttemptKey], None] | None = None,
        preload: tuple[str, ...] = (),
    ) -> None:
        """`on_free`: a task's slot is free. `on_over`: a shell task has ended, and its ending can be reported."""
        self.folder = folder
        self.finished = FinishedTasks(self.folder.outputs, self.folder.table, on_end)
        self._on_end = on_end
        self._on_free = on_free
        self._on_followed = on_followed
        self._on_returned = on_returned or self._start_again
        self._on_over = on_over or self._report_at_once
        self.running = RunningTasks()
        self._spawner = Spawner(folder.table.mark)  # marks descriptors as close-on-exec, so before the watchdog starts
        folder.start_watchdog()
        self._groups = ProcessGroups(folder.table, grace)
        self._endings = Endings()
        self._shell = ShellTasks(folder, self._groups, self._spawner, self._endings, self.on_gone)
        self.pool = SlotPool(self, self._groups, self._spawner, folder.outputs, preload)
        self._memory = MemoryLimits(self.kill, self._groups.strays)
        # A task behind another one may have begun without our knowledge.
        self._groups.keep_sweeping(lambda: (*self.running, *self.pool.behind))

    def start(self, order: Order) -> None:
        """Run an order now. If it cannot be started, it ends with RETURNED (the worker is short of something) or
        NOT_STARTED."""
        if order.attempt in self.running:
            raise ValueError(f"{order.attempt} runs already")
        task = RunningTask(order, self._endings.oom.read_recent())
        try:
            self._begin(task)
        except NotStartedError as error:
            cause = Cause.RETURNED if isinstance(error, ShortageError) else Cause.NOT_STARTED
            ending = Ending(cause=cause, ended=read_wall(), note=str(error))
            self._groups.loop.call_soon(self._end_unstarted, order, ending)
            return
        self.running.add(task)
        if order.python is None and order.timeout is not None:
            self._limit_time(task, order.timeout)
        if order.memory is not None:
            self._memory.watch(task)

    def _begin(self, task: RunningTask) -> None:
        """Raises: NotStartedError, ShortageError."""
        begin = self._shell.begin if task.order.python is None else self.pool.run
        try:
            begin(task)
        except NotStartedError:
            if not self.folder.outputs.restore_folder():
                raise
            begin(task)
        except MemoryError as error:
            raise ShortageError(find_shortage(error)) from error

    def put_behind(self, order: Order) -> RunningTask | None:
        """Let a function task wait behind one that runs, and begin when that ends. None: there is no place for it.

        `on_followed` is called when it begins, `on_returned` if it cannot begin there; never from within this method.
        """
        if order.python is None or order.attempt in self.running:
            return None
        task = RunningTask(order, self._endings.oom.read_recent())
        return task if self.pool.put_behind(task) else None

    def _end_unstarted(self, order: Order, ending: Ending) -> None:
        self._on_free(order)
        self._on_end(order.attempt, ending)

    def kill(self, attempt: AttemptKey, cause: Cause, note: str = "", *, immediate: bool = False) -> bool:
        """End the task's group: SIGTERM, and SIGKILL after the grace period or immediately. False: it does not run.

        If it is killed several times, the first cause is reported.
        """
        task = self.running.get(attempt)
        if task is not None and task.order.python is not None:
            # Killing its process must not kill the tasks that wait behind it.
            self.pool.clear_behind(task)
            task = self.running.get(attempt)  # its answer may have been read just now
        if task is None:
            return False
        is_first = task.cause is None
        if is_first:
            task.cause, task.note = cause, note
        if immediate:
            task.group.kill_now()
        elif is_first:
            task.group.ask_to_end()
        return True

    def kill_all(self, cause: Cause, note: str = "", *, immediate: bool = False) -> None:
        for attempt in list(self.running):
            self.kill(attempt, cause, note, immediate=immediate)

    def read(self, attempt: AttemptKey, stream: Stream, offset: int, limit: int, identity: int = 0) -> OutputPiece:
        """Read output of a running or finished attempt. Raises: OSError."""
        # Check that it runs before reading: otherwise a reader would miss what a task writes last.
        task = self.running.get(attempt)
        if task is not None and task.order.identity == identity:
            data = self.folder.outputs.read(task.files.err if stream == "err" else task.files.out, offset, limit)
            return OutputPiece(data or b"", is_last=False)
        self.finished.report()  # this moves its output to where it is kept
        data = self.folder.outputs.read_kept(attempt, stream, offset, limit, identity)
        return OutputPiece(data or b"", is_last=data is None or len(data) < limit, is_absent=data is None)

    def end_now(self) -> None:
        """Kill everything and wait, blocking the loop. What ended by itself before that is reported as usual.

        Killed tasks are lost with the worker: their endings are not reported, and the foreman finds out by itself.
        """
        self._endings.is_dying = True
        self.pool.drain_all()
        self._groups.look()
        self._groups.kill_now()
        deadline = read_monotonic() + KILL_SECONDS
        while self.running and read_monotonic() < deadline:
            time.sleep(0.001)
            self.pool.drain_all()
            self._groups.look()

    def close(self) -> None:
        """Kill what still runs, without reporting it, and free all resources."""
        self._memory.close()
        for task in self.running.values():
            task.cancel_timeout()
        self._groups.kill_all()
        self.pool.close()
        self.folder.watchdog.close()
        self._groups.close()
        self.running.clear()
        self.finished.clear()
        self._spawner.close()
        self._endings.oom.close()
        self.folder.close()

    # Function tasks, as the pool reports them

    def on_answer(self, task: RunningTask, answer: Answer, is_over: bool) -> None:
        task.cancel_timeout()
        if answer.kind == REFUSED:
            task.is_silent = True
            self.folder.outputs.drop(task.files)
        task.ending = read_answer(answer)
        task.cause = task.ending.cause
        if is_over:
            self.on_gone(task)

    def on_slot_exit(self, task: RunningTask, process: SlotProcess) -> None:
        if task.ending is not None:  # the process had answered
            return
        task.cancel_timeout()
        ending = self._endings.find_slot_exit(task, process)
        if ending is None:
            task.cause = Cause.WORKER_LOST
        else:
            task.ending, task.cause = ending, ending.cause

    def on_returned(self, task: RunningTask) -> None:
        if task.is_behind:
            task.is_behind = False
        else:  # we thought that it had begun
            task.cancel_timeout()
            self.running.remove(task)
        self._on_returned(task.order)

    def _start_again(self, order: Order) -> None:
        self._groups.loop.call_soon(self.start, order)

    # Both kinds

    def on_begin(self, task: RunningTask) -> None:
        task.note_begin()
        if task.is_behind:
            task.is_behind = False
            self.running.add(task)
            self._on_followed(task.attempt)
        if task.order.timeout is not None:
            self._limit_time(task, task.order.timeout)

    def _limit_time(self, task: RunningTask, seconds: float) -> None:
        note = f"ran longer than {seconds:g} seconds"
        task.timeout = self._groups.loop.call_later(seconds, self.kill, task.attempt, Cause.TIMEOUT, note)

    def on_gone(self, task: RunningTask) -> None:
        """The task is over, and so are its processes, unless its slot process stays for the next task."""
        self.running.remove(task)
        if task.ending is None:  # lost with its worker
            return
        if task.group.note:
            note = "; ".join(filter(None, (task.ending.note, task.group.note)))
            task.ending = replace(task.ending, note=note)
        if task.order.python is None:
            self.finished.add(task)
            self._on_free(task.order)
            self._on_over(task.attempt)
        else:
            self._on_free(task.order)
            self._on_end(task.attempt, self.finished.complete(task))

    def _report_at_once(self, _attempt: AttemptKey) -> None:
        self.finished.report()
        self.finished.forget_reported()
