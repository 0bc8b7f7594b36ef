"""Frames of calls on their way out: what each peer is to be sent, until it is written to a link or a door."""

from typing import Protocol

from gandy.core.calls import Call, Peer
from gandy.moments import Monotonic
from gandy.wire.calls import CAST, LAST, REFUSED, RESULT, encode, encode_refusal


class AttachedDoor(Protocol):
    """A door of another protocol with its socket. Its peers have no link: the door writes to them."""

    def send(self, now: Monotonic) -> bool:
        """Send what the door has to say. True if there was something."""
        ...

    def on_time(self, now: Monotonic) -> None: ...

    def dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None: ...


class CallOutput:
    """Whatever is in `touched` has something to send."""

    def __init__(self) -> None:
        self.touched: set[Peer] = set()
        self.doors: list[AttachedDoor] = []

    def add(self, peer: Peer, kind: int, subtype: int, seq: int, argument: int = 0, payload: bytes = b"") -> None:
        self.touched.add(peer)
        peer.out.append(encode(kind, subtype, seq, argument, payload))

    def refuse(self, client: Peer, seq: int, code: int, text: str) -> None:
        self.add(client, RESULT, LAST | REFUSED, seq, 0, encode_refusal(code, text))

    def end(self, call: Call, code: int, text: str) -> None:
        """The call is over, and not because its worker said so."""
        client, call.client = call.client, None
        if client is not None:
            del client.calls[call.client_id]
            if not call.flags & CAST or not call.is_complete:  # a client that still sends a cast must know
                self.refuse(client, call.client_id, code, text)

    def flush(self, now: Monotonic) -> None:
        """Write all frames. What a door sends may reach no peer, and then there is more to be written."""
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
                assert peer.on_out is not None, "a peer has a link or came in by a door"
                peer.on_out(peer, data, now)
