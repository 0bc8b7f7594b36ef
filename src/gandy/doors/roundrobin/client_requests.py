"""Makes a call on the switchboard of each message of a round-robin client, and sends responses to clients."""

from collections import deque
from collections.abc import Callable
from typing import Final

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.roundrobin import wire
from gandy.doors.roundrobin.codes import Entry
from gandy.doors.roundrobin.streams import ServedStream
from gandy.doors.values import encode_value
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire import calls

TRIES: Final = 5  # of a repeatable command, if its workers are lost

SendFrames = Callable[[list[bytes]], None]


class Responder:
    """Sends responses to the requests that want one."""

    def __init__(self, send: SendFrames) -> None:
        self._send = send

    def answer(self, message: wire.QueueMessage, *payload: bytes) -> None:
        if message.command != wire.EXEC:
            self._send(wire.encode(wire.make_reply(message, wire.RESPONSE, *payload)))

    def fail(self, message: wire.QueueMessage, text: str) -> None:
        """Send the status of a failure, and the reason."""
        reason = text.encode(errors="replace") or b"it failed"  # an empty frame would end the message
        self.answer(message, wire.FAILED, reason)


class QueueClient:
    """A client of the round-robin queue that has requests under way."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.under_way: set[int] = set()
        self.waiting: deque[ClientRequest] = deque()
        self.bytes = 0  # of both


class ClientRequest:
    """A client's message, its call on the switchboard, and the part of the result that has come so far."""

    def __init__(
        self, board: Switchboard, caster: Peer, client: QueueClient, message: wire.QueueMessage, entry: Entry
    ) -> None:
        self.client = client
        self.message = message  # with the whole path
        self.entry = entry
        self.number = 0  # of the call
        self.tries = 0
        self.is_undelivered = False  # its worker left before it received the message
        self.reply: list[bytes] | None = None  # the response of a round-robin worker, frame for frame
        self.body = encode_value(message.args[1:])
        self.value = bytearray()  # as much as has come
        self.stream: ServedStream | None = None
        self._board = board
        self._peer = caster if self.is_cast else client.peer
        self._sent = 0  # bytes of the body
        self._credit = calls.WINDOW_BYTES

    @property
    def sender(self) -> bytes:
        return self.message.path[-1]

    @property
    def is_cast(self) -> bool:
        return self.message.command == wire.EXEC

    @property
    def can_repeat(self) -> bool:
        may_run = self.is_undelivered or (self.entry.is_repeatable and self.tries < TRIES)
        return may_run and (self.stream is None or not self.stream.has_begun)

    def submit(self, number: int) -> None:
        """Begin a call with this number."""
        self.number = number
        flags = calls.PATIENT | (calls.STREAM if self.entry.is_stream else 0)
        self._sent = min(len(self.body), MAX_PIECE_BYTES)
        self._credit = calls.WINDOW_BYTES - self._sent - calls.FRAME_COST
        if self._sent < len(self.body):
            flags |= calls.MORE
        self._put_frame(calls.CALL, flags, payload=calls.encode_target(self.entry.name) + self.body[: self._sent])
        self._push()

    def on_credit(self, count: int) -> None:
        self._credit += count
        self._push()

    def _push(self) -> None:
        """Send more of the arguments, as far as there is credit."""
        while self._sent < len(self.body) and self._credit > 0:
            piece = self.body[self._sent : self._sent + MAX_PIECE_BYTES]
            self._sent += len(piece)
            self._credit -= len(piece) + calls.FRAME_COST
            self._put_frame(calls.BODY, calls.LAST if self._sent == len(self.body) else 0, payload=piece)

    def grant(self, count: int) -> None:
        self._put_frame(calls.CREDIT, argument=count)

    def cancel(self) -> None:
        """Does nothing if the call has ended."""
        self._put_frame(calls.CANCEL)

    def _put_frame(self, kind: int, flags: int = 0, argument: int = 0, payload: bytes = b"") -> None:
        self._board.on_frame(self._peer, kind, flags, self.number, argument, payload)
