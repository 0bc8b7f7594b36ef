"""Runs a member of an ensemble: its sockets, its clock and its timers, in a thread of its own.

Any thread may send; what it says goes out at once, from that thread. Handlers run one after the other, in the engine's
thread or where `post` puts them, and never while the engine is locked.
"""

import logging
import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from errno import EAGAIN, EINPROGRESS, EMFILE, ENFILE, EWOULDBLOCK
from functools import partial
from threading import RLock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from gandy.bus.core.discovery import LOCALHOST, tell_duration
from gandy.bus.core.effects import Broadcast, Connect, Cut, Datagram, News, Write
from gandy.bus.core.member import Delivery, Member
from gandy.bus.io.sockets import Sockets, set_up_link
from gandy.bus.io.vigil import Vigil
from gandy.bus.wire.dialects import Dialect
from gandy.bus.wire.messages import MAX_DATAGRAM
from gandy.errors import LinkError

if TYPE_CHECKING:
    from gandy.bus.io.privacy import Privacy, PrivateSession

log = logging.getLogger("gandy.bus")

MAX_AT_ONCE: Final = 100  # datagrams or reads before others get their turn
READ_BYTES: Final = 1 << 16  # with more, Python maps and unmaps memory for each read
MAX_EVENTS: Final = 64  # of one look; Python takes memory for so many
MAX_DATAGRAM_BYTES: Final = 1 << 16
MAX_WAITING: Final = 10_000  # deliveries, with which nothing more is read before their handlers had their turn
MAX_UNSENT_BYTES: Final = 32 * 1024 * 1024  # for a peer that does not read; beyond, it is cut
BUSY: Final = 25e-6  # seconds; whoever waits for an answer does not send the next one sooner
FLUSH: Final = 5.0  # seconds, when we leave, for what is still to be sent
FAREWELL: Final = 0.2  # seconds, then, for the others to close their ends
BUG_PAUSE: Final = 0.1  # seconds; what goes wrong again and again shall not fill the disk
FINE: Final = 0.002  # seconds; epoll counts in milliseconds, and what is nearer is waited for by select
EVERYWHERE: Final = "255.255.255.255"

T = TypeVar("T")

_engines: "WeakSet[Engine]" = WeakSet()  # of this process


class Channel:
    """A TCP connection."""

    def __init__(self, link: int, sock: socket.socket, is_open: bool, session: "PrivateSession | None") -> None:
        self.link = link
        self.session = session  # of a private ensemble
        self.socket = sock
        self.is_open = is_open
        self.is_ours = False  # whether we connected, and the member does not know yet that we succeeded
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
        privacy: "Privacy | None" = None,
    ) -> None:
        """`unix_time`: what the shared time is, should we be the first to lead. Raises: ConfigError."""
        self._privacy = privacy
        self.on_news: Callable[[News], None] = lambda _news: None
        self.post: Callable[[Delivery], None] = run_delivery
        self.lock = RLock()
        self._sockets = Sockets(dialect, ip)
        self._epoll = select.epoll()
        self._channels: dict[int, Channel] = {}  # by link
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._is_closing = False
        self._vigil = Vigil(len(os.sched_getaffinity(0)) > 1)
        self._is_busy = False  # datagrams come one upon the other
        self._read_at = 0.0
        self._wakes_at = 0.0
        self._is_stale = True  # something happened that may have changed when we are to wake up
        self._must_know_senders = False
        self._is_full = False  # this process has as many files as it may
        self._acts: dict[int, Callable[[int], None]] = {  # by file
            self._sockets.datagrams.fileno(): self._read_datagrams,
            self._sockets.discovery.fileno(): self._read_discovery,
            self._sockets.server.fileno(): self._accept,
            self._reading.fileno(): self._on_wake,
        }
        self._own_files = list(self._acts)
        for number in self._own_files:
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
            first_patience=0.0 if ip == LOCALHOST else tell_duration(),
            max_datagram=MAX_DATAGRAM - (0 if privacy is None else privacy.overhead),
        )
        self._thread = Thread(target=self._run, name="gandy-bus", daemon=True)
        _engines.add(self)

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
            self._hurry()
        return result

    def send(
        self, address: str, values: tuple[Any, ...], types: str | None, at: float | None, is_reliable: bool
    ) -> None:
        """As `ask`, for what is done most. Raises: see `Member.send`; LinkError, where the engine is closed."""
        with self.lock:
            if self._is_closing:
                raise LinkError("this process has left the ensemble")
            member = self.member
            member.send(address, values, time.monotonic(), types=types, at=at, is_reliable=is_reliable)
            if member.effects:
                self._perform()
                if not member.news:  # as nearly always: what went to others is nothing to our thread
                    return
            self._hurry()

    def _hurry(self) -> None:
        """Have the thread wake up sooner, if there is something for it."""
        member = self.member
        due = member.next_deadline()
        is_due = bool(member.deliveries or member.news) or due < self._wakes_at
        self._wakes_at = min(self._wakes_at, due)  # a handler runs in the engine's thread, which is not woken
        if is_due and current_thread() is not self._thread:
            self._wake()

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
                act = self._acts.get(number)
                if act is not None:  # else it was closed just now
                    act(event)
            if self._is_stale or time.monotonic() >= self._wakes_at:
                self._catch_up()
        if member.news or member.deliveries:
            self._tell()

    def _catch_up(self) -> None:
        member, now = self.member, time.monotonic()
        if now >= self._wakes_at:
            member.on_time(now)
            if self._is_full:  # a while has passed: there may be room again
                self._is_full = False
                self._epoll.modify(self._sockets.server, select.EPOLLIN)
        self._perform()
        self._wakes_at = member.next_deadline()
        self._must_know_senders = member.must_know_senders
        self._is_stale = False

    def _wait(self, seconds: float) -> list[tuple[int, int]]:
        if self._vigil.until and seconds > 0:
            if events := self._keep_vigil():
                return events
            seconds = self._wakes_at - time.monotonic()  # it took a part of them
        if seconds >= FINE:
            return self._epoll.poll(min(seconds - FINE / 2, 60.0), MAX_EVENTS)
        if seconds > 0:
            select.select((self._epoll,), (), (), seconds)  # to the microsecond
        return self._epoll.poll(0, MAX_EVENTS)

    def _keep_vigil(self) -> list[tuple[int, int]]:
        vigil, look = self._vigil, self._epoll.poll
        until = min(vigil.until, self._wakes_at)
        while not (events := look(0, MAX_EVENTS)):
            os.sched_yield()  # whoever is to answer may need this processor
            if (now := time.monotonic()) >= until:
                vigil.on_end(True, now)
                return events
        vigil.on_end(False, 0.0)
        return events

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
        for number in self._own_files:
            self._epoll.unregister(number)
        for channel in list(self._channels.values()):
            self._end(channel)
        self._wait_for_others(lambda: any(channel.unsent for channel in self._channels.values()), FLUSH)
        self._wait_for_others(lambda: bool(self._channels), FAREWELL)

    def _wait_for_others(self, is_needed: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while is_needed() and (left := deadline - time.monotonic()) > 0:
            for number, event in self._epoll.poll(left):
                channel = next(each for each in self._channels.values() if each.socket.fileno() == number)
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
            return
        if channel.session is not None and channel.session.is_known:
            channel.unsent += channel.session.end()
            channel.session.close()
        if not channel.unsent:
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

    def abandon(self) -> None:
        """In the child of a fork. The links are its parent's: if both used them, they would count the same twice."""
        self.lock = RLock()  # whoever had the other one is not here
        self._is_closing = True
        self._close_all()

    def _close_all(self) -> None:
        for channel in self._channels.values():
            channel.socket.close()
        self._sockets.close()
        self._epoll.close()
        self._reading.close()
        self._writing.close()

    # What happens

    def _on_wake(self, _event: int) -> None:
        self._is_stale = True
        with suppress(BlockingIOError):
            self._reading.recv(4096)

    def _read_datagrams(self, _event: int) -> None:
        # One by one while there is one now and then: a second look that finds nothing takes as long as the first.
        limit = MAX_AT_ONCE if self._is_busy else 1
        sock, member, read, ip = self._sockets.datagrams, self.member, 0, ""
        if len(member.deliveries) >= MAX_WAITING:  # links were quicker
            return
        try:
            while read < limit and len(member.deliveries) < MAX_WAITING:
                if self._must_know_senders:
                    data, (ip, _) = sock.recvfrom(MAX_DATAGRAM_BYTES)
                else:  # to make a text of its address takes longer than to read the message
                    data = sock.recv(MAX_DATAGRAM_BYTES)
                now = time.monotonic()
                if self._privacy is not None:
                    data = self._privacy.open(data)
                if data:  # a stranger keeps nobody awake
                    self._vigil.on_message(now)
                if not member.on_datagram(data, ip, now):
                    self._is_stale = True
                read += 1
        except OSError:
            now = time.monotonic()  # nothing is left; or an earlier one could not be delivered, and ICMP says so
        self._is_busy = read > 1 or now - self._read_at < BUSY
        self._read_at = now

    def _read_discovery(self, _event: int) -> None:
        self._is_stale = True
        with suppress(OSError):  # as above
            for _ in range(MAX_AT_ONCE):
                data, (ip, _) = self._sockets.discovery.recvfrom(MAX_DATAGRAM_BYTES)
                if self._privacy is not None:
                    data = self._privacy.open(data)
                self.member.on_datagram(data, ip, time.monotonic())

    def _accept(self, _event: int) -> None:
        self._is_stale = True
        for _ in range(MAX_AT_ONCE):
            try:
                sock, _ = self._sockets.server.accept()
            except OSError as error:
                if error.errno in (EMFILE, ENFILE):  # who waits there would wake us again and again
                    self._is_full = True
                    self._epoll.modify(self._sockets.server, 0)
                return
            self._add_channel(self.member.on_accept(time.monotonic()), sock, is_open=True)

    def _add_channel(self, link: int, sock: socket.socket, is_open: bool) -> None:
        set_up_link(sock)
        place = self._sockets.place
        session = None if self._privacy is None else self._privacy.make_session(place, is_server=is_open)
        channel = self._channels[link] = Channel(link, sock, is_open, session)
        self._acts[sock.fileno()] = partial(self._on_channel, channel)
        self._epoll.register(sock, select.EPOLLIN if is_open else select.EPOLLOUT)
        if is_open:
            self._watch(channel)

    def _watch(self, channel: Channel) -> None:
        wanted = select.EPOLLIN | (select.EPOLLOUT if channel.unsent else 0)
        self._epoll.modify(channel.socket, wanted)

    def _on_channel(self, channel: Channel, event: int) -> None:
        if event == select.EPOLLIN and channel.is_open:
            self._read(channel)
            return
        self._is_stale = True
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
        if channel.session is None:
            self.member.on_connected(channel.link, time.monotonic())
        else:  # not before we know that it has the key
            channel.is_ours = True
            self._put(channel, channel.session.begin())

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
            if channel.session is None or channel.session.is_known:  # a stranger keeps nobody awake
                self._vigil.on_message(time.monotonic())
            if channel.session is not None:
                self._read_private(channel, channel.session, data)
            elif not self.member.on_data(channel.link, data, time.monotonic()):
                self._is_stale = True
            if len(data) < READ_BYTES or len(self.member.deliveries) >= MAX_WAITING:
                return

    def _read_private(self, channel: Channel, session: "PrivateSession", data: bytes) -> None:
        member, link = self.member, channel.link
        try:
            for said in session.receive(data):
                if channel.is_ours and session.is_known:
                    channel.is_ours = False
                    self._is_stale = True
                    member.on_connected(link, time.monotonic())
                if said and not member.on_data(link, said, time.monotonic()):
                    self._is_stale = True
        except (OSError, ValueError) as error:  # TLS's own are OSErrors; there may be an alert to tell
            log.debug("a link is cut: %s", error)
            self._put(channel, session.data_to_send())
            self._lose(channel)
            return
        self._put(channel, session.data_to_send())

    def _lose(self, channel: Channel) -> None:
        self._is_stale = True
        self._drop(channel.link)
        self.member.on_cut(channel.link, time.monotonic())

    def _drop(self, link: int) -> None:
        channel = self._channels.pop(link, None)
        if channel is not None:
            if channel.session is not None:
                channel.session.close()
            del self._acts[channel.socket.fileno()]
            self._epoll.unregister(channel.socket)
            channel.socket.close()

    # What is to be done

    def _perform(self) -> None:
        effects = self.member.effects
        while effects:
            effect = effects.popleft()
            if isinstance(effect, Datagram):  # these two are most of them, and a `match` takes longer than they do
                self._send_datagram(effect)
            elif isinstance(effect, Write):
                self._write(effect.link, effect.data)
            else:
                self._do(effect)

    def _do(self, effect: Broadcast | Connect | Cut) -> None:
        match effect:
            case Broadcast(port, data):
                if self._privacy is not None:
                    data = self._privacy.seal(data, None)
                with suppress(OSError):  # there is no network now
                    self._sockets.shouts.sendto(data, (EVERYWHERE, port))
            case Connect(link, ip, port):
                self._connect(link, ip, port)
            case Cut(link) if not self._is_closing:
                self._drop(link)
            case Cut():
                pass  # when all is sent

    def _send_datagram(self, datagram: Datagram) -> None:
        data, where = datagram.data, (datagram.ip, datagram.port)
        if self._privacy is not None and not (data := self._privacy.seal(data, where)):
            return  # its link has gone just now
        try:
            self._sockets.datagrams.sendto(data, where)
        except OSError as error:  # it is best effort: nobody waits for it
            log.debug("a datagram was not sent: %s", error)

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
        if channel is not None:
            self._put(channel, data if channel.session is None else channel.session.seal(data))

    def _put(self, channel: Channel, data: bytes) -> None:
        """As it is to be sent."""
        if not data:  # most of what TLS hears needs no answer
            return
        sent = 0
        if not channel.unsent and channel.is_open:
            try:
                sent = channel.socket.send(data)
            except OSError as error:
                log.debug("the loop will notice what is wrong: %s", error)
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
    handler = delivery.handler
    try:
        if handler.takes_delivery:
            handler.function(delivery)
        else:
            handler.function(*delivery.args)
    except Exception:  # the others must not suffer
        log.exception("a handler failed for %s", delivery.address)


def _abandon_all() -> None:
    for engine in list(_engines):
        engine.abandon()


os.register_at_fork(after_in_child=_abandon_all)
