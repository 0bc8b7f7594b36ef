"""`gandy.Ensemble`: a process on the bus, for programs that block. Handlers run in the thread of the engine."""

import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from threading import Condition, RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from gandy.bus.core.coercion import Handler
from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.core.effects import News
from gandy.bus.core.local_services import check_service
from gandy.bus.core.member import Delivery, Member
from gandy.bus.core.processes import Status
from gandy.bus.events import Message, Neighbour
from gandy.bus.io.engine import Engine, run_delivery
from gandy.bus.osc import Osc
from gandy.bus.osc.incoming import OscIn
from gandy.bus.osc.outgoing import OscOut
from gandy.bus.wire.control import MAX_APP
from gandy.bus.wire.dialects import DIALECTS, DialectName
from gandy.config import tell_home
from gandy.errors import ConfigError, NoClock
from gandy.interfaces import find_ip
from gandy.keys.ensemble import KEY_BYTES, open_ensemble_key, parse_ensemble_key

if TYPE_CHECKING:
    from gandy.bus.io.privacy import Privacy

log = logging.getLogger("gandy.bus")

F = TypeVar("F", bound=Callable[..., Any])
Clock = Literal["follow", "lead"]

MAX_UNTOLD: Final = 1_000  # news; a program that wants none shall not collect them
SPIN: Final = 0.0005  # seconds; sleeping is not more exact than this
SLICE: Final = 0.5  # seconds between two looks at a clock that may be put right meanwhile


class Service:
    """A service of ours. Mark functions as its handlers."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine

    def on(self, path: str = "", types: str | None = None) -> Callable[[F], F]:
        """The function below gets the values of messages to `/path`, converted to `types` if they are told.

        Without a path it gets every message of the service, as a `Message`.

        Raises: ConfigError.
        """

        def mark(function: F) -> F:
            self.add(function, path, types)
            return function

        return mark

    def offer(self) -> Self:
        """From now on, handlers or not: what comes before there is one is dropped."""
        self._engine.ask(lambda member, _now: member.add_service(self.name))
        return self

    def add(self, function: Callable[..., Any], path: str = "", types: str | None = None) -> Handler:
        """The same without the mark. Raises: ConfigError."""
        handler = make_handler(function, types, takes_message=not path.strip("/!"))
        self._engine.ask(lambda member, _now: member.add_service(self.name).add(path, handler))
        return handler

    def remove(self, handler: Handler, path: str = "") -> bool:
        """Whether it was there. Raises: ConfigError."""
        return self._engine.ask(lambda member, _now: member.add_service(self.name).remove(path, handler))

    def close(self) -> None:
        """Offer it no more."""
        self._engine.ask(lambda member, _now: member.remove_service(self.name))


class Bus:
    """What both kinds of ensembles have in common: all that waits for nothing."""

    def __init__(
        self,
        name: str,
        *,
        dialect: DialectName = "2016",
        clock: Clock = "follow",
        peers: tuple[str, ...] = (),
        ip: str | None = None,
        insecure: bool = False,
        key: str | bytes | None = None,
        unix_time: bool = False,
        post: Callable[[Delivery], None] = run_delivery,
    ) -> None:
        """Be part of the ensemble of this name.

        Those who have the same `key` can take part: 32 bytes, or as many hexadecimal digits. Without one it is that of
        the crew that this machine joined; or one of GANDY_HOME's own, and then the ensemble is on this machine only.
        With `insecure` it is without a key, as in the original, and on the network, where everybody can take part.
        `peers`: hosts that broadcasts do not reach. `clock`: "lead" if this process may tell the others the time. `ip`:
        what others call this machine. `unix_time`: should this process be the first to lead, the shared time is that of
        its wall clock; else it begins near zero, as in the original. `post` has handlers called.

        Raises: ConfigError.
        """
        if dialect not in DIALECTS:
            raise ConfigError(f"{dialect!r} is no dialect of the bus: {', '.join(DIALECTS)}")
        if clock not in ("follow", "lead"):
            raise ConfigError(f"a clock can follow or lead, not {clock!r}")
        if not name.isprintable() or not 0 < len(name.encode()) <= MAX_APP:
            raise ConfigError(f"an ensemble has a name of 1 to {MAX_APP} bytes")
        self.name = name
        own, privacy = _choose_place(name, ip, key, insecure, has_peers=bool(peers))
        may_lead = clock == "lead"
        self.engine = Engine(
            name, DIALECTS[dialect], own, may_lead=may_lead, peers=peers, unix_time=unix_time, privacy=privacy
        )
        self.engine.post = post
        self.engine.on_news = self._on_news
        self._listeners: list[Callable[[News], None]] = []
        self._untold: deque[News] = deque(maxlen=MAX_UNTOLD)  # until somebody listens
        self._telling = RLock()
        self._osc = Osc(self.engine, insecure)
        self.engine.start()

    @property
    def process(self) -> str:
        """Our own name on the bus: IP and port."""
        return self.engine.member.name

    def service(self, name: str) -> Service:
        """A service to be offered, from its first handler on: nothing comes before somebody can take it.

        Raises: ConfigError.
        """
        check_service(name)
        return Service(name, self.engine)

    def send(
        self, address: str, *values: Any, types: str | None = None, at: float | None = None, reliable: bool = True
    ) -> None:
        """Send values to /service/path (with patterns) or !service/path (as it stands).

        `at`: the shared time of its delivery. `reliable`: by TCP, else by UDP.

        Raises: UnknownService, NoClock, AddressError; ValueError, where values do not fit the types.
        """
        self.engine.send(address, values, types, at, reliable)

    def status(self, service: str) -> Status:
        """Whether and how a service can be reached."""
        return self.engine.ask(lambda member, now: member.get_status(service, now))

    def now(self) -> float:
        """The shared time. Raises: NoClock."""
        clock = self.engine.member.time.clock
        if not clock.is_set:
            raise NoClock("the shared time is not known yet")
        return clock.read(time.monotonic())

    @property
    def is_synced(self) -> bool:
        """Whether the shared time is known."""
        return self.engine.ask(lambda member, now: member.time.is_synced(now))

    def clock_error(self) -> float:
        """`now` is wrong by no more than so many seconds. Infinite, where nobody knows."""
        return self.engine.ask(lambda member, now: member.time.max_error(now))

    def clock_round_trip(self) -> float | None:
        """Seconds, the least of the last five; None where we lead, or have not heard from a leader yet."""
        return self.engine.ask(lambda member, _now: member.time.follower.round_trip)

    @property
    def clock_leader(self) -> str | None:
        """Whose time it is."""
        return self.engine.ask(lambda member, _now: member.time.leader)

    def neighbours(self) -> list[Neighbour]:
        """All other processes, as far as we know."""
        return self.engine.ask(_list_neighbours)

    def services(self) -> dict[str, str]:
        """All services of the ensemble, with the process that has each."""
        return self.engine.ask(lambda member, _now: dict(member.services))

    def on_news(self, listener: Callable[[News], None]) -> None:
        """Have it told of processes and services that come and go, and of the clock.

        The first who listens hears all that came before, too. (The last 1,000 of them, if there are more.)
        """
        with self._telling:
            self._listeners.append(listener)
            while self._untold:
                self._tell_one(listener, self._untold.popleft())

    def osc_in(self, service: str, port: int, *, tcp: bool = False, host: str = LOCALHOST) -> OscIn:
        """Listen for OSC at a port (0: any that is free) of a host of ours, by UDP or TCP.

        What OSC programs send to /a/b goes to /service/a/b, wherever the service is. Time tags of bundles become
        shared times. Hosts that others reach need an ensemble with `insecure`.

        Raises: ConfigError, LinkError.
        """
        return self._osc.open_in(service, port, tcp=tcp, host=host)

    def osc_out(self, service: str, host: str, port: int, *, tcp: bool = False) -> OscOut:
        """Offer a service whose messages go to an OSC program, by UDP or TCP: /service/a/b as /a/b, at its time.

        Raises: ConfigError, LinkError.
        """
        return self._osc.open_out(service, host, port, tcp=tcp)

    def close(self) -> None:
        """Leave the ensemble, and tell the others."""
        self.engine.close()
        self._osc.close()

    def _on_news(self, news: News) -> None:
        with self._telling:
            if not self._listeners:
                self._untold.append(news)
            for listener in list(self._listeners):
                self._tell_one(listener, news)

    def _tell_one(self, listener: Callable[[News], None], news: News) -> None:
        try:
            listener(news)
        except Exception:  # the others must not suffer
            log.exception("a listener failed for %s", news)


class Ensemble(Bus):
    """A process on the bus. Handlers run one after the other, in a thread of the ensemble."""

    def __init__(self, name: str, **options: Any) -> None:
        self._changed = Condition()
        super().__init__(name, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the ensemble, and tell the others. Whoever waits gets a LinkError."""
        super().close()
        with self._changed:
            self._changed.notify_all()

    def wait_until(self, at: float) -> None:
        """Sleep until the shared time. Raises: NoClock."""
        while (left := at - self.now()) > SPIN:
            time.sleep(min(left - SPIN, SLICE))
        while self.now() < at:
            pass

    def wait_for(self, service: str, timeout: float | None = None) -> bool:
        """Wait until somebody offers the service. Whether somebody does."""
        return self._wait(lambda: self.status(service) is not Status.UNKNOWN, timeout)

    def wait_for_clock(self, timeout: float | None = None) -> bool:
        """Wait until the shared time is known. Whether it is."""
        return self._wait(lambda: self.is_synced, timeout)

    def _wait(self, is_so: Callable[[], bool], timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(is_so, timeout)

    def call_at(self, at: float, function: Callable[[], Any]) -> Callable[[], bool]:
        """Have it called at a shared time, like a handler. What comes back takes it back, and tells whether it could.

        Raises: NoClock, NotScheduled.
        """
        handler = Handler(None, function)
        handle = self.engine.ask(lambda member, now: member.call_at(at, handler, now))
        return lambda: self.engine.ask(lambda member, _now: member.cancel(handle))

    def _on_news(self, news: News) -> None:
        super()._on_news(news)
        with self._changed:
            self._changed.notify_all()


def make_handler(function: Callable[..., Any], types: str | None, *, takes_message: bool) -> Handler:
    """For values, or for a `Message`. Raises: ConfigError."""
    if takes_message:
        return Handler(types, lambda delivery: function(make_message(delivery)), takes_delivery=True)
    return Handler(types, function)


def make_message(delivery: Delivery) -> Message:
    return Message(delivery.address, delivery.types, delivery.args, delivery.time)


def _list_neighbours(member: Member, _now: float) -> list[Neighbour]:
    return [
        Neighbour(process.name, process.state, tuple(sorted(process.services)))
        for process in sorted(member.processes.values(), key=lambda process: process.name)
    ]


def _choose_place(
    name: str, ip: str | None, key: str | bytes | None, insecure: bool, has_peers: bool
) -> "tuple[str, Privacy | None]":
    """Our own IP, and what keeps strangers out. Raises: ConfigError."""
    if insecure:
        if key is not None:
            raise ConfigError("an ensemble has a key, or is insecure")
        return ip or find_ip(), None
    from gandy.bus.io.privacy import Privacy  # it takes long to import

    is_shared = True
    if isinstance(key, str):
        key = parse_ensemble_key(key)
    elif key is None:
        key, is_shared = open_ensemble_key(tell_home(os.environ, sys.platform))
    elif len(key) != KEY_BYTES:
        raise ConfigError(f"a key of an ensemble has {KEY_BYTES} bytes")
    is_on_network = is_shared or has_peers
    return ip or (find_ip() if is_on_network else LOCALHOST), Privacy(key, name)
