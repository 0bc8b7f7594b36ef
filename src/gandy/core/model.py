"""Jobs, tasks and attempts as values: what a client asks for, what a worker does, what a store keeps.

A job has tasks, numbered from 1. A task has attempts, numbered from 1. Only the last attempt of a task counts.
"""

from enum import IntEnum
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import asdict

from gandy.bounds import (
    AttemptNumber,
    Count,
    Environment,
    ExitCode,
    FollowedJobs,
    JobName,
    JobNumber,
    JobNumbers,
    Moment,
    OptionalName,
    OutputBytes,
    Path,
    Positive,
    Result,
    Seconds,
    Shared,
    SharedMoment,
    ShellLine,
    Tags,
    Tail,
    TaskIndex,
    Text,
    WallMoment,
    Words,
)
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PRIORITY, MAX_RETRIES, MAX_SECONDS, MAX_SLOTS, MAX_TASKS

Command = ShellLine | Words  # a shell line for `sh -c`, or an argument vector without a shell
Input = str | bytes  # what a task is about: a line, or the pickled arguments of a function


class NamedNumber(IntEnum):
    """Kept and sent as a number, printed as the name that commands print."""

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class TaskState(NamedNumber):
    """Where a task stands. A task that waits may be held back by its job; then it is shown as paused."""

    WAITING = 0
    RUNNING = 1  # its worker has said that it began, or is one that begins at once what it is given
    FINISHED = 2
    FAILED = 3
    CANCELLED = 4
    ASSIGNED = 5  # a worker has it, and has not said that it began


FINAL_STATES: Final = frozenset({TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELLED})

# A worker has the task, or is about to get it.
GIVEN_STATES: Final = frozenset({TaskState.ASSIGNED, TaskState.RUNNING})


class JobState(NamedNumber):
    """Follows from a job's tasks and from what users asked for."""

    WAITING = 0
    RUNNING = 1
    FINISHED = 2
    FAILED = 3
    PAUSED = 4
    CANCELLED = 5


# A job in one of these is history, once no worker has any of its tasks.
FINAL_JOB_STATES: Final = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED})


class Cause(NamedNumber):
    """How an attempt ended."""

    EXIT = 0  # by itself, with an exit code
    SIGNAL = 1  # by a signal that gandy did not send
    TIMEOUT = 2
    CANCELLED = 3
    NOT_STARTED = 4  # the command could not be run at all
    WORKER_LOST = 5
    WORKER_STOPPED = 6
    RETURNED = 7  # its worker gave it back before it began
    RAISED = 8  # a Python function raised an exception
    MEMORY = 9  # it used more than it may
    NOT_RETRIED = 10  # a Python function raised an exception after which its task is not tried again


class PythonSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tasks run Python functions. Only clients and workers open what is pickled here."""

    shared: Shared = b""  # what all tasks have in common, usually the function
    fresh: bool = False  # a new process for each task
    has_shared: bool = False  # in a row, which leaves `shared` out: there is some


class JobSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client asks for. Times are in seconds."""

    command: Command
    name: JobName = ""
    tasks: Annotated[int, Meta(ge=0, le=MAX_TASKS)] = 1
    has_lines: bool = False  # each task has a line of its own, kept by the store
    cwd: Path = ""
    env: Environment = {}
    retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES)] = 0
    retry_pause: Seconds = 1.0  # before the first retry; it doubles each time
    timeout: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] | None = None
    priority: Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0  # higher goes first
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = 1  # of each task
    tags: Tags = ()  # that a worker must have
    limit: Positive | None = None  # of tasks that run at the same time
    held: bool = False
    after: JobNumbers = ()  # jobs that must finish first, without a failure
    after_any: JobNumbers = ()  # jobs that must end first, in whatever way
    after_each: FollowedJobs = ()  # jobs whose task must finish before the one with the same number here
    python: PythonSpec | None = None  # if set, the command is only for people to read
    memory: Positive | None = None  # bytes that an attempt may use
    is_open: bool = False  # tasks may still be added; until it is closed, the job does not end
    at: SharedMoment | None = None  # the shared time at which its tasks begin
    clock_ahead: Moment = 0.0  # how far the shared clock was ahead of the foreman's wall clock
    boot: OptionalName = ""  # the boot id of the foreman's machine when the job came
    boot_ahead: Moment = 0.0  # how far the shared clock was ahead of the monotonic one of that boot
    identity: Count = 0  # random, from the foreman: numbers are given again after a backup is restored. 0: an old job

    @property
    def sources(self) -> tuple[JobId, ...]:
        """All jobs that it waits for, whole or task by task."""
        return tuple(dict.fromkeys((*self.after, *self.after_any, *self.after_each)))


MISSING: Final = -1  # in place of a number of bytes: something was written, perhaps, and is not kept

TaskKey = tuple[JobId, TaskNumber]  # which task of which job


class AttemptKey(NamedTuple):
    """Which attempt at which task. A result counts only for the last attempt: this is the fence."""

    job: JobNumber
    task: TaskIndex
    attempt: AttemptNumber

    @property
    def task_key(self) -> TaskKey:
        return self[:2]


class Ending(Struct, frozen=True, omit_defaults=True):
    """How an attempt ended, as far as is known. `wire.messages.Report` has the same fields in the same order."""

    cause: Cause
    exit_code: ExitCode | None = None
    signal: ExitCode | None = None
    started: WallMoment | None = None  # by the worker's clock
    ended: WallMoment | None = None
    peak_memory_bytes: Count | None = None
    tail: Tail = b""  # the end of standard error
    note: Text = ""  # what ended it, or why it could not start
    result: Result = b""  # of a Python function: its value or its exception, pickled
    result_bytes: Count = 0  # of a result that is too large to travel along: its worker keeps it, with the output
    out_bytes: OutputBytes = 0  # of standard output that its worker keeps, or MISSING; 0 if the foreman ended it
    err_bytes: OutputBytes = 0

    @property
    def has_raised(self) -> bool:
        """True if a Python function raised an exception."""
        return self.cause in (Cause.RAISED, Cause.NOT_RETRIED)

    @property
    def is_success(self) -> bool:
        return self.cause is Cause.EXIT and self.exit_code == 0


class Counts(Struct):
    """How many tasks of a job are in each state, in the order of the states' numbers."""

    waiting: Count = 0
    running: Count = 0
    finished: Count = 0
    failed: Count = 0
    cancelled: Count = 0
    assigned: Count = 0

    def add(self, other: "Counts") -> None:
        self.waiting += other.waiting
        self.running += other.running
        self.finished += other.finished
        self.failed += other.failed
        self.cancelled += other.cancelled
        self.assigned += other.assigned

    def subtract(self, other: "Counts") -> None:
        self.waiting -= other.waiting
        self.running -= other.running
        self.finished -= other.finished
        self.failed -= other.failed
        self.cancelled -= other.cancelled
        self.assigned -= other.assigned

    @property
    def total(self) -> int:
        return self.waiting + self.running + self.finished + self.failed + self.cancelled + self.assigned

    def list_by_progress(self) -> list[tuple[str, int]]:
        """Each state's name and number of tasks, in the order in which a task goes through them."""
        waiting, *others, assigned = asdict(self).items()
        return [waiting, assigned, *others]
