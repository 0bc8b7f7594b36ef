"""Slot processes: which one gets a call, and which ones stay. Decides nothing about endings.

A call gets the process that was used last, whose memory is warmest; else a new one. So there are never more than there
were calls at the same time, and those that nobody needs any more end after a while. A few calls may wait behind each
that runs, so that a process need not wait for us between short calls; nobody waits long behind a long one.
"""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final, Protocol

from gandy.worker.families import Families
from gandy.worker.frames import HAS_CHILDREN, MAX_BODY_BYTES, SHORT, Answer
from gandy.worker.order import PythonOrder
from gandy.worker.output import Outputs
from gandy.worker.slot_process import SlotProcess
from gandy.worker.spawn import NotStartedError, Spawner
from gandy.worker.task import Task

log = logging.getLogger("gandy.worker")

MAX_BEHIND: Final = 8  # calls that wait behind one
MAX_BRISK_BEHIND: Final = 64  # where calls take no time, so that a process has some milliseconds of work
SOON_SECONDS: Final = 0.002  # that a call may take of which nobody would think that it takes long
LISTEN_SECONDS: Final = 0.001  # between two looks at what a process has answered that has many calls before it
BEHIND_SECONDS: Final = 0.05  # that a call may wait behind another one; then it is had back, for whoever is free first
IDLE_SECONDS: Final = 300.0  # that an unused process is kept: people think between two calls


class Listener(Protocol):
    """Who wants to know how calls fare."""

    def on_begin(self, task: Task) -> None: ...

    def on_returned(self, task: Task) -> None:
        """It has not begun in its process, and has to begin elsewhere."""

    def on_answer(self, task: Task, answer: Answer, is_over: bool) -> None:
        """Unless it `is_over`, `on_call_exit` and `on_gone` follow."""

    def on_call_exit(self, task: Task, process: SlotProcess) -> None: ...

    def on_gone(self, task: Task) -> None: ...


class SlotPool:
    """All slot processes of one worker, none to begin with."""

    def __init__(
        self, listener: Listener, families: Families, spawner: Spawner, outputs: Outputs, preload: tuple[str, ...]
    ) -> None:
        self._listener = listener
        self._families = families
        self._spawner = spawner
        self._outputs = outputs
        self._preload = preload
        self._processes: set[SlotProcess] = set()
        self._idle: list[SlotProcess] = []  # the one used last at the end
        self._tidying: asyncio.TimerHandle | None = None  # while there are idle ones
        self._open: dict[SlotProcess, None] = {}  # whose call may have another one behind it
        self._looking: asyncio.TimerHandle | None = None  # at those who wait
        self._ignored: list[SlotProcess] = []  # who have much to say, and are listened to now and then
        self._listening: asyncio.TimerHandle | None = None  # to those

    @property
    def pids(self) -> list[int]:
        """Of processes that are starting, busy or idle."""
        return [process.family.group for process in self._processes if not process.is_ending]

    def warm(self, count: int) -> None:
        """Have so many processes ready or starting, so that the first calls need not wait."""
        while len(self.pids) < count:
            self._spawn()

    def run(self, task: Task, python: PythonOrder) -> None:
        """Raises: NotStartedError."""
        size = max(len(python.input), len(python.shared))
        if size > MAX_BODY_BYTES:
            raise NotStartedError(f"cannot run: a call may have {MAX_BODY_BYTES:,} bytes, not {size:,}")
        code = task.order.env.get("GANDY_CODE", "")
        while (idle := self._find_idle(python.fresh, code)) is not None:
            with suppress(OSError):  # it died, and the reaper will tell
                self._begin(idle, task, python)
                return
        self._retire_outdated(code)
        self._spawn().take(task)

    def put_behind(self, task: Task, python: PythonOrder) -> bool:
        """Let a call wait behind one that runs. False: there is no place for it."""
        if python.fresh or task.order.memory is not None:
            return False
        code = task.order.env.get("GANDY_CODE", "")
        for process in self._open:
            if process.code == code and process.put_behind(task, python):
                break
        else:
            return False
        del self._open[process]
        if len(process.following) < _tell_room(process):
            self._open[process] = None  # the others first
        if self._looking is None:
            self._looking = self._families.loop.call_later(BEHIND_SECONDS, self._look_behind)
        return True

    def begins_soon(self, task: Task) -> bool:
        """Whether all before it take no time, as far as anybody can tell: the last one that ended did."""
        process = task.process
        return process.is_brisk and time.monotonic() - process.busy_since < SOON_SECONDS

    def take_back(self, task: Task) -> None:
        """Neither this call nor its neighbours shall wait behind others. What has not returned then has begun."""
        self._settle(task.process)

    def clear_behind(self, task: Task) -> None:
        """Nothing shall wait behind this call, which may have ended afterwards, or returned too."""
        process = task.process
        if process.task is task:
            self._open.pop(process, None)
            self._settle(process)

    def _settle(self, process: SlotProcess) -> None:
        """Know for sure what it runs, if anything: all the rest returns."""
        was_busy = process.task is not None
        self._return(process.take_back())
        if process.following and process.task is None:
            self._follow(process)
        elif was_busy and process.task is None:
            self._rest(process)
        process.hear()

    def _return(self, tasks: list[Task]) -> None:
        """From the last to the first, so that each can go before the others."""
        for task in tasks:
            self._listener.on_returned(task)

    def _follow(self, process: SlotProcess) -> None:
        self._on_begun(process, process.follow())

    def close(self) -> None:
        """When the processes are dead or dying. Nothing is told any more."""
        for timer in (self._tidying, self._looking, self._listening):
            if timer is not None:
                timer.cancel()
        for process in self._processes:
            process.close()
        self._processes.clear()
        self._idle.clear()

    def on_ready(self, process: SlotProcess) -> None:
        task = process.task
        if task is None:
            self._rest(process)
        elif task.cause is None:
            assert task.order.python is not None
            with suppress(OSError):  # the same
                self._begin(process, task, task.order.python)

    def on_answer(self, process: SlotProcess, task: Task, answer: Answer) -> None:
        assert task.order.python is not None
        can_stay = not (task.order.python.fresh or answer.flags & (HAS_CHILDREN | SHORT))
        if not can_stay:
            self._open.pop(process, None)
            self._return(process.take_back())
        if process.following:
            self._follow(process)
        elif can_stay and not process.is_ending:
            process.task = None
            self._rest(process)
        else:
            process.retire()
        self._listener.on_answer(task, answer, is_over=process.task is not task)

    def on_heard(self, process: SlotProcess) -> None:
        """Each answer would wake us. As long as there are many to come, we can as well hear them together."""
        if _has_much_to_say(process):
            process.ignore()
            self._ignored.append(process)
            if self._listening is None:
                self._listening = self._families.loop.call_later(LISTEN_SECONDS, self._listen)

    def hear_all(self) -> None:
        """Hear everything that all processes have said."""
        for process in list(self._processes):
            process.hear()

    def _listen(self) -> None:
        """One timer for all of them. Who says nothing may have a long call, and is heard at once when that ends."""
        self._listening = None
        ignored, self._ignored = self._ignored, []
        for process in ignored:
            if process.hear() and _has_much_to_say(process):
                self._ignored.append(process)
            else:
                process.listen()
        if self._ignored:
            self._listening = self._families.loop.call_later(LISTEN_SECONDS, self._listen)

    def on_exit(self, process: SlotProcess) -> None:
        if process in self._idle:
            self._idle.remove(process)
        self._open.pop(process, None)
        self._return(process.take_back())
        if process.task is None and process.following:
            self._follow(process)
        if process.task is not None:
            self._listener.on_call_exit(process.task, process)
        elif process.problem:
            log.warning("a process for Python calls did not become ready: %s", process.problem)

    def on_gone(self, process: SlotProcess) -> None:
        self._processes.discard(process)
        if process.task is not None:
            self._listener.on_gone(process.task)

    def _spawn(self) -> SlotProcess:
        process = SlotProcess(self, self._families, self._spawner, self._outputs, self._preload)
        self._processes.add(process)
        return process

    def _begin(self, process: SlotProcess, task: Task, python: PythonOrder) -> None:
        process.code = task.order.env.get("GANDY_CODE", "")
        process.begin(task, python)
        self._on_begun(process, task)

    def _on_begun(self, process: SlotProcess, task: Task) -> None:
        # Half of them at a time, so that not each of them wakes the process.
        if process.can_be_followed and 2 * len(process.following) <= _tell_room(process):
            self._open[process] = None
        self._listener.on_begin(task)

    def _look_behind(self) -> None:
        """One timer for all of them."""
        self._looking = None
        limit = time.monotonic() - BEHIND_SECONDS
        for process in [process for process in self._processes if process.following]:
            if process.busy_since < limit:
                self._open.pop(process, None)
                self._settle(process)
        if any(process.following for process in self._processes):
            self._looking = self._families.loop.call_later(BEHIND_SECONDS, self._look_behind)

    def _find_idle(self, fresh: bool, code: str) -> SlotProcess | None:
        """One that has run nothing, or only calls of the same code: modules that it has imported may have changed."""
        fitting = (p for p in reversed(self._idle) if not p.has_run or (p.code == code and not fresh))
        found = next(fitting, None)
        if found is not None:
            self._idle.remove(found)
        return found

    def _retire_outdated(self, code: str) -> None:
        """A new process takes the place of one that has run other code, so that there are not more and more."""
        outdated = next((process for process in self._idle if process.has_run and process.code != code), None)
        if outdated is not None:
            self._idle.remove(outdated)
            outdated.retire()

    def _rest(self, process: SlotProcess) -> None:
        self._open.pop(process, None)  # it runs nothing that a call could wait behind
        process.idle_since = self._families.loop.time()
        self._idle.append(process)
        if self._tidying is None:
            self._tidying = self._families.loop.call_later(IDLE_SECONDS, self._tidy)

    def _tidy(self) -> None:
        """One timer for all of them: it looks at who rests for too long, and comes back when the next one would."""
        self._tidying = None
        now = self._families.loop.time()
        while self._idle and self._idle[0].idle_since + IDLE_SECONDS <= now:
            self._idle.pop(0).retire()
        if self._idle:
            self._tidying = self._families.loop.call_at(self._idle[0].idle_since + IDLE_SECONDS, self._tidy)


def _tell_room(process: SlotProcess) -> int:
    """How many calls may wait behind the one that it runs."""
    return MAX_BRISK_BEHIND if process.is_brisk else MAX_BEHIND


def _has_much_to_say(process: SlotProcess) -> bool:
    return process.is_brisk and len(process.following) >= MAX_BEHIND
