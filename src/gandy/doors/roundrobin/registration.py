"""A worker's registration at a round-robin server: its slots, which of them are taken, and what the server knows.

It outlives servers: each new server learns which slots are free then.
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
REGISTER_DELAY: Final = 0.5  # seconds behind an INCREMENT: the original may work on both at once, in any order
DEREGISTER_ID: Final = b"WORKER"  # of a DEREGISTER, in the original


class Registration:
    """What a worker and its server say to each other about slots and dispatches."""

    def __init__(self, ids: MessageIds, outbox: ServerOutbox, events: deque[uplink_events.Event]) -> None:
        self.is_worker = False  # it registered once
        self.register_at = NEVER  # when REGISTER is due, again
        self._ids = ids
        self._outbox = outbox
        self._events = events
        self._slots: int | None = None  # to be registered; None: take no dispatches
        self._id = b""  # of the last REGISTER, until it is answered
        self._goodbye = b""  # id of the PING behind our DEREGISTER, until it is answered
        self._tickets = count(1)
        self._running: set[int] = set()  # tickets
        self._old: set[int] = set()  # tickets that this server does not know

    @property
    def free(self) -> int:
        """Slots that nothing runs in."""
        return max(0, (self._slots or 0) - len(self._running))

    def register(self, slots: int, now: Monotonic) -> None:
        """Take up to this many dispatches at once from now on, from this server and those that come after it."""
        self._slots = slots
        self.is_worker = True
        self._goodbye = b""
        if self._outbox.has_server:
            self._register(now)

    def _register(self, now: Monotonic) -> None:
        """A REGISTER that is repeated keeps its id: an answer to the first one is good too."""
        self._id = self._id or self._ids.take_short()
        self.register_at = now + REGISTER_TIMEOUT
        self._outbox.put(wire.QueueMessage(wire.TRACKEXEC, self._id, (wire.REGISTER, b"%d" % self.free)))

    def deregister(self) -> None:
        """Take nothing more. What was dispatched already may still come, and is answered as always."""
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
        """The slot is free again, and then the response goes out.

        In this order: the client of a response may send its next message at once. If that overtakes the INCREMENT,
        the original has it in its queue when the slot comes back, sends it twice, and dies of that.
        """
        self._running.discard(ticket)
        if self._outbox.has_server:  # else REGISTER says to the next server how many are free
            self._return_slot(ticket, now)
        if response is not None:
            self._outbox.send(response)

    def _return_slot(self, ticket: int, now: Monotonic) -> None:
        if ticket in self._old:
            # The original counts the INCREMENT of a call that it does not know, a gandy server does not. A REGISTER
            # behind it is right for both.
            self._old.discard(ticket)
            if not self._old and self._slots is not None:
                self.register_at = now + REGISTER_DELAY
        self._outbox.put(wire.QueueMessage(wire.EXEC, self._ids.take_short(), (wire.INCREMENT,)))

    # From the server

    def on_server(self, now: Monotonic) -> None:
        """There is a server that knows nothing of what runs here."""
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
            self._events.append(
                uplink_events.RegisterRefused(reason)
            )  # and asked again, as if there had been no answer
            return True
        self._confirm()
        # A gandy server takes this PING for "ready for calls", which the protocol cannot say.
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
