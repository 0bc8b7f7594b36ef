"""The worker's handle on one slot process, from its start to its exit. Decides no endings."""

import socket
from contextlib import ExitStack
from typing import Final, Protocol

from gandy.clocks import read_monotonic
from gandy.core.model import Cause
from gandy.moments import LONG_AGO
from gandy.worker.assignment_box import AssignmentBox
from gandy.worker.frames import MEASURES, PRINTED, READY, SHORT, Answer
from gandy.worker.order import PythonOrder
from gandy.worker.output import OutputFolder, SlotFiles
from gandy.worker.process_groups import ProcessGroups
from gandy.worker.running_task import RunningTask
from gandy.worker.slot_channel import SlotChannel
from gandy.worker.slot_queue import SlotQueue
from gandy.worker.spawn import Spawner, make_start_error
from gandy.worker.table import SLOT_MARK

BRISK_SECONDS: Final = 0.0001  # a process is brisk if its last task took less: many such tasks take a few milliseconds
START_SECONDS: Final = 120.0  # for a process to become ready; preloaded modules may be on a slow disk


class SlotProcessOwner(Protocol):
    """What a slot process reports to the pool that keeps it."""

    def on_ready(self, process: "SlotProcess") -> None: ...

    def on_answer(self, process: "SlotProcess", task: RunningTask, answer: Answer) -> None: ...

    def on_read(self, process: "SlotProcess") -> None:
        """The loop has read from the process, and `on_answer` was called for each answer."""

    def on_exit(self, process: "SlotProcess") -> None: ...

    def on_gone(self, process: "SlotProcess") -> None: ...


class SlotProcess:
    """Starts a process, which can be used once it is ready. Raises: NotStartedError."""

    def __init__(
        self,
        owner: SlotProcessOwner,
        groups: ProcessGroups,
        spawner: Spawner,
        outputs: OutputFolder,
        preload: tuple[str, ...],
    ) -> None:
        self.task: RunningTask | None = None  # the task that it runs, or was started for
        self.busy_since = LONG_AGO  # when it began its task
        self.is_brisk = False  # its last task took next to no time
        self.is_ready = False
        self.is_ending = False
        self.code: str | None = None  # the version of the user's code that it has run; None: it has run nothing
        self._greeting: Answer | None = None  # its first answer: READY or REFUSED
        self._owner = owner
        self._groups = groups
        self._files = SlotFiles(outputs)
        self._start(spawner, preload)
        self._timer = groups.loop.call_later(START_SECONDS, self._kill, f"was not ready in {START_SECONDS:.0f} s")

    def _start(self, spawner: Spawner, preload: tuple[str, ...]) -> None:
        """Raises: NotStartedError, ShortageError."""
        self._groups.prepare()
        with ExitStack() as undoing:
            try:
                box = AssignmentBox()
                undoing.callback(box.close)
                ours, theirs = socket.socketpair()
            except OSError as error:
                raise make_start_error("cannot make a link to a process", error) from error
            undoing.callback(ours.close)
            undoing.callback(self._files.drop)
            with theirs:
                env = {SLOT_MARK: str(self._groups.table.mark)}
                pgid = spawner.spawn_slot(self._files.series, preload, env, theirs.fileno(), box.theirs)
            self.group = self._groups.adopt(pgid, self._on_exit, self._on_gone)
            undoing.pop_all()
        self.channel = SlotChannel(self._groups.loop, ours, self._on_answer, self._on_read, self._on_broken)
        self.queue = SlotQueue(box, self.channel)

    @property
    def measures_memory(self) -> bool:
        """True if it knows the peak memory of each of its tasks."""
        return self.is_ready and self._greeting is not None and bool(self._greeting.flags & MEASURES)

    @property
    def problem(self) -> str:
        """Why it did not become ready."""
        return "" if self.is_ready or self._greeting is None else self._greeting.note

    @property
    def is_short(self) -> bool:
        """True if it did not become ready because something that any process needs is short."""
        return not self.is_ready and self._greeting is not None and bool(self._greeting.flags & SHORT)

    def take(self, task: RunningTask) -> None:
        """Assign a task, which begins as soon as the process is ready."""
        self.task = task
        self.busy_since = read_monotonic()
        task.process = self
        task.group = self.group
        self.group.attempt = task.attempt
        task.files = self._files.current

    def begin(self, task: RunningTask, python: PythonOrder, code: str) -> None:
        """Send a task to the process. Raises: OSError, if the process has died."""
        self.code = code
        self.queue.begin(task, python)
        self.take(task)

    def put_behind(self, task: RunningTask, python: PythonOrder) -> bool:
        """Let a task wait behind the one that runs. False: it does not fit there."""
        task.process = self
        return self.queue.put_behind(task, python)

    def take_back(self) -> list[RunningTask]:
        """Take back the tasks that have not begun, the last one first; the current task may be among them."""
        tasks = self.queue.take_back(self.task)
        if self.task in tasks:
            self.task = None
        return tasks

    def follow(self) -> RunningTask:
        """The last task is over: make the next one, which has begun, the current one."""
        task = self.queue.next()
        self.take(task)
        return task

    def retire(self) -> None:
        """Let the process end by itself, and kill it after the grace period if it has not."""
        if not self.is_ending:
            self.is_ending = True
            self.channel.close()
            self._timer = self._groups.loop.call_later(self._groups.grace, self.group.kill_now)

    def close(self) -> None:
        self._timer.cancel()
        self.channel.close()
        self.queue.close()

    def _on_answer(self, answer: Answer) -> None:
        if not self.is_ready:
            self._on_greeting(answer)
        elif self.task is None:
            self._kill("sent an answer that nothing had asked for")
        elif self.task.cause is not None:
            # The task is being killed, and its process does not need the rest of the grace period.
            self.group.kill_now()
        else:
            task = self.task
            self.is_brisk = answer.ended - answer.started < BRISK_SECONDS
            if answer.flags & PRINTED:
                self._files.advance()
            else:
                task.is_silent = True
            self._owner.on_answer(self, task, answer)

    def _on_read(self) -> None:
        self._owner.on_read(self)

    def _on_greeting(self, answer: Answer) -> None:
        self._greeting = answer
        if answer.kind == READY:
            self._timer.cancel()
            self.is_ready = True
            self._owner.on_ready(self)

    def _on_broken(self, problem: str) -> None:
        # Most likely the process is dying. A function may also have closed all descriptors.
        if not self.is_ending:
            self._timer.cancel()
            self._timer = self._groups.loop.call_later(self._groups.grace, self._kill, problem)

    def _kill(self, problem: str) -> None:
        if self.task is not None and self.task.cause is None:
            self.task.cause = Cause.SIGNAL if self.is_ready else Cause.NOT_STARTED
            self.task.note = f"its process {problem}"
        self.group.kill_now()

    def _on_exit(self) -> None:
        # Its last answers may still be in the socket: read them before anything is decided about its task.
        self.is_ending = True
        self.channel.drain()
        self._owner.on_exit(self)
        self.close()

    def _on_gone(self) -> None:
        # Files of a task that printed, or died, belong to that task.
        if self.task is None or self.task.files is not self._files.current or self.task.is_silent:
            self._files.drop()
        self._owner.on_gone(self)
