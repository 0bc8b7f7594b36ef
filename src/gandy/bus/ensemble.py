"""`gandy.Ensemble`: a process on the bus, for programs that block. Handlers run in the engine's thread."""

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
from gandy.bus.limits import MAX_EARLY_NEWS, MAX_ENSEMBLE_NAME
from gandy.bus.osc.incoming import OscIn
from gandy.bus.osc.outgoing import OscOut, OscTcpOut
from gandy.bus.osc.thread import OscThread
from gandy.bus.wire.dialects import DIALECTS, DialectName
from gandy.clocks import read_monotonic
from gandy.config import find_home
from gandy.errors import ConfigError, NoClock
from gandy.interfaces import find_ip
from gandy.keys.ensemble import KEY_BYTES, open_ensemble_key, parse_ensemble_key
from gandy.moments import Monotonic, Shared

if TYPE_CHECKING:
    from gandy.bus.io.privacy import Privacy

log = logging.getLogger("gandy.bus")

F = TypeVar("F", bound=Callable[..., Any])
Clock = Literal["follow", "lead"]

SPIN: Final = 0.0005  # seconds before the end of a wait; sleeping is not more precise than this
SLICE: Final = 0.5  # seconds of sleep at most: the clock may be corrected meanwhile


class Service:
    """A service of ours. Decorate functions with `on` to make them its handlers."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine

    def on(self, path: str = "", types: str | None = None) -> Callable[[F], F]:
        """Make a function a handler: it gets the values of messages to `path`, converted to `types` if given.

        Without a path it is called with every message of the service, as a `Message`.

        Raises: ConfigError.
        """

        def decorate(function: F) -> F:
            self.add(function, path, types)
            return function

        return decorate

    def offer(self) -> Self:
        """Offer it even without a handler: messages that arrive before there is one are dropped."""
        self._engine.ask(lambda member, _now: member.add_service(self.name))
        return self

    def add(self, function: Callable[..., Any], path: str = "", types: str | None = None) -> Handler:
        """Like `on`, as a plain call. Raises: ConfigError."""
        handler = make_handler(function, types, takes_message=not path.strip("/!"))
        self._engine.ask(lambda member, _now: member.add_service(self.name).add(path, handler))
        return handler

    def remove(self, handler: Handler, path: str = "") -> bool:
        """True if the handler was there. Raises: ConfigError."""
        return self._engine.ask(lambda member, _now: member.add_service(self.name).remove(path, handler))

    def close(self) -> None:
        """Stop offering it."""
        self._engine.ask(lambda member, _now: member.remove_service(self.name))


class Bus:
    """Everything that does not wait, which both kinds of ensembles share."""

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
    ) -> None:
        """Join the ensemble of this name.

        `dialect`: the generation of the protocol that its processes speak.
        `clock`: "lead" if this process may lead the shared clock.
        `peers`: IPs of hosts that broadcasts do not reach.
        `ip`: of this machine, as other hosts reach it. Default: looked up.
        `insecure`: without a key, as in the original, and on the network, where every program can take part.
        `key`: 32 bytes, or as many pairs of hexadecimal digits; processes with the same key can take part. Default: the
        key of the crew that this machine joined, or else a key of GANDY_HOME, for an ensemble on this machine only.
        `unix_time`: if this process is the first to lead, the shared time is Unix time; else it begins near zero, as in
        the original.

        Raises: ConfigError.
        """
        if dialect not in DIALECTS:
            raise ConfigError(f"{dialect!r} is not a dialect of the bus: {', '.join(DIALECTS)}")
        if clock not in ("follow", "lead"):
            raise ConfigError(f"a clock can follow or lead, not {clock!r}")
        if not name.isprintable() or not 0 < len(name.encode()) <= MAX_ENSEMBLE_NAME:
            raise ConfigError(f"an ensemble has a name of 1 to {MAX_ENSEMBLE_NAME} bytes")
        post = self._prepare()
        self.name = name
        own, privacy = _choose_access(name, ip, key, insecure, has_peers=bool(peers))
        may_lead = clock == "lead"
        self.engine = Engine(
            name, DIALECTS[dialect], own, may_lead=may_lead, peers=peers, unix_time=unix_time, privacy=privacy
        )
        self.engine.post = post
        self.engine.on_news = self._on_news
        self._listeners: list[Callable[[News], None]] = []
        self._early_news: deque[News] = deque(maxlen=MAX_EARLY_NEWS)  # until there is a listener
        self._listening = RLock()
        self._osc = OscThread(self.engine, insecure)
        self.engine.start()

    def _prepare(self) -> Callable[[Delivery], None]:
        """Set up what the subclass needs. Returns the function that passes deliveries to their handlers."""
        raise NotImplementedError

    @property
    def process(self) -> str:
        """The name of this process on the bus: IP and port."""
        return self.engine.member.name

    def service(self, name: str) -> Service:
        """A service, which this process offers from its first handler on: no message can arrive before that.

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
        self.engine.send(address, values, types, None if at is None else Shared(at), reliable)

    def status(self, service: str) -> Status:
        """How a service can be reached, if at all."""
        return self.engine.ask(lambda member, now: member.get_status(service, now))

    def now(self) -> float:
        """The shared time. Raises: NoClock."""
        clock = self.engine.member.time.clock
        if not clock.is_set:
            raise NoClock("the shared time is not known yet")
        return float(clock.read(read_monotonic()))

    @property
    def is_synced(self) -> bool:
        """True if the shared time is known."""
        return self.engine.ask(lambda member, now: member.time.is_synced(now))

    def clock_error(self) -> float:
        """Seconds by which `now` may be wrong; infinity if the shared time is not known."""
        return self.engine.ask(lambda member, now: member.time.max_error(now))

    def clock_estimate(self) -> float:
        """Seconds by which `now` is probably wrong, at most `clock_error`; infinity if that is not known."""
        return self.engine.ask(lambda member, now: member.time.estimate_error(now))

    def clock_round_trip(self) -> float | None:
        """Seconds of the shortest of the last five; None if this process leads, or no leader has replied yet."""
        return self.engine.ask(lambda member, _now: member.time.follower.round_trip)

    @property
    def clock_leader(self) -> str | None:
        """The process that leads the shared clock."""
        return self.engine.ask(lambda member, _now: member.time.leader)

    def neighbours(self) -> list[Neighbour]:
        """All other processes that this one knows."""
        return self.engine.ask(_list_neighbours)

    def services(self) -> dict[str, str]:
        """All services of the ensemble, with the process that has each."""
        return self.engine.ask(lambda member, _now: dict(member.services))

    def on_news(self, listener: Callable[[News], None]) -> None:
        """Call the listener when processes and services come and go, and when the clock changes.

        The first listener also gets the news from before, up to the last 1,000.
        """
        with self._listening:
            self._listeners.append(listener)
            while self._early_news:
                self._notify(listener, self._early_news.popleft())

    def osc_in(self, service: str, port: int, *, tcp: bool = False, host: str = LOCALHOST) -> OscIn:
        """Listen for OSC at a port (0: any free one) of this machine, by UDP or TCP.

        Messages of OSC programs to /a/b go to /service/a/b, in any process that offers it. Time tags of bundles
        become shared times. Listening where other machines can connect needs an ensemble with `insecure`.

        Raises: ConfigError, LinkError.
        """
        return OscIn(service, host, port, self._osc, tcp)

    def osc_out(self, service: str, host: str, port: int, *, tcp: bool = False) -> OscOut:
        """Offer a service whose messages go to an OSC program, by UDP or TCP: /service/a/b as /a/b, at their times.

        Raises: ConfigError, LinkError.
        """
        return (OscTcpOut if tcp else OscOut)(service, host, port, self._osc)

    def close(self) -> None:
        """Leave the ensemble, after announcing it to the other processes."""
        self.engine.close()
        self._osc.close()

    def _on_news(self, news: News) -> None:
        with self._listening:
            if not self._listeners:
                self._early_news.append(news)
            for listener in list(self._listeners):
                self._notify(listener, news)

    def _notify(self, listener: Callable[[News], None], news: News) -> None:
        try:
            listener(news)
        except Exception:  # the other listeners must go on
            log.exception("a listener failed for %s", news)


class Ensemble(Bus):
    """A process on the bus. Handlers run one after the other, in a thread of the ensemble."""

    def _prepare(self) -> Callable[[Delivery], None]:
        self._changed = Condition()  # notified of news and of the end
        return run_delivery

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the ensemble, after announcing it to the other processes. Threads that wait get a LinkError."""
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
        """Wait until a process offers the service. False after the timeout."""
        return self._wait(lambda: self.status(service) is not Status.UNKNOWN, timeout)

    def wait_for_clock(self, timeout: float | None = None) -> bool:
        """Wait until the shared time is known. False after the timeout."""
        return self._wait(lambda: self.is_synced, timeout)

    def _wait(self, is_so: Callable[[], bool], timeout: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(is_so, timeout)

    def call_at(self, at: float, function: Callable[[], Any]) -> Callable[[], bool]:
        """Call the function at a shared time, like a handler. Returns a function that cancels it, if it still can.

        Raises: NoClock, NotScheduled.
        """
        handler = Handler(None, function)
        handle = self.engine.ask(lambda member, now: member.call_at(Shared(at), handler, now))
        return lambda: self.engine.ask(lambda member, _now: member.cancel(handle))

    def _on_news(self, news: News) -> None:
        super()._on_news(news)
        with self._changed:
            self._changed.notify_all()


def make_handler(function: Callable[..., Any], types: str | None, *, takes_message: bool) -> Handler:
    """A handler whose function takes values, or a `Message`. Raises: ConfigError."""
    if takes_message:
        return Handler(types, lambda delivery: function(make_message(delivery)), takes_delivery=True)
    return Handler(types, function)


def make_message(delivery: Delivery) -> Message:
    return Message(delivery.address, delivery.types, delivery.args, float(delivery.time))


def _list_neighbours(member: Member, _now: Monotonic) -> list[Neighbour]:
    return [
        Neighbour(process.name, process.state, tuple(sorted(process.services)))
        for process in sorted(member.processes.values(), key=lambda process: process.name)
    ]


def _choose_access(
    name: str, ip: str | None, key: str | bytes | None, insecure: bool, has_peers: bool
) -> "tuple[str, Privacy | None]":
    """Our own IP, and the encryption of a private ensemble. Raises: ConfigError."""
    if insecure:
        if key is not None:
            raise ConfigError("an ensemble either has a key or is insecure")
        return ip or find_ip(), None
    from gandy.bus.io.privacy import Privacy  # importing it takes long

    is_shared = True
    if isinstance(key, str):
        key = parse_ensemble_key(key)
    elif key is None:
        key, is_shared = open_ensemble_key(find_home(os.environ, sys.platform))
    elif len(key) != KEY_BYTES:
        raise ConfigError(f"the key of an ensemble has {KEY_BYTES} bytes")
    is_on_network = is_shared or has_peers
    return ip or (find_ip() if is_on_network else LOCALHOST), Privacy(key, name)
