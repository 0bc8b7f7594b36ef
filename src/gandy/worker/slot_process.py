"""One slot process, as its worker sees it: gives it calls and hears how they fare. Decides nothing about endings."""

import socket
from collections import OrderedDict
from typing import Final, Protocol

from gandy.core.model import Cause
from gandy.ids import JobId
from gandy.worker.channel import Channel
from gandy.worker.families import Families
from gandy.worker.frames import KEPT_JOBS, MEASURES, PRINTED, READY, Answer, Head, encode_assignment
from gandy.worker.order import PythonOrder, make_environment
from gandy.worker.output import Outputs, Sheets
from gandy.worker.spawn import Spawner
from gandy.worker.table import SLOT_MARK
from gandy.worker.task import Task

START_SECONDS: Final = 120.0  # until a process is ready; preloaded modules may come from a slow disk


class Owner(Protocol):
    """Who keeps slot processes."""

    def on_ready(self, process: "SlotProcess") -> None: ...

    def on_answer(self, process: "SlotProcess", task: Task, answer: Answer) -> None: ...

    def on_exit(self, process: "SlotProcess") -> None: ...

    def on_gone(self, process: "SlotProcess") -> None: ...


class SlotProcess:
    """Runs from the beginning, and can be used once it is ready. Raises: NotStartedError."""

    def __init__(
        self, owner: Owner, families: Families, spawner: Spawner, outputs: Outputs, preload: tuple[str, ...]
    ) -> None:
        self.task: Task | None = None  # that it runs, or was started for
        self.is_ready = False
        self.is_ending = False
        self.has_run = False  # anything
        self.code = ""  # which code it has run, as clients tell it
        self.measures_memory = False
        self.problem = ""  # why it did not become ready
        self.idle_since = 0.0  # in the loop's time
        self._owner = owner
        self._families = families
        self._outputs = outputs
        self._known: OrderedDict[JobId, bytes] = OrderedDict()  # what jobs share, exactly as the process keeps it
        self._sheets: Sheets | None = outputs.take()  # that it has open
        self._start(spawner, preload, self._sheets)
        self._timer = families.loop.call_later(START_SECONDS, self._sever, f"was not ready in {START_SECONDS:.0f} s")

    def _start(self, spawner: Spawner, preload: tuple[str, ...], sheets: Sheets) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                env = {SLOT_MARK: str(self._families.table.mark)}
                group = spawner.spawn_slot(preload, env, sheets, theirs.fileno())
            self.family = self._families.adopt(group, None, self._on_exit, self._on_gone)
        except BaseException:
            ours.close()
            self._outputs.drop(sheets)
            raise
        self._channel = Channel(self._families.loop, ours, self._on_answer, self._on_broken)

    def take(self, task: Task) -> None:
        """Run it as soon as the process is ready."""
        self.task = task
        task.family = self.family
        if self._sheets is not None:
            task.sheets = self._sheets

    def begin(self, task: Task, python: PythonOrder) -> None:
        """Raises: OSError where the process has died."""
        order, job = task.order, task.attempt.job
        sheets = self._sheets or self._outputs.take()
        head = Head(
            job=job,
            has_shared=bool(python.shared),
            env=make_environment({}, order),
            cwd=order.cwd,
            sheets=None if sheets is self._sheets else (sheets.out, sheets.err),
        )
        self._sheets = sheets
        shared = python.shared
        if shared and self._known.get(job) == shared:
            shared = b""
        self._channel.send(encode_assignment(head, shared, python.input), shared, python.input)
        self.take(task)
        self.has_run = True
        if python.shared:
            self._keep_shared(job, python.shared)

    def _keep_shared(self, job: JobId, shared: bytes) -> None:
        self._known[job] = shared
        self._known.move_to_end(job)
        while len(self._known) > KEPT_JOBS:
            self._known.popitem(last=False)

    def retire(self) -> None:
        """Let it end by itself, for a while."""
        if not self.is_ending:
            self.is_ending = True
            self._channel.close()
            self._timer = self._families.loop.call_later(self._families.grace, self.family.kill_now)

    def close(self) -> None:
        self._timer.cancel()
        self._channel.close()

    def _on_answer(self, answer: Answer) -> None:
        if not self.is_ready:
            self._on_first_word(answer)
        elif self.task is None:
            self._sever("spoke without being asked")
        elif self.task.cause is not None:
            # It is to end, had time for it, and does not need more.
            self.family.kill_now()
        else:
            task = self.task
            if answer.flags & PRINTED:
                self._sheets = None
            else:
                task.is_silent = True
            self._owner.on_answer(self, task, answer)

    def _on_first_word(self, answer: Answer) -> None:
        if answer.kind != READY:
            self.problem = answer.note
            return
        self._timer.cancel()
        self.is_ready = True
        self.measures_memory = bool(answer.flags & MEASURES)
        self._owner.on_ready(self)

    def _on_broken(self, problem: str) -> None:
        # Most likely it is dying. A function may also have closed all descriptors it found.
        if not self.is_ending:
            self._timer.cancel()
            self._timer = self._families.loop.call_later(self._families.grace, self._sever, problem)

    def _sever(self, problem: str) -> None:
        if self.task is not None and self.task.cause is None:
            self.task.cause = Cause.SIGNAL if self.is_ready else Cause.NOT_STARTED
            self.task.note = f"its process {problem}"
        self.family.kill_now()

    def _on_exit(self) -> None:
        self.is_ending = True
        self._channel.drain()
        self.close()
        self._owner.on_exit(self)

    def _on_gone(self) -> None:
        # Sheets of a task that wrote, or died, are the task's to keep.
        if self._sheets is not None and (self.task is None or self.task.is_silent):
            self._outputs.drop(self._sheets)
        self._owner.on_gone(self)
