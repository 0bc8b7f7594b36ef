"""Frames of calls that wait to be written: to the link of a peer, or to its door."""

from typing import Protocol

from gandy.core.call_meter import CallMeter
from gandy.core.calls import Call, Peer
from gandy.moments import Monotonic
from gandy.wire.calls import CAST, LAST, REFUSED, RESULT, encode, encode_refusal


class AttachedDoor(Protocol):
    """A door of another protocol with its socket. Its peers have no link: the door writes to them."""

    def send(self, now: Monotonic) -> bool:
        """Send what is in the outbox of the door. True if there was something."""
        ...

    def on_time(self, now: Monotonic) -> None: ...

    def dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None: ...


class CallOutput:
    """Collects frames for peers. `touched` has the peers that have some."""

    def __init__(self) -> None:
        self.touched: set[Peer] = set()
        self.doors: list[AttachedDoor] = []
        self.meter: CallMeter | None = None  # while viewers look
        self.ended = 0  # calls, since the foreman started

    def add(self, peer: Peer, kind: int, subtype: int, seq: int, argument: int = 0, payload: bytes = b"") -> None:
        self.touched.add(peer)
        peer.out.append(encode(kind, subtype, seq, argument, payload))

    def refuse(self, client: Peer, seq: int, code: int, text: str) -> None:
        self.add(client, RESULT, LAST | REFUSED, seq, 0, encode_refusal(code, text))

    def end(self, call: Call, code: int, text: str) -> None:
        """End a call that its worker did not end, and refuse it to its client."""
        if self.meter is not None:
            self.meter.note_lost(call)
        self.ended += 1
        client, call.client = call.client, None
        if client is not None:
            del client.calls[call.client_id]
            if not call.flags & CAST or not call.is_complete:  # a client that still sends a cast must know
                self.refuse(client, call.client_id, code, text)

    def flush(self, now: Monotonic) -> None:
        """Write all frames. A door may find that a peer is gone, and then there is more to write."""
        self._write(now)
        while self.doors and sum(door.send(now) for door in self.doors):
            self._write(now)

    def _write(self, now: Monotonic) -> None:
        touched = self.touched
        while touched:
            peer = touched.pop()
            data = b"".join(peer.out)
            peer.out.clear()
            if peer.write is not None:
                peer.write(data)
            else:
                assert peer.on_out is not None, "a peer has a link or a door"
                peer.on_out(peer, data, now)
