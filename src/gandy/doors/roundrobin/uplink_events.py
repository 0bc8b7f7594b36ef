"""Events of a connection to a round-robin server, for the worker, the client or the console that uses it."""

from msgspec import Struct

from gandy.doors.roundrobin.wire import QueueMessage
from gandy.moments import Monotonic


class Connected(Struct, frozen=True):
    """The server answered."""


class Unreachable(Struct, frozen=True):
    """The server has been silent since then. We go on trying."""

    since: Monotonic


class Renew(Struct, frozen=True):
    """Make a new socket with a new routing id, and call `on_socket`."""


class RegisterConfirmed(Struct, frozen=True):
    """Worker: the server knows us and our slots."""


class RegisterRefused(Struct, frozen=True):
    """Worker: the server has no room for us, which only gandy's servers report. We try again."""

    reason: str


class Deregistered(Struct, frozen=True):
    """Worker: the server has read our DEREGISTER, and we have received all it sent before; or there is no server."""


class Dispatched(Struct, frozen=True):
    """Worker: a request to run. `finish` with the ticket returns the slot."""

    ticket: int
    message: QueueMessage


class StreamRequested(Struct, frozen=True):
    """Worker: a request about a stream of ours (MQS_MORE, ONGOING). It takes no slot: the server only passed it on."""

    message: QueueMessage


class Response(Struct, frozen=True):
    """Client: the answer to a request. `path` reversed is the way to the peer that sent it."""

    id: bytes
    args: tuple[bytes, ...]
    path: tuple[bytes, ...]


class Expired(Struct, frozen=True):
    """Client: no answer came, or none can come."""

    id: bytes
    reason: str


ToWorker = RegisterConfirmed | RegisterRefused | Deregistered | Dispatched | StreamRequested
Event = Connected | Unreachable | Renew | ToWorker | Response | Expired
