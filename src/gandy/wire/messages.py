"""The messages of the job protocols, as plain values that both generations share.

A message has no sequence number: that belongs to the frame that carries it (see `v2`), and v1 has none.
Field names of payloads are those of the original, in its order, because the order is part of its bytes.
"""

from enum import IntEnum, IntFlag
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from gandy.bounds import (
    AttemptNumber,
    Count,
    ExitCode,
    Integer,
    JobNumber,
    Line,
    Name,
    OptionalName,
    OutputBytes,
    Path,
    Pickled,
    Positive,
    Result,
    Seconds,
    Shared,
    SharedMoment,
    Slots,
    Tags,
    Tail,
    Text,
    WallMoment,
    WireEnvironment,
    WireText,
    WireWords,
)
from gandy.ids import TaskNumber
from gandy.limits import LAST_INTEGER, MAX_AHEAD, MAX_FORMER, MAX_PRIORITY, MAX_SLOTS

STOP_ALL: Final = 0
STOP_IMMEDIATELY: Final = 0xFFFF_FFFF

# In CANCEL it may be negative, and an original foreman may number tasks in any way.
WireTask = Annotated[TaskNumber, Meta(ge=-LAST_INTEGER - 1, le=LAST_INTEGER)]


class Status(IntEnum):
    """The state of a job, as a JOB or HELLO carries it."""

    WAITING = 0
    RUNNING = 1
    FINISHED = 2
    PAUSED = 3
    CANCELLED = 4


class Extension(IntFlag):
    """What gandy adds to v2. Each bit is offered in HELLO and agreed to in its OK, or not used at all."""

    NONE = 0
    ATOMIC = 1  # a JOB is accepted whole or not at all; ERROR codes from 3 up are understood
    HEARTBEAT = 2
    UPDATES = 4
    CLIENT = 8
    CALLS = 16
    OUTPUT = 32
    TIMED = 64  # calls and tasks that begin at a shared time
    BEGUN = 128  # a worker reports which tasks have begun
    SHARDS = 256  # the crew has many foremen, and the worker has a link to each shard of jobs
    LOAD = 512  # a worker reports the load and the memory of its machine
    LINKED = 1024  # jobs that run after others have ended in any way, or follow others task by task


class TaskPair(Struct, frozen=True, gc=False, rename="pascal"):
    """Which task of which job. In CANCEL a negative task means every task of the job."""

    job_id: JobNumber
    task: WireTask


class JobDescription(Struct, frozen=True, gc=False, rename="pascal"):
    """What all tasks of a job have in common."""

    job_id: JobNumber
    name: WireText
    num_tasks: Integer
    working_dir: WireText
    logging_dir: WireText
    command: WireText
    status: Status


class PythonOrders(Struct, frozen=True, gc=False, omit_defaults=True):
    """A function task, pickled. `shared` is sent once per job over each link, and then left out."""

    input: Pickled
    shared: Shared | None = None
    fresh: bool = False


class Orders(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a gandy worker gets about a task beyond the fields of the original. Times are in seconds."""

    attempt: AttemptNumber
    command: WireText | WireWords = ""
    env: WireEnvironment = {}
    timeout: Seconds | None = None
    line: Line | None = None
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = 1
    memory: Positive | None = None
    python: PythonOrders | None = None
    at: SharedMoment | None = None  # the shared time at which it begins; only for a worker that knows the shared time
    identity: Count = 0  # of the job, whose number may be reused
    priority: Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0  # for a worker that shares slots among shards


class Task(Struct, frozen=True, gc=False, rename={"number": "Task", "job": "JobDescription", "orders": "Gandy"}):
    """One task to run: its number, and the job it belongs to. A plain peer never gets orders."""

    number: WireTask
    job: JobDescription
    orders: Orders | UnsetType = UNSET

    @property
    def pair(self) -> TaskPair:
        return TaskPair(self.job.job_id, self.number)


class NewJob(Struct, frozen=True, gc=False, rename="pascal"):
    """A request for more work inside an UPDATE. Only the original's HTTP transport used it."""

    num_proc: Integer


class Report(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a gandy worker reports about a result beyond the fields of the original."""

    attempt: AttemptNumber
    cause: Count
    exit_code: ExitCode | None = None
    signal: ExitCode | None = None
    started: WallMoment | None = None
    ended: WallMoment | None = None
    peak_memory_bytes: Count | None = None
    tail: Tail = b""
    note: Text = ""
    result: Result = b""
    result_bytes: Count = 0
    out_bytes: OutputBytes = 0
    err_bytes: OutputBytes = 0
    identity: Count = 0  # of the job: after a backup is restored, another job may have its number. 0: not known
    shard: Count = 0  # that the task came from; 0: the crew has a single foreman


class TaskResult(
    Struct,
    frozen=True,
    gc=False,
    rename={
        "job_id": "JobId",
        "task": "Task",
        "success": "Success",
        "status": "Status",
        "new_job": "NewJob",
        "report": "Gandy",
    },
):
    """How a task ended. A plain peer never gets a report."""

    job_id: JobNumber
    task: WireTask
    success: bool
    status: WireText
    new_job: NewJob | None = None
    report: Report | UnsetType = UNSET

    @property
    def pair(self) -> TaskPair:
        return TaskPair(self.job_id, self.task)


class About(Struct, frozen=True, gc=False, omit_defaults=True):
    """A gandy worker's description of itself in HELLO."""

    id: Name
    name: Name
    slots: Slots
    tags: Tags = ()
    version: OptionalName = ""
    ahead: Annotated[int, Meta(ge=0, le=MAX_AHEAD)] = 0  # tasks that it takes beyond its slots, so that none is idle
    # Ids of former workers, which ran in the same folder and died: this one reports what they left there.
    former: Annotated[tuple[Name, ...], Meta(max_length=MAX_FORMER)] = ()
    folder: Path = ""  # where it keeps results until they are acknowledged, for a foreman on the same machine
    takes_tasks: bool = True  # else all its slots are for calls


class Ok(Struct, frozen=True, gc=False):
    """Success. The numbers are free processors and running tasks, unless the request gives them another meaning."""

    nproc: int
    nrun: int = 0
    extensions: Extension = Extension.NONE


RESEND_HELLO: Final = Ok(0xFFFF, 0xFFFF)
GREETING: Final = Ok(0, 0)


class Hello(Struct, frozen=True, gc=False):
    """The worker's state: processors that are free now, and the tasks that use the others."""

    nproc: int
    running: tuple[Task, ...] = ()
    extensions: Extension = Extension.NONE
    about: About | UnsetType = UNSET


class Job(Struct, frozen=True, gc=False):
    """Tasks to start. `packed`: the same tasks encoded for the payload, if that has been done already."""

    tasks: tuple[Task, ...]
    packed: tuple[bytes, ...] = ()


class Update(Struct, frozen=True, gc=False):
    """A task ended. The original sends an empty one (`None`) in place of LIST, which it never implemented."""

    result: TaskResult | None


class Cancel(Struct, frozen=True, gc=False):
    """Tasks to kill."""

    tasks: tuple[TaskPair, ...]


class Stop(Struct, frozen=True, gc=False):
    """Processors to give up: a number, STOP_ALL, or STOP_IMMEDIATELY."""

    count: int

    @property
    def is_immediate(self) -> bool:
        return self.count == STOP_IMMEDIATELY


class Error(Struct, frozen=True, gc=False):
    """Failure. `detail` depends on the code; for no_procs it is packed like the two numbers of OK."""

    code: int
    detail: int = 0


class Reset(Struct, frozen=True, gc=False):
    """Start the sequence numbers again from zero."""

    last_reply: int = 0


class Extended(Struct, frozen=True, gc=False):
    """A message of an extension, with its payload as bytes."""

    type: int
    payload: bytes


Request = Hello | Job | Update | Cancel | Stop | Reset
Answer = Ok | Error | Reset
Message = Request | Answer | Extended


def pack_pair(nproc: int, nrun: int) -> int:
    """Pack the argument of OK: processors in the high half, tasks in the low half."""
    return nproc << 16 | nrun


def unpack_pair(arg0: int) -> tuple[int, int]:
    """Reverse `pack_pair`."""
    return arg0 >> 16, arg0 & 0xFFFF
