"""What clients ask a foreman, and what it answers: the payloads of the CLIENT extension.

A request has its own number, which its answer repeats; many may be under way. Anything wrong with a payload is a
RemoteProtocolError.
"""

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gandy.core.model import Cause, JobSpec, JobState, TaskState
from gandy.core.rows import JobRow, TaskRow
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.ids import JobId, TaskNumber

# Types of the CLIENT extension.
REQUEST: Final = 0x30
REPLY: Final = 0x31
EVENT: Final = 0x32  # carries the number of the request that asked for events


class _Request(Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class Submit(_Request, frozen=True):
    """Answered with `Submitted`, when the job is on disk."""

    spec: JobSpec
    lines: tuple[str, ...] = ()
    upload: int = 0  # or the number of an upload that has the lines; 0: none


class AddLines(_Request, frozen=True):
    """Answered with `Done`. More lines for a `Submit` that follows on this link with the same number of upload."""

    upload: int
    lines: tuple[str, ...]


class AddTasks(_Request, frozen=True):
    """Answered with `Done`, when they are on disk. More tasks for an open job, numbered from `first`.

    What came already is skipped, so that a client may send again what it has no answer for.
    """

    job: JobId
    first: TaskNumber
    inputs: tuple[bytes, ...]


class PutArguments(_Request, frozen=True):
    """Answered with `Done`. A piece of arguments that are too large for a task; a name is 32 hexadecimal digits."""

    name: str
    offset: int
    data: bytes
    is_last: bool = False


class CloseJob(_Request, frozen=True):
    """Answered with `Done`. No more tasks will be added."""

    job: JobId


class WatchResults(_Request, frozen=True):
    """Answered with `JobFound`; until the job is final come events, each `Results` with what started and ended."""

    job: JobId


class ListResults(_Request, frozen=True):
    """Answered with `Results`, in the order of task numbers: those above `after` that have ended for good."""

    job: JobId
    after: TaskNumber = TaskNumber(0)


class ListJobs(_Request, frozen=True):
    """Answered with `JobList`, the newest first. `before` continues below a job's number."""

    states: tuple[JobState, ...] | None = None
    limit: int = 100
    before: JobId | None = None


class ShowJob(_Request, frozen=True):
    """Answered with `JobFound`."""

    job: JobId


class WatchJob(_Request, frozen=True):
    """Answered with `JobFound`; then come events, each a `JobFound`, until the job is final."""

    job: JobId


class ListTasks(_Request, frozen=True):
    """Answered with `TaskList`, in the order of task numbers. `after` continues above a task's number."""

    job: JobId
    states: tuple[TaskState, ...] | None = None
    limit: int = 100
    after: TaskNumber = TaskNumber(0)


class ListAttempts(_Request, frozen=True):
    """Answered with `TaskList`: every attempt at one task, the first one first."""

    job: JobId
    task: TaskNumber


class CancelJob(_Request, frozen=True):
    """Answered with `JobFound`. Without tasks, the whole job is meant; the same in the next three."""

    job: JobId
    tasks: tuple[TaskNumber, ...] | None = None


class RetryJob(_Request, frozen=True):
    job: JobId
    tasks: tuple[TaskNumber, ...] | None = None


class HoldJob(_Request, frozen=True):
    job: JobId


class ReleaseJob(_Request, frozen=True):
    job: JobId


class ForgetJob(_Request, frozen=True):
    """Answered with `Done`. Only a final job can be forgotten."""

    job: JobId


class ExplainJob(_Request, frozen=True):
    """Answered with `Explained`: why tasks wait, or how they died."""

    job: JobId
    task: TaskNumber | None = None


class ListWorkers(_Request, frozen=True):
    """Answered with `WorkerList`."""


class StopWorker(_Request, frozen=True):
    """Answered with `Done`. By name or id; without `immediate`, its tasks end first."""

    worker: str
    immediate: bool = False


class GetStatus(_Request, frozen=True):
    """Answered with `Status`."""


class GetTime(_Request, frozen=True):
    """Answered with `Time`, where the foreman knows the shared time."""


class ReadOutput(_Request, frozen=True):
    """Answered with `Output`. Attempt 0 means the last one."""

    job: JobId
    task: TaskNumber
    stream: str = "out"  # or "err", or "result" for a large result
    attempt: int = 0
    offset: int = 0
    limit: int = 65_536


class StopForeman(_Request, frozen=True):
    """Answered with `Done`, then the foreman stops. With `drain`, workers finish their tasks and leave too."""

    drain: bool = False


class ListKeys(_Request, frozen=True):
    """Answered with `KeyList`."""


class MakeKey(_Request, frozen=True):
    """Answered with `KeyMade`. Its owner keeps the secret half to itself."""

    public_key: bytes  # DER
    name: str
    role: str
    seconds: float | None = None  # that it is good; None: until it is revoked


class RevokeKey(_Request, frozen=True):
    """Answered with `KeyList`: those that are no longer good. Links that they opened are cut."""

    key: str  # its name, id or fingerprint, or the id of an invitation


class Invite(_Request, frozen=True):
    """Answered with `Invited`."""

    role: str
    seconds: float
    uses: int = 1
    addresses: tuple[str, ...] = ()  # that the token names; else where this foreman can be reached, as far as it knows


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
    | ListTasks
    | ListAttempts
    | CancelJob
    | RetryJob
    | HoldJob
    | ReleaseJob
    | ForgetJob
    | ExplainJob
    | ListWorkers
    | StopWorker
    | GetStatus
    | GetTime
    | ReadOutput
    | StopForeman
    | ListKeys
    | MakeKey
    | RevokeKey
    | Invite
)


class _Answer(Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class Done(_Answer, frozen=True):
    pass


class Failure(_Answer, frozen=True):
    """No, and why. The kind is a word for programs, the message a sentence for people."""

    kind: str  # not_found, bad_request, refused, not_allowed, no_clock, store, gone
    message: str
    retryable: bool = False


class Submitted(_Answer, frozen=True):
    job: JobId


class JobFound(_Answer, frozen=True):
    row: JobRow


class JobList(_Answer, frozen=True):
    rows: tuple[JobRow, ...]


class TaskList(_Answer, frozen=True):
    rows: tuple[TaskRow, ...]


class ResultRow(Struct, frozen=True, omit_defaults=True):
    """How a task ended for good. The result is the pickled value, or exception, of a Python function."""

    task: TaskNumber
    state: TaskState
    attempt: int = 0
    cause: Cause = Cause.EXIT
    note: str = ""
    tail: bytes = b""
    result: bytes = b""
    result_bytes: int = 0  # of a large result: read it as the output "result" of the attempt


class Results(_Answer, frozen=True):
    """In a list, `is_last` says that there are no more yet; in an event, that there will be no more."""

    rows: tuple[ResultRow, ...]
    is_last: bool = True
    started: tuple[TaskNumber, ...] = ()  # in an event: tasks that were given to a worker


class Explained(_Answer, frozen=True):
    lines: tuple[str, ...]


class WorkerRow(Struct, frozen=True):
    """A worker as it is listed."""

    id: str
    name: str
    slots: int
    used: int
    running: int
    tags: tuple[str, ...]
    connected: bool
    draining: bool
    silent_seconds: float  # since its last word
    calls: int = 0  # of commands, that run
    commands: tuple[str, ...] = ()  # that it offers
    knows_time: bool = False  # the shared one, and so it can begin things at a time


class WorkerList(_Answer, frozen=True):
    rows: tuple[WorkerRow, ...]


class Status(_Answer, frozen=True):
    version: str
    pid: int
    uptime_seconds: float
    store: str
    trouble: str  # what the store complains about, or nothing
    listening: tuple[str, ...]
    insecure: bool
    workers: int
    slots: int
    used: int
    jobs: int  # that are not final
    waiting: int  # tasks
    running: int
    insecure_doors: tuple[str, ...] = ()  # of those in `listening`, the ones without keys


class Time(_Answer, frozen=True):
    """What the shared time was when the foreman answered."""

    shared: float


class Output(_Answer, frozen=True):
    """A piece of what a task wrote. `is_last`: there is no more, and there will be none."""

    data: bytes
    attempt: int
    is_last: bool


class KeyRow(Struct, frozen=True):
    """A key, or an invitation, as it is listed."""

    id: str
    name: str
    role: str
    state: str  # good, revoked, expired; or, of an invitation, open
    made: float
    expires: float | None
    origin: str
    links: int  # that are open now
    uses: int = 0  # of an invitation, that are left


class KeyList(_Answer, frozen=True):
    rows: tuple[KeyRow, ...]


class KeyMade(_Answer, frozen=True):
    """What is needed beside the secret half."""

    certificate: bytes  # DER
    foreman: str  # fingerprint
    addresses: tuple[str, ...]
    identity: bytes = b""  # the foreman's own certificate, DER
    ensemble: str = ""  # that the foreman is in


class Invited(_Answer, frozen=True):
    token: str
    expires: float


Answer = (
    Done
    | Failure
    | Submitted
    | JobFound
    | JobList
    | TaskList
    | Results
    | Explained
    | WorkerList
    | Status
    | Time
    | Output
    | KeyList
    | KeyMade
    | Invited
)


def hide_values(answer: Answer) -> Answer:
    """The same, as clients may see it: of a job's environment the names alone. The values are for its tasks."""
    match answer:
        case JobFound(row):
            return JobFound(_hide_row(row))
        case JobList(rows):
            return JobList(tuple(map(_hide_row, rows)))
        case _:
            return answer


def _hide_row(row: JobRow) -> JobRow:
    if not row.spec.env:
        return row
    return replace(row, spec=replace(row.spec, env=dict.fromkeys(row.spec.env, "")))


encode: Final = msgspec.msgpack.Encoder().encode
_requests: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)

# What msgspec raises for bytes it does not like.
_BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_request(payload: bytes) -> Request:
    """Raises: RemoteProtocolError."""
    try:
        return _requests.decode(payload)
    except _BROKEN as error:
        raise RemoteProtocolError(f"a client's request: {error}", ErrorCode.BAD_PAYLOAD) from None


def decode_answer(payload: bytes) -> Answer:
    """Raises: RemoteProtocolError."""
    try:
        return _answers.decode(payload)
    except _BROKEN as error:
        raise RemoteProtocolError(f"the foreman's answer: {error}", ErrorCode.BAD_PAYLOAD) from None
