"""A client's requests to a round-robin server: each ends with a Response or with Expired."""

from collections import deque
from heapq import heappop, heappush

from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.server_outbox import ServerOutbox
from gandy.doors.roundrobin.uplink_events import Event, Expired, Response
from gandy.doors.roundrobin.wire import EXEC, PING, TRACKEXEC, QueueMessage
from gandy.moments import NEVER, Monotonic


class PendingRequests:
    """Requests that wait for a response, by the ids of their messages."""

    def __init__(self, ids: MessageIds, outbox: ServerOutbox, events: deque[Event]) -> None:
        self._ids = ids
        self._outbox = outbox
        self._events = events
        self._pending: dict[bytes, None] = {}  # oldest first
        self._expiries: list[tuple[Monotonic, bytes]] = []  # a heap, perhaps with requests that were answered

    def __contains__(self, number: object) -> bool:
        return number in self._pending

    def next_deadline(self) -> Monotonic:
        return self._expiries[0][0] if self._expiries else NEVER

    def send(
        self,
        command: bytes,
        *args: bytes,
        now: Monotonic,
        timeout: float,
        track: bool = True,
        to: tuple[bytes, ...] = (),
    ) -> bytes:
        """Request a command, and return the id of the request.

        `to`: the hops after the server; without any, the server chooses a worker. A request that is not tracked is done
        when it is sent.
        """
        number = self._ids.take_long() if command == PING else self._ids.take_short()
        if track:
            self._pending[number] = None
            heappush(self._expiries, (now + timeout, number))
        self._outbox.send(QueueMessage(TRACKEXEC if track else EXEC, number, (command, *args), to))
        return number

    def forget(self, number: bytes) -> bool:
        """Stop waiting for a response. True if the request was waiting."""
        is_pending = number in self._pending
        self._pending.pop(number, None)
        return is_pending

    def on_response(self, message: QueueMessage) -> bool:
        """False if no request waits for it."""
        is_pending = self.forget(message.id)
        if is_pending:
            self._events.append(Response(message.id, message.args, message.path))
        return is_pending

    def on_time(self, now: Monotonic) -> None:
        while self._expiries and self._expiries[0][0] <= now:
            _, number = heappop(self._expiries)
            if self.forget(number):
                self._events.append(Expired(number, "no answer came in time"))

    def on_lost(self) -> None:
        """Responses to the old routing id cannot arrive: all requests fail."""
        self._events.extend(Expired(number, "the server was lost") for number in self._pending)
        self._pending.clear()
        self._expiries.clear()
