"""The connecting side of the round-robin queue (docs/protocol/roundrobin.md): what workers and clients send a server.

A socket carries the messages of `outbox`, in order, and hands in what it receives. After each step there are `events`
for the program around it. It owns no socket and runs no command.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gandy.doors.roundrobin.heartbeat import Beat, Heartbeat
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.pending import PendingRequests
from gandy.doors.roundrobin.registration import Registration
from gandy.doors.roundrobin.wire import (
    DEREGISTER,
    EXEC,
    FAILED,
    INCREMENT,
    MQS_MORE,
    ONGOING,
    PING,
    PONG,
    REGISTER,
    RESPONSE,
    TRACKADDRESS,
    TRACKEXEC,
    QueueMessage,
    decode,
    make_reply,
)
from gandy.errors import RemoteProtocolError
from gandy.moments import Monotonic

CONTROL: Final = frozenset((INCREMENT, REGISTER, DEREGISTER))


class Connected(Struct, frozen=True):
    """The server answered."""


class Unreachable(Struct, frozen=True):
    """The server has been silent since then. We go on trying."""

    since: Monotonic


class Renew(Struct, frozen=True):
    """Make a new socket with a new routing id, and call `on_socket`."""


class RegisterConfirmed(Struct, frozen=True):
    """Worker: the server knows us and our slots."""


class RegisterRefused(Struct, frozen=True):
    """Worker: the server has no place for us; only gandy's servers say so. It will be asked again."""

    reason: str


class Deregistered(Struct, frozen=True):
    """Worker: the server has read our DEREGISTER, and everything that it sent before is here. Or there is none."""


class Dispatched(Struct, frozen=True):
    """Worker: a request to run. `finish` with the ticket returns the slot."""

    ticket: int
    message: QueueMessage


class StreamRequested(Struct, frozen=True):
    """Worker: a request about a stream of ours (MQS_MORE, ONGOING). It takes no slot: the server only passed it on."""

    message: QueueMessage


class Response(Struct, frozen=True):
    """Client: the answer to a request. `path` reversed is the way to the peer that gave it."""

    id: bytes
    args: tuple[bytes, ...]
    path: tuple[bytes, ...]


class Expired(Struct, frozen=True):
    """Client: no answer came, or none can come."""

    id: bytes
    reason: str


ToWorker = RegisterConfirmed | RegisterRefused | Deregistered | Dispatched | StreamRequested
Event = Connected | Unreachable | Renew | ToWorker | Response | Expired


class Uplink:
    """One connection to a server, for a worker, a client, or both."""

    def __init__(self, now: Monotonic, ids: MessageIds | None = None) -> None:
        self.outbox: deque[QueueMessage] = deque()
        self.events: deque[Event] = deque()
        self.dropped = 0  # invalid messages
        self._ids = ids or MessageIds()
        self._heartbeat = Heartbeat(now, self._ids)
        self._registration = Registration(self._ids)
        self._requests = PendingRequests()
        self._held: list[QueueMessage] = []  # until there is a server

    @property
    def since(self) -> Monotonic | None:
        """When the server became silent; None while it answers."""
        return self._heartbeat.since

    @property
    def is_connected(self) -> bool:
        return self._heartbeat.is_connected

    @property
    def free(self) -> int:
        """Slots that nothing runs in."""
        return self._registration.free

    def next_deadline(self) -> Monotonic:
        """When `on_time` has something to do. `inf` means never."""
        deadline = min(self._heartbeat.next_deadline(), self._requests.next_deadline())
        return min(deadline, self._registration.register_at) if self.is_connected else deadline

    # The connection

    def on_socket(self, now: Monotonic) -> None:
        """There is a new socket, with a new routing id."""
        self.outbox.clear()  # it was for the server behind the old socket
        self.outbox.append(self._heartbeat.greet(now))

    def on_reconnected(self, now: Monotonic) -> None:
        """The same socket has a new connection. Its server may be a new one, which knows no worker."""
        if self._heartbeat.is_greeting:
            self.outbox.append(self._heartbeat.repeat_greeting())  # the first may be lost
        elif self.is_connected and self._registration.is_wanted:
            self._registration.on_new_server()
            self.outbox.append(self._registration.register(now))

    def on_time(self, now: Monotonic) -> None:
        """Read what has come in first."""
        match self._heartbeat.on_time(now):
            case Beat.PING:
                self.outbox.append(self._heartbeat.make_ping())
            case Beat.LOST:
                self._on_lost()
            case Beat.UNANSWERED:
                self._report_silence()
            case Beat.TRY_AGAIN:
                self.events.append(Renew())
            case _:
                pass
        if self.is_connected and now >= self._registration.register_at:
            self.outbox.append(self._registration.register(now))
        for number in self._requests.take_expired(now):
            self.events.append(Expired(number, "no answer came in time"))

    def _report_silence(self) -> None:
        assert self.since is not None, "it is not connected"
        self.events.append(Unreachable(self.since))

    def _on_lost(self) -> None:
        """Answers to the old routing id go nowhere: requests have failed."""
        self._held.extend(filter(_is_lasting, self.outbox))
        self.outbox.clear()
        self._report_silence()
        for number in self._requests.take_all():
            self.events.append(Expired(number, "the server was lost"))
        self._end_goodbye()
        self.events.append(Renew())

    def _on_connected(self, now: Monotonic) -> None:
        self.events.append(Connected())
        self._registration.on_new_server()
        if self._registration.is_wanted:
            self.outbox.append(self._registration.register(now))
        held, self._held = self._held, []
        for message in held:
            if message.command != TRACKEXEC or message.id in self._requests:  # else it has expired
                self.outbox.append(message)

    def send(self, message: QueueMessage) -> None:
        """Now, or when there is a server."""
        if self.is_connected:
            self.outbox.append(message)
        else:
            self._held.append(message)

    # Messages from the server

    def on_frames(self, frames: Sequence[bytes], now: Monotonic) -> None:
        """A message as it comes from the socket. Never raises: invalid messages are counted and dropped."""
        self._heartbeat.on_heard(now)
        try:
            self._on_message(decode(frames), now)
        except RemoteProtocolError:
            self.dropped += 1

    def _on_message(self, message: QueueMessage, now: Monotonic) -> None:
        command = message.command
        if command == PING:
            self.outbox.append(make_reply(message, PONG))
        elif command == PONG:
            self._on_pong(message.id, now)
        elif command == RESPONSE:
            self._on_response(message)
        elif command != TRACKADDRESS and self._registration.is_worker:
            self._on_dispatch(message, now)
        else:
            self.dropped += 1  # we send no request whose way is to be tracked

    def _on_pong(self, number: bytes, now: Monotonic) -> None:
        if self._heartbeat.on_pong(number):
            self._on_connected(now)
        elif self._registration.is_goodbye(number):
            self._end_goodbye()

    def _on_response(self, message: QueueMessage) -> None:
        if self._registration.is_answered_by(message.id):
            self._on_registered(message)
        elif self._requests.take(message.id):
            self.events.append(Response(message.id, message.args, message.path))
        else:
            self.dropped += 1

    def _on_registered(self, message: QueueMessage) -> None:
        if message.args[:1] == (FAILED,):
            reason = b" ".join(message.args[1:]).decode(errors="replace")
            self.events.append(RegisterRefused(reason))  # and asked again, as if there had been no answer
            return
        self._registration.confirm()
        # A gandy server takes this PING for "ready for calls", which the protocol cannot say.
        self.outbox.append(self._heartbeat.make_ping())
        self.events.append(RegisterConfirmed())

    def _on_dispatch(self, message: QueueMessage, now: Monotonic) -> None:
        if message.args[:1] in ((MQS_MORE,), (ONGOING,)):
            self.events.append(StreamRequested(message))
            return
        ticket, has_room = self._registration.take_ticket()
        if has_room:
            self.events.append(Dispatched(ticket, message))
        else:
            self.finish(ticket, now, make_response(message, FAILED, b"the worker has too much to do"))

    # Workers

    def register(self, slots: int, now: Monotonic) -> None:
        """Take so many dispatches at once from now on, from this server and those that come after it."""
        self._registration.open(slots)
        if self.is_connected:
            self.outbox.append(self._registration.register(now))

    def deregister(self) -> None:
        """Take nothing more. What was dispatched already may still come, and is answered as always."""
        messages = self._registration.close()
        if self.is_connected:
            self.outbox.extend(messages)
        else:
            self._end_goodbye()

    def _end_goodbye(self) -> None:
        if self._registration.end_goodbye():
            self.events.append(Deregistered())

    def finish(self, ticket: int, now: Monotonic, response: QueueMessage | None = None) -> None:
        """The slot is free again, and then the response goes out.

        In this order: the client of a response may send its next message at once. If that overtakes the INCREMENT,
        the original has it in its queue when the slot comes back, sends it twice, and dies of that.
        """
        self._registration.finish(ticket)
        if self.is_connected:  # else REGISTER tells the next server how many are free
            self.outbox.append(self._registration.increment(ticket, now))
        if response is not None:
            self.send(response)

    # Clients

    def request(
        self,
        command: bytes,
        *args: bytes,
        now: Monotonic,
        timeout: float,
        track: bool = True,
        to: tuple[bytes, ...] = (),
    ) -> bytes:
        """Have a command run, and return the id of the request.

        `to` are the hops behind the server; without any, it finds a worker. A tracked request ends with a Response or
        with Expired. Any other is done when it is sent.
        """
        number = self._ids.take_long() if command == PING else self._ids.take_short()
        if track:
            self._requests.add(number, now + timeout)
        self.send(QueueMessage(TRACKEXEC if track else EXEC, number, (command, *args), to))
        return number

    def forget(self, number: bytes) -> None:
        """Do not wait for this response any more."""
        self._requests.take(number)


def make_response(request: QueueMessage, *payload: bytes) -> QueueMessage | None:
    """The answer to a request, if it wants one."""
    return make_reply(request, RESPONSE, *payload) if request.command == TRACKEXEC else None


def _is_lasting(message: QueueMessage) -> bool:
    """True, if it means the same to the next server."""
    if message.command in (EXEC, TRACKEXEC):
        return not CONTROL.intersection(message.args[:1])
    return message.command == RESPONSE
