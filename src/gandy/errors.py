"""Everything that can go wrong, in one tree, and the codes that an ERROR message carries.

GandyError
├── ConfigError                   what the user wrote is not valid: an address, an option, a job file
│   └── TaskTooLarge              a pickled task has more bytes than the foreman takes
├── LinkError                     no link to the foreman, or it broke; try again
│   └── NothingListens            no program listens at any address of the foreman: it does not run
├── CrewFailed                    the crew that this program started did not come up, has died, or was closed
├── JobError
│   ├── JobNotFound
│   ├── JobMoved                  another foreman is taking over the job; try again
│   ├── TaskFailed                a function gave no value: its process died, it took too long, its worker was lost
│   └── JobTimeout                the job or the task did not end within the timeout of `wait` or `result`; it goes on
├── CallError
│   ├── CallFailed                the command raised
│   ├── Busy                      no slot is free, and too many calls wait already
│   ├── WorkerLost                the worker was lost while it had the call
│   ├── UnknownCommand            no worker offers the command
│   └── CallTimeout               the call did not end in time
├── AddressError                  not an address of the bus, or not one where this message can go
│   ├── UnknownService            no process in the ensemble offers the service
│   └── NoClock                   a time was given, and a process that must know the shared time does not
├── NotScheduled                  the time is too far away, or too many messages wait already
├── Rejected                      the foreman refuses, and will refuse again
│   ├── NotAllowed                our key is not accepted, or its role may not do this
│   └── JobClosed                 the job takes no more tasks
├── ProtocolError
│   ├── LocalProtocolError    our side broke the protocol: a bug in gandy or in the program around it
│   │   └── Unsendable        (talk/packing.py) a task fits no frame, whatever the worker
│   └── RemoteProtocolError   the peer broke the protocol: close the link
└── StoreError                the store cannot do it now: locked, damaged, away, too new
    ├── StoreFull             its disk is full: nothing more can be kept until a user makes room
    ├── OutcomeUnknown        the answer to a commit was lost: commit the same records again, to find out
    ├── SubmittedBefore       there are jobs with the keys of new ones: nothing was committed
    └── ShardLost             another foreman owns this shard now: nothing was changed, and nothing may be sent
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """The subtype of an ERROR message. The original has the first two; the others are sent to gandy peers only."""

    OVERFLOW = 1
    NO_PROCS = 2
    NO_SUCH_JOB = 3
    BAD_SEQ = 4
    BAD_MAGIC = 5
    UNKNOWN_TYPE = 6
    TOO_LONG = 7
    BAD_PAYLOAD = 8
    BAD_STATE = 9
    ALREADY_RUNNING = 10
    UNKNOWN_KEY = 11
    REVOKED_KEY = 12
    EXPIRED_KEY = 13
    WRONG_ROLE = 14


# Why a foreman refuses a peer or a request, for users.
REFUSALS: Final = {
    ErrorCode.UNKNOWN_KEY: "the foreman does not know this key; ask for an invitation, and use 'gandy join'",
    ErrorCode.REVOKED_KEY: "this key was revoked; ask for an invitation, and use 'gandy join'",
    ErrorCode.EXPIRED_KEY: "this key has expired; ask for an invitation, and use 'gandy join'",
    ErrorCode.WRONG_ROLE: "this key is for another role: a worker's key runs tasks, a client's submits and calls, an "
    "observer's only reads; 'gandy invite' on the foreman's machine makes another one",
}


def name_code(code: int) -> str:
    """Return the name of an error code; a code that gandy does not know is "error N"."""
    try:
        return ErrorCode(code).name.lower()
    except ValueError:
        return f"error {code}"


class GandyError(Exception):
    """The base of all errors that gandy raises on purpose. `retryable`: the same request may succeed later."""

    retryable = False


class ConfigError(GandyError):
    """What the user wrote is not valid."""


class TaskTooLarge(ConfigError):
    """A pickled function task has more bytes than the foreman takes."""


class LinkError(GandyError):
    """There is no link to the foreman, or it broke before the answer came."""

    retryable = True


class NothingListens(LinkError):
    """No program listens at any address of the foreman."""

    def __init__(self, places: tuple[str, ...], hint: str) -> None:
        super().__init__(f"no foreman is running at {' or '.join(places)}; {hint}")
        self.places = places
        self.hint = hint


class CrewFailed(GandyError):
    """The crew that this program started did not come up, has died, or was closed."""


class Rejected(GandyError):
    """The foreman understood, and refuses. Asking again will not help."""


class NotAllowed(Rejected):
    """Our key is not accepted, or its role may not do this."""


class JobClosed(Rejected):
    """The job takes no more tasks: it was closed or cancelled, or has ended."""


class JobError(GandyError):
    """A request about a job, or a function task, failed."""


class JobNotFound(JobError):
    """No such job, or no such task in it."""


class JobMoved(JobError):
    """Another foreman is taking over the job, and can be asked soon."""

    retryable = True


class TaskFailed(JobError):
    """A function gave neither a value nor an exception: its process died, or it took too long."""


class JobTimeout(JobError):
    """The job or the task did not end within the timeout of `wait` or `result`. It goes on."""

    retryable = True


class ProtocolError(GandyError):
    """A rule of a wire protocol was broken."""


class LocalProtocolError(ProtocolError):
    """Our side asked for something that the protocol forbids."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol forbids; the link cannot go on."""

    def __init__(self, message: str, code: ErrorCode, offset: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.offset = offset  # of the bad frame, in bytes since the link began; None if no single frame is at fault


class StoreError(GandyError):
    """The store cannot do what was asked. `retryable` if it may succeed later: a full disk can be emptied."""

    def __init__(self, message: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class StoreFull(StoreError):
    """The disk of the store is full. Nothing more can be kept until a user makes room."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class OutcomeUnknown(StoreError):
    """The answer to a commit was lost. It may have been done: the same records must be committed again, and then the
    store finds out."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class SubmittedBefore(StoreError):
    """Nothing was committed: some of the new jobs were submitted before, with the same keys. `jobs`: by the number of
    each new one, the job that has its key."""

    def __init__(self, jobs: Mapping[int, int]) -> None:
        numbers = ", ".join(f"{new} as {earlier}" for new, earlier in sorted(jobs.items()))
        super().__init__(f"these jobs were submitted before: {numbers}", retryable=True)
        self.jobs = dict(jobs)


class ShardLost(StoreError):
    """Another foreman owns this shard of jobs now. Nothing was changed, and the foreman must stop speaking for it."""


class CallError(GandyError):
    """A call of a command gave no value."""


class CallFailed(CallError):
    """The command raised. `kind` is the name of the exception class, `trace` the traceback on the worker."""

    def __init__(self, message: str, kind: str = "", trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace


class Busy(CallError):
    """No slot is free, and too many calls wait already."""

    retryable = True


class WorkerLost(CallError):
    """The worker was lost while it had the call. How far it got is unknown."""

    retryable = True


class UnknownCommand(CallError):
    """No worker offers the command."""


class CallTimeout(CallError, TimeoutError):
    """The call did not end in time; its worker stops it."""

    retryable = True


class AddressError(GandyError):
    """A message of the bus cannot go there."""


class UnknownService(AddressError):
    """No process in the ensemble offers the service, as far as we know now."""

    retryable = True


class NoClock(AddressError):
    """A time was given, and a process that must know the shared time does not: it would begin too early, or never."""

    retryable = True


class NotScheduled(GandyError, OverflowError):
    """The time is too far away, or too many messages wait already. `retryable` in the second case."""

    def __init__(self, message: str, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable
