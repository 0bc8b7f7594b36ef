"""Passes messages of a service of ours to an OSC program. It sends no bundles."""

import socket
from contextlib import suppress
from errno import EINPROGRESS
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final

from gandy.bus.core.coercion import Handler
from gandy.bus.core.member import Delivery, Member
from gandy.bus.core.processes import Status
from gandy.bus.io.sockets import READ_BYTES, set_up_link
from gandy.bus.limits import MAX_DATAGRAM, MAX_OSC_UNSENT_BYTES
from gandy.bus.osc.thread import OscBridge, OscThread, find_host
from gandy.bus.osc.values import Clocks, to_osc
from gandy.bus.wire import osc
from gandy.bus.wire.messages import frame
from gandy.clocks import read_monotonic, read_wall
from gandy.errors import ConfigError, LinkError, NoClock
from gandy.moments import LONG_AGO, NEVER, Monotonic, Shared

RETRY_SECONDS: Final = 1.0  # after a connection failed; messages before that are dropped
LINGER_SECONDS: Final = 1.0  # when we close, to send what is left


class OscOut(OscBridge):
    """Offers a service whose messages go to an OSC program by UDP. `close` it to stop offering it."""

    def __init__(self, service: str, host: str, port: int, thread: OscThread) -> None:
        """Raises: ConfigError, LinkError."""
        super().__init__(service, thread)
        if not 0 < port < 1 << 16:
            raise ConfigError(f"{port} is not a port")
        self._target = find_host(host, thread.insecure), port
        with thread.lock:
            thread.add(self)
            self._connect()
            try:
                thread.engine.ask(partial(_offer, service, Handler(None, self._forward, takes_delivery=True)))
            except (ConfigError, LinkError):
                self._disconnect()
                thread.remove(self)
                raise

    def close(self) -> None:
        with suppress(LinkError):  # the ensemble is closed already
            self._thread.engine.ask(lambda member, _now: member.remove_service(self.service))
        self._disconnect()
        self._thread.remove(self)

    def _forward(self, delivery: Delivery) -> None:
        path = delivery.address[1:].partition("/")[2]
        try:
            types, args = to_osc(delivery.types, delivery.args, self._to_tag)
            data = osc.encode(osc.OscMessage("/" + path, types, args))
        except NoClock:
            self._drop("it has a time among its values, and the shared time is not known")
        except ValueError:
            self._drop("OSC cannot carry it")
        else:
            self._send(data)

    def _to_tag(self, shared: Shared) -> int:
        clock, now = self._thread.engine.member.time.clock, read_monotonic()
        clocks = Clocks(read_wall(), clock.read(now) if clock.is_set else None)
        return osc.wall_to_tag(clocks.to_wall(shared))

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def _disconnect(self) -> None:
        self._socket.close()

    def _send(self, data: bytes) -> None:
        if len(data) > MAX_DATAGRAM:
            self._drop("it is too long for a datagram")
            return
        try:
            self._socket.sendto(data, self._target)
        except OSError:
            self._drop("it could not be sent")


def _offer(service: str, handler: Handler, member: Member, now: Monotonic) -> None:
    ours = (Status.LOCAL, Status.LOCAL_NOTIME, Status.TO_OSC, Status.TO_OSC_NOTIME)
    if member.get_status(service, now) in ours:
        raise ConfigError(f"this process offers the service {service} already")
    member.add_service(service, is_osc=True).add("", handler)


class OscTcpOut(OscOut):
    """The same by TCP, with a length before each message. Messages are dropped while there is no connection."""

    def _connect(self) -> None:
        self._link: socket.socket | None = None
        self._is_open = False
        self._unsent = bytearray()
        self._retry_at = LONG_AGO
        self._open()

    def _disconnect(self) -> None:
        with self._thread.lock:
            self._thread.lock.wait_for(lambda: not self._unsent, LINGER_SECONDS)
            self._lose()
            self._retry_at = NEVER

    def _send(self, data: bytes) -> None:
        with self._thread.lock:
            if self._link is None and read_monotonic() >= self._retry_at:
                self._open()
            if self._link is None:
                self._drop("there is no connection")
                return
            if len(self._unsent) + len(data) > MAX_OSC_UNSENT_BYTES:
                self._drop("the program does not read; its connection is cut")
                self._lose()
                return
            self._unsent += frame(data)
            if self._is_open:
                self._flush()

    def _open(self) -> None:
        self._link = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        set_up_link(self._link)
        if self._link.connect_ex(self._target) in (0, EINPROGRESS):
            self._thread.watch(self._link, EVENT_WRITE, self._on_event)
        else:
            self._lose()

    def _on_event(self, events: int) -> None:
        link = self._link
        assert link is not None, "a lost link is not watched"
        if not self._is_open:
            if link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lose()
                return
            self._is_open = True
        if events & EVENT_READ and not self._read(link):
            self._lose()
            return
        self._flush()

    def _read(self, link: socket.socket) -> bool:
        """Read and ignore, so that the end of the link is noticed. False at that end."""
        try:
            return bool(link.recv(READ_BYTES))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _flush(self) -> None:
        link = self._link
        assert link is not None, "it is open"
        try:
            del self._unsent[: link.send(self._unsent[:READ_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()
            return
        self._thread.watch(link, EVENT_READ | EVENT_WRITE if self._unsent else EVENT_READ, self._on_event)
        self._thread.lock.notify_all()

    def _lose(self) -> None:
        if self._unsent:
            self._drop("the connection is lost")
        if self._link is not None:
            self._thread.forget(self._link)
        self._link = None
        self._is_open = False
        self._unsent.clear()
        self._retry_at = read_monotonic() + RETRY_SECONDS
        self._thread.lock.notify_all()
