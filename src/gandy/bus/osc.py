"""OSC programs beside an ensemble: what they send goes to a service, and what a service of ours gets goes to them.

One thread serves all sockets that must be waited for. It starts with the first of them and ends with the ensemble.
It sends no bundles, and does not answer whoever sends. docs/how-to/use-the-bus.md has the table of types.
"""

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from errno import EINPROGRESS
from functools import partial
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

from gandy.bus.engine import Engine
from gandy.bus.sockets import BUFFER_BYTES, set_up_link
from gandy.core.bus.coercion import Handler
from gandy.core.bus.discovery import LOCALHOST
from gandy.core.bus.member import Delivery, Member
from gandy.core.bus.processes import Status
from gandy.errors import ConfigError, ErrorCode, LinkError, NoClock, NotScheduled, RemoteProtocolError, UnknownService
from gandy.wire import osc
from gandy.wire.bus import MAX_DATAGRAM, Framer, frame
from gandy.wire.bus_control import is_name, is_process
from gandy.wire.bus_types import CODES, Item, parse_types
from gandy.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE

log = logging.getLogger("gandy.bus")

MAX_CONNECTIONS: Final = 64  # to one port; each may make us keep MAX_BYTES
MAX_BYTES: Final = 1 << 20  # of an OSC message or bundle over TCP
MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024  # for a program that does not read; beyond, it is cut
MAX_WAITING: Final = 10_000  # deliveries; while our handlers are so far behind, nothing more is read
MAX_AT_ONCE: Final = 100  # datagrams or reads before others get their turn
READ_BYTES: Final = 1 << 16
BACKLOG: Final = 16

RETRY_SECONDS: Final = 1.0  # after a connection failed; what comes before that is dropped
LINGER_SECONDS: Final = 1.0  # for what is still to go out when we close
PAUSE: Final = 0.01  # seconds between two looks at handlers that are behind

React = Callable[[int], None]

# Types and values, on the way from OSC and to it


def to_osc(types: str, args: tuple[Any, ...], tell_tag: Callable[[float], int]) -> tuple[str, tuple[Any, ...]]:
    """What the bus has, as far as OSC knows it. `tell_tag`: the time tag of a shared time. Raises: what that does."""
    if not _ONLY_BUS.intersection(types):
        return types, args
    codes, values = _convert_all(parse_types(types), args, partial(_to_osc, tell_tag))
    return codes, tuple(values)


def from_osc(types: str, args: tuple[Any, ...], tell_time: Callable[[int], float]) -> tuple[str, tuple[Any, ...]]:
    """The other way round. `tell_time`: the shared time of a time tag. Raises: what that does."""
    if not _ONLY_OSC.intersection(types):
        return types, args
    codes, values = _convert_all(parse_types(types, _OSC_CODES, frozenset()), args, partial(_from_osc, tell_time))
    return codes, tuple(values)


_ONLY_BUS: Final = frozenset("Btv")  # what is something else in OSC
_ONLY_OSC: Final = frozenset("rt")
_OSC_CODES: Final = CODES - {"B"} | {"r"}

Convert = Callable[[str, Any], tuple[str, Any]]


def _convert_all(items: tuple[Item, ...], values: Any, convert: Convert) -> tuple[str, list[Any]]:
    codes, converted = [], []
    for item, value in zip(items, values, strict=True):
        if isinstance(item, tuple):
            inner, made = _convert_all(item, value, convert)
            code = f"[{inner}]"
        else:
            code, made = convert(item, value)
        codes.append(code)
        converted.append(made)
    return "".join(codes), converted


def _to_osc(tell_tag: Callable[[float], int], code: str, value: Any) -> tuple[str, Any]:
    if code == "B":
        return "T" if value else "F", value
    if code == "t":
        return code, tell_tag(value)
    if code[0] == "v":
        return f"[{code[1] * len(value)}]", list(value)
    return code, value


def _from_osc(tell_time: Callable[[int], float], code: str, value: Any) -> tuple[str, Any]:
    if code == "r":  # red, green, blue, alpha
        return "b", value
    return code, tell_time(value) if code == "t" else value


class Clocks(NamedTuple):
    """The wall clock, which OSC goes by, and the shared one at the same instant."""

    wall: float
    shared: float | None  # None: it is not known

    def tell_shared(self, wall: float) -> float:
        """0.0 is at once for both. Raises: NoClock."""
        return wall and self._get_shared() + (wall - self.wall)

    def tell_wall(self, shared: float) -> float:
        """Raises: NoClock."""
        return shared and self.wall + (shared - self._get_shared())

    def _get_shared(self) -> float:
        if self.shared is None:
            raise NoClock("the shared time is not known yet")
        return self.shared


# The thread


class OscThread:
    """Waits for sockets, and reacts to them one after the other. Whoever touches any of them holds `lock`."""

    def __init__(self, engine: Engine, insecure: bool) -> None:
        self.engine = engine
        self.insecure = insecure
        self.lock = Condition()  # is notified when something went out
        self._doors: list[Door] = []
        self._reactions: dict[socket.socket, React] = {}
        self._thread: Thread | None = None
        self._is_closing = False

    def add(self, door: "Door") -> None:
        """Raises: LinkError."""
        with self.lock:
            if self._is_closing or self.engine.is_closed:
                raise LinkError("this process has left the ensemble")
            self._doors.append(door)

    def remove(self, door: "Door") -> None:
        with self.lock:
            if door in self._doors:
                self._doors.remove(door)

    def close(self) -> None:
        """What waits to go out has a moment to do so."""
        with self.lock:
            self._is_closing = True
            doors = list(self._doors)
        for door in doors:
            door.close()
        with self.lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._wake()
            thread.join()
            self._selector.close()
            self._reading.close()
            self._writing.close()

    def watch(self, sock: socket.socket, events: int, react: React) -> None:
        """Have it called when something can be read or written."""
        if self._thread is None:
            self._start()
        if sock in self._reactions:
            self._selector.modify(sock, events)
        else:
            self._selector.register(sock, events)
        self._reactions[sock] = react

    def forget(self, sock: socket.socket) -> None:
        """And close it."""
        if self._reactions.pop(sock, None) is not None:
            self._selector.unregister(sock)
        sock.close()

    def _start(self) -> None:
        self._selector = DefaultSelector()
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._selector.register(self._reading, EVENT_READ)
        self._thread = Thread(target=self._run, name="gandy-osc", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        with suppress(OSError):
            self._writing.send(b"!")

    def _run(self) -> None:
        while not self._is_over():
            ready = self._selector.select()
            self._wait_for_handlers()
            with self.lock:
                for key, events in ready:
                    self._react(key.fileobj, events)

    def _react(self, sock: Any, events: int) -> None:
        react = self._reactions.get(sock)  # None: ours, or an earlier one closed it
        if react is None:
            return
        try:
            react(events)
        except LinkError:
            pass  # the ensemble is closed, and so is this in a moment
        except Exception:  # one message must not be the end of all
            log.exception("the OSC side of the bus has a bug, and goes on")

    def _is_over(self) -> bool:
        return self._is_closing and not self._doors

    def _wait_for_handlers(self) -> None:
        """So that whoever sends faster than they work fills buffers of the system, and not our memory."""
        while len(self.engine.member.deliveries) > MAX_WAITING and not self._is_closing:
            time.sleep(PAUSE)


class Door:
    """Between OSC and a service. `dropped`: how often something was, by the reason."""

    def __init__(self, service: str, thread: OscThread) -> None:
        self.service = service
        self.dropped: Counter[str] = Counter()
        self._thread = thread

    def close(self) -> None:
        raise NotImplementedError

    def _drop(self, reason: str) -> None:
        if not self.dropped[reason]:
            log.warning("an OSC message for %s is dropped: %s; others like it are only counted", self.service, reason)
        self.dropped[reason] += 1


# From OSC


class OscIn(Door):
    """Listens at `port`. What comes for /a/b goes to /service/a/b, wherever the service is. `close` it to end that."""

    def __init__(self, service: str, host: str, port: int, thread: OscThread, is_tcp: bool) -> None:
        """Raises: ConfigError, LinkError."""
        super().__init__(service, thread)
        if not is_name(service) or is_process(service) or service in (LOCAL_SERVICE, CLOCK_SERVICE):
            raise ConfigError(f"{service!r} cannot be the name of a service")
        self._streams: dict[socket.socket, Framer | SlipFramer | None] = {}  # None: it has said nothing yet
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
        for _ in range(MAX_AT_ONCE):
            try:
                data = self._socket.recv(READ_BYTES)
            except OSError:  # nothing is left
                return
            self._receive(data)

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._socket.accept()
        except OSError:  # it went away
            return
        if len(self._streams) >= MAX_CONNECTIONS:
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
            self._drop("it is no OSC")
            return
        self._thread.engine.ask(partial(self._deliver, element))

    def _deliver(self, element: osc.OscMessage | osc.OscBundle, member: Member, now: float) -> None:
        shared = member.time.clock.read(now) if member.time.is_synced(now) else None
        self._open(element, 0.0, Clocks(time.time(), shared), member, now)

    def _open(
        self, element: osc.OscMessage | osc.OscBundle, due: float, clocks: Clocks, member: Member, now: float
    ) -> None:
        """`due`: when, by the wall clock; 0.0 is at once. A bundle within another is never before that one."""
        if isinstance(element, osc.OscMessage):
            self._send(element, due, clocks, member, now)
            return
        due = max(due, osc.tag_to_seconds(element.time))
        for inner in element.elements:
            self._open(inner, due, clocks, member, now)

    def _send(self, message: osc.OscMessage, due: float, clocks: Clocks, member: Member, now: float) -> None:
        address = f"/{self.service}{message.address if message.address != '/' else ''}"
        try:
            types, args = from_osc(*message[1:], lambda tag: clocks.tell_shared(osc.tag_to_seconds(tag)))
            send = partial(member.send, address, args, now, types=types)
            try:
                at = clocks.tell_shared(due)
                send(at=at if at > 0.0 else None)  # nothing comes before the shared time began
            except NoClock:
                if due > clocks.wall:
                    raise
                send()
        except UnknownService:
            self._drop("nobody offers the service")
        except NoClock:
            self._drop("it has a time, and the shared time is not known")
        except NotScheduled as error:
            self._drop("too many wait for their time" if error.retryable else "its time is too far away")
        except ValueError:
            self._drop("it does not fit the bus")


def make_framer(data: bytes) -> "Framer | SlipFramer":
    """OSC 1.0 has lengths before messages, OSC 1.1 has SLIP. The first byte tells: no length begins with END."""
    return SlipFramer() if data.startswith(END) else Framer(MAX_BYTES)


END: Final = b"\xc0"
_ESCAPED_END: Final = b"\xdb\xdc"
_ESCAPED_ESCAPE: Final = b"\xdb\xdd"
_ESCAPE: Final = b"\xdb"


class SlipFramer:
    """Bytes in, messages out, as from `Framer`: RFC 1055, with END before and behind each message."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._seen = 0  # bytes of the buffer without an END

    def receive_data(self, data: bytes) -> None:
        self._buffer += data

    def next_message(self) -> bytes | None:
        """Raises: RemoteProtocolError, when one is too long."""
        while (end := self._buffer.find(END, self._seen)) >= 0:
            message = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._seen = 0
            if message:
                return message.replace(_ESCAPED_END, END).replace(_ESCAPED_ESCAPE, _ESCAPE)
        self._seen = len(self._buffer)
        if self._seen > MAX_BYTES:
            raise RemoteProtocolError(f"a message of more than {MAX_BYTES:,} bytes", ErrorCode.TOO_LONG)
        return None


def _bind(host: str, port: int, is_tcp: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM)
    try:
        if is_tcp:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections may still be fading
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


def find_host(host: str, insecure: bool) -> str:
    """Its IP. Raises: ConfigError, also where it is on the network and nobody said that this is wanted."""
    try:
        ip = socket.gethostbyname(host) if host else "0.0.0.0"  # noqa: S104 - it is refused just below
    except OSError as error:
        raise ConfigError(f"{host} is unknown: {error.strerror or error}") from None
    if not insecure and not ip.startswith("127."):
        raise ConfigError(
            f"OSC has no keys, and {host or ip} is not this machine: with insecure=True for the ensemble, it can be"
        )
    return ip


# To OSC


class OscOut(Door):
    """A service of ours, whose messages go on to an OSC program: by UDP. `close` it to offer it no more."""

    def __init__(self, service: str, host: str, port: int, thread: OscThread) -> None:
        """Raises: ConfigError, LinkError."""
        super().__init__(service, thread)
        if not 0 < port < 1 << 16:
            raise ConfigError(f"{port} is no port")
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
            types, args = to_osc(delivery.types, delivery.args, self._tell_tag)
            data = osc.encode(osc.OscMessage("/" + path, types, args))
        except NoClock:
            self._drop("it has a time among its values, and the shared time is not known")
        except ValueError:
            self._drop("it does not fit OSC")
        else:
            self._send(data)

    def _tell_tag(self, shared: float) -> int:
        clock, now = self._thread.engine.member.time.clock, time.monotonic()
        clocks = Clocks(time.time(), clock.read(now) if clock.is_set else None)
        return osc.seconds_to_tag(clocks.tell_wall(shared))

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


def _offer(service: str, handler: Handler, member: Member, now: float) -> None:
    ours = (Status.LOCAL, Status.LOCAL_NOTIME, Status.TO_OSC, Status.TO_OSC_NOTIME)
    if member.get_status(service, now) in ours:
        raise ConfigError(f"this process offers the service {service} already")
    member.add_service(service, is_osc=True).add("", handler)


class OscTcpOut(OscOut):
    """The same by TCP, each message behind its length. What cannot go out soon is dropped: it would come too late."""

    def _connect(self) -> None:
        self._link: socket.socket | None = None
        self._is_open = False
        self._unsent = bytearray()
        self._retry_at = 0.0
        self._open()

    def _disconnect(self) -> None:
        with self._thread.lock:
            self._thread.lock.wait_for(lambda: not self._unsent, LINGER_SECONDS)
            self._lose()
            self._retry_at = inf

    def _send(self, data: bytes) -> None:
        with self._thread.lock:
            if self._link is None and time.monotonic() >= self._retry_at:
                self._open()
            if self._link is None:
                self._drop("there is no connection")
                return
            if len(self._unsent) + len(data) > MAX_UNSENT_BYTES:
                self._drop("it does not read what it is sent, and is cut")
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
        assert link is not None, "it is forgotten with the link"
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
        """Nobody wants it, but its end must be noticed. Whether the link is there."""
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
        self._retry_at = time.monotonic() + RETRY_SECONDS
        self._thread.lock.notify_all()


# What an ensemble has


class Osc:
    """All doors of one ensemble. Nothing is opened before the first of them."""

    def __init__(self, engine: Engine, insecure: bool) -> None:
        self._thread = OscThread(engine, insecure)

    def open_in(self, service: str, port: int, *, tcp: bool, host: str = LOCALHOST) -> OscIn:
        """Raises: ConfigError, LinkError."""
        return OscIn(service, host, port, self._thread, tcp)

    def open_out(self, service: str, host: str, port: int, *, tcp: bool) -> OscOut:
        """Raises: ConfigError, LinkError."""
        return (OscTcpOut if tcp else OscOut)(service, host, port, self._thread)

    def close(self) -> None:
        self._thread.close()
