"""Runs tasks, shell lines and Python calls, and says how each one ended. Counts no slots and knows no foreman.

A command ends when its first process ends; what is left of its process group is killed then, and only when nothing of
the group lives is the ending told. A call ends when its function does; its slot process usually stays for the next.
"""

import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.errors import GandyError
from gandy.keys.files import make_private_folder
from gandy.worker.families import Families
from gandy.worker.frames import RAISED, REFUSED, SHORT, Answer
from gandy.worker.groups import list_members, read_memory
from gandy.worker.logs import open_log
from gandy.worker.oom import OomCounter
from gandy.worker.order import Order
from gandy.worker.output import NOTHING, Outputs, Piece, Stream, add_output
from gandy.worker.pool import SlotPool
from gandy.worker.recovery import claim_folder, recover
from gandy.worker.shortage import find_shortage
from gandy.worker.slot_process import SlotProcess
from gandy.worker.spawn import NotStartedError, ShortageError, Spawner
from gandy.worker.table import GroupTable, Row
from gandy.worker.task import Task
from gandy.worker.watchdog import Watchdog

GRACE: Final = 5.0  # seconds between SIGTERM and SIGKILL, for a task to tidy up
KILLED_EXIT_CODE: Final = 128 + signal.SIGKILL  # how a shell says that its child was killed

KILL_SECONDS: Final = 1.0  # for everything that was killed to be dead, when there is no time to wait for more

SWEEP_PERIOD: Final = 1.0  # seconds between two looks for what tasks left behind

MEMORY_PERIOD: Final = 0.25  # seconds between two looks at the memory of tasks that have a limit


class Runner:
    """Runs orders on the current loop and calls `on_end` once for each, never from within `start`.

    Whoever wants to hear of several commands at once, which costs less, gives `on_over` and calls `keep_books` later.

    Raises: GandyError where another worker uses the folder.
    """

    def __init__(
        self,
        folder: Path,
        on_end: Callable[[AttemptKey, Ending], None],
        grace: float = GRACE,
        on_free: Callable[[Order], None] = lambda _order: None,
        on_followed: Callable[[AttemptKey], None] = lambda _attempt: None,
        on_returned: Callable[[Order], None] | None = None,
        on_over: Callable[[AttemptKey], None] | None = None,
        preload: tuple[str, ...] = (),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        make_private_folder(folder)
        self._lock = claim_folder(folder)
        try:
            self.left = recover(folder)  # by dead workers, for the foreman
        except OSError as error:
            os.close(self._lock)
            raise GandyError(f"cannot tidy up after the last worker in {folder}: {error.strerror}") from error
        self.outputs = Outputs(folder)
        self._on_end = on_end
        self._on_free = on_free
        self._on_followed = on_followed
        self._on_returned = on_returned or self._start_again
        self._on_over = on_over or self._keep_books_at_once
        self._behind: dict[AttemptKey, Task] = {}  # calls that wait behind others
        self._tasks: dict[AttemptKey, Task] = {}
        self._over: deque[Task] = deque()  # commands whose endings are not told yet
        self._told: list[Task] = []  # commands whose endings are told, and perhaps not kept anywhere but in the table
        self._idle = asyncio.Event()
        self._looking: asyncio.TimerHandle | None = None  # at the memory of tasks that have a limit
        self._idle.set()
        self._is_ending = False  # at once, with everything that runs
        self._table = GroupTable(folder)
        # Before the watchdog, which must not keep descriptors open either.
        self._spawner = Spawner(self._table.mark)
        self._watchdog = Watchdog(folder, self._table.path, self._lock)
        self._families = Families(self._table, grace)
        self._pool = SlotPool(self, self._families, self._spawner, self.outputs, preload)
        self._oom = OomCounter()
        self._sweeping: asyncio.TimerHandle | None = None  # for what left the group of a task that was a success
        self._sweep()

    @property
    def running(self) -> tuple[AttemptKey, ...]:
        """In the order they were started."""
        return tuple(self._tasks)

    @property
    def slot_pids(self) -> list[int]:
        """The processes for Python calls."""
        return self._pool.pids

    def is_running(self, attempt: AttemptKey) -> bool:
        return attempt in self._tasks

    def warm(self, count: int) -> None:
        """Have so many processes for Python calls ready or starting. Raises: NotStartedError."""
        self._pool.warm(count)

    def start(self, order: Order) -> None:
        """Run it now. What cannot be started ends at once: with RETURNED where the worker is short of something, else
        with NOT_STARTED."""
        if order.attempt in self._tasks:
            raise ValueError(f"{order.attempt} runs already")
        task = Task(order, self._oom.read_recent())
        try:
            self._begin(task)
        except NotStartedError as error:
            cause = Cause.RETURNED if isinstance(error, ShortageError) else Cause.NOT_STARTED
            ending = Ending(cause=cause, ended=time.time(), note=str(error))
            self._loop.call_soon(self._end_unstarted, order, ending)
            return
        if not self._tasks:
            self._idle.clear()
        self._tasks[order.attempt] = task
        if order.memory is not None and self._looking is None:
            self._looking = self._loop.call_later(MEMORY_PERIOD, self._look_at_memory)

    def _begin(self, task: Task) -> None:
        """Raises: NotStartedError, ShortageError."""
        try:
            self._try_to_begin(task)
        except NotStartedError:
            if not self._restore_folder():
                raise
            self._try_to_begin(task)
        except MemoryError as error:
            raise ShortageError(find_shortage(error)) from error

    def _try_to_begin(self, task: Task) -> None:
        if task.order.python is not None:
            self._pool.run(task, task.order.python)
        else:
            self._launch(task)

    def _restore_folder(self) -> bool:
        """Whether the folder of running tasks was gone, and is there again."""
        try:
            return self.outputs.restore_folder()
        except OSError:
            return False

    def put_behind(self, order: Order) -> bool:
        """Let a call wait behind one that runs, and begin when that ends. False: there is no place for it.

        `on_followed` is called when it begins, `on_returned` when it cannot begin there: never from within this.
        """
        if order.python is None or order.attempt in self._tasks:
            return False
        task = Task(order, self._oom.read_recent())
        if not self._pool.put_behind(task, order.python):
            return False
        self._behind[order.attempt] = task
        return True

    def begins_soon(self, attempt: AttemptKey) -> bool:
        """Whether a call that waits behind others may as well stay there for a moment."""
        return self._pool.begins_soon(self._behind[attempt])

    def take_back(self, attempt: AttemptKey) -> None:
        """Have back a call that waits behind another one: `on_returned` is called, unless it has just begun."""
        self._pool.take_back(self._behind[attempt])

    def _look_at_memory(self) -> None:
        """Kill what uses more memory than it may. One timer for all, and none while nobody has a limit."""
        self._looking = None
        limited = [task for task in self._tasks.values() if task.order.memory is not None and task.cause is None]
        if not limited:
            return
        members = list_members()
        for task in limited:
            used = sum(map(read_memory, members.get(task.family.group, ())))
            limit = task.order.memory or 0
            if used > limit:
                note = f"{used:,} bytes, and {limit:,} is its limit"
                self.kill(task.order.attempt, Cause.MEMORY, note, immediate=True)
        self._looking = self._loop.call_later(MEMORY_PERIOD, self._look_at_memory)

    def _sweep(self) -> None:
        """End what tasks that are over left behind. Only where that takes no time."""
        if self._families.strays.is_quick:
            # What waits behind another call may have begun, and we have not heard of it yet.
            self._families.strays.sweep((*self._tasks, *self._behind))
            self._sweeping = self._loop.call_later(SWEEP_PERIOD, self._sweep)

    def _end_unstarted(self, order: Order, ending: Ending) -> None:
        self._on_free(order)
        self._on_end(order.attempt, ending)

    def kill(self, attempt: AttemptKey, cause: Cause, note: str = "", *, immediate: bool = False) -> bool:
        """End the whole group: SIGTERM, and SIGKILL after the grace period or immediately. False: it does not run.

        The first cause stands.
        """
        task = self._tasks.get(attempt)
        if task is not None and task.order.python is not None:
            self._pool.clear_behind(task)
            task = self._tasks.get(attempt)  # it may have ended long ago
        if task is None:
            return False
        is_first = task.cause is None
        if is_first:
            task.cause, task.note = cause, note
        if immediate:
            task.family.kill_now()
        elif is_first:
            task.family.ask_to_end()
        return True

    def kill_all(self, cause: Cause, note: str = "", *, immediate: bool = False) -> None:
        for attempt in self.running:
            self.kill(attempt, cause, note, immediate=immediate)

    def read(self, attempt: AttemptKey, stream: Stream, offset: int, limit: int, identity: int = 0) -> Piece:
        """Output of a running or an ended attempt, for a reader that follows it. Raises: OSError."""
        # Asked before the reading: what a task writes last must not be missed.
        task = self._tasks.get(attempt)
        if task is not None and task.order.identity == identity:
            data = self.outputs.read(task.sheets.err if stream == "err" else task.sheets.out, offset, limit)
            return Piece(data or b"", is_last=False)
        self.keep_books()
        data = self.outputs.read_kept(attempt, stream, offset, limit, identity)
        return Piece(data or b"", is_last=data is None or len(data) < limit, is_absent=data is None)

    def end_now(self) -> None:
        """Kill everything and wait, the loop standing still. What ended by itself before that is told as ever.

        What is killed is lost with the worker: no ending of it is told, and the foreman may suspect it.
        """
        self._is_ending = True
        self._hear()
        self._families.kill_now()
        deadline = time.monotonic() + KILL_SECONDS
        while self._tasks and time.monotonic() < deadline:
            time.sleep(0.001)
            self._hear()

    def _hear(self) -> None:
        """Hear of everything that has ended by now."""
        self._pool.hear_all()
        self._families.look()

    def keep_books(self) -> None:
        """Tell the endings of all commands that are over."""
        try:
            while self._over:
                task = self._over.popleft()
                self._told.append(task)
                self._on_end(task.attempt, self._make_ending(task))
        finally:
            if self._over:  # one of them could not be told; the others must be
                self._loop.call_soon(self.keep_books)

    def forget_told(self) -> None:
        """The endings that were told are safe elsewhere."""
        for task in self._told:
            self._table.remove(task.family.row)
        self._told.clear()
        self._table.tidy()

    async def wait_idle(self) -> None:
        """Return once nothing runs."""
        while self._tasks:  # `on_end` may have started the next one
            await self._idle.wait()

    def close(self) -> None:
        """Give everything back. What still runs is killed, and its ending is not told."""
        for timer in (self._looking, self._sweeping):
            if timer is not None:
                timer.cancel()
        for task in self._tasks.values():
            task.cancel_timeout()
        self._families.kill_all()
        self._pool.close()
        self._watchdog.close()
        self._families.close()
        self._tasks.clear()
        self._behind.clear()
        self._over.clear()
        self._idle.set()
        self._spawner.close()
        self._oom.close()
        self._table.close()
        os.close(self._lock)

    # Commands

    def _launch(self, task: Task) -> None:
        self._families.prepare()
        order = task.order
        sheets = open_log(order.log_folder, order.job_name, order.attempt.task) if order.log_folder else None
        task.is_silent = sheets is not None  # for us there is nothing to keep
        sheets = sheets or self.outputs.take()
        task.note_begin()
        try:
            group = self._spawner.spawn(task.order, sheets)
            on_exit, on_gone = partial(self._on_exit, task), partial(self.on_gone, task)
            task.family = self._families.adopt(group, on_exit, on_gone, task.attempt)
            task.family.keeps_row = True  # until its ending is safe elsewhere: `forget_told`
        except NotStartedError:
            self.outputs.drop(sheets)
            raise
        task.sheets = sheets
        self._limit_time(task)

    def _on_exit(self, task: Task) -> None:
        self._note_exit(task)
        task.peak_memory_bytes = task.family.peak_memory_bytes
        if task.cause is None:
            self._decide_cause(task)
        if not task.is_lost:
            self._note_ending(task)

    def _note_ending(self, task: Task) -> None:
        """Before anything else: should the worker be killed now, the ending counts."""
        with suppress(OSError):  # a full disk
            row = Row(0, task.attempt, task.sheets.stem, task.order.identity, _make_ending(task))
            self._table.end(task.family.row, row)

    # Calls; the pool tells.

    def on_answer(self, task: Task, answer: Answer, is_over: bool) -> None:
        task.cancel_timeout()
        task.started, task.ended = answer.started, answer.ended
        task.note, task.result, task.peak_memory_bytes = answer.note, answer.body, answer.peak_memory_bytes
        if answer.kind == RAISED:
            task.cause = Cause.RAISED
        elif answer.kind == REFUSED:
            task.cause = Cause.RETURNED if answer.flags & SHORT else Cause.NOT_STARTED
            task.started, task.ended, task.is_silent = None, time.time(), True
            self.outputs.drop(task.sheets)
        else:
            task.cause, task.exit_code = Cause.EXIT, 0
        if is_over:
            self._finish(task)

    def on_call_exit(self, task: Task, process: SlotProcess) -> None:
        """The process ended with its task; before it, if nobody knows a cause yet."""
        if task.ended is not None:
            return
        self._note_exit(task)
        if process.measures_memory:
            task.peak_memory_bytes = task.family.peak_memory_bytes
        if task.cause is None:
            self._decide_cause(task)
            code = task.exit_code
            if task.is_lost:
                pass
            elif task.started is None:
                task.cause, task.exit_code = Cause.RETURNED if process.is_short else Cause.NOT_STARTED, None
                task.note = (
                    process.problem or task.note or f"its process ended with exit code {code} before it was ready"
                )
            elif code is not None:
                # It did not return, so not even 0 is a success.
                task.exit_code = code or None
                task.note = task.note or f"its process ended with exit code {code} before the function did"

    def _start_again(self, order: Order) -> None:
        self._loop.call_soon(self.start, order)

    # Both

    def on_begin(self, task: Task) -> None:
        task.note_begin()
        if self._behind.pop(task.attempt, None) is not None:
            self._tasks[task.attempt] = task
            self._on_followed(task.attempt)
        self._limit_time(task)

    def _limit_time(self, task: Task) -> None:
        seconds = task.order.timeout
        if seconds is not None:
            note = f"ran longer than {seconds:g} seconds"
            task.timeout = self._loop.call_later(seconds, self.kill, task.attempt, Cause.TIMEOUT, note)

    def on_returned(self, task: Task) -> None:
        if self._behind.pop(task.attempt, None) is None:
            task.cancel_timeout()
            del self._tasks[task.attempt]  # though we thought that it had begun
        self._on_returned(task.order)

    def on_gone(self, task: Task) -> None:
        if task.family.note:
            task.note = "; ".join(filter(None, (task.note, task.family.note)))
        self._finish(task)

    def _note_exit(self, task: Task) -> None:
        if task.timeout is not None:
            task.cancel_timeout()
        code = task.family.exit_code
        assert task.family.ended is not None
        task.note_end(task.family.ended)
        task.exit_code, task.signal = (code, None) if code >= 0 else (None, -code)

    def _decide_cause(self, task: Task) -> None:
        if self._is_ending and task.signal == signal.SIGKILL:
            task.cause, task.is_lost = Cause.WORKER_LOST, True
            return
        task.cause = Cause.EXIT if task.signal is None else Cause.SIGNAL
        if task.signal is not None:
            task.note = f"killed by {_name_signal(task.signal)}"
        is_killed = task.signal == signal.SIGKILL or task.exit_code == KILLED_EXIT_CODE
        if is_killed and self._oom.read() != task.oom_count:
            task.note = "killed by the kernel, which was out of memory"

    def _finish(self, task: Task) -> None:
        del self._tasks[task.attempt]
        if task.is_lost:
            return
        is_command = task.order.python is None
        if is_command:
            self._over.append(task)
        self._on_free(task.order)
        if not self._tasks:
            self._idle.set()
        if is_command:
            self._on_over(task.attempt)
        else:
            self._on_end(task.attempt, self._make_ending(task))

    def _keep_books_at_once(self, _attempt: AttemptKey) -> None:
        self.keep_books()
        self.forget_told()

    def _make_ending(self, task: Task) -> Ending:
        kept = NOTHING if task.is_silent else self.outputs.finish(task.sheets, task.attempt, task.order.identity)
        return add_output(_make_ending(task), kept)


def _make_ending(task: Task) -> Ending:
    assert task.cause is not None  # decided when its first process ended, if not before
    return Ending(
        cause=task.cause,
        exit_code=task.exit_code,
        signal=task.signal,
        started=task.started,
        ended=task.ended,
        peak_memory_bytes=task.peak_memory_bytes,
        note=task.note,
        result=task.result,
    )


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"
