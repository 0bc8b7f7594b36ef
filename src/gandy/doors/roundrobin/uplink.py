"""The connecting side of the round-robin queue (docs/protocol/roundrobin.md): what workers and clients send a server.

After each step, its owner sends the messages of `outbox`, in order, and takes `events`. It owns no socket and runs no
command.
"""

from collections import deque
from collections.abc import Sequence

from gandy.doors.roundrobin.heartbeat import Beat, Heartbeat
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.pending import PendingRequests
from gandy.doors.roundrobin.registration import Registration
from gandy.doors.roundrobin.server_outbox import ServerOutbox
from gandy.doors.roundrobin.uplink_events import Connected, Event, Renew, Unreachable
from gandy.doors.roundrobin.wire import PING, PONG, RESPONSE, TRACKADDRESS, QueueMessage, decode, make_reply
from gandy.errors import RemoteProtocolError
from gandy.moments import Monotonic


class Uplink:
    """One connection to a server. `registration` is for workers, `requests` for clients; a program may use both."""

    def __init__(self, now: Monotonic, ids: MessageIds | None = None) -> None:
        ids = ids or MessageIds()
        self.events: deque[Event] = deque()
        self.dropped = 0  # invalid messages
        self.heartbeat = Heartbeat(now, ids)
        self.outbox = ServerOutbox(self.heartbeat)
        self.registration = Registration(ids, self.outbox, self.events)
        self.requests = PendingRequests(ids, self.outbox, self.events)

    def next_deadline(self) -> Monotonic:
        """The time of the next `on_time`."""
        deadline = min(self.heartbeat.next_deadline(), self.requests.next_deadline())
        return min(deadline, self.registration.register_at) if self.heartbeat.is_connected else deadline

    def on_socket(self, now: Monotonic) -> None:
        """There is a new socket, with a new routing id."""
        self.outbox.messages.clear()  # they were for the server behind the old socket
        self.outbox.put(self.heartbeat.greet(now))

    def on_reconnected(self, now: Monotonic) -> None:
        """The same socket has a new connection, perhaps to a new server, which does not know our registration."""
        if self.heartbeat.is_greeting:
            self.outbox.put(self.heartbeat.repeat_greeting())  # the first may be lost
        elif self.heartbeat.is_connected:
            self.registration.on_server(now)

    def on_time(self, now: Monotonic) -> None:
        """To be called after all received messages were read."""
        match self.heartbeat.on_time(now):
            case Beat.PING:
                self.outbox.put(self.heartbeat.make_ping())
            case Beat.LOST:
                self._on_lost()
            case Beat.UNANSWERED:
                self._report_silence()
            case Beat.TRY_AGAIN:
                self.events.append(Renew())
            case _:
                pass
        self.registration.on_time(now)
        self.requests.on_time(now)

    def _report_silence(self) -> None:
        assert self.heartbeat.since is not None, "it is not connected"
        self.events.append(Unreachable(self.heartbeat.since))

    def _on_lost(self) -> None:
        self.outbox.on_lost()
        self._report_silence()
        self.requests.on_lost()
        self.registration.on_lost()
        self.events.append(Renew())

    # Messages from the server

    def on_frames(self, frames: Sequence[bytes], now: Monotonic) -> None:
        """The server sent a message. Never raises: invalid messages are counted and dropped."""
        self.heartbeat.on_heard(now)
        try:
            self._on_message(decode(frames), now)
        except RemoteProtocolError:
            self.dropped += 1

    def _on_message(self, message: QueueMessage, now: Monotonic) -> None:
        command = message.command
        if command == PING:
            self.outbox.put(make_reply(message, PONG))
        elif command == PONG:
            self._on_pong(message.id, now)
        elif command == RESPONSE:
            if not self.registration.on_response(message) and not self.requests.on_response(message):
                self.dropped += 1
        elif command != TRACKADDRESS and self.registration.is_worker:
            self.registration.on_dispatch(message, now)
        else:
            self.dropped += 1

    def _on_pong(self, number: bytes, now: Monotonic) -> None:
        if self.heartbeat.on_pong(number):
            self.events.append(Connected())
            self.registration.on_server(now)
            self.outbox.on_server(self.requests)
        else:
            self.registration.on_pong(number)
