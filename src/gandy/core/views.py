"""What a foreman sends to viewers of its jobs and workers: rows at a glance, and what has changed since the last ones.

A viewer gets everything once, and then only changes. An update is made once for all viewers: see `core.live_view` and
`core.task_view`. Decides nothing.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from gandy.bounds import (
    AttemptNumber,
    Count,
    Integer,
    JobNumber,
    Moment,
    OptionalName,
    Seconds,
    Tags,
    TaskIndex,
    Text,
    WallMoment,
    escape_controls,
)
from gandy.core.extensions import MachineLoad
from gandy.core.model import Counts, JobSpec, JobState, TaskState
from gandy.core.rows import JobRow
from gandy.core.shards import ShardNumber
from gandy.ids import TaskNumber
from gandy.limits import (
    MAX_BUCKETS,
    MAX_GLANCES,
    MAX_PAGE,
    MAX_RUNS,
    MAX_SHARDS,
    MAX_STATES_BYTES,
    MAX_TASKS,
    MAX_TITLE,
)

BUCKETS_PER_DOUBLING: Final = 4  # of a histogram: each bucket is at most a quarter wider than its lower bound

Buckets = Annotated[tuple[Count, ...], Meta(max_length=MAX_BUCKETS)]
States = Annotated[bytes, Meta(max_length=MAX_STATES_BYTES)]


def find_bucket(value: int) -> int:
    """The bucket of a whole number in a histogram whose buckets widen with the values."""
    width = value.bit_length() - 3
    return value if width <= 0 else width * BUCKETS_PER_DOUBLING + (value >> width)


def find_lower_bound(bucket: int) -> int:
    """The least number in a bucket."""
    width, rest = divmod(bucket, BUCKETS_PER_DOUBLING)
    return bucket if width <= 1 else (BUCKETS_PER_DOUBLING + rest) << (width - 1)


class JobGlance(Struct, frozen=True, array_like=True):
    """A job that is not final, or has just become so."""

    job: JobNumber
    title: Annotated[str, Meta(max_length=MAX_TITLE)]  # its name, or the beginning of its command
    state: JobState
    held: bool
    submitted: WallMoment
    counts: Counts
    priority: Integer = 0
    is_open: bool = False  # tasks may still be added


class WorkerGlance(Struct, frozen=True, array_like=True):
    """A worker, as this shard knows it: what it does for other shards, these know."""

    id: Text
    name: Text
    slots: Count
    used: Count  # by tasks and calls of this shard
    running: Count  # tasks of this shard that have begun
    waiting: Count  # tasks of this shard that it has, and that have not
    calls: Count  # in progress
    connected: bool
    draining: bool
    silent_seconds: Seconds  # since its last message; 0 unless that is longer than usual
    problem: Text = ""  # what it is short of, and so uses fewer slots than it has
    tags: Tags = ()
    version: OptionalName = ""
    knows_time: bool = False
    machine: MachineLoad | None = None  # None: the worker is away, or does not say


class CommandGlance(Struct, frozen=True, array_like=True):
    """A command that workers offer. Numbers of calls grow while viewers look."""

    name: Text
    workers: Count
    waiting: Count
    ended: Count = 0
    failed: Count = 0  # of these
    buckets: Buckets = ()  # of a sample of these, by microseconds from the call to its answer: how many each bucket has


class Span(Struct, frozen=True, array_like=True):
    """An attempt that runs, or has ended."""

    worker: Text
    job: JobNumber
    task: TaskIndex
    attempt: AttemptNumber
    state: TaskState  # RUNNING, or what its end led to
    began: WallMoment
    ended: WallMoment | None = None
    peak_memory_bytes: Count = 0


class CallSpan(Struct, frozen=True, array_like=True):
    """A call that a worker runs, or has run. Short ones are left out, and so are some of many."""

    worker: Text
    number: Count  # at its worker, on the link to this shard
    command: Text
    began: WallMoment  # when it went to its worker
    ended: WallMoment | None = None
    has_failed: bool = False

    @property
    def state(self) -> TaskState:
        """As that of an attempt would be."""
        if self.ended is None:
            return TaskState.RUNNING
        return TaskState.FAILED if self.has_failed else TaskState.FINISHED


class Totals(Struct, array_like=True):
    """What has happened since a viewer came to a shard that had none. If a number falls, it began to count anew."""

    finished: Count = 0  # tasks
    failed: Count = 0
    cancelled: Count = 0
    repeated: Count = 0  # attempts after which the task waits again
    lost: Count = 0  # attempts that were lost with their worker
    calls: Count = 0  # that have ended


class CrewUpdate(Struct, frozen=True, tag=True, omit_defaults=True):
    """What has changed in one shard; if `is_whole`, all that there is to see."""

    at: WallMoment
    shard: Count
    waiting: Count  # tasks
    assigned: Count
    running: Count
    unfinished: Count  # jobs
    calls_waiting: Count
    totals: Totals
    trouble: Text = ""  # of the store
    shared_ahead: Moment | None = None  # how far the shared clock is ahead of the foreman's wall clock, if it knows
    shards: Annotated[tuple[ShardNumber, ...], Meta(max_length=MAX_SHARDS)] = ()  # that there are; none: only this one
    foremen: Count = 1  # of the crew
    version: OptionalName = ""  # of gandy, of the foreman that has the shard
    is_whole: bool = False
    jobs: Annotated[tuple[JobGlance, ...], Meta(max_length=MAX_GLANCES)] = ()
    forgotten: Annotated[tuple[JobNumber, ...], Meta(max_length=MAX_PAGE)] = ()
    workers: Annotated[tuple[WorkerGlance, ...], Meta(max_length=MAX_PAGE)] = ()
    left: Annotated[tuple[Text, ...], Meta(max_length=MAX_PAGE)] = ()  # ids of workers that are not listed any more
    commands: Annotated[tuple[CommandGlance, ...], Meta(max_length=MAX_GLANCES)] = ()
    gone: Annotated[tuple[Text, ...], Meta(max_length=MAX_GLANCES)] = ()  # commands that are not listed any more
    spans: Annotated[tuple[Span, ...], Meta(max_length=MAX_PAGE)] = ()
    skipped: Count = 0  # attempts that ended and are not among the spans, because there were so many
    calls: Annotated[tuple[CallSpan, ...], Meta(max_length=MAX_PAGE)] = ()


FirstTask = Annotated[TaskNumber, Meta(ge=1, le=MAX_TASKS)]
TaskRun = tuple[FirstTask, TaskIndex, TaskState]  # the first and the last of tasks that are in one state now


class TaskUpdate(Struct, frozen=True, tag=True, omit_defaults=True):
    """What has changed in the states of a job's tasks; if `is_whole`, all states from a task on, as many as fit.

    A viewer asks for the rest of a larger job with `ReadStates`.
    """

    job: JobNumber
    tasks: TaskIndex  # that the job has now
    is_whole: bool = False
    first: FirstTask = TaskNumber(1)  # the task of the first of `states`
    states: States = b""  # a byte for each task, compressed with zlib
    runs: Annotated[tuple[TaskRun, ...], Meta(max_length=MAX_RUNS)] = ()
    is_final: bool = False  # the job has ended: no more updates follow


def make_title(spec: JobSpec) -> str:
    """The name of a job, or the beginning of its command, on one line."""
    words = (spec.command,) if isinstance(spec.command, str) else spec.command[:MAX_TITLE]
    text = spec.name or " ".join(word[: 2 * MAX_TITLE] for word in words)
    title = escape_controls(" ".join(text[: 2 * MAX_TITLE].split()))
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1]}…"


def glance_at(row: JobRow) -> JobGlance:
    """A job as it is in a list."""
    spec = row.spec
    title, priority = make_title(spec), spec.priority
    return JobGlance(row.job, title, row.state, row.held, row.submitted, row.counts, priority, spec.is_open)
