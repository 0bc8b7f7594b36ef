"""The connecting side of the round-robin queue (seed 002): what its workers and clients say to a server.

A socket that speaks for it carries the messages of `outbox`, in order, and tells it what comes in. After each step it
has `events` for the program around it. It owns no socket and runs no command.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final

from msgspec import Struct

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
    Message,
    decode,
    make_reply,
)
from gandy.errors import RemoteProtocolError

GREETING_TIMEOUT: Final = 10.0  # seconds for the PONG to our first PING, as in the original
PAUSE: Final = 2.0  # seconds between two tries, as in the original
HEARTBEAT_PERIOD: Final = 2.0  # seconds of silence, after which we PING
HEARTBEAT_EXPIRY: Final = 10.0  # seconds of silence, after which the server is lost
REGISTER_TIMEOUT: Final = 5.0  # seconds for the response to a REGISTER, as in the original
REGISTER_DELAY: Final = 0.5  # seconds behind an INCREMENT: the original may work on both at once, in any order
LAST_NUMBER: Final = 1_000_000_000  # of the original's counter; then it begins again
MAX_EXTRA: Final = 10_000  # dispatches beyond our slots; a server that sends more gets them back
GOODBYE_ID: Final = b"WORKER"  # of a DEREGISTER, in the original

CONTROL: Final = frozenset((INCREMENT, REGISTER, DEREGISTER))


class Connected(Struct, frozen=True):
    """The server answered."""


class Unreachable(Struct, frozen=True):
    """The server has been silent since then. We go on trying."""

    since: float


class Renew(Struct, frozen=True):
    """Make a new socket with a new routing id, and call `on_socket`."""


class Registered(Struct, frozen=True):
    """Worker: the server knows us and our slots."""


class Refused(Struct, frozen=True):
    """Worker: the server has no place for us, says gandy's. It will be asked again."""

    reason: str


class Deregistered(Struct, frozen=True):
    """Worker: the server was told, and what it had sent before is here. Or there is none."""


class Dispatched(Struct, frozen=True):
    """Worker: something to do. `finish` with the ticket returns the slot."""

    ticket: int
    message: Message


class Asked(Struct, frozen=True):
    """Worker: about a stream of ours (MQS_MORE, ONGOING). It takes no slot, since the server just passed it on."""

    message: Message


class Response(Struct, frozen=True):
    """Client: the answer to a request. `path` reversed is the way to whoever gave it."""

    id: bytes
    args: tuple[bytes, ...]
    path: tuple[bytes, ...]


class Expired(Struct, frozen=True):
    """Client: no answer came, or none can come."""

    id: bytes
    reason: str


Event = Connected | Unreachable | Renew | Registered | Refused | Deregistered | Dispatched | Asked | Response | Expired


class Numbers:
    """Ids of messages: one counter for 4 bytes, one for 8. All connections of a process may share one."""

    def __init__(self) -> None:
        self._short = count()
        self._long = count()

    def take_short(self) -> bytes:
        return (next(self._short) % LAST_NUMBER).to_bytes(4, "little")

    def take_long(self) -> bytes:
        """For PINGs, those that commands answer too."""
        return (next(self._long) % LAST_NUMBER).to_bytes(8, "little")


class Uplink:
    """One connection to a server, for a worker, a client, or both."""

    def __init__(self, now: float, numbers: Numbers | None = None) -> None:
        self._numbers = numbers or Numbers()
        self.outbox: deque[Message] = deque()
        self.events: deque[Event] = deque()
        self.dropped = 0  # messages that made no sense
        self.since: float | None = now  # when the silence began; None while the server answers
        self._is_greeting = False
        self._try_at = inf  # when greeting ends in vain, or the next try begins
        self._greeting = b""  # id of our first PING
        self._held: list[Message] = []  # until there is a server
        self._heard_at = now
        self._asked_at: float | None = None  # the first PING since then
        self._pinged_at = now
        self._slots: int | None = None  # as they are to be registered
        self._is_worker = False
        self._registration = b""  # id of the last REGISTER, until it is answered
        self._register_at = inf
        self._goodbye = b""  # id of the PING behind our DEREGISTER
        self._tickets = count(1)
        self._running: set[int] = set()  # tickets
        self._old: set[int] = set()  # those of them that a new server does not know
        self._requests: dict[bytes, float] = {}  # ids, and when they expire
        self._expiries: list[tuple[float, bytes]] = []  # a heap; may have more than these

    @property
    def is_connected(self) -> bool:
        return self.since is None

    @property
    def free(self) -> int:
        """Slots that nothing runs in."""
        return max(0, (self._slots or 0) - len(self._running))

    def next_deadline(self) -> float:
        """When `on_time` has something to do. `inf` means never."""
        beat = inf
        if self.is_connected and self._asked_at is None:
            beat = self._heard_at + HEARTBEAT_PERIOD
        elif self._asked_at is not None:
            beat = min(self._pinged_at + HEARTBEAT_PERIOD, self._asked_at + HEARTBEAT_EXPIRY - HEARTBEAT_PERIOD)
        expiry = self._expiries[0][0] if self._expiries else inf
        return min(beat, expiry, self._try_at, self._register_at if self.is_connected else inf)

    # The connection

    def on_socket(self, now: float) -> None:
        """There is a new socket, with a new routing id."""
        self.outbox.clear()  # that was for the other end of the old one
        self._is_greeting = True
        self._try_at = now + GREETING_TIMEOUT
        self._greeting = self._numbers.take_long()
        self.outbox.append(Message(PING, self._greeting))

    def on_reconnected(self, now: float) -> None:
        """The same socket has a new connection. Its other end may be a new server, which knows nobody."""
        if self._is_greeting:
            self.outbox.append(Message(PING, self._greeting))  # the first may be lost
        elif self.is_connected and self._slots is not None:
            self._old = set(self._running)
            self._register(now)

    def on_time(self, now: float) -> None:
        """Read what has come in first."""
        if self.is_connected:
            self._beat(now)
        elif now >= self._try_at:
            self._try_again(now)
        if self.is_connected and now >= self._register_at:
            self._register(now)
        while self._expiries and self._expiries[0][0] <= now:
            _, number = heappop(self._expiries)
            if self._requests.pop(number, None) is not None:
                self.events.append(Expired(number, "no answer came in time"))

    def _beat(self, now: float) -> None:
        # A process that was stopped for a while must not take its own silence for the server's: it asks first.
        if self._asked_at is not None and now - self._asked_at >= HEARTBEAT_EXPIRY - HEARTBEAT_PERIOD:
            self._lose()
        elif now - (self._heard_at if self._asked_at is None else self._pinged_at) >= HEARTBEAT_PERIOD:
            self._pinged_at = now
            self._asked_at = now if self._asked_at is None else self._asked_at
            self.outbox.append(Message(PING, self._numbers.take_long()))

    def _lose(self) -> None:
        """Answers to the old routing id go nowhere: requests have failed."""
        self.since = self._heard_at
        self._asked_at = None
        self._try_at = inf
        self._held.extend(filter(_is_lasting, self.outbox))
        self.outbox.clear()
        self.events.append(Unreachable(self.since))
        for number in self._requests:
            self.events.append(Expired(number, "the server was lost"))
        self._requests.clear()
        self._expiries.clear()
        self._end_goodbye()
        self.events.append(Renew())

    def _try_again(self, now: float) -> None:
        if self._is_greeting:
            self._is_greeting = False
            self._try_at = now + PAUSE
            assert self.since is not None, "it is not connected"
            self.events.append(Unreachable(self.since))
        else:
            self._try_at = inf
            self.events.append(Renew())

    def _connect(self, now: float) -> None:
        self._is_greeting = False
        self._try_at = inf
        self.since = None
        self.events.append(Connected())
        self._old = set(self._running)
        if self._slots is not None:
            self._register(now)
        held, self._held = self._held, []
        for message in held:
            if message.command != TRACKEXEC or message.id in self._requests:  # else it has expired
                self.outbox.append(message)

    def send(self, message: Message) -> None:
        """Now, or when there is a server."""
        if self.is_connected:
            self.outbox.append(message)
        else:
            self._held.append(message)

    # What comes in

    def on_frames(self, frames: Sequence[bytes], now: float) -> None:
        """A message as it comes from the socket. Never raises: what makes no sense is counted and dropped."""
        self._heard_at = now
        self._asked_at = None
        try:
            self._on_message(decode(frames), now)
        except RemoteProtocolError:
            self.dropped += 1

    def _on_message(self, message: Message, now: float) -> None:
        command = message.command
        if command == PING:
            self.outbox.append(make_reply(message, PONG))
        elif command == PONG:
            self._on_pong(message.id, now)
        elif command == RESPONSE:
            self._on_response(message)
        elif command != TRACKADDRESS and self._is_worker:
            self._on_dispatch(message, now)
        else:
            self.dropped += 1  # no request of ours wants its way to be watched

    def _on_pong(self, number: bytes, now: float) -> None:
        if self._is_greeting and number == self._greeting:
            self._connect(now)
        elif number == self._goodbye:
            self._end_goodbye()

    def _on_response(self, message: Message) -> None:
        if message.id == self._registration and message.args[:1] == (FAILED,):
            reason = b" ".join(message.args[1:]).decode(errors="replace")
            self.events.append(Refused(reason))  # and asked again, as if there had been no answer
        elif message.id == self._registration:
            self._registration = b""
            self._register_at = inf
            # To a gandy server this says that we are ready for calls, for which there is no other word.
            self.outbox.append(Message(PING, self._numbers.take_long()))
            self.events.append(Registered())
        elif self._requests.pop(message.id, None) is not None:
            self.events.append(Response(message.id, message.args, message.path))
        else:
            self.dropped += 1

    def _on_dispatch(self, message: Message, now: float) -> None:
        if message.args[:1] in ((MQS_MORE,), (ONGOING,)):
            self.events.append(Asked(message))
            return
        ticket = next(self._tickets)
        has_room = len(self._running) < (self._slots or 0) + MAX_EXTRA
        self._running.add(ticket)
        if has_room:
            self.events.append(Dispatched(ticket, message))
            return
        self.finish(ticket, now, make_response(message, FAILED, b"the worker has too much to do"))

    # Workers

    def register(self, slots: int, now: float) -> None:
        """Take so many dispatches at once from now on, from this server and those that come after it."""
        self._slots = slots
        self._is_worker = True
        self._goodbye = b""
        if self.is_connected:
            self._register(now)

    def _register(self, now: float) -> None:
        # A REGISTER that is repeated keeps its id: an answer to the first one is good too.
        self._registration = self._registration or self._numbers.take_short()
        self._register_at = now + REGISTER_TIMEOUT
        self.outbox.append(Message(TRACKEXEC, self._registration, (REGISTER, b"%d" % self.free)))

    def deregister(self) -> None:
        """Take nothing more. What was dispatched already may still come, and is answered as always."""
        self._slots = None
        self._registration = b""
        self._register_at = inf
        self._goodbye = self._numbers.take_long()
        if self.is_connected:
            self.outbox.append(Message(EXEC, GOODBYE_ID, (DEREGISTER,)))
            self.outbox.append(Message(PING, self._goodbye))
        else:
            self._end_goodbye()

    def _end_goodbye(self) -> None:
        if self._goodbye:
            self._goodbye = b""
            self.events.append(Deregistered())

    def finish(self, ticket: int, now: float, response: Message | None = None) -> None:
        """The slot is free again, and then the response goes out.

        In this order: the client of a response may send its next message at once. If that overtakes the INCREMENT,
        the original has it in its queue when the slot comes back, sends it twice, and dies of that.
        """
        self._running.discard(ticket)
        if self.is_connected:  # the next server is told how many are free
            self._increment(ticket, now)
        if response is not None:
            self.send(response)

    def _increment(self, ticket: int, now: float) -> None:
        self.outbox.append(Message(EXEC, self._numbers.take_short(), (INCREMENT,)))
        if ticket in self._old:
            # The original counts the INCREMENT of a call that it does not know, a gandy server does not: tell both.
            self._old.discard(ticket)
            if not self._old and self._slots is not None:
                self._register_at = now + REGISTER_DELAY

    # Clients

    def request(
        self,
        command: bytes,
        *args: bytes,
        now: float,
        timeout: float,
        track: bool = True,
        to: tuple[bytes, ...] = (),
    ) -> bytes:
        """Have a command run; gives the id. `to` are the hops behind the server; without any, it finds a worker.

        What is tracked ends with a Response or with Expired. What is not is done when it is sent.
        """
        number = self._numbers.take_long() if command == PING else self._numbers.take_short()
        if track:
            self._requests[number] = now + timeout
            heappush(self._expiries, (now + timeout, number))
        self.send(Message(TRACKEXEC if track else EXEC, number, (command, *args), to))
        return number

    def forget(self, number: bytes) -> None:
        """Nobody waits for the response any more."""
        self._requests.pop(number, None)


def make_response(request: Message, *payload: bytes) -> Message | None:
    """The answer to a request, if it wants one."""
    return make_reply(request, RESPONSE, *payload) if request.command == TRACKEXEC else None


def _is_lasting(message: Message) -> bool:
    """Whether it means the same to the next server."""
    if message.command in (EXEC, TRACKEXEC):
        return not CONTROL.intersection(message.args[:1])
    return message.command == RESPONSE
