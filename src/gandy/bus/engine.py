"""Runs a member of an ensemble: its sockets, its clock and its timers, in a thread of its own.

Any thread may send; what it says goes out at once, from that thread. Handlers run one after the other, in the engine's
thread or where `post` puts them, and never while the engine is locked.
"""

import logging
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from errno import EAGAIN, EINPROGRESS, EWOULDBLOCK
from functools import partial
from threading import RLock, Thread, current_thread
from typing import Final, TypeVar

from gandy.bus.sockets import Sockets, set_up_link
from gandy.core.bus.effects import Broadcast, Connect, Cut, Datagram, Effect, News, Write
from gandy.core.bus.member import Delivery, Member
from gandy.errors import LinkError
from gandy.wire.dialects import Dialect

log = logging.getLogger("gandy.bus")

MAX_AT_ONCE: Final = 100  # datagrams or reads before others get their turn
READ_BYTES: Final = 1 << 18
MAX_DATAGRAM_BYTES: Final = 1 << 16
MAX_UNSENT_BYTES: Final = 32 * 1024 * 1024  # for a peer that does not read; beyond, it is cut
BUSY: Final = 25e-6  # seconds; whoever waits for an answer does not send the next one sooner
FLUSH: Final = 5.0  # seconds, when we leave, for what is still to be sent
FAREWELL: Final = 0.2  # seconds, then, for the others to close their ends
BUG_PAUSE: Final = 0.1  # seconds; what goes wrong again and again shall not fill the disk
FINE: Final = 0.002  # seconds; epoll counts in milliseconds, and what is nearer is waited for by select
EVERYWHERE: Final = "255.255.255.255"

T = TypeVar("T")


class Channel:
    """A TCP connection."""

    def __init__(self, link: int, sock: socket.socket, is_open: bool) -> None:
        self.link = link
        self.socket = sock
        self.is_open = is_open
        self.unsent = bytearray()


class Engine:
    """One process of an ensemble. `start` it, `close` it."""

    def __init__(
        self,
        app: str,
        dialect: Dialect,
        ip: str,
        *,
        may_lead: bool,
        peers: tuple[str, ...],
        unix_time: bool = False,
    ) -> None:
        """`unix_time`: what the shared time is, should we be the first to lead. Raises: ConfigError."""
        self.on_news: Callable[[News], None] = lambda _news: None
        self.post: Callable[[Delivery], None] = run_delivery
        self.lock = RLock()
        self._sockets = Sockets(dialect, ip)
        self._epoll = select.epoll()
        self._channels: dict[int, Channel] = {}  # by link
        self._by_file: dict[int, Channel] = {}
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._is_closing = False
        self._is_busy = False  # datagrams come one upon the other
        self._read_at = 0.0
        self._wakes_at = 0.0
        self._acts: dict[int, Callable[[], None]] = {  # by file
            self._sockets.datagrams.fileno(): partial(self._read_datagrams, self._sockets.datagrams),
            self._sockets.discovery.fileno(): partial(self._read_datagrams, self._sockets.discovery),
            self._sockets.server.fileno(): self._accept,
            self._reading.fileno(): self._on_wake,
        }
        for number in self._acts:
            self._epoll.register(number, select.EPOLLIN)
        now = time.time()
        self.member = Member(
            app,
            dialect,
            self._sockets.place,
            time.monotonic(),
            may_lead=may_lead,
            peers=peers,
            beginning=now if unix_time else now % 1.0,  # the original counts from the whole second of its start
        )
        self._thread = Thread(target=self._run, name="gandy-bus", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Tell the others, and end."""
        with self.lock:
            if self._is_closing:
                return
            self._is_closing = True
            self.member.close()
            self._perform()
        self._wake()
        if self._thread is not current_thread() and self._thread.ident is not None:
            self._thread.join()

    @property
    def is_closed(self) -> bool:
        return self._is_closing

    def ask(self, act: Callable[[Member, float], T]) -> T:
        """Something about the member, from any thread; what follows from it goes out at once. Raises: what `act` does.

        LinkError, where the engine is closed.
        """
        with self.lock:
            if self._is_closing:
                raise LinkError("this process has left the ensemble")
            result = act(self.member, time.monotonic())
            self._perform()
            due = self.member.next_deadline()
            is_due = bool(self.member.deliveries or self.member.news) or due < self._wakes_at
            self._wakes_at = min(self._wakes_at, due)  # a handler runs in the engine's thread, which is not woken
        if is_due and current_thread() is not self._thread:
            self._wake()
        return result

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake, or closed already
            self._writing.send(b"!")

    # The thread

    def _run(self) -> None:
        try:
            while not self._is_closing:
                try:
                    self._turn()
                except Exception:  # one message must not be the end of all
                    log.exception("the bus has a bug, and goes on")
                    time.sleep(BUG_PAUSE)
            self._tell()  # what was sent to ourselves before the end
        finally:
            self._shut()

    def _turn(self) -> None:
        member = self.member
        # What handlers did may have news and deliveries of its own, for which nobody wakes us.
        events = self._wait(0.0 if member.news or member.deliveries else self._wakes_at - time.monotonic())
        with self.lock:
            if self._is_closing:
                return
            for number, event in events:
                self._on_event(number, event)
            now = time.monotonic()
            if now >= self._wakes_at:
                member.on_time(now)
            if member.effects:
                self._perform()
            self._wakes_at = member.next_deadline()
        if member.news or member.deliveries:
            self._tell()

    def _wait(self, seconds: float) -> list[tuple[int, int]]:
        if seconds >= FINE:
            return self._epoll.poll(min(seconds - FINE / 2, 60.0))
        if seconds > 0:
            select.select((self._epoll,), (), (), seconds)  # to the microsecond
        return self._epoll.poll(0)

    def _tell(self) -> None:
        """Without the lock: handlers may send, and take their time. What they send to us waits for the next turn."""
        news, deliveries = self.member.news, self.member.deliveries
        for _ in range(len(news)):
            self.on_news(news.popleft())
        for _ in range(len(deliveries)):
            self.post(deliveries.popleft())

    # The end

    def _leave(self) -> None:
        """Send what is left, and let the others see the end.

        A socket that is closed with something unread is reset: then the other end may lose what was sent before, and
        libo2 does not notice the loss at all.
        """
        for number in self._acts:
            self._epoll.unregister(number)
        for channel in list(self._channels.values()):
            self._end(channel)
        self._wait_for_others(lambda: any(channel.unsent for channel in self._channels.values()), FLUSH)
        self._wait_for_others(lambda: bool(self._channels), FAREWELL)

    def _wait_for_others(self, is_needed: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while is_needed() and (left := deadline - time.monotonic()) > 0:
            for number, event in self._epoll.poll(left):
                channel = self._by_file[number]
                try:
                    self._on_last(channel, event)
                except BlockingIOError:
                    pass
                except OSError:
                    self._drop(channel.link)

    def _on_last(self, channel: Channel, event: int) -> None:
        if event & select.EPOLLOUT:
            del channel.unsent[: channel.socket.send(channel.unsent[:READ_BYTES])]
            self._end(channel)
        elif not channel.socket.recv(READ_BYTES):
            self._drop(channel.link)

    def _end(self, channel: Channel) -> None:
        """Nothing more comes from us, if all is sent."""
        if not channel.is_open:
            self._drop(channel.link)
        elif not channel.unsent:
            with suppress(OSError):  # the other end was faster
                channel.socket.shutdown(socket.SHUT_WR)
            self._watch(channel)

    def _shut(self) -> None:
        with self.lock:
            pass  # whoever closes us has said everything now
        try:
            self._leave()
        finally:
            self._close_all()

    def _close_all(self) -> None:
        for channel in self._channels.values():
            channel.socket.close()
        self._sockets.close()
        self._epoll.close()
        self._reading.close()
        self._writing.close()

    # What happens

    def _on_event(self, number: int, event: int) -> None:
        act = self._acts.get(number)
        if act is not None:
            act()
        elif (channel := self._by_file.get(number)) is not None:
            self._on_channel(channel, event)

    def _on_wake(self) -> None:
        with suppress(BlockingIOError):
            self._reading.recv(4096)

    def _read_datagrams(self, sock: socket.socket) -> None:
        # One by one while there is one now and then: a second look that finds nothing takes as long as the first.
        limit = MAX_AT_ONCE if self._is_busy else 1
        read = 0
        with suppress(OSError):  # nothing is left; or an earlier one could not be delivered, and ICMP says so
            while read < limit:
                data, (ip, _) = sock.recvfrom(MAX_DATAGRAM_BYTES)
                self.member.on_datagram(data, ip, time.monotonic())
                read += 1
        now = time.monotonic()
        self._is_busy = read > 1 or now - self._read_at < BUSY
        self._read_at = now

    def _accept(self) -> None:
        for _ in range(MAX_AT_ONCE):
            try:
                sock, _ = self._sockets.server.accept()
            except OSError:
                return
            link = self.member.on_accept(time.monotonic())
            if link:
                self._add_channel(link, sock, is_open=True)
            else:
                sock.close()

    def _add_channel(self, link: int, sock: socket.socket, is_open: bool) -> None:
        set_up_link(sock)
        channel = self._channels[link] = self._by_file[sock.fileno()] = Channel(link, sock, is_open)
        self._epoll.register(sock, select.EPOLLIN if is_open else select.EPOLLOUT)
        if is_open:
            self._watch(channel)

    def _watch(self, channel: Channel) -> None:
        wanted = select.EPOLLIN | (select.EPOLLOUT if channel.unsent else 0)
        self._epoll.modify(channel.socket, wanted)

    def _on_channel(self, channel: Channel, event: int) -> None:
        if not channel.is_open:
            self._on_connect(channel)
            return
        if event & select.EPOLLOUT:
            self._send_more(channel)
        if event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR) and channel.link in self._channels:
            self._read(channel)

    def _on_connect(self, channel: Channel) -> None:
        if channel.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._lose(channel)
            return
        channel.is_open = True
        self._watch(channel)
        self.member.on_connected(channel.link, time.monotonic())

    def _read(self, channel: Channel) -> None:
        for _ in range(MAX_AT_ONCE):
            try:
                data = channel.socket.recv(READ_BYTES)
            except OSError as error:
                if error.errno not in (EAGAIN, EWOULDBLOCK):
                    self._lose(channel)
                return
            if not data:
                self._lose(channel)
                return
            self.member.on_data(channel.link, data, time.monotonic())
            if len(data) < READ_BYTES:
                return

    def _lose(self, channel: Channel) -> None:
        self._drop(channel.link)
        self.member.on_cut(channel.link, time.monotonic())

    def _drop(self, link: int) -> None:
        channel = self._channels.pop(link, None)
        if channel is not None:
            del self._by_file[channel.socket.fileno()]
            self._epoll.unregister(channel.socket)
            channel.socket.close()

    # What is to be done

    def _perform(self) -> None:
        effects = self.member.effects
        while effects:
            self._do(effects.popleft())

    def _do(self, effect: Effect) -> None:
        match effect:
            case Datagram(ip, port, data):
                with suppress(OSError):  # it is best effort: nobody waits for it
                    self._sockets.datagrams.sendto(data, (ip, port))
            case Write(link, data):
                self._write(link, data)
            case Broadcast(port, data):
                with suppress(OSError):  # there is no network now
                    self._sockets.shouts.sendto(data, (EVERYWHERE, port))
            case Connect(link, ip, port):
                self._connect(link, ip, port)
            case Cut(link) if not self._is_closing:
                self._drop(link)
            case Cut():
                pass  # when all is sent

    def _connect(self, link: int, ip: str, port: int) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        set_up_link(sock)
        if sock.connect_ex((ip, port)) not in (0, EINPROGRESS):
            sock.close()
            self.member.on_cut(link, time.monotonic())
            return
        self._add_channel(link, sock, is_open=False)

    def _write(self, link: int, data: bytes) -> None:
        channel = self._channels.get(link)
        if channel is None:
            return
        sent = 0
        if not channel.unsent and channel.is_open:
            with suppress(OSError):  # the loop notices what is wrong
                sent = channel.socket.send(data)
        if sent < len(data):
            channel.unsent += data[sent:]
            if len(channel.unsent) > MAX_UNSENT_BYTES:
                log.warning("a process does not read, and is cut")
                self._lose(channel)
            elif channel.is_open:
                self._watch(channel)

    def _send_more(self, channel: Channel) -> None:
        try:
            sent = channel.socket.send(channel.unsent[:READ_BYTES])
        except OSError as error:
            if error.errno not in (EAGAIN, EWOULDBLOCK):
                self._lose(channel)
            return
        del channel.unsent[:sent]
        self._watch(channel)


def run_delivery(delivery: Delivery) -> None:
    """Where nobody has another way. What a handler raises is its own business."""
    try:
        delivery.handler.function(delivery)
    except Exception as error:  # the others must not suffer
        who = getattr(delivery.handler.function, "__name__", "a handler")
        log.exception("%s failed for %s", who, delivery.message.address, exc_info=error)
