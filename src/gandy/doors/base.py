"""What all doors for ZeroMQ peers have in common: what they are told, and what they need."""

from collections import Counter, deque
from typing import NamedTuple, Protocol

from gandy.core.calls import Peer
from gandy.core.workers import Worker, WorkerInfo


class Parcel(NamedTuple):
    """Frames for a peer; the first one is its routing id. Where they carry a call to a worker, `call` is its number."""

    frames: list[bytes]
    call: int = -1


class Roll(Protocol):
    """The worker table, as a door sees it."""

    def enter(self, info: WorkerInfo) -> Worker:
        """A worker is here."""
        ...

    def leave(self, worker: str) -> None:
        """It is gone for good."""
        ...

    def hear(self, worker: Worker) -> None:
        """It said something."""
        ...


class Door(Protocol):
    """Between a socket of routing ids and the switchboard. After each step, `outbox` is to be sent, in order."""

    outbox: deque[Parcel]
    dropped: Counter[str]  # what made no sense, by reason

    def on_message(self, frames: list[bytes], now: float) -> None:
        """From a peer; the first frame is its routing id. Never raises: what makes no sense is counted and dropped."""
        ...

    def on_undelivered(self, parcel: Parcel, now: float) -> None:
        """The peer is not connected, or does not read any more."""
        ...

    def on_disconnect(self, routing_id: bytes, now: float) -> None:
        """Its connection may be gone: find out."""
        ...

    def on_connect(self, now: float) -> None:
        """Somebody connected, and perhaps it is one whom we lost."""
        ...

    def on_out(self, peer: Peer, data: bytes, now: float) -> None:
        """What the switchboard says to one of the door's peers: whole frames of the CALLS extension."""
        ...

    def on_dismiss(self, worker: str, immediate: bool, now: float) -> None:
        """Let a worker go, when it has done what it has, or now."""
        ...

    def close(self) -> None:
        """The end: `outbox` has last words."""
        ...

    def on_time(self, now: float) -> None:
        """Every half second or so."""
        ...


def name_peer(door: str, routing_id: bytes) -> str:
    """The id of a door's worker: no two routing ids have the same, and no worker of another door has it."""
    if routing_id.isascii() and routing_id.decode("ascii").isprintable():
        return door + routing_id.decode().replace("%", "%25")
    return f"{door}%%{routing_id.hex()}"
