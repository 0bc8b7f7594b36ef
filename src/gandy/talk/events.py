"""What a conversation reports to the program around it. Both generations use the same events."""

from msgspec import UNSET, Struct, UnsetType

from gandy.wire.messages import About, Answer, Extension, Request, Task, TaskPair, TaskResult


class Requested(Struct, frozen=True, eq=False):
    """The peer asks something; the answer goes back with this very object, which is stale after a RESET."""

    seq: int
    message: Request


class Answered(Struct, frozen=True):
    """The peer answered what we asked."""

    request: Request
    answer: Answer


class Overflowed(Struct, frozen=True):
    """The peer had no room for our request. Send it again when the next request may go out."""

    request: Request


class Restarted(Struct, frozen=True):
    """Numbers begin again at zero. HELLO comes first, then what the RESET dropped."""

    dropped: Request | None


class ExtensionReceived(Struct, frozen=True):
    """A message of an agreed extension. `seq` is the extension's own affair."""

    seq: int
    type: int
    payload: bytes


class Welcomed(Struct, frozen=True):
    """Worker: the foreman knows us now, and these extensions may be used."""

    extensions: Extension


class Start(Struct, frozen=True):
    """Worker: start these tasks; their slots are taken."""

    tasks: tuple[Task, ...]


class Kill(Struct, frozen=True):
    """Worker: kill these tasks. Each still ends with a result."""

    tasks: tuple[TaskPair, ...]


class Acknowledged(Struct, frozen=True):
    """Worker: the foreman has these results for good."""

    results: tuple[TaskResult, ...]


class ResultRefused(Struct, frozen=True):
    """Worker: the foreman does not want this result, and will not be asked again."""

    result: TaskResult
    code: int


class HelloRefused(Struct, frozen=True):
    """Worker: the foreman does not want us."""

    code: int


class Recalled(Struct, frozen=True):
    """Worker: give these tasks back, if they have not begun."""

    tasks: tuple[TaskPair, ...]


class Leave(Struct, frozen=True):
    """Worker: nothing is left to do, or, if immediate, drop everything now. Flush, then close the link."""

    immediate: bool


class Greeted(Struct, frozen=True):
    """Foreman: the worker said what it does. `running` are tasks it holds, `free` the slots it has beside them.

    What was given to it and is still to be sent is in neither; the side's account has it.
    """

    free: int
    running: tuple[Task, ...]
    extensions: Extension
    about: About | UnsetType = UNSET


class Reported(Struct, frozen=True, eq=False):
    """Foreman: tasks ended. Record it, then acknowledge this very object."""

    results: tuple[TaskResult, ...]
    ticket: Requested | int  # the UPDATE that brought it, or the number of a batch


class Accepted(Struct, frozen=True):
    """Foreman: the worker has started these tasks."""

    tasks: tuple[Task, ...]


class Refused(Struct, frozen=True):
    """Foreman: the worker has not started any of these tasks."""

    tasks: tuple[Task, ...]
    code: int


ExchangeEvent = Requested | Answered | Overflowed | Restarted | ExtensionReceived
WorkerEvent = (
    Welcomed
    | Start
    | Kill
    | Recalled
    | Acknowledged
    | ResultRefused
    | HelloRefused
    | Leave
    | Restarted
    | ExtensionReceived
)
ForemanEvent = Greeted | Reported | Accepted | Refused | Answered | Restarted | ExtensionReceived
