"""A connection to a round-robin server (seed 002) in a thread of its own, so that whoever is busy still answers PINGs.

The socket is a DEALER: it neither sends the server's address nor sees it. Any thread may call the methods; events
are told in the thread of the connection.
"""

import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from socket import socketpair
from threading import Lock, Thread, current_thread
from typing import Any, Final, Protocol

import zmq
from zmq.utils.monitor import recv_monitor_message

from gandy.errors import ConfigError
from gandy.limits import MAX_VALUE_BYTES
from gandy.talk.roundrobin import Event, Numbers, Renew, Uplink
from gandy.wire.roundrobin import Message, encode

log = logging.getLogger("gandy.gateway")

HIGH_WATER: Final = 100_000  # messages that wait in a socket, as in the original
MAX_AT_ONCE: Final = 1_000  # messages that are read before others get their turn
MAX_REST: Final = 60.0  # seconds; there are clocks that cannot wait for ever
LINGER: Final = 1.0  # seconds to send what is left, when it is closed
MAX_SUFFIX: Final = 1_000_000  # of a routing id, as in the original
MAX_ROUTING_ID: Final = 255  # bytes; the limit of ZeroMQ

NUMBERS: Final = Numbers()  # seed 002: ids count for the whole process

OnEvents = Callable[[list[Event]], None]


class Keys(Protocol):
    """What makes a socket talk in secret."""

    def apply(self, socket: "zmq.Socket[Any]", /) -> None: ...


class UplinkThread:
    """One connection. `on_events` gets what happened, in order, in this thread, and must not take long."""

    def __init__(self, url: str, on_events: OnEvents, keys: Keys | None = None, numbers: Numbers = NUMBERS) -> None:
        """Raises: ConfigError."""
        self.url = url
        self._on_events = on_events
        self._keys = keys
        self._lock = Lock()
        self._uplink = Uplink(time.monotonic(), numbers)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._reading, self._writing = socketpair()  # wakes the thread
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._is_woken = False
        self._renew_is_due = False
        self._is_closing = False
        self._linger = LINGER
        self._poller = zmq.Poller()
        self._poller.register(self._reading, zmq.POLLIN)
        try:
            self._socket, self._monitor = self._open()
        except zmq.ZMQError as error:
            self._end()
            raise ConfigError(f"cannot connect to {url}: {error}") from None
        self._thread = Thread(target=self._run, name="gandy-uplink", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, linger: float = LINGER) -> None:
        """Send what is left, for at most so many seconds, and end."""
        self._linger = linger
        self._is_closing = True
        self._wake()
        if self._thread.ident is None:
            self._shut()
            self._end()
        elif self._thread is not current_thread():
            self._thread.join(linger + 5.0)

    # What can be asked of it. See `Uplink`.

    @property
    def is_connected(self) -> bool:
        return self._uplink.is_connected

    @property
    def silent_seconds(self) -> float:
        """How long the server has not answered; 0 while it does."""
        since = self._uplink.since
        return 0.0 if since is None else time.monotonic() - since

    def send(self, message: Message) -> None:
        with self._lock:
            self._uplink.send(message)
        self._wake()

    def register(self, slots: int) -> None:
        with self._lock:
            self._uplink.register(slots, time.monotonic())
        self._wake()

    def deregister(self) -> None:
        with self._lock:
            self._uplink.deregister()
        self._wake()

    def finish(self, ticket: int) -> None:
        with self._lock:
            self._uplink.finish(ticket, time.monotonic())
        self._wake()

    def request(
        self, command: bytes, *args: bytes, timeout: float, track: bool = True, to: tuple[bytes, ...] = ()
    ) -> bytes:
        """Gives the id. Its Response may be told before this returns."""
        with self._lock:
            now = time.monotonic()
            number = self._uplink.request(command, *args, now=now, timeout=timeout, track=track, to=to)
        self._wake()
        return number

    def forget(self, number: bytes) -> None:
        with self._lock:
            self._uplink.forget(number)

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            with suppress(OSError):  # it is closed already
                self._writing.send(b"!")

    # The socket

    def _open(self) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
        """A socket, and one that tells what happens to it. Raises: ZMQError."""
        socket = self._context.socket(zmq.DEALER)
        # Before it connects: a first connection that goes unnoticed would make the second look like the first.
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
            socket.setsockopt(zmq.RCVHWM, HIGH_WATER)
            socket.setsockopt(zmq.MAXMSGSIZE, MAX_VALUE_BYTES)
            socket.setsockopt(zmq.IPV6, "[" in self.url)  # else `localhost` may be ::1, where hardly anybody listens
            socket.setsockopt(zmq.ROUTING_ID, make_routing_id(self.url))
            if self._keys is not None:
                self._keys.apply(socket)
            socket.connect(self.url)
        except zmq.ZMQError:
            monitor.close(0)
            socket.close(0)
            raise
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(monitor, zmq.POLLIN)
        self._had_connection = False
        self._is_stuck = False
        with self._lock:
            self._uplink.on_socket(time.monotonic())
        return socket, monitor

    def _shut(self, linger: float = 0.0) -> None:
        self._poller.unregister(self._socket)
        self._poller.unregister(self._monitor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(int(linger * 1000))

    def _end(self) -> None:
        self._context.term()  # waits until everything is sent, or the time for that is over
        self._writing.close()
        self._reading.close()

    def _run(self) -> None:
        try:
            while not self._is_closing:
                try:
                    self._turn()
                except zmq.ZMQError as error:
                    log.warning("the connection to %s failed: %s", self.url, error)
                    time.sleep(1.0)
        finally:
            with suppress(zmq.ZMQError):
                self._send_all()
            self._shut(self._linger if self.is_connected else 0.0)
            self._end()

    def _turn(self) -> None:
        """Wait for something, and see to all that there is."""
        with self._lock:
            rest = self._uplink.next_deadline() - time.monotonic()
        self._poller.poll(int(max(0.0, min(rest, MAX_REST)) * 1000) + 1)
        with suppress(BlockingIOError):
            self._reading.recv(1024)
        self._is_woken = False  # after that: who comes between need not wake us, since we look at everything below
        self._read_monitor()
        self._receive_all()
        with self._lock:
            self._uplink.on_time(time.monotonic())
        self._send_all()
        self._tell()
        if self._renew_is_due:
            new = self._open()
            self._shut()
            self._socket, self._monitor = new
            self._renew_is_due = False

    def _read_monitor(self) -> None:
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                log.warning("%s does not take our keys", self.url)
            elif self._had_connection:
                with self._lock:
                    self._uplink.on_reconnected(time.monotonic())
            else:
                self._had_connection = True

    def _receive_all(self) -> None:
        now = time.monotonic()
        for _ in range(MAX_AT_ONCE if not self._is_stuck else 0):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            with self._lock:
                self._uplink.on_frames(frames, now)

    def _send_all(self) -> None:
        """As much as the socket takes. Who does not take our answers is not heard until then: there is no end to it."""
        self._is_stuck = False
        with self._lock:
            outbox = self._uplink.outbox
            while outbox and not self._is_stuck:
                try:
                    self._socket.send_multipart(encode(outbox[0]), zmq.NOBLOCK)
                    outbox.popleft()
                except zmq.Again:
                    self._is_stuck = True
        self._poller.modify(self._socket, zmq.POLLOUT if self._is_stuck else zmq.POLLIN)

    def _tell(self) -> None:
        with self._lock:
            events = list(self._uplink.events)
            self._uplink.events.clear()
        if events:
            self._renew_is_due |= any(isinstance(event, Renew) for event in events)
            try:
                self._on_events(events)
            except Exception:  # the connection must go on
                log.exception("what came from %s could not be seen to", self.url)


def make_routing_id(url: str) -> bytes:
    """As the original's workers and clients make theirs."""
    suffix = f":{random.randint(1, MAX_SUFFIX)}".encode()  # noqa: S311 - it need only differ from those of others
    return url.encode()[: MAX_ROUTING_ID - len(suffix)] + suffix
