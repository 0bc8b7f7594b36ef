"""A worker's registration at a round-robin server: its slots, which of them are taken, and what the server knows."""

from itertools import count
from typing import Final

from gandy.doors.roundrobin.limits import MAX_EXTRA_DISPATCHES
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.wire import DEREGISTER, EXEC, INCREMENT, PING, REGISTER, TRACKEXEC, QueueMessage
from gandy.moments import NEVER, Monotonic

REGISTER_TIMEOUT: Final = 5.0  # seconds for the response to a REGISTER, as in the original
REGISTER_DELAY: Final = 0.5  # seconds behind an INCREMENT: the original may work on both at once, in any order
DEREGISTER_ID: Final = b"WORKER"  # of a DEREGISTER, in the original


class Registration:
    """It outlives servers: each new one is told the slots that are free then."""

    def __init__(self, ids: MessageIds) -> None:
        self.is_worker = False  # it registered once
        self.register_at = NEVER  # when REGISTER is due, again
        self._ids = ids
        self._slots: int | None = None  # to be registered; None: take no dispatches
        self._id = b""  # of the last REGISTER, until it is answered
        self._goodbye = b""  # id of the PING behind our DEREGISTER
        self._tickets = count(1)
        self._running: set[int] = set()  # tickets
        self._old: set[int] = set()  # tickets that this server does not know

    @property
    def free(self) -> int:
        """Slots that nothing runs in."""
        return max(0, (self._slots or 0) - len(self._running))

    @property
    def is_wanted(self) -> bool:
        return self._slots is not None

    def open(self, slots: int) -> None:
        """Take so many dispatches at once."""
        self._slots = slots
        self.is_worker = True
        self._goodbye = b""

    def on_new_server(self) -> None:
        """It knows nothing of what runs here."""
        self._old = set(self._running)

    def register(self, now: Monotonic) -> QueueMessage:
        """A REGISTER that is repeated keeps its id: an answer to the first one is good too."""
        self._id = self._id or self._ids.take_short()
        self.register_at = now + REGISTER_TIMEOUT
        return QueueMessage(TRACKEXEC, self._id, (REGISTER, b"%d" % self.free))

    def is_answered_by(self, number: bytes) -> bool:
        return number == self._id

    def confirm(self) -> None:
        """The server has registered us."""
        self._id = b""
        self.register_at = NEVER

    def close(self) -> tuple[QueueMessage, QueueMessage]:
        """DEREGISTER, and a PING whose answer shows that the server has read it."""
        self._slots = None
        self.confirm()
        self._goodbye = self._ids.take_long()
        return QueueMessage(EXEC, DEREGISTER_ID, (DEREGISTER,)), QueueMessage(PING, self._goodbye)

    def is_goodbye(self, number: bytes) -> bool:
        return number == self._goodbye

    def end_goodbye(self) -> bool:
        """True, if we were waiting for the server to read our DEREGISTER."""
        was_leaving, self._goodbye = bool(self._goodbye), b""
        return was_leaving

    def take_ticket(self) -> tuple[int, bool]:
        """For one dispatch. False, if there are far too many already: finish it at once."""
        ticket = next(self._tickets)
        has_room = len(self._running) < (self._slots or 0) + MAX_EXTRA_DISPATCHES
        self._running.add(ticket)
        return ticket, has_room

    def finish(self, ticket: int) -> None:
        self._running.discard(ticket)

    def increment(self, ticket: int, now: Monotonic) -> QueueMessage:
        """Return the slot of a dispatch."""
        if ticket in self._old:
            # The original counts the INCREMENT of a call that it does not know, a gandy server does not. A REGISTER
            # behind it is right for both.
            self._old.discard(ticket)
            if not self._old and self.is_wanted:
                self.register_at = now + REGISTER_DELAY
        return QueueMessage(EXEC, self._ids.take_short(), (INCREMENT,))
