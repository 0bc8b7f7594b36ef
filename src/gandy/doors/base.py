"""What all doors for ZeroMQ peers share: the events that they take, and the worker table that they need."""

from collections import Counter, deque
from typing import NamedTuple, Protocol

from gandy.core.calls import Peer
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.moments import Monotonic


class Outgoing(NamedTuple):
    """Frames for a peer; the first one is its routing id. Frames that carry a call to a worker have its number."""

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
    """Between a socket of routing ids and the switchboard. After each step, `outbox` is to be sent, in order."""

    outbox: deque[Outgoing]
    dropped: Counter[str]  # messages that could not be used, by reason

    def on_message(self, frames: list[bytes], now: Monotonic) -> None:
        """From a peer; the first frame is its routing id. Never raises: invalid messages are counted and dropped."""
        ...

    def on_undelivered(self, outgoing: Outgoing, now: Monotonic) -> None:
        """The peer is not connected, or does not read any more."""
        ...

    def on_disconnect(self, routing_id: bytes, now: Monotonic) -> None:
        """The peer may have lost its connection: find out."""
        ...

    def on_connect(self, now: Monotonic) -> None:
        """A peer connected. It may be a worker that we lost."""
        ...

    def on_out(self, peer: Peer, data: bytes, now: Monotonic) -> None:
        """From the switchboard to one of the door's peers: whole frames of the CALLS extension."""
        ...

    def on_dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None:
        """Let a worker go, when it has ended what it has, or now."""
        ...

    def close(self) -> None:
        """The foreman stops. `outbox` has the last messages."""
        ...

    def on_time(self, now: Monotonic) -> None:
        """Every half second or so."""
        ...


def name_peer(door: str, routing_id: bytes) -> str:
    """The id of a door's worker. No other routing id and no other door gives the same."""
    if routing_id.isascii() and routing_id.decode("ascii").isprintable():
        return door + routing_id.decode().replace("%", "%25")
    return f"{door}%%{routing_id.hex()}"
