"""The interfaces of all doors for ZeroMQ peers: the events that they take, and the worker table that they need."""

from collections import Counter, deque
from typing import NamedTuple, Protocol

from gandy.core.calls import Peer
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.moments import Monotonic


class Outgoing(NamedTuple):
    """Frames for a peer; the first one is its routing id. `call`: the number of the call in them; -1: none."""

    frames: list[bytes]
    call: int = -1


class WorkerRegistry(Protocol):
    """The worker table, as a door sees it."""

    def add(self, info: WorkerInfo) -> KnownWorker: ...

    def remove(self, worker: str) -> None:
        """Forget it for good."""
        ...

    def on_heard(self, worker: KnownWorker) -> None:
        """A message came from the worker."""
        ...


class Door(Protocol):
    """Stands between a ROUTER socket and the switchboard. After each step, send `outbox`, in order."""

    outbox: deque[Outgoing]
    dropped: Counter[str]  # messages that could not be used, by reason

    def on_message(self, frames: list[bytes], now: Monotonic) -> None:
        """A peer sent this; the first frame is its routing id. Never raises: invalid messages are counted."""
        ...

    def on_undelivered(self, outgoing: Outgoing, now: Monotonic) -> None:
        """A message was not sent: the peer is not connected, or does not read any more."""
        ...

    def on_disconnect(self, routing_id: bytes, now: Monotonic) -> None:
        """The peer may have lost its connection: check by sending it a message."""
        ...

    def on_connect(self, now: Monotonic) -> None:
        """A peer connected. It may be a worker that we lost."""
        ...

    def on_out(self, peer: Peer, data: bytes, now: Monotonic) -> None:
        """The switchboard sends one of the door's peers whole frames of the CALLS extension."""
        ...

    def on_dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None:
        """Dismiss a worker: when its calls have ended, or immediately."""
        ...

    def close(self) -> None:
        """The foreman stops. `outbox` has the last messages."""
        ...

    def on_time(self, now: Monotonic) -> None:
        """To be called about every half second."""
        ...


def name_peer(door: str, routing_id: bytes) -> str:
    """The id of a door's worker; unique for each door and routing id."""
    if routing_id.isascii() and routing_id.decode("ascii").isprintable():
        return door + routing_id.decode().replace("%", "%25")
    return f"{door}%%{routing_id.hex()}"
