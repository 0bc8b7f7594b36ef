"""What clients ask a foreman, and what it answers: the payloads of the CLIENT extension.

A request has its own number, which its answer repeats; many may be under way. Anything wrong with a payload is a
RemoteProtocolError.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from gandy.bounds import (
    BROKEN,
    AttemptNumber,
    Count,
    Integer,
    JobNumber,
    KeyData,
    Lines,
    Moment,
    Name,
    NamedTasks,
    OptionalName,
    Pickled,
    PieceData,
    Result,
    Seconds,
    SharedMoment,
    Tail,
    TaskIndex,
    Text,
    WallMoment,
    describe,
)
from gandy.core.model import Cause, JobSpec, JobState, TaskState
from gandy.core.past_crew import CrewThen
from gandy.core.past_points import HistoryPoint
from gandy.core.rows import JobRow, TaskRow
from gandy.core.shards import ShardNumber
from gandy.core.views import CrewUpdate, FirstTask, TaskUpdate
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.ids import TaskNumber
from gandy.limits import (
    LAST_INTEGER,
    LAST_NUMBER,
    MAX_AUDIT_LINE,
    MAX_COMMANDS,
    MAX_FORGOTTEN,
    MAX_INPUTS,
    MAX_LOAD,
    MAX_NAMED_STATES,
    MAX_OUTPUTS,
    MAX_PAGE,
    MAX_POINTS,
    MAX_READ_BYTES,
    MAX_RETRACTED,
    MAX_SHARDS,
    MAX_TAGS,
    MAX_TEXT,
    MAX_TOKEN_ADDRESSES,
    MAX_VERSIONS,
)

# Types of the CLIENT extension.
REQUEST: Final = 0x30
REPLY: Final = 0x31
EVENT: Final = 0x32  # carries the number of the request that asked for events


Limit = Annotated[int, Meta(ge=0, le=LAST_INTEGER)]  # of rows; no answer has more than `MAX_PAGE`
RetractedTasks = Annotated[tuple[TaskIndex, ...], Meta(max_length=MAX_RETRACTED)]
Versions = Annotated[tuple[OptionalName, ...], Meta(max_length=MAX_VERSIONS)]
Places = Annotated[tuple[Text, ...], Meta(max_length=MAX_PAGE)]  # addresses


class _Request(Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    # It was sent before, over a link that broke before the answer came, so a foreman may have done it already. What it
    # would refuse because of that is a success then.
    again: bool = False


class Submit(_Request, frozen=True):
    """Answered with `Submitted`, when the job is on disk. With a key that a job has already, that is the job."""

    spec: JobSpec
    lines: Lines = ()
    upload: Count = 0  # or the number of an upload that has the lines; 0: none
    key: Count = 0  # random, from the client: a `Submit` that is sent again with the same key adds no second job


class AddLines(_Request, frozen=True):
    """Answered with `Done`. More lines for a `Submit` that follows on this link with the same number of upload."""

    upload: Count
    lines: Lines


class AddTasks(_Request, frozen=True):
    """Answered with `Done`, when they are on disk. More tasks for an open job, numbered from `first`.

    What came already is skipped, so that a client may send again what it has no answer for.
    """

    job: JobNumber
    first: TaskIndex
    inputs: Annotated[tuple[Pickled, ...], Meta(max_length=MAX_INPUTS)]


class PutArguments(_Request, frozen=True):
    """Answered with `Done`. A piece of arguments that are too large for a task; a name is 32 hexadecimal digits."""

    name: Name
    offset: Count
    data: PieceData
    is_last: bool = False


class CloseJob(_Request, frozen=True):
    """Answered with `Done`. No more tasks will be added."""

    job: JobNumber


class WatchResults(_Request, frozen=True):
    """Answered with `JobFound`; until the job is final come events, each `Results` with what started and ended."""

    job: JobNumber


class ListResults(_Request, frozen=True):
    """Answered with `Results`, in the order of task numbers: those above `after` that have ended for good."""

    job: JobNumber
    after: TaskIndex = TaskNumber(0)


class ListJobs(_Request, frozen=True):
    """Answered with `JobList`, the newest first. `before` continues below a job's number."""

    states: Annotated[tuple[JobState, ...], Meta(max_length=MAX_NAMED_STATES)] | None = None
    limit: Limit = 100
    before: JobNumber | None = None


class ShowJob(_Request, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber


class WatchJob(_Request, frozen=True):
    """Answered with `JobFound`; then come events, each a `JobFound`, until the job is final."""

    job: JobNumber


class WatchCrew(_Request, frozen=True):
    """Answered with `CrewUpdate`, a whole one; then come events, each a `CrewUpdate` with what has changed.

    If they are not read fast enough, some are left out, and a whole one follows.
    """

    shard: ShardNumber = 0  # of the crew's jobs; 0: that of the foreman that is asked


class WatchTasks(_Request, frozen=True):
    """Answered with `TaskUpdate`, a whole one; until the job is final come events, each a `TaskUpdate`.

    If they are not read fast enough, some are left out, and a whole one follows.
    """

    job: JobNumber


class Unwatch(_Request, frozen=True):
    """Answered with `Done`. The client wants no more events for the request with this number, on this link."""

    number: Annotated[int, Meta(ge=0, le=LAST_NUMBER)]


class ReadStates(_Request, frozen=True):
    """Answered with `TaskUpdate`: the states of a job's tasks from one on, as many as fit. No events follow."""

    job: JobNumber
    first: FirstTask = TaskNumber(1)


class FindTasks(_Request, frozen=True):
    """Answered with `TaskList`: those of the named tasks that exist, as many as fit, in the order of their numbers."""

    job: JobNumber
    tasks: Annotated[tuple[TaskIndex, ...], Meta(max_length=MAX_PAGE)]


class ListSamples(_Request, frozen=True):
    """Answered with `Points`: what the crew did between two times of day, in at most so many points."""

    begin: WallMoment
    end: WallMoment
    most: Annotated[int, Meta(ge=1, le=MAX_POINTS)] = 500


class ReadSample(_Request, frozen=True):
    """Answered with `CrewThen`: how the crew stood at a time of day, as far as samples tell."""

    at: WallMoment


class ListTasks(_Request, frozen=True):
    """Answered with `TaskList`, in the order of task numbers. `after` continues above a task's number."""

    job: JobNumber
    states: Annotated[tuple[TaskState, ...], Meta(max_length=MAX_NAMED_STATES)] | None = None
    limit: Limit = 100
    after: TaskIndex = TaskNumber(0)


class ListAttempts(_Request, frozen=True):
    """Answered with `TaskList`: attempts at one task, the first one first. `after` continues above a number."""

    job: JobNumber
    task: TaskIndex
    after: AttemptNumber = 0


class CancelJob(_Request, frozen=True):
    """Answered with `JobFound`. Without tasks, the whole job is meant; the same goes for `RetryJob`."""

    job: JobNumber
    tasks: NamedTasks | None = None


class RetractTasks(_Request, frozen=True):
    """Answered with `Retracted`, when that is on disk. Cancels only those of the tasks that have not begun."""

    job: JobNumber
    tasks: RetractedTasks


class RetryJob(_Request, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber
    tasks: NamedTasks | None = None


class HoldJob(_Request, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber


class ReleaseJob(_Request, frozen=True):
    """Answered with `JobFound`."""

    job: JobNumber


class ForgetJobs(_Request, frozen=True):
    """Answered with `Forgotten`, when that is on disk. Only final jobs can be forgotten."""

    jobs: Annotated[tuple[JobNumber, ...], Meta(max_length=MAX_FORGOTTEN)]


class ExplainJob(_Request, frozen=True):
    """Answered with `Explained`: why tasks wait, or how they ended."""

    job: JobNumber
    task: TaskIndex | None = None


class ListWorkers(_Request, frozen=True):
    """Answered with `WorkerList`, in the order of ids. `after` continues behind one."""

    after: Text = ""
    is_local: bool = False  # only what the shard that is asked knows; from a foreman to another


class StopWorker(_Request, frozen=True):
    """Answered with `Done`. By name or id; without `immediate`, its tasks end first."""

    worker: Text
    immediate: bool = False


class GetStatus(_Request, frozen=True):
    """Answered with `Status`."""

    is_local: bool = False  # only what the shard that is asked knows; from a foreman to another


class GetTime(_Request, frozen=True):
    """Answered with `Time`, if the foreman knows the shared time."""


class ReadOutput(_Request, frozen=True):
    """Answered with `Output`. Attempt 0 means the last one."""

    job: JobNumber
    task: TaskIndex
    stream: OptionalName = "out"  # or "err", or "result" for a large result
    attempt: AttemptNumber = 0
    offset: Count = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ_BYTES)] = 65_536


class ReadOutputs(_Request, frozen=True):
    """Answered with `OutputPage`: what the next tasks wrote in their last attempts. `after` continues above a task."""

    job: JobNumber
    stream: OptionalName = "out"  # or "err"
    after: TaskIndex = TaskNumber(0)


class StopForeman(_Request, frozen=True):
    """Answered with `Done`, then the foreman stops. With `drain`, workers finish their tasks and leave too."""

    drain: bool = False


class ListForemen(_Request, frozen=True):
    """Answered with `ForemanList`: all foremen of the crew."""


class DrainForeman(_Request, frozen=True):
    """Answered with `Done`, when the foreman has handed over all that it owns. Then it stops."""

    foreman: OptionalName = ""  # its id or name; empty: the one that is asked


class LookAtShards(_Request, frozen=True):
    """Answered with `Done`. From a foreman to another: what you own has changed, so look now."""


class ListKeys(_Request, frozen=True):
    """Answered with `KeyList`."""

    is_local: bool = False  # only the links to the shard that is asked; from a foreman to another


class MakeKey(_Request, frozen=True):
    """Answered with `KeyMade`. Its owner keeps the secret half to itself."""

    public_key: KeyData  # DER
    name: Name
    role: Name
    seconds: Seconds | None = None  # that it is valid; None: until it is revoked


class RevokeKey(_Request, frozen=True):
    """Answered with `KeyList`: the keys that were revoked. Links that they opened are cut."""

    key: Name  # its name, id or fingerprint, or the id of an invitation


class Invite(_Request, frozen=True):
    """Answered with `Invited`."""

    role: Name
    seconds: Seconds
    uses: Count = 1
    # Those that the token names; if none, those where this foreman can be reached, as far as it knows.
    addresses: Annotated[tuple[Text, ...], Meta(max_length=MAX_TOKEN_ADDRESSES)] = ()


class ListAudit(_Request, frozen=True):
    """Answered with `AuditList`: the last lines of the crew's audit."""

    last: Annotated[int, Meta(ge=1, le=MAX_PAGE)]


Request = (
    Submit
    | AddLines
    | AddTasks
    | PutArguments
    | CloseJob
    | WatchResults
    | ListResults
    | ListJobs
    | ShowJob
    | WatchJob
    | WatchCrew
    | WatchTasks
    | ReadStates
    | FindTasks
    | Unwatch
    | ListSamples
    | ReadSample
    | ListTasks
    | ListAttempts
    | CancelJob
    | RetractTasks
    | RetryJob
    | HoldJob
    | ReleaseJob
    | ForgetJobs
    | ExplainJob
    | ListWorkers
    | StopWorker
    | GetStatus
    | GetTime
    | ReadOutput
    | ReadOutputs
    | StopForeman
    | ListForemen
    | DrainForeman
    | LookAtShards
    | ListKeys
    | MakeKey
    | RevokeKey
    | Invite
    | ListAudit
)


class _Answer(Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class Done(_Answer, frozen=True):
    pass


class RequestFailure(_Answer, frozen=True, tag="Failure"):
    """The request was refused. The kind is for programs, the message for people."""

    # not_found, bad_request, refused, closed, not_allowed, no_clock, store, gone, internal; full: the store has no room
    # until a user makes some; or moved: another foreman is taking over the job, and can be asked soon
    kind: OptionalName
    message: Text
    retryable: bool = False


class Submitted(_Answer, frozen=True):
    job: JobNumber


class JobFound(_Answer, frozen=True):
    row: JobRow


class JobList(_Answer, frozen=True):
    rows: Annotated[tuple[JobRow, ...], Meta(max_length=MAX_PAGE)]


class TaskList(_Answer, frozen=True):
    rows: Annotated[tuple[TaskRow, ...], Meta(max_length=MAX_PAGE)]


class Points(_Answer, frozen=True):
    """In the order of time. They begin with the first sample that is kept, and end now."""

    points: Annotated[tuple[HistoryPoint, ...], Meta(max_length=MAX_POINTS)]


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


class Results(_Answer, frozen=True):
    """In a list, `is_last` says that there are no more yet; in an event, that there will be no more."""

    rows: Annotated[tuple[ResultRow, ...], Meta(max_length=MAX_PAGE)]
    is_last: bool = True
    started: NamedTasks = ()  # in an event: tasks that their workers say have begun


class Retracted(_Answer, frozen=True):
    """The tasks that had not begun and never will. The rest of those asked for have begun, or had ended before."""

    tasks: RetractedTasks


class Explained(_Answer, frozen=True):
    lines: Annotated[tuple[Text, ...], Meta(max_length=MAX_PAGE)]


class WorkerRow(Struct, frozen=True):
    """A worker as it is listed."""

    id: Text
    name: Text
    slots: Count
    used: Count
    running: Integer
    tags: Annotated[tuple[Text, ...], Meta(max_length=MAX_TAGS)]
    connected: bool
    draining: bool
    silent_seconds: Seconds  # since its last message
    calls: Count = 0  # of commands, in progress
    commands: Annotated[tuple[Text, ...], Meta(max_length=MAX_COMMANDS)] = ()  # that it offers
    knows_time: bool = False  # the shared one, and so it can begin things at a time
    problem: str = ""  # what it is short of, and so uses fewer slots than it has
    version: Text = ""  # of gandy; empty if the worker does not say, as a plain one
    # Of its machine; None if the worker is away or does not say.
    load: Annotated[float, Meta(ge=0, le=MAX_LOAD)] | None = None  # processes that run or wait to run, over a minute
    cores: Count | None = None
    memory_bytes: Count | None = None  # in use
    memory_total_bytes: Count | None = None


class WorkerList(_Answer, frozen=True):
    rows: Annotated[tuple[WorkerRow, ...], Meta(max_length=MAX_PAGE)]


class ForemanStatus(_Answer, frozen=True, tag="Status"):
    version: Text
    pid: Count
    uptime_seconds: Seconds
    store: Text
    trouble: Text  # what the store complains about, or nothing
    listening: Places
    insecure: bool
    workers: Count
    slots: Count
    used: Count
    jobs: Count  # that are not final
    waiting: Integer  # tasks
    running: Integer
    insecure_doors: Places = ()  # of those in `listening`, the ones without keys
    unreadable: Count = 0  # jobs that cannot be read and were set aside
    assigned: Integer = 0  # tasks that workers have, and have not begun
    foremen: Count = 1  # of the crew
    shard: Count = 0  # of the crew's jobs, that the foreman was asked at; 0: it has a store of its own
    foreman: OptionalName = ""  # its id, new for each start
    versions: Versions = ()  # of gandy, of the foreman and of workers that are connected and say theirs


class ForemanRow(Struct, frozen=True):
    """A foreman as it is listed."""

    id: Text
    name: Text
    version: Text
    places: Places
    shards: Annotated[tuple[ShardNumber, ...], Meta(max_length=MAX_SHARDS)]  # that it owns
    jobs: Count  # of these shards, that are not final
    lease_seconds: Moment  # until the first of its leases expires; below zero: one has
    silent_seconds: Seconds  # since it last told the database that it is there
    is_leaving: bool = False
    is_here: bool = False  # it is the one that was asked
    is_gone: bool = False  # it is silent, and other foremen have taken over what it owned


class ForemanList(_Answer, frozen=True):
    rows: Annotated[tuple[ForemanRow, ...], Meta(max_length=MAX_SHARDS)]


class Time(_Answer, frozen=True):
    """What the shared time was when the foreman answered."""

    shared: SharedMoment


class Output(_Answer, frozen=True):
    """A piece of what a task wrote. `is_last`: there is no more, and there will be none."""

    data: PieceData
    attempt: AttemptNumber
    is_last: bool


class TaskOutput(Struct, frozen=True, omit_defaults=True):
    """What a task wrote, from its beginning. Unless `is_whole`, there may be more, which `ReadOutput` reads."""

    task: TaskIndex
    attempt: AttemptNumber
    data: PieceData = b""
    is_whole: bool = False
    problem: Text = ""  # why it cannot be read, for people


class OutputPage(_Answer, frozen=True):
    """The outputs of tasks up to `after`, as far as they wrote something."""

    rows: Annotated[tuple[TaskOutput, ...], Meta(max_length=MAX_OUTPUTS)]
    after: TaskIndex
    is_last: bool


class NotForgotten(Struct, frozen=True):
    """A job that stays, and why, for people."""

    job: JobNumber
    problem: Text
    is_unknown: bool = False  # there is no such job


class Forgotten(_Answer, frozen=True):
    """The jobs that stay. The rest of those asked for are forgotten."""

    kept: Annotated[tuple[NotForgotten, ...], Meta(max_length=MAX_FORGOTTEN)] = ()


class KeyRow(Struct, frozen=True):
    """A key, or an invitation, as it is listed."""

    id: Text
    name: Text
    role: Text
    state: Text  # good, revoked, expired; or, of an invitation, open
    made: WallMoment
    expires: WallMoment | None
    origin: Text
    links: Count  # that are open now, in the whole crew; a worker has one to each shard
    uses: Count = 0  # of an invitation, that are left


class KeyList(_Answer, frozen=True):
    rows: Annotated[tuple[KeyRow, ...], Meta(max_length=2 * MAX_PAGE)]  # keys and invitations


class KeyMade(_Answer, frozen=True):
    """What a peer needs besides the secret half."""

    certificate: KeyData  # DER
    foreman: Text  # fingerprint
    addresses: Places
    identity: KeyData = b""  # the foreman's own certificate, DER
    ensemble: Text = ""  # that the foreman is in


class Invited(_Answer, frozen=True):
    token: Text
    expires: WallMoment


class AuditList(_Answer, frozen=True):
    """Lines of JSON, the oldest first."""

    lines: Annotated[tuple[Annotated[str, Meta(max_length=MAX_AUDIT_LINE)], ...], Meta(max_length=MAX_PAGE)] = ()
    is_shared: bool = False  # False: this foreman is alone, and its audit is a file in its home


Answer = (
    Done
    | RequestFailure
    | Submitted
    | JobFound
    | JobList
    | TaskList
    | CrewUpdate
    | TaskUpdate
    | Points
    | CrewThen
    | Results
    | Retracted
    | Explained
    | WorkerList
    | ForemanStatus
    | ForemanList
    | Time
    | Output
    | OutputPage
    | Forgotten
    | KeyList
    | KeyMade
    | Invited
    | AuditList
)


def make_failure(kind: str, message: str, retryable: bool = False) -> RequestFailure:
    """A failure whose message is cut to a length that can be sent."""
    return RequestFailure(kind, message[:MAX_TEXT], retryable)


def hide_values(answer: Answer) -> Answer:
    """The answer without what only tasks need: pickled code, and the values of the environment."""
    match answer:
        case JobFound(row):
            return JobFound(_hide_row(row))
        case JobList(rows):
            return JobList(tuple(map(_hide_row, rows)))
        case _:
            return answer


def _hide_row(row: JobRow) -> JobRow:
    spec = row.spec
    if not spec.env and spec.python is None:
        return row
    python = spec.python and replace(spec.python, shared=b"", has_shared=bool(spec.python.shared))
    return replace(row, spec=replace(spec, env=dict.fromkeys(spec.env, ""), python=python))


encode: Final = msgspec.msgpack.Encoder().encode
_requests: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def decode_request(payload: bytes) -> Request:
    """Raises: RemoteProtocolError."""
    try:
        return _requests.decode(payload)
    except BROKEN as error:
        raise RemoteProtocolError(f"the request is not valid: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None


def decode_answer(payload: bytes) -> Answer:
    """Raises: RemoteProtocolError."""
    try:
        return _answers.decode(payload)
    except BROKEN as error:
        raise RemoteProtocolError(f"the foreman's answer: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
