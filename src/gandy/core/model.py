"""Jobs, tasks and attempts as values: what a client asks for, what a worker does, what a store keeps.

A job has tasks, numbered from 1. A task has attempts, numbered from 1. Only the last attempt of a task counts.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct

from gandy.ids import JobId, TaskNumber

Command = str | tuple[str, ...]  # a shell line for `sh -c`, or an argument vector without a shell
Input = str | bytes  # what a task is about: a line, or the pickled arguments of a function


class TaskState(IntEnum):
    """Where a task stands. A task that waits may be held back by its job; then it is shown as paused."""

    WAITING = 0
    RUNNING = 1
    FINISHED = 2
    FAILED = 3
    CANCELLED = 4


FINAL_STATES: Final = frozenset({TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED})


class JobState(IntEnum):
    """What a job is, told from its tasks and from what people asked for."""

    WAITING = 0
    RUNNING = 1
    FINISHED = 2
    FAILED = 3
    PAUSED = 4
    CANCELLED = 5


class Cause(IntEnum):
    """How an attempt ended."""

    EXIT = 0  # by itself, with an exit code
    SIGNAL = 1  # by a signal that nobody here sent
    TIMEOUT = 2
    CANCELLED = 3
    NOT_STARTED = 4  # the command could not be run at all
    WORKER_LOST = 5
    WORKER_STOPPED = 6
    RETURNED = 7  # it waited on its worker, and was wanted back before it began
    RAISED = 8  # a Python function raised an exception
    MEMORY = 9  # it used more than it may


class PythonSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tasks are calls of Python functions. Only clients and workers open what is pickled here."""

    shared: bytes = b""  # what all tasks have in common, usually the function
    fresh: bool = False  # a new process for each task


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client asks for. Times are in seconds."""

    command: Command
    name: str = ""
    tasks: int = 1
    has_lines: bool = False  # each task has a line of its own, kept by the store
    cwd: str = ""
    env: dict[str, str] = {}
    retries: int = 0
    retry_pause: float = 1.0  # before the first retry; it doubles each time
    timeout: float | None = None
    priority: int = 0  # higher goes first
    slots: int = 1  # of each task
    tags: tuple[str, ...] = ()  # that a worker must have
    limit: int | None = None  # of tasks that run at the same time
    held: bool = False
    after: tuple[JobId, ...] = ()  # jobs that must have finished well before
    python: PythonSpec | None = None  # then the command is only for people to read
    memory: int | None = None  # bytes that an attempt may use
    is_open: bool = False  # tasks may still be added; until it is closed, the job does not end
    at: float | None = None  # the shared time at which its tasks begin
    clock_ahead: float = 0.0  # of the shared time before the foreman's own, when the job came


TaskKey = tuple[JobId, TaskNumber]  # which task of which job


class AttemptKey(NamedTuple):
    """Which attempt at which task. A result counts only for the last attempt: this is the fence."""

    job: JobId
    task: TaskNumber
    attempt: int

    @property
    def task_key(self) -> TaskKey:
        return self[:2]


class Ending(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an attempt ended, as far as anybody knows."""

    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    started: float | None = None  # by the worker's clock
    ended: float | None = None
    peak_memory_bytes: int | None = None
    tail: bytes = b""  # the last words on standard error
    note: str = ""  # who ended it, or why it could not start
    result: bytes = b""  # of a Python function: its value or its exception, pickled
    result_bytes: int = 0  # of a result that is too large to travel along: its worker keeps it, with the output

    @property
    def is_success(self) -> bool:
        return self.cause is Cause.EXIT and self.exit_code == 0


class Counts(Struct):
    """How many tasks of a job are in each state."""

    waiting: int = 0
    running: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
