"""The round-robin door (seed 002): whose message it is, and where it goes. No sockets.

A message with an address on top is passed on. Any other is for the server: PING, words of workers about themselves,
words about streams; and all the rest is for a worker, whichever it is.
"""

from collections import Counter, OrderedDict, deque
from typing import Final

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.base import Parcel, Roll
from gandy.doors.roundrobin import wire as roundrobin
from gandy.doors.roundrobin.clients import Clients
from gandy.doors.roundrobin.codes import CommandCodes
from gandy.doors.roundrobin.registered import Times, Workers
from gandy.doors.roundrobin.wire import (
    DEREGISTER,
    EXEC,
    PING,
    PONG,
    REGISTER,
    RESPONSE,
    TRACKEXEC,
    Message,
    decode,
    encode,
    make_reply,
    parse_count,
)
from gandy.errors import RemoteProtocolError
from gandy.wire.calls import read_frames

MAX_PASSED: Final = 10_000  # requests from peer to peer whose response is to come; the oldest are forgotten


class RoundRobinDoor:
    """One for each socket. Implements `Door`."""

    def __init__(self, board: Switchboard, roll: Roll, codes: CommandCodes, times: Times) -> None:
        self.outbox: deque[Parcel] = deque()
        self.clients = Clients(board, codes, self.on_out, lambda frames: self.outbox.append(Parcel(frames)))
        self.workers = Workers(board, roll, codes, self.clients, self.on_out, self.outbox.append, times)
        self.dropped: Counter[str] = self.workers.dropped
        # By who is to respond, to whom, and the id: how often. Nobody keeps a client from using an id twice.
        self._passed: OrderedDict[tuple[bytes, tuple[bytes, ...], bytes], int] = OrderedDict()

    # What peers say

    def on_message(self, frames: list[bytes], now: float) -> None:
        sender = frames[0]
        try:
            message = decode(frames[1:])
        except RemoteProtocolError as error:
            self.dropped[error.code.name.lower()] += 1
            return
        message = message._replace(path=(*message.path, sender))
        self.workers.on_heard(sender, message.command, now)
        if not _is_about_itself(message):
            self.workers.take_back(sender, now)
        if message.to:
            self._pass(sender, message, now)
        elif message.command == PING:
            self.outbox.append(Parcel(encode(make_reply(message, PONG))))
        elif message.command == RESPONSE:
            self._on_response(sender, message, now)
        elif message.command in (EXEC, TRACKEXEC):
            self._on_request(sender, message, now)

    def _on_response(self, sender: bytes, message: Message, now: float) -> None:
        bare = message._replace(path=message.path[:-1])
        if not self.workers.on_response(sender, bare, now):
            self.dropped["response to nothing"] += 1

    def _on_request(self, sender: bytes, message: Message, now: float) -> None:
        if not message.args:
            self.dropped["no command"] += 1
            return
        match message.args[0]:
            case roundrobin.REGISTER:
                self._on_register(sender, message, now)
            case roundrobin.DEREGISTER:
                self.workers.deregister(sender, now)
                self._confirm(message)
            case roundrobin.INCREMENT:
                self.workers.on_increment(sender, now)
                self._confirm(message)
            case roundrobin.MQS_MORE:
                self.clients.on_more(message, now)
            case roundrobin.ONGOING:
                self.clients.on_ongoing(message, now)
            case _:
                self.clients.on_request(message)

    def _on_register(self, sender: bytes, message: Message, now: float) -> None:
        slots = parse_count(message.args[1]) if len(message.args) > 1 else 0
        if self.workers.register(sender, slots, now):
            self._confirm(message)
        else:
            self.clients.fail(message, "the table of workers is full")

    def _confirm(self, message: Message) -> None:
        if message.command == TRACKEXEC:
            self.outbox.append(Parcel(encode(make_reply(message))))

    def _pass(self, sender: bytes, message: Message, now: float) -> None:
        """From peer to peer. A response must be one that somebody waits for, and waits for from this peer."""
        if message.command == RESPONSE:
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
        elif message.command == TRACKEXEC:
            # The response comes from the next hop, and goes back the way that this came.
            key = (message.to[0], message.path[::-1], message.id)
            self._passed[key] = self._passed.get(key, 0) + 1
            if len(self._passed) > MAX_PASSED:
                self._passed.popitem(last=False)
        self.outbox.append(Parcel(encode(message)))

    # What the socket says

    def on_undelivered(self, parcel: Parcel, now: float) -> None:
        routing_id = parcel.frames[0]
        if self.workers.has(routing_id):
            lost = [parcel, *(other for other in self.outbox if other.frames[0] == routing_id)]
            rest = [other for other in self.outbox if other.frames[0] != routing_id]
            self.outbox.clear()
            self.outbox.extend(rest)
            self.workers.lose(routing_id, [other.call for other in lost if other.call >= 0], now)
        self.clients.on_gone(routing_id, now)

    def on_disconnect(self, routing_id: bytes, now: float) -> None:  # noqa: ARG002 - the same for all doors
        if self.workers.has(routing_id) or self.clients.has(routing_id):
            self.workers.ask(routing_id)

    def on_connect(self, now: float) -> None:  # noqa: ARG002
        self.workers.on_connect()

    # What the crew says

    def on_out(self, peer: Peer, data: bytes, now: float) -> None:
        worker = self.workers.find(peer)

        def on_frame(kind: int, flags: int, number: int, padding: int, payload: bytes) -> None:
            if worker is not None:
                self.workers.on_frame(worker, kind, flags, number, padding, payload)
            else:
                self.clients.on_frame(kind, flags, number, padding, payload, now)

        read_frames(data, 0, on_frame)

    def on_dismiss(self, worker: str, immediate: bool, now: float) -> None:
        self.workers.dismiss(worker, immediate, now)

    def close(self) -> None:
        self.clients.close()

    def on_time(self, now: float) -> None:
        self.workers.on_time(now)
        self.clients.on_time(now)


def _is_about_itself(message: Message) -> bool:
    """Whether a worker comes or goes, and says so."""
    is_request = message.command in (EXEC, TRACKEXEC) and not message.to
    return is_request and message.args[:1] in ((REGISTER,), (DEREGISTER,))
