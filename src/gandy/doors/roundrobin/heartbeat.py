"""Checks whether a round-robin server answers: a first PING on each socket, PINGs after silence, and when to retry."""

from enum import Enum, auto
from typing import Final

from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.wire import PING, QueueMessage
from gandy.moments import NEVER, Monotonic

GREETING_TIMEOUT: Final = 10.0  # seconds for the PONG to our first PING, as in the original
PAUSE: Final = 2.0  # seconds between two tries, as in the original
HEARTBEAT_PERIOD: Final = 2.0  # seconds of silence, after which we PING
HEARTBEAT_EXPIRY: Final = 10.0  # seconds of silence, after which the server is lost


class Beat(Enum):
    """What to do now."""

    NOTHING = auto()
    PING = auto()  # the server is silent: send it a PING
    LOST = auto()  # the server does not answer any more
    UNANSWERED = auto()  # the first PING of this socket was not answered
    TRY_AGAIN = auto()  # make a new socket


class Heartbeat:
    """The heartbeat of one connection, over all its sockets."""

    def __init__(self, now: Monotonic, ids: MessageIds) -> None:
        self.since: Monotonic | None = now  # when the silence began; None while the server answers
        self.is_greeting = False  # the first PING of the socket is not answered yet
        self._ids = ids
        self._greeting = b""  # id of that PING
        self._try_at = NEVER  # when the greeting fails, or the next try begins
        self._heard_at = now
        self._asked_at: Monotonic | None = None  # when we sent the first PING since then
        self._pinged_at = now

    @property
    def is_connected(self) -> bool:
        return self.since is None

    def next_deadline(self) -> Monotonic:
        if not self.is_connected:
            return self._try_at
        if self._asked_at is None:
            return self._heard_at + HEARTBEAT_PERIOD
        return min(self._pinged_at + HEARTBEAT_PERIOD, self._asked_at + HEARTBEAT_EXPIRY - HEARTBEAT_PERIOD)

    def greet(self, now: Monotonic) -> QueueMessage:
        """The first message over a new socket."""
        self.is_greeting = True
        self._try_at = now + GREETING_TIMEOUT
        self._greeting = self._ids.take_long()
        return self.repeat_greeting()

    def repeat_greeting(self) -> QueueMessage:
        return QueueMessage(PING, self._greeting)

    def make_ping(self) -> QueueMessage:
        return QueueMessage(PING, self._ids.take_long())

    def on_heard(self, now: Monotonic) -> None:
        self._heard_at = now
        self._asked_at = None

    def on_pong(self, number: bytes) -> bool:
        """True if this answers the greeting: the server is there."""
        if not self.is_greeting or number != self._greeting:
            return False
        self.is_greeting = False
        self._try_at = NEVER
        self.since = None
        return True

    def on_time(self, now: Monotonic) -> Beat:
        if self.is_connected:
            return self._check_silence(now)
        if now < self._try_at:
            return Beat.NOTHING
        was_greeting, self.is_greeting = self.is_greeting, False
        self._try_at = now + PAUSE if was_greeting else NEVER
        return Beat.UNANSWERED if was_greeting else Beat.TRY_AGAIN

    def _check_silence(self, now: Monotonic) -> Beat:
        # If our process was stopped for a while, the server was not silent: so we always ask before we give it up.
        if self._asked_at is not None and now - self._asked_at >= HEARTBEAT_EXPIRY - HEARTBEAT_PERIOD:
            self.since = self._heard_at
            self._asked_at = None
            self._try_at = NEVER
            return Beat.LOST
        if now - (self._heard_at if self._asked_at is None else self._pinged_at) < HEARTBEAT_PERIOD:
            return Beat.NOTHING
        self._pinged_at = now
        self._asked_at = now if self._asked_at is None else self._asked_at
        return Beat.PING
