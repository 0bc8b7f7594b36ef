"""What the store must know before any peer does. A batch of records is committed whole or not at all.

All times are times of day, for people. Wall clocks are stepped, so no wait is timed by them.
"""

from collections.abc import Iterable

from msgspec import Struct

from gandy.core.model import AttemptKey, Ending, Input, JobSpec, JobState, TaskState
from gandy.ids import JobId, TaskNumber
from gandy.moments import Wall


class LinesAdded(Struct, frozen=True):
    """Lines came for a job that is still to be submitted. `first` is the number of the first line's task."""

    upload: int
    first: TaskNumber
    lines: tuple[str, ...]


class LinesDropped(Struct, frozen=True):
    """The job that these lines were for never came."""

    upload: int


class JobAdded(Struct, frozen=True):
    """A job was submitted. All its tasks wait, and none has a row of its own. Its lines are here or in an upload."""

    job: JobId
    spec: JobSpec
    at: Wall
    lines: tuple[str, ...] = ()
    upload: int = 0  # 0: none
    key: int = 0  # of the request, by which it is found if the client asks again; 0: none


class TasksAdded(Struct, frozen=True):
    """An open job has more tasks, one for each input. `first` is the number of the first."""

    job: JobId
    first: TaskNumber
    inputs: tuple[Input, ...]
    at: Wall


class OpenJobClosed(Struct, frozen=True):
    """An open job gets no more tasks."""

    job: JobId
    at: Wall


class Claimed(Struct, frozen=True):
    """Attempts are about to be given to a worker. With many foremen, only one of them gets each claim."""

    worker: str
    attempts: tuple[AttemptKey, ...]
    at: Wall
    state: TaskState = TaskState.ASSIGNED  # RUNNING if the worker does not report what it begins


class Began(Struct, frozen=True):
    """A worker said that it runs these attempts, which it had been given."""

    worker: str
    attempts: tuple[AttemptKey, ...]
    at: Wall


class Ended(Struct, frozen=True):
    """An attempt ended, and the task goes on to this state. If it waits, it may start `due` - `at` seconds later."""

    attempt: AttemptKey
    ending: Ending
    state: TaskState
    at: Wall
    due: Wall = Wall(0.0)
    failures: int = 0  # attempts at this task that failed by themselves
    crashes: int = 0  # attempts at this task that were lost with their worker
    before: TaskState = TaskState.ASSIGNED  # the attempt's own state; RUNNING, if its worker had said that it began


class TasksSet(Struct, frozen=True):
    """A user cancelled tasks, or let them wait again. None means all tasks in a state that allows it."""

    job: JobId
    state: TaskState
    tasks: tuple[TaskNumber, ...] | None
    at: Wall


class JobSet(Struct, frozen=True):
    """A job as a whole changed: its state as it is shown, and whether it is held."""

    job: JobId
    state: JobState
    held: bool
    at: Wall


class ResultsDropped(Struct, frozen=True):
    """Values of functions that ended before this time are no longer kept."""

    before: Wall


class JobForgotten(Struct, frozen=True):
    """A client had this job deleted."""

    job: JobId


Record = (
    LinesAdded
    | LinesDropped
    | JobAdded
    | TasksAdded
    | OpenJobClosed
    | Claimed
    | Began
    | Ended
    | TasksSet
    | JobSet
    | ResultsDropped
    | JobForgotten
)


def list_jobs(record: Record) -> Iterable[JobId]:
    """The jobs that a record changes."""
    match record:
        case Ended(attempt):
            return (attempt.job,)
        case Claimed(_, attempts) | Began(_, attempts):
            return {attempt.job for attempt in attempts}
        case JobAdded(job) | TasksAdded(job) | OpenJobClosed(job) | JobSet(job) | TasksSet(job) | JobForgotten(job):
            return (job,)
        case _:
            return ()
