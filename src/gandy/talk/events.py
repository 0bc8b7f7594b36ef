"""What a conversation reports to the program around it. Both generations use the same events."""

from msgspec import UNSET, Struct, UnsetType

from gandy.wire.messages import About, Answer, Extension, Request, Task, TaskPair, TaskResult


class Requested(Struct, frozen=True, eq=False):
    """The peer sent a request. Answer it with this very object, which is stale after a RESET."""

    seq: int
    message: Request


class Answered(Struct, frozen=True):
    """The peer answered our request."""

    request: Request
    answer: Answer


class Overflowed(Struct, frozen=True):
    """The peer had no room for our request. Send it again when the next request may go out."""

    request: Request


class Restarted(Struct, frozen=True):
    """Sequence numbers start again at zero. The worker sends HELLO first, then what the RESET dropped."""

    dropped: Request | None


class ExtensionReceived(Struct, frozen=True):
    """A message of an agreed extension. What `seq` means is up to the extension."""

    seq: int
    type: int
    payload: bytes


class Welcomed(Struct, frozen=True):
    """Worker: the foreman has accepted HELLO, and these extensions may be used."""

    extensions: Extension


class Start(Struct, frozen=True):
    """Worker: start these tasks, which have taken their slots."""

    tasks: tuple[Task, ...]


class Kill(Struct, frozen=True):
    """Worker: kill these tasks. Each must still end with a result."""

    tasks: tuple[TaskPair, ...]


class Acknowledged(Struct, frozen=True):
    """Worker: the foreman has recorded these results."""

    results: tuple[TaskResult, ...]


class ResultRefused(Struct, frozen=True):
    """Worker: the foreman refused this result. It is not sent again."""

    result: TaskResult
    code: int


class HelloRefused(Struct, frozen=True):
    """Worker: the foreman refused HELLO."""

    code: int


class Recalled(Struct, frozen=True):
    """Worker: give these tasks back, if they have not begun."""

    tasks: tuple[TaskPair, ...]


class Leave(Struct, frozen=True):
    """Worker: nothing is left to do; if `immediate`, drop everything now. Flush, then close the link."""

    immediate: bool


class Greeted(Struct, frozen=True):
    """Foreman: the worker sent HELLO. `running` are the tasks that it has, `free` its other slots.

    Tasks that were given to it and are not sent yet are in neither; they are in the side's account.
    """

    free: int
    running: tuple[Task, ...]
    extensions: Extension
    about: About | UnsetType = UNSET


class Reported(Struct, frozen=True, eq=False):
    """Foreman: tasks ended. Record the results, then acknowledge this very object."""

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
