"""Runs a member of an ensemble: its clock, its timers, its effects and its handlers, in a thread of its own.

Any thread may send; the message goes out at once, from that thread. Handlers run one after the other, in the engine's
thread or where `post` runs them, and never while the engine is locked. `tcp` and `datagrams` read and write sockets.
"""

import logging
import os
import select
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from gandy.bus.core.discovery import LOCALHOST, sending_time
from gandy.bus.core.effects import Broadcast, Connect, Cut, Datagram, News, Write
from gandy.bus.core.member import Delivery, Member
from gandy.bus.io.datagrams import Datagrams
from gandy.bus.io.poller import Poller
from gandy.bus.io.sockets import Sockets
from gandy.bus.io.tcp import TcpLinks
from gandy.bus.limits import MAX_DATAGRAM
from gandy.bus.wire.dialects import Dialect
from gandy.clocks import read_monotonic, read_wall
from gandy.errors import LinkError
from gandy.moments import LONG_AGO, Monotonic, Shared
from gandy.poll_thread import PollThread

if TYPE_CHECKING:
    from gandy.bus.io.privacy import Privacy

log = logging.getLogger("gandy.bus")

T = TypeVar("T")

_engines: "WeakSet[Engine]" = WeakSet()  # of this process


class Engine:
    """Runs one process of an ensemble. `start` it, `close` it."""

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
        """`unix_time`: the shared time begins as Unix time if this process leads first. Raises: ConfigError."""
        self.on_news: Callable[[News], None] = lambda _news: None
        self.post: Callable[[Delivery], None] = run_delivery
        self.lock = RLock()
        self._is_closing = False
        self._wakes_at = LONG_AGO
        self._sockets = sockets = Sockets(dialect, ip)
        self.member = Member(
            app,
            dialect,
            sockets.place,
            read_monotonic(),
            may_lead=may_lead,
            peers=peers,
            beginning=_choose_beginning(unix_time),
            first_patience=0.0 if ip == LOCALHOST else sending_time(),
            max_datagram=MAX_DATAGRAM - (0 if privacy is None else privacy.overhead),
        )
        self._poller = Poller()
        self._datagrams = Datagrams(sockets, self.member, self._poller.spin, privacy)
        self._links = TcpLinks(sockets, self.member, self._poller, privacy)
        self._thread = PollThread("gandy-bus", self._turn, self._end)
        self._poller.add(sockets.datagrams, select.EPOLLIN, self._datagrams.read)
        self._poller.add(sockets.discovery, select.EPOLLIN, self._datagrams.read_discovery)
        self._poller.add(sockets.server, select.EPOLLIN, self._links.accept)
        self._poller.add(self._thread, select.EPOLLIN, self._on_wake)
        _engines.add(self)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Leave the ensemble, after announcing it to the other processes."""
        with self.lock:
            if self._is_closing:
                return
            self._is_closing = True
            self.member.close()
            self._perform()
        self._thread.stop()

    @property
    def is_closed(self) -> bool:
        return self._is_closing

    def ask(self, act: Callable[[Member, Monotonic], T]) -> T:
        """Call `act` with the member and the time, from any thread; effects are performed at once.

        Raises: LinkError: the engine is closed; and whatever `act` raises.
        """
        with self.lock:
            if self._is_closing:
                raise LinkError("this process has left the ensemble")
            result = act(self.member, read_monotonic())
            self._perform()
            self._maybe_wake()
        return result

    def send(
        self, address: str, values: tuple[Any, ...], types: str | None, at: Shared | None, is_reliable: bool
    ) -> None:
        """Send a message: like `ask`, but faster. Raises: as `Outbox.send`; LinkError: the engine is closed."""
        with self.lock:
            if self._is_closing:
                raise LinkError("this process has left the ensemble")
            member = self.member
            member.outbox.send(address, values, read_monotonic(), types=types, at=at, is_reliable=is_reliable)
            if member.effects:
                self._perform()
                if not member.news:  # nearly always: the engine's thread has nothing to do
                    return
            self._maybe_wake()

    def _maybe_wake(self) -> None:
        """Wake the engine's thread if it has something to do before it would wake by itself."""
        member = self.member
        due = member.next_deadline()
        is_due = bool(member.deliveries or member.news) or due < self._wakes_at
        self._wakes_at = min(self._wakes_at, due)  # for a handler, which runs in the engine's thread and cannot wake it
        if is_due and not self._thread.is_current:
            self._thread.wake()

    def abandon(self) -> None:
        """In the child of a fork: the links belong to its parent, and two writers would garble them."""
        self.lock = RLock()  # the thread that holds the other one may not exist here
        self._is_closing = True
        self._thread.close()
        self._close_files()

    # The thread

    def _turn(self) -> None:
        member = self.member
        # Handlers may have caused news and deliveries; they do not wake the thread that they run in.
        events = self._poller.wait(LONG_AGO if member.news or member.deliveries else self._wakes_at)
        with self.lock:
            if self._is_closing:
                return
            if self._poller.react(events) or read_monotonic() >= self._wakes_at:
                self._catch_up()
        if member.news or member.deliveries:
            self._hand_out()

    def _on_wake(self, _event: int) -> bool:
        self._thread.clear()
        return True

    def _catch_up(self) -> None:
        member, now = self.member, read_monotonic()
        if now >= self._wakes_at:
            member.on_time(now)
            self._links.maybe_accept_again()
        self._perform()
        self._wakes_at = member.next_deadline()

    def _hand_out(self) -> None:
        """Pass on news and deliveries, without the lock: handlers may send and block. What they cause waits a turn."""
        news, deliveries = self.member.news, self.member.deliveries
        for _ in range(len(news)):
            self.on_news(news.popleft())
        for _ in range(len(deliveries)):
            self.post(deliveries.popleft())

    def _end(self) -> None:
        try:
            self._hand_out()  # our program's last messages to itself
            sockets = self._sockets
            for file in (sockets.datagrams, sockets.discovery, sockets.server, self._thread):
                self._poller.remove(file)
            self._links.leave()
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._links.close()
        self._sockets.close()
        self._poller.close()

    # Effects

    def _perform(self) -> None:
        effects = self.member.effects
        while effects:
            effect = effects.popleft()
            if isinstance(effect, Datagram):  # most effects are one of these two, and `match` would be slower
                self._datagrams.send(effect)
            elif isinstance(effect, Write):
                self._links.write(effect.link, effect.data)
            else:
                self._do(effect)

    def _do(self, effect: Broadcast | Connect | Cut) -> None:
        match effect:
            case Broadcast(port, data):
                self._datagrams.broadcast(port, data)
            case Connect(link, ip, port):
                self._links.connect(link, ip, port)
            case Cut(link) if not self._is_closing:
                self._links.drop(link)
            case Cut():
                pass  # `TcpLinks.leave` closes it when everything is sent


def _choose_beginning(unix_time: bool) -> Shared:
    """The shared time now, if we are the first to lead. The original counts from the whole second of its start."""
    wall = float(read_wall())
    return Shared(wall if unix_time else wall % 1.0)


def run_delivery(delivery: Delivery) -> None:
    """Call the handler in this thread, and log what it raises."""
    handler = delivery.handler
    try:
        if handler.takes_delivery:
            handler.function(delivery)
        else:
            handler.function(*delivery.args)
    except Exception:  # the other handlers must go on
        log.exception("a handler failed for %s", delivery.address)


def _abandon_all() -> None:
    for engine in list(_engines):
        engine.abandon()


os.register_at_fork(after_in_child=_abandon_all)
