"""Clients at the round-robin door: their messages become calls of their own peer, and what comes of them goes back.

A client has so many calls on the switchboard, and further ones wait here, so that a flood from one does not keep the
others waiting. A message without response is a call of the door itself: it outlives its client.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from gandy.core.calls import Call, OnOut, Peer
from gandy.core.switchboard import LAST_ID, Switchboard
from gandy.doors.flow import MAX_FLOW_BYTES
from gandy.doors.roundrobin.codes import CommandCodes, Entry, format_code
from gandy.doors.roundrobin.streams import ABORT, StreamWriter, parse_lease
from gandy.doors.roundrobin.wire import EXEC, FAILURE, RESPONSE, SUCCESS, Message, encode, encode_status, make_reply
from gandy.doors.values import decode_value, encode_payload, encode_value
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire.calls import (
    BODY,
    CALL,
    CANCEL,
    CREDIT,
    FAILED,
    FRAME_COST,
    LAST,
    LOST,
    MORE,
    PATIENT,
    REFUSED,
    RESULT,
    STREAM,
    WHOLE,
    WINDOW_BYTES,
    decode_failure,
    decode_refusal,
    encode_target,
)

MAX_CLIENTS: Final = 10_000  # with something under way
MAX_UNDER_WAY: Final = 100  # calls of one client on the switchboard: others wait behind so many, and no more
MAX_WAITING: Final = 20_000  # messages of one client that wait here
MAX_BYTES: Final = 64 * 1024 * 1024  # of all messages of one client, here or on the switchboard; one may have more
MAX_TRIES: Final = 5  # of a repeatable command whose workers are lost
MAX_STREAM_WAIT: Final = 1.0  # seconds that a reader of a stream waits for a full packet

Send = Callable[[list[bytes]], None]


class Request:
    """A client's message on its way, and what has come of it."""

    def __init__(self, client: "Client", message: Message, entry: Entry) -> None:
        self.client = client
        self.message = message  # with the whole path
        self.entry = entry
        self.number = 0
        self.tries = 0
        self.is_undelivered = False  # it was for a worker that never got it
        self.reply: list[bytes] | None = None  # of a round-robin worker, as it is
        self.body = encode_value(message.args[1:])
        self.sent = 0  # bytes of it on the switchboard
        self.credit = WINDOW_BYTES
        self.pieces: list[bytes] = []  # of a value
        self.size = 0  # of these
        self.stream: OutStream | None = None

    @property
    def sender(self) -> bytes:
        return self.message.path[-1]

    @property
    def is_cast(self) -> bool:
        return self.message.command == EXEC

    @property
    def can_repeat(self) -> bool:
        may_run = self.is_undelivered or (self.entry.is_repeatable and self.tries < MAX_TRIES)
        return may_run and (self.stream is None or not self.stream.has_begun)


class OutStream:
    """A stream of a gandy worker, as a client reads it: packet by packet, as it asks for them."""

    def __init__(self, request: Request, handle: bytes, now: float) -> None:
        self.request = request
        self.host = request.message.args[1] if len(request.message.args) > 1 else b""
        self.writer = StreamWriter(handle)
        self.asked: Message | None = request.message  # whose answer is the next packet
        self.asked_at = now
        self.renewed = now
        self.owed = 0  # bytes of credit
        self.has_begun = False


class Client:
    """Somebody with something under way."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.under_way: set[int] = set()
        self.waiting: deque[Request] = deque()
        self.bytes = 0  # of both


class Clients:
    """All of them, by routing id."""

    def __init__(self, board: Switchboard, codes: CommandCodes, on_out: OnOut, send: Send) -> None:
        self._board = board
        self._on_out = on_out
        self._codes = codes
        self._send = send
        self._clients: dict[bytes, Client] = {}
        self._ghosts: set[Client] = set()  # who are gone, and have left something to be done
        self._caster = board.add_peer(on_out)
        self.peers: set[Peer] = {self._caster}
        self._requests: dict[int, Request] = {}
        self._streams: dict[bytes, OutStream] = {}  # by handle
        self._next = 0
        self._handles = 0

    def __len__(self) -> int:
        return len(self._clients)

    def has(self, routing_id: bytes) -> bool:
        return routing_id in self._clients

    def find(self, call: Call) -> Request | None:
        """The message that a call on the switchboard was, if it was one."""
        return self._requests.get(call.client_id) if call.client in self.peers else None

    # What clients say

    def on_request(self, message: Message) -> None:
        """EXEC or TRACKEXEC, with the sender at the end of its path."""
        entry = self._codes.find(message.args[0])
        if entry is None:
            self.fail(message, f"nobody here knows the command {format_code(message.args[0])}")
            return
        sender = message.path[-1]
        client = self._clients.get(sender)
        if client is None:
            if len(self._clients) + len(self._ghosts) >= MAX_CLIENTS:
                self.fail(message, "too many clients have something under way already")
                return
            client = self._clients[sender] = Client(self._board.add_peer(self._on_out))
            self.peers.add(client.peer)
        request = Request(client, message, entry)
        size = len(request.body)
        if len(client.waiting) >= MAX_WAITING or (client.bytes and client.bytes + size > MAX_BYTES):
            count = len(client.waiting) + len(client.under_way)
            self.fail(message, f"{count:,} messages of this client are under way already")
            return
        client.bytes += size
        if len(client.under_way) >= MAX_UNDER_WAY:
            client.waiting.append(request)
        else:
            self._submit(request)

    def _submit(self, request: Request) -> None:
        while self._next in self._requests:
            self._next = (self._next + 1) & LAST_ID
        number = request.number = self._next
        self._next = (self._next + 1) & LAST_ID
        self._requests[number] = request
        request.client.under_way.add(number)
        flags = PATIENT | (STREAM if request.entry.is_stream else 0)
        request.sent = min(len(request.body), MAX_PIECE_BYTES)
        request.credit = WINDOW_BYTES - request.sent - FRAME_COST
        payload = encode_target(request.entry.name) + request.body[: request.sent]
        if request.sent < len(request.body):
            flags |= MORE
        self._say(request, CALL, flags, 0, payload)
        self._push(request)

    def _say(self, request: Request, kind: int, flags: int = 0, padding: int = 0, payload: bytes = b"") -> None:
        peer = self._caster if request.is_cast else request.client.peer
        self._board.on_frame(peer, kind, flags, request.number, padding, payload)

    def _push(self, request: Request) -> None:
        """More of large arguments."""
        while request.sent < len(request.body) and request.credit > 0:
            piece = request.body[request.sent : request.sent + MAX_PIECE_BYTES]
            request.sent += len(piece)
            request.credit -= len(piece) + FRAME_COST
            last = LAST if request.sent == len(request.body) else 0
            self._say(request, BODY, last, 0, piece)

    def on_more(self, message: Message, now: float) -> None:
        """MQS_MORE: host id, handle, and whether it goes on."""
        stream = self._streams.get(message.args[2]) if len(message.args) > 3 else None
        if stream is None or stream.request.sender != message.path[-1]:
            self.fail(message, "there is no such stream, or not any more")
            return
        stream.renewed = now
        if message.args[3] == ABORT:
            stream.writer.abort()
            self._cancel(stream.request)
        if stream.asked is not None:
            self.fail(stream.asked, "the next packet was asked for again")
        stream.asked, stream.asked_at = message, now
        self._pump(stream)

    def on_ongoing(self, message: Message, now: float) -> None:
        """Somebody still wants the streams of its host id."""
        wanted = (message.path[-1], message.args[1]) if len(message.args) > 1 else (b"", b"")
        found = [stream for stream in self._streams.values() if (stream.request.sender, stream.host) == wanted]
        for stream in found:
            stream.renewed = now
        self._answer(message, encode_status(SUCCESS if found else FAILURE))

    def on_gone(self, routing_id: bytes, now: float) -> None:
        """A client has no connection any more: nobody wants what it asked for. What it only told goes on."""
        client = self._clients.pop(routing_id, None)
        if client is None:
            return
        for number in list(client.under_way):
            request = self._requests[number]
            if not request.is_cast:
                self._forget(request)
        self.peers.discard(client.peer)
        self._board.on_cut(client.peer, now)
        client.waiting = deque(request for request in client.waiting if request.is_cast)
        self._ghosts.add(client)
        self._pull(client)

    def close(self) -> None:
        """The server ends: whoever waits for something hears of it."""
        waiting = [request for client in self._clients.values() for request in client.waiting]
        for request in (*self._requests.values(), *waiting):
            self.fail(request.message, "the server was stopped")

    # What comes of it

    def on_frame(self, kind: int, flags: int, number: int, padding: int, payload: bytes, now: float) -> None:
        """From the switchboard to one of our peers."""
        request = self._requests.get(number)
        if request is None:
            return
        if kind == CREDIT:
            request.credit += padding
            self._push(request)
        elif kind == RESULT:
            self._on_result(request, flags, payload, now)

    def _on_result(self, request: Request, flags: int, payload: bytes, now: float) -> None:
        if flags & REFUSED:
            self._on_refusal(request, *decode_refusal(payload))
        elif flags & FAILED:
            failure = decode_failure(payload)
            self._break(request, failure.message or failure.kind)
        elif request.is_cast and flags & LAST:
            self._finish(request)
        elif request.is_cast:  # nobody reads it, but its worker must get to the end
            self._grant(request, len(payload))
        elif request.reply is not None:
            self._send(request.reply)
            self._finish(request)
        elif request.entry.is_stream:
            self._on_stream(request, flags, payload, now)
        else:
            self._on_piece(request, flags, payload)

    def _on_refusal(self, request: Request, code: int, text: str) -> None:
        if request.can_repeat and (request.is_undelivered or code == LOST):
            request.tries += 0 if request.is_undelivered else 1
            request.is_undelivered = False
            self._forget(request)
            self._submit(request)
        else:
            self._on_failure(request, text)

    def _on_failure(self, request: Request, text: str) -> None:
        stream = request.stream
        if stream is not None and stream.has_begun:
            stream.writer.abort()
            self._pump(stream)
        else:
            self.fail(request.message, text)
            self._finish(request)

    def _on_piece(self, request: Request, flags: int, payload: bytes) -> None:
        request.pieces.append(payload)
        request.size += len(payload)
        if request.size > MAX_FLOW_BYTES:
            self._break(request, f"its value has more than {MAX_FLOW_BYTES:,} bytes")
        elif not flags & LAST:
            self._grant(request, len(payload))
        else:
            try:
                value = None if request.entry.is_bare else decode_value(b"".join(request.pieces))
                frames = encode_payload(value)
            except ValueError as error:
                self._on_failure(request, f"the value cannot be told in frames: {error}")
                return
            self._answer(request.message, *frames)
            self._finish(request)

    def _grant(self, request: Request, size: int) -> None:
        self._say(request, CREDIT, padding=size + FRAME_COST)

    def _cancel(self, request: Request) -> None:
        """If it is not over there anyway."""
        self._say(request, CANCEL)

    def fail(self, message: Message, text: str) -> None:
        """A status that is no success, and why."""
        reason = text.encode(errors="replace") or b"it failed"  # an empty frame would end the message
        self._answer(message, encode_status(FAILURE), reason)

    def _answer(self, message: Message, *payload: bytes) -> None:
        """Where a response is wanted."""
        if message.command != EXEC:
            self._send(encode(make_reply(message, RESPONSE, *payload)))

    def _forget(self, request: Request) -> None:
        """A try is over, and nothing is left of what came of it."""
        self._cancel(request)
        del self._requests[request.number]
        request.client.under_way.discard(request.number)
        request.pieces.clear()
        request.size = 0
        if request.stream is not None:
            del self._streams[request.stream.writer.handle]
            request.stream = None

    def _finish(self, request: Request) -> None:
        """It is over, and the next message of its client has its place."""
        self._forget(request)
        client = request.client
        client.bytes -= len(request.body)
        self._pull(client)
        if not client.under_way and self._clients.get(request.sender) is client:
            del self._clients[request.sender]
            self.peers.discard(client.peer)

    def _pull(self, client: Client) -> None:
        """What waits here goes on, as far as there are places."""
        while client.waiting and len(client.under_way) < MAX_UNDER_WAY:
            self._submit(client.waiting.popleft())
        if not client.under_way:
            self._ghosts.discard(client)

    # Streams

    def _on_stream(self, request: Request, flags: int, payload: bytes, now: float) -> None:
        stream = request.stream
        if stream is None:
            self._handles += 1
            stream = request.stream = OutStream(request, self._handles.to_bytes(8, "little"), now)
            self._streams[stream.writer.handle] = stream
        if payload:
            request.pieces.append(payload)
            request.size += len(payload)
            stream.owed += len(payload) + FRAME_COST
        if request.size > MAX_FLOW_BYTES:
            self._break(request, f"one of its values has more than {MAX_FLOW_BYTES:,} bytes")
            return
        if flags & WHOLE and not self._write(request, stream):
            return
        if flags & LAST:
            stream.writer.close()
        self._pump(stream)

    def _write(self, request: Request, stream: OutStream) -> bool:
        try:
            value = decode_value(b"".join(request.pieces))
            data = b"".join(encode_payload(value))
        except ValueError as error:
            self._break(request, f"the stream cannot be told in bytes: {error}")
            return False
        request.pieces.clear()
        request.size = 0
        stream.writer.write(data)
        return True

    def _break(self, request: Request, text: str) -> None:
        self._cancel(request)
        self._on_failure(request, text)

    def _pump(self, stream: OutStream, at_once: bool = False) -> None:
        """Send the packet that was asked for, if there is one. What is taken makes room for more."""
        if stream.asked is not None and (packet := stream.writer.take(at_once)) is not None:
            self._answer(stream.asked, packet)
            stream.asked, stream.has_begun = None, True
        if stream.writer.is_over:
            self._finish(stream.request)
        elif stream.owed and stream.writer.waiting < WINDOW_BYTES // 2:
            owed, stream.owed = stream.owed, 0
            self._grant(stream.request, owed - FRAME_COST)

    def on_time(self, now: float) -> None:
        """Readers that wait for a packet that is not full, and those that are silent."""
        for stream in list(self._streams.values()):
            if now - stream.renewed >= parse_lease(stream.host) and stream.asked is None:
                self._finish(stream.request)
            elif stream.asked is not None and now - stream.asked_at >= MAX_STREAM_WAIT:
                self._pump(stream, at_once=True)
