"""The pool of slot processes: chooses a process for each function task, and which tasks wait behind others.

A task gets the idle process that was used last, whose memory is warmest, or else a new one. So there are never more
processes than there were tasks at once. A few tasks may wait behind one that runs, so that the process need not wait
for the worker between short tasks; none waits long behind a long one. Decides no endings.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final, Protocol

from gandy.clocks import read_monotonic
from gandy.core.model import AttemptKey
from gandy.limits import MAX_PICKLE_BYTES
from gandy.worker.answer_polling import AnswerPolling
from gandy.worker.frames import HAS_CHILDREN, NOT_RETRIED, RAISED, SHORT, Answer
from gandy.worker.idle_processes import IdleProcesses
from gandy.worker.order import PythonOrder
from gandy.worker.output import OutputFolder
from gandy.worker.process_groups import ProcessGroups
from gandy.worker.running_task import RunningTask
from gandy.worker.slot_process import SlotProcess
from gandy.worker.spawn import NotStartedError, Spawner

log = logging.getLogger("gandy.worker")

TASKS_BEHIND: Final = 8  # tasks that may wait behind one that runs
BRISK_TASKS_BEHIND: Final = 64  # the same if tasks take next to no time, so that a process has milliseconds of work
SOON_SECONDS: Final = 0.002  # a task that has run for less than this may still turn out to be short
BEHIND_SECONDS: Final = 0.05  # for which a task may wait behind another one; then another slot gets it


class SlotPoolListener(Protocol):
    """What the pool reports about function tasks."""

    def on_begin(self, task: RunningTask) -> None: ...

    def on_returned(self, task: RunningTask) -> None:
        """The task has not begun in its process, and must begin elsewhere."""

    def on_answer(self, task: RunningTask, answer: Answer, is_over: bool) -> None:
        """The process has answered. Unless the task `is_over`, `on_slot_exit` and `on_gone` follow."""

    def on_slot_exit(self, task: RunningTask, process: SlotProcess) -> None: ...

    def on_gone(self, task: RunningTask) -> None: ...


class SlotPool:
    """All slot processes of one worker, none to begin with."""

    def __init__(
        self,
        listener: SlotPoolListener,
        groups: ProcessGroups,
        spawner: Spawner,
        outputs: OutputFolder,
        preload: tuple[str, ...],
    ) -> None:
        self._listener = listener
        self._groups = groups
        self._spawner = spawner
        self._outputs = outputs
        self._preload = preload
        self._processes: set[SlotProcess] = set()
        self.idle = IdleProcesses(groups.loop)
        self._open: dict[SlotProcess, None] = {}  # processes whose task may have another one behind it
        self._looking: asyncio.TimerHandle | None = None  # while tasks wait behind others
        self._polling = AnswerPolling(groups.loop, _has_many_short_tasks)

    @property
    def pids(self) -> list[int]:
        """The pids of processes that are starting, busy or idle."""
        return [process.group.pgid for process in self._processes if not process.is_ending]

    @property
    def behind(self) -> list[AttemptKey]:
        """The attempts that wait behind others."""
        return [task.attempt for process in self._processes for task in process.queue.following.values()]

    def warm(self, count: int) -> None:
        """Start processes until there are `count`, so that no task waits for one. Raises: NotStartedError."""
        while len(self.pids) < count:
            self._spawn()

    def run(self, task: RunningTask) -> None:
        """Run a task in an idle process or a new one. Raises: NotStartedError."""
        python = _read_python(task)
        size = max(len(python.input), len(python.shared))
        if size > MAX_PICKLE_BYTES:
            raise NotStartedError(f"cannot run: a task may have {MAX_PICKLE_BYTES:,} bytes, not {size:,}")
        code = _read_code(task)
        while (idle := self.idle.take(python.fresh, code)) is not None:
            with suppress(OSError):  # it has died, which the reaper has not noticed yet: take the next one
                self._begin(idle, task)
                return
        self.idle.retire_outdated(code)
        self._spawn().take(task)

    def put_behind(self, task: RunningTask) -> bool:
        """Let a task wait behind one that runs. False: there is no place for it."""
        python = _read_python(task)
        if python.fresh or task.order.memory is not None:
            return False
        code = _read_code(task)
        for process in self._open:
            if process.code == code and process.put_behind(task, python):
                break
        else:
            return False
        task.is_behind = True
        del self._open[process]
        if len(process.queue.following) < _max_behind(process):
            self._open[process] = None  # at the end: other processes get the next tasks first
        if self._looking is None:
            self._looking = self._groups.loop.call_later(BEHIND_SECONDS, self._look_behind)
        return True

    def begins_soon(self, task: RunningTask) -> bool:
        """True if all tasks before it are likely to be short: the last one that ended in its process was."""
        process = task.process
        return process.is_brisk and read_monotonic() - process.busy_since < SOON_SECONDS

    def take_back(self, task: RunningTask) -> None:
        """Take back everything that waits in the process of this task. What is not returned has begun."""
        self._settle(task.process)

    def clear_behind(self, task: RunningTask) -> None:
        """Take back everything behind this task. It may then turn out that the task has ended, or never began."""
        process = task.process
        if process.task is task:
            self._open.pop(process, None)
            self._settle(process)

    def _settle(self, process: SlotProcess) -> None:
        """Find out what the process runs, if anything, and return everything else."""
        was_busy = process.task is not None
        self._return(process.take_back())
        # What is left now has begun: the process has taken it out of its box.
        if process.queue.following and process.task is None:
            self._follow(process)
        elif was_busy and process.task is None:
            self._rest(process)
        process.channel.drain()  # the task may have ended already

    def _return(self, tasks: list[RunningTask]) -> None:
        """Return tasks, which are in reverse order, so that each can go to the front of a queue."""
        for task in tasks:
            self._listener.on_returned(task)

    def _follow(self, process: SlotProcess) -> None:
        self._on_begun(process, process.follow())

    def close(self) -> None:
        """Close all channels and report nothing more. Call this when the processes are dead or dying."""
        if self._looking is not None:
            self._looking.cancel()
        self._polling.close()
        for process in self._processes:
            process.close()
        self._processes.clear()
        self.idle.close()

    def on_ready(self, process: SlotProcess) -> None:
        task = process.task
        if task is None:
            self._rest(process)
        elif task.cause is None:
            with suppress(OSError):  # it has died, and `on_exit` will follow
                self._begin(process, task)

    def on_answer(self, process: SlotProcess, task: RunningTask, answer: Answer) -> None:
        process.group.has_failed = answer.kind in (RAISED, NOT_RETRIED)
        can_stay = not (_read_python(task).fresh or answer.flags & (HAS_CHILDREN | SHORT) or _has_strays(process))
        if not can_stay:
            self._open.pop(process, None)
            self._return(process.take_back())
        if process.queue.following:
            self._follow(process)
        elif can_stay and not process.is_ending:
            process.task = None
            self._rest(process)
        else:
            process.retire()
        self._listener.on_answer(task, answer, is_over=process.task is not task)

    def on_read(self, process: SlotProcess) -> None:
        if _has_many_short_tasks(process):
            self._polling.add(process)

    def drain_all(self) -> None:
        """Read all answers that have arrived."""
        for process in list(self._processes):
            process.channel.drain()

    def on_exit(self, process: SlotProcess) -> None:
        self.idle.discard(process)
        self._open.pop(process, None)
        self._return(process.take_back())
        if process.task is None and process.queue.following:
            self._follow(process)
        if process.task is not None:
            self._listener.on_slot_exit(process.task, process)
        elif process.problem:
            log.warning("a process for Python functions did not become ready: %s", process.problem)

    def on_gone(self, process: SlotProcess) -> None:
        self._processes.discard(process)
        if process.task is not None:
            self._listener.on_gone(process.task)

    def _spawn(self) -> SlotProcess:
        process = SlotProcess(self, self._groups, self._spawner, self._outputs, self._preload)
        self._processes.add(process)
        return process

    def _begin(self, process: SlotProcess, task: RunningTask) -> None:
        process.begin(task, _read_python(task), _read_code(task))
        self._on_begun(process, task)

    def _on_begun(self, process: SlotProcess, task: RunningTask) -> None:
        # More tasks are added only when half are done, so that the process is not woken for each.
        if process.queue.can_be_followed and 2 * len(process.queue.following) <= _max_behind(process):
            self._open[process] = None
        self._listener.on_begin(task)

    def _look_behind(self) -> None:
        """Take back tasks that have waited for too long. A single timer serves all processes."""
        self._looking = None
        limit = read_monotonic() - BEHIND_SECONDS
        for process in [process for process in self._processes if process.queue.following]:
            if process.busy_since < limit:
                self._open.pop(process, None)
                self._settle(process)
        if any(process.queue.following for process in self._processes):
            self._looking = self._groups.loop.call_later(BEHIND_SECONDS, self._look_behind)

    def _rest(self, process: SlotProcess) -> None:
        self._open.pop(process, None)  # it runs nothing that a task could wait behind
        self.idle.add(process)


def _has_strays(process: SlotProcess) -> bool:
    """True if a failed task has left processes: then its process must end, and its ending waits until all are dead."""
    return process.group.has_failed and process.group.kill_strays_quickly()


def _read_python(task: RunningTask) -> PythonOrder:
    assert task.order.python is not None, "the pool runs function tasks only"
    return task.order.python


def _read_code(task: RunningTask) -> str:
    """Return the version of the user's code that the task belongs to, as its client named it."""
    return task.order.env.get("GANDY_CODE", "")


def _max_behind(process: SlotProcess) -> int:
    return BRISK_TASKS_BEHIND if process.is_brisk else TASKS_BEHIND


def _has_many_short_tasks(process: SlotProcess) -> bool:
    return process.is_brisk and len(process.queue.following) >= TASKS_BEHIND
