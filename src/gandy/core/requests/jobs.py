"""Requests about jobs and their tasks, and what a foreman answers."""

from typing import Annotated

from msgspec import Meta, Struct

from gandy.bounds import (
    AttemptNumber,
    Count,
    JobNumber,
    Lines,
    Name,
    NamedTasks,
    Pickled,
    PieceData,
    Result,
    Tail,
    TaskIndex,
    Text,
)
from gandy.core.model import Cause, JobSpec, JobState, TaskState
from gandy.core.requests.base import BaseAnswer, BaseRequest
from gandy.core.rows import JobRow, TaskRow
from gandy.ids import TaskNumber
from gandy.limits import LAST_INTEGER, MAX_FORGOTTEN, MAX_INPUTS, MAX_NAMED_STATES, MAX_PAGE, MAX_RETRACTED

RetractedTasks = Annotated[tuple[TaskIndex, ...], Meta(max_length=MAX_RETRACTED)]
Limit = Annotated[int, Meta(ge=0, le=LAST_INTEGER)]  # of rows; no answer has more than `MAX_PAGE`


class Submit(BaseRequest, frozen=True):
    """Answered with `Submitted`, when the job is on disk. With a key that a job has already, that is the job."""

    spec: JobSpec
    lines: Lines = ()
    upload: Count = 0  # or the number of an upload that has the lines; 0: none
    key: Count = 0  # random, from the client: a `Submit` that is sent again with the same key adds no second job


class AddLines(BaseRequest, frozen=True):
    """Answered with `Done`. More lines for a `Submit` that follows on this link with the same number of upload."""

    upload: Count
    lines: Lines


class AddTasks(BaseRequest, frozen=True):
    """Answered with `Done`, when they are on disk. More tasks for an open job, numbered from `first`.

    What came already is skipped, so that a client may send again what it has no answer for.
    """

    job: JobNumber
    first: TaskIndex
    inputs: Annotated[tuple[Pickled, ...], Meta(max_length=MAX_INPUTS)]


class PutArguments(BaseRequest, frozen=True):
    """Answered with `Done`. A piece of arguments that are too large for a task; a name is 32 hexadecimal digits."""

    name: Name
    offset: Count
    data: PieceData
    is_last: bool = False


class CloseJob(BaseRequest, frozen=True):
    """Answered with `Done`. No more tasks will be added."""

    job: JobNumber


class WatchResults(BaseRequest, frozen=True):
    """Answered with `JobFound`; until the job is final come events, each `Results` with what started and ended."""

    job: JobNumber


class ListResults(BaseRequest, frozen=True):
    """Answered with `Results`, in the order of task numbers: those above `after` that have ended for good."""

    job: JobNumber
    after: TaskIndex = TaskNumber(0)


class ListJobs(BaseRequest, frozen=True):
    """Answered with `JobList`, the newest first. `before` continues below a job's number."""

    states: Annotated[tuple[JobState, ...], Meta(max_length=MAX_NAMED_STATES)] | None = None
    limit: Limit = 100
    before: JobNumber | None = None


class ShowJob(BaseRequest, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber


class WatchJob(BaseRequest, frozen=True):
    """Answered with `JobFound`; then come events, each a `JobFound`, until the job is final."""

    job: JobNumber


class ListTasks(BaseRequest, frozen=True):
    """Answered with `TaskList`, in the order of task numbers. `after` continues above a task's number."""

    job: JobNumber
    states: Annotated[tuple[TaskState, ...], Meta(max_length=MAX_NAMED_STATES)] | None = None
    limit: Limit = 100
    after: TaskIndex = TaskNumber(0)


class ListAttempts(BaseRequest, frozen=True):
    """Answered with `TaskList`: attempts at one task, the first one first. `after` continues above a number."""

    job: JobNumber
    task: TaskIndex
    after: AttemptNumber = 0


class CancelJob(BaseRequest, frozen=True):
    """Answered with `JobFound`. Without tasks, the whole job is meant; the same goes for `RetryJob`."""

    job: JobNumber
    tasks: NamedTasks | None = None


class RetractTasks(BaseRequest, frozen=True):
    """Answered with `Retracted`, when that is on disk. Cancels only those of the tasks that have not begun."""

    job: JobNumber
    tasks: RetractedTasks


class RetryJob(BaseRequest, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber
    tasks: NamedTasks | None = None


class HoldJob(BaseRequest, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber


class ReleaseJob(BaseRequest, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber


class ForgetJobs(BaseRequest, frozen=True):
    """Answered with `Forgotten`, when that is on disk. Only final jobs can be forgotten."""

    jobs: Annotated[tuple[JobNumber, ...], Meta(max_length=MAX_FORGOTTEN)]


class ExplainJob(BaseRequest, frozen=True):
    """Answered with `Explained`: why tasks wait, or how they ended."""

    job: JobNumber
    task: TaskIndex | None = None


class Submitted(BaseAnswer, frozen=True):
    job: JobNumber


class JobFound(BaseAnswer, frozen=True):
    row: JobRow


class JobList(BaseAnswer, frozen=True):
    rows: Annotated[tuple[JobRow, ...], Meta(max_length=MAX_PAGE)]


class TaskList(BaseAnswer, frozen=True):
    rows: Annotated[tuple[TaskRow, ...], Meta(max_length=MAX_PAGE)]


class ResultRow(Struct, frozen=True, omit_defaults=True):
    """How a task ended for good. The result is the pickled value, or exception, of a Python function."""

    task: TaskIndex
    state: TaskState
    attempt: AttemptNumber = 0
    cause: Cause = Cause.EXIT
    note: Text = ""
    tail: Tail = b""
    result: Result = b""
    result_bytes: Count = 0  # of a large result: read it as the output "result" of the attempt


class Results(BaseAnswer, frozen=True):
    """In a list, `is_last` says that there are no more yet; in an event, that there will be no more."""

    rows: Annotated[tuple[ResultRow, ...], Meta(max_length=MAX_PAGE)]
    is_last: bool = True
    started: NamedTasks = ()  # in an event: tasks that their workers say have begun


class Retracted(BaseAnswer, frozen=True):
    """The tasks that had not begun and never will. The rest of those asked for have begun, or had ended before."""

    tasks: RetractedTasks


class Explained(BaseAnswer, frozen=True):
    lines: Annotated[tuple[Text, ...], Meta(max_length=MAX_PAGE)]


class NotForgotten(Struct, frozen=True):
    """A job that stays, and why, for people."""

    job: JobNumber
    problem: Text
    is_unknown: bool = False  # there is no such job


class Forgotten(BaseAnswer, frozen=True):
    """The jobs that stay. The rest of those asked for are forgotten."""

    kept: Annotated[tuple[NotForgotten, ...], Meta(max_length=MAX_FORGOTTEN)] = ()
