"""The round-robin door (docs/protocol/roundrobin.md): decides whether a message is for the server, a worker or a peer.

It passes on a message that begins with an address. The server handles PINGs, registrations and requests about streams
itself. All other requests go to the worker whose turn it is. It knows no sockets.
"""

from collections import Counter, OrderedDict, deque

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.base import Outgoing, WorkerRegistry
from gandy.doors.roundrobin import wire
from gandy.doors.roundrobin.clients import Clients
from gandy.doors.roundrobin.codes import CommandCodes
from gandy.doors.roundrobin.limits import MAX_PASSED_REQUESTS
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.worker_calls import DoorParts, Times
from gandy.doors.roundrobin.workers import Workers
from gandy.errors import RemoteProtocolError
from gandy.moments import Monotonic
from gandy.wire.calls import read_frames


class RoundRobinDoor:
    """The door of one socket. Implements `Door`."""

    def __init__(
        self, board: Switchboard, registry: WorkerRegistry, codes: CommandCodes, times: Times, ids: MessageIds
    ) -> None:
        self.outbox: deque[Outgoing] = deque()
        self.clients = Clients(board, codes, self.on_out, lambda frames: self.outbox.append(Outgoing(frames)))
        parts = DoorParts(board, codes, self.clients, self.outbox.append, ids, times)
        self.workers = Workers(parts, registry, self.on_out)
        self.dropped: Counter[str] = self.workers.dropped
        # How many responses are to come, by the peer that must respond, the hops back, and the id: ids may repeat.
        self._passed: OrderedDict[tuple[bytes, tuple[bytes, ...], bytes], int] = OrderedDict()

    # From peers

    def on_message(self, frames: list[bytes], now: Monotonic) -> None:
        sender = frames[0]
        try:
            message = wire.decode(frames[1:])
        except RemoteProtocolError as error:
            self.dropped[error.code.name.lower()] += 1
            return
        message = message._replace(path=(*message.path, sender))
        self.workers.on_heard(sender, message.command, now)
        if not _is_about_registration(message):
            self.workers.restore(sender, now)
        if message.to:
            self._pass_on(sender, message, now)
        elif message.command == wire.PING:
            self.outbox.append(Outgoing(wire.encode(wire.make_reply(message, wire.PONG))))
        elif message.command == wire.RESPONSE:
            self._on_response(sender, message, now)
        elif message.command in (wire.EXEC, wire.TRACKEXEC):
            self._on_request(sender, message, now)

    def _on_response(self, sender: bytes, message: wire.QueueMessage, now: Monotonic) -> None:
        bare = message._replace(path=message.path[:-1])
        if not self.workers.on_response(sender, bare, now):
            self.dropped["response to nothing"] += 1

    def _on_request(self, sender: bytes, message: wire.QueueMessage, now: Monotonic) -> None:
        if not message.args:
            self.dropped["no command"] += 1
            return
        match message.args[0]:
            case wire.REGISTER:
                self._on_register(sender, message, now)
            case wire.DEREGISTER:
                self.workers.deregister(sender, now)
                self._confirm(message)
            case wire.INCREMENT:
                self.workers.on_increment(sender, now)
                self._confirm(message)
            case wire.MQS_MORE:
                self.clients.streams.on_more(message, now)
            case wire.ONGOING:
                self.clients.streams.on_ongoing(message, now)
            case _:
                self.clients.on_request(message)

    def _on_register(self, sender: bytes, message: wire.QueueMessage, now: Monotonic) -> None:
        slots = wire.parse_count(message.args[1]) if len(message.args) > 1 else 0
        if self.workers.register(sender, slots, now):
            self._confirm(message)
        else:
            self.clients.responder.fail(message, "the table of workers is full")

    def _confirm(self, message: wire.QueueMessage) -> None:
        if message.command == wire.TRACKEXEC:
            self.outbox.append(Outgoing(wire.encode(wire.make_reply(message))))

    def _pass_on(self, sender: bytes, message: wire.QueueMessage, now: Monotonic) -> None:
        """Pass a message from peer to peer. A response must answer a request that was passed on to this peer."""
        if message.command == wire.RESPONSE:
            bare = message._replace(path=message.path[:-1])
            if self.workers.on_response(sender, bare, now):
                return
            key = (sender, message.to, message.id)
            count = self._passed.pop(key, 0)
            if not count:
                self.dropped["response to nothing"] += 1
                return
            if count > 1:
                self._passed[key] = count - 1
        elif message.command == wire.TRACKEXEC:
            # The response comes from the next hop, and goes back the way the request came.
            key = (message.to[0], message.path[::-1], message.id)
            self._passed[key] = self._passed.get(key, 0) + 1
            if len(self._passed) > MAX_PASSED_REQUESTS:
                self._passed.popitem(last=False)
        self.outbox.append(Outgoing(wire.encode(message)))

    # From the socket

    def on_undelivered(self, outgoing: Outgoing, now: Monotonic) -> None:
        routing_id = outgoing.frames[0]
        if self.workers.has(routing_id):
            lost = [outgoing, *(other for other in self.outbox if other.frames[0] == routing_id)]
            rest = [other for other in self.outbox if other.frames[0] != routing_id]
            self.outbox.clear()
            self.outbox.extend(rest)
            self.workers.lose(routing_id, [other.call for other in lost if other.call >= 0], now)
        self.clients.on_gone(routing_id, now)

    def on_disconnect(self, routing_id: bytes, now: Monotonic) -> None:  # noqa: ARG002 - the same for all doors
        if self.workers.has(routing_id) or self.clients.has(routing_id):
            self.workers.ask(routing_id)

    def on_connect(self, now: Monotonic) -> None:  # noqa: ARG002
        self.workers.on_connect()

    # From the foreman

    def on_out(self, peer: Peer, data: bytes, now: Monotonic) -> None:
        calls = self.workers.find_calls(peer)

        def on_frame(kind: int, flags: int, number: int, argument: int, payload: bytes) -> None:
            if calls is not None:
                calls.on_frame(kind, flags, number, argument, payload)
            else:
                self.clients.on_frame(kind, flags, number, argument, payload, now)

        read_frames(data, 0, on_frame)

    def on_dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None:
        self.workers.dismiss(worker, immediate, now)

    def close(self) -> None:
        self.clients.close()

    def on_time(self, now: Monotonic) -> None:
        self.workers.on_time(now)
        self.clients.streams.on_time(now)


def _is_about_registration(message: wire.QueueMessage) -> bool:
    is_request = message.command in (wire.EXEC, wire.TRACKEXEC) and not message.to
    return is_request and message.args[:1] in ((wire.REGISTER,), (wire.DEREGISTER,))
