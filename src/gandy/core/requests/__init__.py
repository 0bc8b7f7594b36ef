"""What clients ask a foreman, and what it answers: the payloads of the CLIENT extension.

A request has its own number, which its answer repeats; many may be under way. Anything wrong with a payload is a
RemoteProtocolError.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from gandy.bounds import BROKEN, describe
from gandy.core.past_crew import CrewThen
from gandy.core.requests.base import Done, RequestFailure, make_failure
from gandy.core.requests.crew import (
    DrainForeman,
    ForemanList,
    ForemanRow,
    ForemanStatus,
    GetStatus,
    GetTime,
    ListForemen,
    ListWorkers,
    LookAtShards,
    StopForeman,
    StopWorker,
    Time,
    WorkerList,
    WorkerRow,
)
from gandy.core.requests.jobs import (
    AddLines,
    AddTasks,
    CancelJob,
    CloseJob,
    Explained,
    ExplainJob,
    ForgetJobs,
    Forgotten,
    HoldJob,
    JobFound,
    JobList,
    ListAttempts,
    ListJobs,
    ListResults,
    ListTasks,
    NotForgotten,
    PutArguments,
    ReleaseJob,
    ResultRow,
    Results,
    Retracted,
    RetractTasks,
    RetryJob,
    ShowJob,
    Submit,
    Submitted,
    TaskList,
    WatchJob,
    WatchResults,
)
from gandy.core.requests.keys import (
    AuditList,
    Invite,
    Invited,
    KeyList,
    KeyMade,
    KeyRow,
    ListAudit,
    ListKeys,
    MakeKey,
    RevokeKey,
)
from gandy.core.requests.outputs import Output, OutputPage, ReadOutput, ReadOutputs, TaskOutput
from gandy.core.requests.viewing import (
    FindTasks,
    ListSamples,
    Points,
    ReadSample,
    ReadStates,
    Unwatch,
    WatchCrew,
    WatchTasks,
)
from gandy.core.rows import JobRow
from gandy.core.views import CrewUpdate, TaskUpdate
from gandy.errors import ErrorCode, RemoteProtocolError

__all__ = [
    "EVENT",
    "REPLY",
    "REQUEST",
    "AddLines",
    "AddTasks",
    "Answer",
    "AuditList",
    "CancelJob",
    "CloseJob",
    "Done",
    "DrainForeman",
    "ExplainJob",
    "Explained",
    "FindTasks",
    "ForemanList",
    "ForemanRow",
    "ForemanStatus",
    "ForgetJobs",
    "Forgotten",
    "GetStatus",
    "GetTime",
    "HoldJob",
    "Invite",
    "Invited",
    "JobFound",
    "JobList",
    "KeyList",
    "KeyMade",
    "KeyRow",
    "ListAttempts",
    "ListAudit",
    "ListForemen",
    "ListJobs",
    "ListKeys",
    "ListResults",
    "ListSamples",
    "ListTasks",
    "ListWorkers",
    "LookAtShards",
    "MakeKey",
    "NotForgotten",
    "Output",
    "OutputPage",
    "Points",
    "PutArguments",
    "ReadOutput",
    "ReadOutputs",
    "ReadSample",
    "ReadStates",
    "ReleaseJob",
    "Request",
    "RequestFailure",
    "ResultRow",
    "Results",
    "RetractTasks",
    "Retracted",
    "RetryJob",
    "RevokeKey",
    "ShowJob",
    "StopForeman",
    "StopWorker",
    "Submit",
    "Submitted",
    "TaskList",
    "TaskOutput",
    "Time",
    "Unwatch",
    "WatchCrew",
    "WatchJob",
    "WatchResults",
    "WatchTasks",
    "WorkerList",
    "WorkerRow",
    "decode_answer",
    "decode_request",
    "encode",
    "hide_values",
    "make_failure",
]

# Types of the CLIENT extension.
REQUEST: Final = 0x30
REPLY: Final = 0x31
EVENT: Final = 0x32  # carries the number of the request that asked for events

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
