"""Clients at the round-robin door: makes calls of their messages, and sends them the responses.

Each client is a peer of the switchboard with a limited number of calls. Further messages wait here, so that a flood
from one client does not keep others waiting. A message without response is a call of the door's own peer: it outlives
its client.
"""

from collections import deque

from gandy.core.call_dispatch import LAST_ID
from gandy.core.calls import Call, OnOut, Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.limits import MAX_FLOW_BYTES
from gandy.doors.roundrobin.client_requests import ClientRequest, QueueClient, Responder, SendFrames
from gandy.doors.roundrobin.client_streams import ClientStreams
from gandy.doors.roundrobin.codes import CommandCodes, format_code
from gandy.doors.roundrobin.limits import MAX_CLIENT_BYTES, MAX_CLIENTS, MAX_UNDER_WAY, MAX_WAITING_MESSAGES
from gandy.doors.roundrobin.wire import QueueMessage
from gandy.doors.values import decode_value, encode_payload
from gandy.moments import Monotonic
from gandy.wire.calls import CREDIT, FAILED, FRAME_COST, LAST, LOST, REFUSED, RESULT, decode_failure, decode_refusal


class Clients:
    """All clients of one door, by routing id."""

    def __init__(self, board: Switchboard, codes: CommandCodes, on_out: OnOut, send: SendFrames) -> None:
        self.responder = Responder(send)
        self.streams = ClientStreams(self.responder, self._finish)
        self._board = board
        self._on_out = on_out
        self._codes = codes
        self._send = send
        self._clients: dict[bytes, QueueClient] = {}
        self._gone: set[QueueClient] = set()  # clients that left, whose messages without response still run
        self._caster = board.add_peer(on_out)
        self.peers: set[Peer] = {self._caster}
        self._requests: dict[int, ClientRequest] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._clients)

    def has(self, routing_id: bytes) -> bool:
        return routing_id in self._clients

    def find(self, call: Call) -> ClientRequest | None:
        """The request of a call on the switchboard, if a client of this door made it."""
        return self._requests.get(call.client_id) if call.client in self.peers else None

    # From clients

    def on_request(self, message: QueueMessage) -> None:
        """A client sent EXEC or TRACKEXEC. The sender is at the end of the path."""
        entry = self._codes.find(message.args[0])
        if entry is None:
            self.responder.fail(message, f"unknown command {format_code(message.args[0])}")
            return
        client = self._find_or_add(message.path[-1])
        if client is None:
            self.responder.fail(message, "too many clients have something under way already")
            return
        request = ClientRequest(self._board, self._caster, client, message, entry)
        size = len(request.body)
        if len(client.waiting) >= MAX_WAITING_MESSAGES or (client.bytes and client.bytes + size > MAX_CLIENT_BYTES):
            count = len(client.waiting) + len(client.under_way)
            self.responder.fail(message, f"{count:,} messages of this client are under way already")
            return
        client.bytes += size
        if len(client.under_way) >= MAX_UNDER_WAY:
            client.waiting.append(request)
        else:
            self._submit(request)

    def _find_or_add(self, sender: bytes) -> QueueClient | None:
        """None if there are too many clients."""
        client = self._clients.get(sender)
        if client is None and len(self._clients) + len(self._gone) < MAX_CLIENTS:
            client = self._clients[sender] = QueueClient(self._board.add_peer(self._on_out))
            self.peers.add(client.peer)
        return client

    def _submit(self, request: ClientRequest) -> None:
        while self._next in self._requests:
            self._next = (self._next + 1) & LAST_ID
        number = self._next
        self._next = (self._next + 1) & LAST_ID
        self._requests[number] = request
        request.client.under_way.add(number)
        request.submit(number)

    def on_gone(self, routing_id: bytes, now: Monotonic) -> None:
        """A client is disconnected: cancel its requests. Its messages without response go on."""
        client = self._clients.pop(routing_id, None)
        if client is None:
            return
        for number in list(client.under_way):
            request = self._requests[number]
            if not request.is_cast:
                self._forget(request)
        self.peers.discard(client.peer)
        self._board.dispatcher.on_cut(client.peer, now)
        client.waiting = deque(request for request in client.waiting if request.is_cast)
        self._gone.add(client)
        self._submit_waiting(client)

    def close(self) -> None:
        """The server stops: send a failure to every client that waits for a response."""
        waiting = [request for client in self._clients.values() for request in client.waiting]
        for request in (*self._requests.values(), *waiting):
            self.responder.fail(request.message, "the server was stopped")

    # From the switchboard

    def on_frame(self, kind: int, flags: int, number: int, argument: int, payload: bytes, now: Monotonic) -> None:
        request = self._requests.get(number)
        if request is None:
            return
        if kind == CREDIT:
            request.on_credit(argument)
        elif kind == RESULT:
            self._on_result(request, flags, payload, now)

    def _on_result(self, request: ClientRequest, flags: int, payload: bytes, now: Monotonic) -> None:
        if flags & REFUSED:
            self._on_refusal(request, *decode_refusal(payload))
        elif flags & FAILED:
            failure = decode_failure(payload)
            self._break_off(request, failure.message or failure.kind)
        elif request.is_cast and flags & LAST:
            self._finish(request)
        elif request.is_cast:  # the value is dropped, but its worker needs credit to finish
            request.grant(len(payload) + FRAME_COST)
        elif request.reply is not None:
            self._send(request.reply)
            self._finish(request)
        elif request.entry.is_stream:
            try:
                self.streams.write(request, flags, payload, now)
            except ValueError as error:
                self._break_off(request, str(error))
        else:
            self._on_piece(request, flags, payload)

    def _on_refusal(self, request: ClientRequest, code: int, text: str) -> None:
        if request.can_repeat and (request.is_undelivered or code == LOST):
            request.tries += 0 if request.is_undelivered else 1
            request.is_undelivered = False
            self._forget(request)
            self._submit(request)
        else:
            self._fail(request, text)

    def _on_piece(self, request: ClientRequest, flags: int, payload: bytes) -> None:
        request.value += payload
        if len(request.value) > MAX_FLOW_BYTES:
            self._break_off(request, f"its value has more than {MAX_FLOW_BYTES:,} bytes")
        elif not flags & LAST:
            request.grant(len(payload) + FRAME_COST)
        else:
            try:
                value = None if request.entry.is_bare else decode_value(bytes(request.value))
                frames = encode_payload(value)
            except ValueError as error:
                self._fail(request, f"the value cannot be written as frames: {error}")
                return
            self.responder.answer(request.message, *frames)
            self._finish(request)

    def _break_off(self, request: ClientRequest, text: str) -> None:
        request.cancel()
        self._fail(request, text)

    def _fail(self, request: ClientRequest, text: str) -> None:
        if not self.streams.abort(request):
            self.responder.fail(request.message, text)
            self._finish(request)

    def _forget(self, request: ClientRequest) -> None:
        """A try is over: drop everything that came of it."""
        request.cancel()
        del self._requests[request.number]
        request.client.under_way.discard(request.number)
        request.value.clear()
        self.streams.forget(request)

    def _finish(self, request: ClientRequest) -> None:
        """A request is over: the next message of its client takes its place."""
        self._forget(request)
        client = request.client
        client.bytes -= len(request.body)
        self._submit_waiting(client)
        if not client.under_way and self._clients.get(request.sender) is client:
            del self._clients[request.sender]
            self.peers.discard(client.peer)

    def _submit_waiting(self, client: QueueClient) -> None:
        while client.waiting and len(client.under_way) < MAX_UNDER_WAY:
            self._submit(client.waiting.popleft())
        if not client.under_way:
            self._gone.discard(client)
