"""A connection to a round-robin server in a thread of its own, so that a busy worker still answers PINGs.

The socket is a DEALER: messages do not contain the server's address. Any thread may call the methods; `on_events` is
called in the thread of the connection.
"""

import logging
import random
from collections.abc import Callable
from threading import Lock
from typing import Final

import zmq

from gandy.clocks import read_monotonic
from gandy.doors.limits import MAX_ROUTING_ID
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.uplink import Uplink
from gandy.doors.roundrobin.uplink_events import Event, Renew
from gandy.doors.roundrobin.wire import QueueMessage, encode
from gandy.doors.sockets.dealer import DealerThread, Keys
from gandy.limits import MAX_VALUE_BYTES
from gandy.moments import Monotonic

log = logging.getLogger("gandy.doors.sockets")

HIGH_WATER: Final = 100_000  # messages that wait in a socket, as in the original
READS_PER_TURN: Final = 1_000  # messages read before any is sent
LAST_SUFFIX: Final = 1_000_000  # of a routing id, as in the original

IDS: Final = MessageIds()  # they count for the whole process, as in the original

OnEvents = Callable[[list[Event]], None]
OnFrames = Callable[[list[bytes]], None]


class UplinkThread(DealerThread):
    """One connection. `on_events` gets events in order, and must return soon."""

    name = "gandy-uplink"
    watched = zmq.EVENT_HANDSHAKE_SUCCEEDED

    def __init__(self, url: str, on_events: OnEvents, keys: Keys | None = None, ids: MessageIds = IDS) -> None:
        """Raises: ConfigError."""
        self.on_in: OnFrames = _ignore  # called with each message received
        self.on_out: OnFrames = _ignore  # called with each message sent
        self._on_events = on_events
        self._lock = Lock()
        self._uplink = Uplink(read_monotonic(), ids)
        self._renew_is_due = False
        super().__init__(url, keys)

    # See `Uplink`

    @property
    def is_connected(self) -> bool:
        return self._uplink.heartbeat.is_connected

    @property
    def silent_seconds(self) -> float:
        """Seconds since the server last answered; 0 while it does."""
        since = self._uplink.heartbeat.since
        return 0.0 if since is None else read_monotonic() - since

    def send(self, message: QueueMessage) -> None:
        with self._lock:
            self._uplink.outbox.send(message)
        self._thread.wake()

    def register(self, slots: int) -> None:
        with self._lock:
            self._uplink.registration.register(slots, read_monotonic())
        self._thread.wake()

    def deregister(self) -> None:
        with self._lock:
            self._uplink.registration.deregister()
        self._thread.wake()

    def finish(self, ticket: int, response: QueueMessage | None = None) -> None:
        with self._lock:
            self._uplink.registration.finish(ticket, read_monotonic(), response)
        self._thread.wake()

    def request(
        self, command: bytes, *args: bytes, timeout: float, track: bool = True, to: tuple[bytes, ...] = ()
    ) -> bytes:
        """Returns the id of the request. `on_events` may get its Response before this returns."""
        with self._lock:
            now = read_monotonic()
            number = self._uplink.requests.send(command, *args, now=now, timeout=timeout, track=track, to=to)
        self._thread.wake()
        return number

    def forget(self, number: bytes) -> None:
        with self._lock:
            self._uplink.requests.forget(number)

    # The thread

    def _set_up(self, socket: "zmq.Socket[bytes]") -> None:
        socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
        socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_VALUE_BYTES)
        socket.setsockopt(zmq.ROUTING_ID, make_routing_id(self.url))

    def _on_open(self) -> None:
        self._had_connection = False
        self._is_stuck = False
        with self._lock:
            self._uplink.on_socket(read_monotonic())

    def _next_deadline(self) -> Monotonic:
        with self._lock:
            return self._uplink.next_deadline()

    def _turn(self) -> None:
        self._read_monitor()
        self._receive_all()
        with self._lock:
            self._uplink.on_time(read_monotonic())
        self._send_all()
        self._report()
        if self._renew_is_due:
            self._renew()
            self._renew_is_due = False

    def _finish(self) -> None:
        self._send_all()
        if not self.is_connected:
            self._linger = 0.0

    def _on_change(self) -> None:
        if self._had_connection:
            with self._lock:
                self._uplink.on_reconnected(read_monotonic())
        self._had_connection = True

    def _receive_all(self) -> None:
        now = read_monotonic()
        for _ in range(READS_PER_TURN if not self._is_stuck else 0):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.on_in(frames)
            with self._lock:
                self._uplink.on_frames(frames, now)

    def _send_all(self) -> None:
        """Send as much as the socket takes. While it takes nothing, we read nothing, or answers would pile up here."""
        self._is_stuck = False
        with self._lock:
            outbox = self._uplink.outbox.messages
            while outbox and not self._is_stuck:
                frames = encode(outbox[0])
                try:
                    self._socket.send_multipart(frames, zmq.NOBLOCK)
                except zmq.Again:
                    self._is_stuck = True
                else:
                    outbox.popleft()
                    self.on_out(frames)
        self._poller.modify(self._socket, zmq.POLLOUT if self._is_stuck else zmq.POLLIN)

    def _report(self) -> None:
        with self._lock:
            events = list(self._uplink.events)
            self._uplink.events.clear()
        if events:
            self._renew_is_due |= any(isinstance(event, Renew) for event in events)
            try:
                self._on_events(events)
            except Exception:  # the connection must go on
                log.exception("a message from %s could not be handled", self.url)


def make_routing_id(url: str) -> bytes:
    """A routing id like those of the original's workers and clients."""
    suffix = f":{random.randint(1, LAST_SUFFIX)}".encode()  # noqa: S311 - it need only differ from those of other peers
    return url.encode()[: MAX_ROUTING_ID - len(suffix)] + suffix


def _ignore(_frames: list[bytes]) -> None: ...
