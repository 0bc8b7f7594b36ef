"""Slot processes: which one gets a call, and which ones stay. Decides nothing about endings.

A call gets the process that was used last, whose memory is warmest; else a new one. So there are never more than there
were calls at the same time, and those that nobody needs any more end after a while.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final, Protocol

from gandy.worker.families import Families
from gandy.worker.frames import HAS_CHILDREN, MAX_BODY_BYTES, Answer
from gandy.worker.order import PythonOrder
from gandy.worker.output import Outputs
from gandy.worker.slot_process import SlotProcess
from gandy.worker.spawn import NotStartedError, Spawner
from gandy.worker.task import Task

log = logging.getLogger("gandy.worker")

IDLE_SECONDS: Final = 300.0  # that an unused process is kept: people think between two calls


class Listener(Protocol):
    """Who wants to know how calls fare."""

    def on_begin(self, task: Task) -> None: ...

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

    def close(self) -> None:
        """When the processes are dead or dying. Nothing is told any more."""
        if self._tidying is not None:
            self._tidying.cancel()
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
        can_stay = not (process.is_ending or task.order.python.fresh or answer.flags & HAS_CHILDREN)
        if can_stay:
            process.task = None
            self._rest(process)
        else:
            process.retire()
        self._listener.on_answer(task, answer, can_stay)

    def on_exit(self, process: SlotProcess) -> None:
        if process in self._idle:
            self._idle.remove(process)
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
        self._listener.on_begin(task)

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
