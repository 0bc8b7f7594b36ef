"""Passes messages of OSC programs to a service of the bus, in any process that offers it."""

import socket
from functools import partial
from selectors import EVENT_READ
from typing import Final

from gandy.bus.core.local_services import check_service
from gandy.bus.core.member import Member
from gandy.bus.io.sockets import BUFFER_BYTES, READ_BYTES, READS_PER_TURN, set_up_link
from gandy.bus.limits import MAX_OSC_CONNECTIONS
from gandy.bus.osc.streams import SlipFramer, make_framer
from gandy.bus.osc.thread import OscBridge, OscThread, find_host
from gandy.bus.osc.values import Clocks, from_osc
from gandy.bus.wire import osc
from gandy.bus.wire.messages import AT_ONCE, Framer
from gandy.clocks import read_wall
from gandy.errors import ConfigError, LinkError, NoClock, NotScheduled, RemoteProtocolError, UnknownService
from gandy.moments import Monotonic, Wall

BACKLOG: Final = 16


class OscIn(OscBridge):
    """Listens at `port`, and passes messages to /a/b on to /service/a/b. `close` it to stop."""

    def __init__(self, service: str, host: str, port: int, thread: OscThread, is_tcp: bool) -> None:
        """Raises: ConfigError, LinkError."""
        super().__init__(service, thread)
        check_service(service)
        self._streams: dict[socket.socket, Framer | SlipFramer | None] = {}  # None: nothing received yet
        self._socket = _bind(find_host(host, thread.insecure), port, is_tcp)
        self.port: int = self._socket.getsockname()[1]
        try:
            with thread.lock:
                thread.add(self)
                thread.watch(self._socket, EVENT_READ, self._accept if is_tcp else self._read_datagrams)
        except LinkError:
            self._socket.close()
            raise

    def close(self) -> None:
        with self._thread.lock:
            for sock in (self._socket, *self._streams):
                self._thread.forget(sock)
            self._streams.clear()
            self._thread.remove(self)

    def _read_datagrams(self, _events: int) -> None:
        for _ in range(READS_PER_TURN):
            try:
                data = self._socket.recv(READ_BYTES)
            except OSError:  # nothing is left
                return
            self._receive(data)

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._socket.accept()
        except OSError:  # the peer has gone
            return
        if len(self._streams) >= MAX_OSC_CONNECTIONS:
            self._drop("too many connections")
            sock.close()
            return
        set_up_link(sock)
        self._streams[sock] = None
        self._thread.watch(sock, EVENT_READ, partial(self._read_stream, sock))

    def _read_stream(self, sock: socket.socket, _events: int) -> None:
        try:
            data = sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._cut(sock)
            return
        framer = self._streams[sock] or make_framer(data)
        self._streams[sock] = framer
        framer.receive_data(data)
        try:
            while (message := framer.next_message()) is not None:
                self._receive(message)
        except RemoteProtocolError:
            self._drop("too long")
            self._cut(sock)

    def _cut(self, sock: socket.socket) -> None:
        del self._streams[sock]
        self._thread.forget(sock)

    def _receive(self, data: bytes) -> None:
        try:
            element = osc.decode(data)
        except RemoteProtocolError:
            self._drop("it is not OSC")
            return
        self._thread.engine.ask(partial(self._deliver, element))

    def _deliver(self, element: osc.OscMessage | osc.OscBundle, member: Member, now: Monotonic) -> None:
        shared = member.time.clock.read(now) if member.time.is_synced(now) else None
        self._open(element, Wall(0.0), Clocks(read_wall(), shared), member, now)

    def _open(
        self, element: osc.OscMessage | osc.OscBundle, due: Wall, clocks: Clocks, member: Member, now: Monotonic
    ) -> None:
        """`due`: 0.0 means at once. A bundle within another is never due before that one."""
        if isinstance(element, osc.OscMessage):
            self._send(element, due, clocks, member, now)
            return
        due = max(due, osc.tag_to_wall(element.time))
        for inner in element.elements:
            self._open(inner, due, clocks, member, now)

    def _send(self, message: osc.OscMessage, due: Wall, clocks: Clocks, member: Member, now: Monotonic) -> None:
        address = f"/{self.service}{message.address if message.address != '/' else ''}"
        try:
            types, args = from_osc(*message[1:], lambda tag: clocks.to_shared(osc.tag_to_wall(tag)))
            send = partial(member.outbox.send, address, args, now, types=types)
            try:
                at = clocks.to_shared(due)
                send(at=at if at > AT_ONCE else None)  # the shared time has no moments before 0
            except NoClock:
                if due > clocks.wall:
                    raise
                send()
        except UnknownService:
            self._drop("no process offers the service")
        except NoClock:
            self._drop("it has a time, and the shared time is not known")
        except NotScheduled as error:
            self._drop("too many wait for their time" if error.retryable else "its time is too far away")
        except ValueError:
            self._drop("the bus cannot carry it")


def _bind(host: str, port: int, is_tcp: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM)
    try:
        if is_tcp:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections may still be in TIME_WAIT
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        sock.setblocking(False)
        sock.bind((host, port))
        if is_tcp:
            sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot listen for OSC at {host}:{port}: {reason}") from None
    return sock
