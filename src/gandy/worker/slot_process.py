"""One slot process, as its worker sees it: gives it calls and hears how they fare. Decides nothing about endings."""

import socket
import time
from collections import OrderedDict
from contextlib import ExitStack
from typing import Final, Protocol

from gandy.core.model import Cause
from gandy.ids import JobId
from gandy.worker.box import Box
from gandy.worker.channel import Channel
from gandy.worker.families import Families
from gandy.worker.frames import (
    KEPT_JOBS,
    MAX_BOX_BYTES,
    MEASURES,
    PRINTED,
    READY,
    SHORT,
    Answer,
    Setting,
    encode_assignment,
    encode_setting,
    read_number,
)
from gandy.worker.order import Order, PythonOrder, make_job_environment
from gandy.worker.output import Outputs, name_sheets
from gandy.worker.spawn import Spawner, make_start_error
from gandy.worker.table import SLOT_MARK
from gandy.worker.task import Task

BRISK_SECONDS: Final = 0.0001  # that a call may take, and many such ones still fit into a few milliseconds
START_SECONDS: Final = 120.0  # until a process is ready; preloaded modules may come from a slow disk


class Owner(Protocol):
    """Who keeps slot processes."""

    def on_ready(self, process: "SlotProcess") -> None: ...

    def on_answer(self, process: "SlotProcess", task: Task, answer: Answer) -> None: ...

    def on_heard(self, process: "SlotProcess") -> None:
        """All that it has said by now."""

    def on_exit(self, process: "SlotProcess") -> None: ...

    def on_gone(self, process: "SlotProcess") -> None: ...


class SlotProcess:
    """Runs from the beginning, and can be used once it is ready. Raises: NotStartedError."""

    def __init__(
        self, owner: Owner, families: Families, spawner: Spawner, outputs: Outputs, preload: tuple[str, ...]
    ) -> None:
        self.task: Task | None = None  # that it runs, or was started for
        self.following: dict[int, Task] = {}  # wait in its box, by number, in the order in which they will run
        self.can_be_followed = False  # its task
        self.busy_since = 0.0  # with its task, in monotonic time
        self.is_brisk = False  # the last call was over in no time
        self.is_ready = False
        self.is_ending = False
        self.has_run = False  # anything
        self.code = ""  # which code it has run, as clients tell it
        self.measures_memory = False
        self.problem = ""  # why it did not become ready
        self.is_short = False  # and that is for want of something that any process needs
        self.idle_since = 0.0  # in the loop's time
        self._owner = owner
        self._families = families
        self._outputs = outputs
        self._known: OrderedDict[JobId, bytes] = OrderedDict()  # what jobs share, exactly as the process keeps it
        self._setting = b""  # of the last call, encoded
        self._setting_key: tuple[object, ...] = ()  # what it was made of
        self._last = 0  # number that an assignment had
        self._current = 0  # number of the task
        self._series = outputs.begin_series()
        self._printed = 0  # calls that did
        self._sheets = name_sheets(self._series, 0)  # that it has open
        self._start(spawner, preload)
        self._timer = families.loop.call_later(START_SECONDS, self._sever, f"was not ready in {START_SECONDS:.0f} s")

    def _start(self, spawner: Spawner, preload: tuple[str, ...]) -> None:
        """Raises: NotStartedError, ShortageError."""
        self._families.prepare()
        with ExitStack() as undoing:
            try:
                self._box = Box()
                undoing.callback(self._box.close)
                ours, theirs = socket.socketpair()
            except OSError as error:
                raise make_start_error("cannot make a link to a process", error) from error
            undoing.callback(ours.close)
            undoing.callback(self._outputs.drop, self._sheets)
            with theirs:
                env = {SLOT_MARK: str(self._families.table.mark)}
                group = spawner.spawn_slot(self._series, preload, env, theirs.fileno(), self._box.theirs)
            self.family = self._families.adopt(group, self._on_exit, self._on_gone)
            undoing.pop_all()
        self._channel = Channel(self._families.loop, ours, self._on_answer, self._on_heard, self._on_broken)
        self.hear, self.listen, self.ignore = self._channel.drain, self._channel.listen, self._channel.ignore

    def take(self, task: Task) -> None:
        """Run it as soon as the process is ready."""
        self.task = task
        self.busy_since = time.monotonic()
        task.process = self
        task.family = self.family
        self.family.attempt = task.attempt
        task.sheets = self._sheets

    def begin(self, task: Task, python: PythonOrder) -> None:
        """Raises: OSError where the process has died."""
        self.has_run = True
        self.can_be_followed = not python.fresh and task.order.memory is None and self._put(task, python)
        if not self.can_be_followed:
            self._send(task, python)
        self._current = self._last
        self.take(task)

    def put_behind(self, task: Task, python: PythonOrder) -> bool:
        """Let it wait in the box, behind the task that runs. False: it does not fit there."""
        if not self._put(task, python):
            return False
        self.following[self._last] = task
        task.process = self
        return True

    def take_back(self) -> list[Task]:
        """Have back from the box what has not begun, the last one first. Perhaps not even the current task has."""
        tasks = []
        # The process may take one while we do, so their numbers matter and not how many they are.
        for number in map(read_number, reversed(self._box.take_back())):
            if number != self._current:
                tasks.append(self.following.pop(number))
            elif self.task is not None:
                tasks.append(self.task)
                self.task = None
        return tasks

    def follow(self) -> Task:
        """The next task has begun, for the last one is over."""
        self._current = next(iter(self.following))
        task = self.following.pop(self._current)
        self.take(task)
        return task

    def _put(self, task: Task, python: PythonOrder) -> bool:
        if len(python.input) > MAX_BOX_BYTES:
            return False
        if python.shared and not self._has_just_used(task.attempt.job, python.shared):
            return False
        data = self._encode(task.order, python, b"") + python.input
        return len(data) <= MAX_BOX_BYTES and self._box.put(data)

    def _send(self, task: Task, python: PythonOrder) -> None:
        job, shared = task.attempt.job, python.shared
        if shared and self._known.get(job) == shared:
            shared = b""
        self._channel.send(self._encode(task.order, python, shared), shared, python.input)
        if python.shared:
            self._keep_shared(job, python.shared)

    def _encode(self, order: Order, python: PythonOrder, shared: bytes) -> bytes:
        self._last += 1
        _job, task, attempt = order.attempt
        return encode_assignment(self._last, task, attempt, self._encode_setting(order, python), shared, python.input)

    def _encode_setting(self, order: Order, python: PythonOrder) -> bytes:
        """Calls of one job follow each other, and have it in common."""
        job, has_shared = order.attempt.job, bool(python.shared)
        key = (job, has_shared, order.tasks, order.cwd, order.line, order.job_name, order.env)
        if key != self._setting_key:
            setting = Setting(job, has_shared, make_job_environment({}, order), order.cwd)
            self._setting_key, self._setting = key, encode_setting(setting)
        return self._setting

    def _has_just_used(self, job: JobId, shared: bytes) -> bool:
        """Only then an assignment that we have back leaves no trace in what the process keeps."""
        return next(reversed(self._known), None) == job and self._known[job] == shared

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
        self._box.close()

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
            self.is_brisk = answer.ended - answer.started < BRISK_SECONDS
            if answer.flags & PRINTED:
                self._printed += 1
                self._sheets = name_sheets(self._series, self._printed)
            else:
                task.is_silent = True
            self._owner.on_answer(self, task, answer)

    def _on_heard(self) -> None:
        self._owner.on_heard(self)

    def _on_first_word(self, answer: Answer) -> None:
        if answer.kind != READY:
            self.problem = answer.note
            self.is_short = bool(answer.flags & SHORT)
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
        self._owner.on_exit(self)
        self.close()

    def _on_gone(self) -> None:
        # Sheets of a task that wrote, or died, are the task's to keep.
        if self.task is None or self.task.sheets is not self._sheets or self.task.is_silent:
            self._outputs.drop(self._sheets)
        self._owner.on_gone(self)
