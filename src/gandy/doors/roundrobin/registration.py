"""A worker's registration at a round-robin server: its slots, which of them are taken, and what the server knows.

It outlives servers: it sends each new server the number of slots that are free then.
"""

from collections import deque
from itertools import count
from typing import Final

from gandy.doors.roundrobin import uplink_events, wire
from gandy.doors.roundrobin.limits import MAX_EXTRA_DISPATCHES
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.server_outbox import ServerOutbox
from gandy.moments import NEVER, Monotonic

REGISTER_TIMEOUT: Final = 5.0  # seconds for the response to a REGISTER, as in the original
REGISTER_DELAY: Final = 0.5  # seconds after an INCREMENT: the original may handle both at once, in any order
DEREGISTER_ID: Final = b"WORKER"  # of a DEREGISTER, in the original


class Registration:
    """The worker's side of the messages about slots and dispatches."""

    def __init__(self, ids: MessageIds, outbox: ServerOutbox, events: deque[uplink_events.Event]) -> None:
        self.is_worker = False  # it has registered
        self.register_at = NEVER  # when REGISTER is due again
        self._ids = ids
        self._outbox = outbox
        self._events = events
        self._slots: int | None = None  # to be registered; None: take no dispatches
        self._id = b""  # of the last REGISTER, until it is answered
        self._goodbye = b""  # id of the PING after our DEREGISTER, until it is answered
        self._tickets = count(1)
        self._running: set[int] = set()  # tickets
        self._old: set[int] = set()  # tickets that this server does not know

    @property
    def free(self) -> int:
        """The number of free slots."""
        return max(0, (self._slots or 0) - len(self._running))

    def register(self, slots: int, now: Monotonic) -> None:
        """Accept up to this many dispatches at a time, from this server and from later ones."""
        self._slots = slots
        self.is_worker = True
        self._goodbye = b""
        if self._outbox.has_server:
            self._register(now)

    def _register(self, now: Monotonic) -> None:
        """A repeated REGISTER keeps its id, so that a response to the first one counts."""
        self._id = self._id or self._ids.take_short()
        self.register_at = now + REGISTER_TIMEOUT
        self._outbox.put(wire.QueueMessage(wire.TRACKEXEC, self._id, (wire.REGISTER, b"%d" % self.free)))

    def deregister(self) -> None:
        """Accept no more dispatches. Those on their way are still run and answered."""
        self._slots = None
        self._confirm()
        self._goodbye = self._ids.take_long()
        if self._outbox.has_server:
            # The answer to the PING shows that the server has read the DEREGISTER.
            self._outbox.put(
                wire.QueueMessage(wire.EXEC, DEREGISTER_ID, (wire.DEREGISTER,)),
                wire.QueueMessage(wire.PING, self._goodbye),
            )
        else:
            self._end_goodbye()

    def finish(self, ticket: int, now: Monotonic, response: wire.QueueMessage | None = None) -> None:
        """Free the slot, and then send the response.

        In this order: the client may send its next message as soon as it has the response. If that overtakes the
        INCREMENT, the original has the message in its queue when the slot is free, sends it twice, and crashes.
        """
        self._running.discard(ticket)
        if self._outbox.has_server:  # otherwise our REGISTER at the next server has the number of free slots
            self._return_slot(ticket, now)
        if response is not None:
            self._outbox.send(response)

    def _return_slot(self, ticket: int, now: Monotonic) -> None:
        if ticket in self._old:
            # The original counts the INCREMENT of a call that it does not know, a gandy server does not. A REGISTER
            # after it is right for both.
            self._old.discard(ticket)
            if not self._old and self._slots is not None:
                self.register_at = now + REGISTER_DELAY
        self._outbox.put(wire.QueueMessage(wire.EXEC, self._ids.take_short(), (wire.INCREMENT,)))

    # From the server

    def on_server(self, now: Monotonic) -> None:
        """There is a server that does not know what runs here."""
        self._old = set(self._running)
        if self._slots is not None:
            self._register(now)

    def on_lost(self) -> None:
        self._end_goodbye()

    def on_time(self, now: Monotonic) -> None:
        if now >= self.register_at and self._outbox.has_server:
            self._register(now)

    def on_pong(self, number: bytes) -> None:
        if number == self._goodbye:
            self._end_goodbye()

    def _end_goodbye(self) -> None:
        if self._goodbye:
            self._goodbye = b""
            self._events.append(uplink_events.Deregistered())

    def on_response(self, message: wire.QueueMessage) -> bool:
        """False if it does not answer our REGISTER."""
        if message.id != self._id:
            return False
        if message.args[:1] == (wire.FAILED,):
            reason = b" ".join(message.args[1:]).decode(errors="replace")
            # REGISTER is repeated, as if there had been no response.
            self._events.append(uplink_events.RegisterRefused(reason))
            return True
        self._confirm()
        # To a gandy server this PING means that we are ready for calls; the protocol has no message for that.
        self._outbox.put(wire.QueueMessage(wire.PING, self._ids.take_long()))
        self._events.append(uplink_events.RegisterConfirmed())
        return True

    def _confirm(self) -> None:
        self._id = b""
        self.register_at = NEVER

    def on_dispatch(self, message: wire.QueueMessage, now: Monotonic) -> None:
        if message.args[:1] in ((wire.MQS_MORE,), (wire.ONGOING,)):
            self._events.append(uplink_events.StreamRequested(message))
            return
        ticket = next(self._tickets)
        has_room = len(self._running) < (self._slots or 0) + MAX_EXTRA_DISPATCHES
        self._running.add(ticket)
        if has_room:
            self._events.append(uplink_events.Dispatched(ticket, message))
        else:
            self.finish(ticket, now, wire.make_response(message, wire.FAILED, b"the worker has too much to do"))
