"""One process of an ensemble, without sockets: it takes datagrams and the time, its `links` take bytes, and it decides.

Its engine performs `effects` in order, and passes `deliveries` to handlers and `news` to the program, which sends with
the `outbox`. Local time is monotonic, and read as `bus.core.clock` says.
"""

from collections.abc import Sequence

from gandy.bus.core.addresses import AddressTree
from gandy.bus.core.clock_exchange import ClockExchange
from gandy.bus.core.coercion import Handler
from gandy.bus.core.directory import ServiceDirectory
from gandy.bus.core.discovery import LOCALHOST, Announcer, is_discovery, meeting_time
from gandy.bus.core.effects import MemberOutput, ProcessFound, ProcessLost
from gandy.bus.core.links import Endpoints, Links, Reactions
from gandy.bus.core.local_services import Delivery, LocalServices, RawMessage
from gandy.bus.core.outbox import Outbox
from gandy.bus.core.processes import Process, ProcessState, Status
from gandy.bus.core.schedule import Handle
from gandy.bus.core.timekeeper import Timekeeper
from gandy.bus.limits import MAX_DATAGRAM
from gandy.bus.wire import control
from gandy.bus.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE, Dialect
from gandy.bus.wire.messages import AT_ONCE, BusMessage, Order, decode_message, peek
from gandy.errors import RemoteProtocolError
from gandy.moments import Monotonic, Shared

__all__ = ["Delivery", "Endpoints", "Member"]


class Member:
    """A member of an ensemble."""

    def __init__(
        self,
        app: str,
        dialect: Dialect,
        place: Endpoints,
        now: Monotonic,
        *,
        may_lead: bool = False,
        peers: Sequence[str] = (),
        beginning: Shared = AT_ONCE,
        first_patience: float = 0.0,
        max_datagram: int = MAX_DATAGRAM,
    ) -> None:
        """`peers`: hosts that broadcasts do not reach. `beginning`: the shared time now, if we are the first to lead.

        `first_patience`: seconds to wait for a leader before we start a clock, as discovery messages may be lost.
        `max_datagram`: bytes of the longest message that fits a datagram.
        """
        self.dialect = dialect
        self.place = place
        self.name = place.name
        output = MemberOutput()
        self.effects, self.news, self.dropped = output.effects, output.news, output.dropped
        self.time = Timekeeper(self.name, may_lead, beginning, now, meeting_time(dialect), first_patience)
        self._local = LocalServices(self.time, self.dropped)
        self.deliveries = self._local.deliveries
        reactions = Reactions(self._greet, self._on_found, self._local.repeat, self._on_message, self._on_lost)
        self.links = Links(app, dialect, place, output, reactions)
        self.processes = self.links.processes
        self.services = ServiceDirectory(self.name, dialect, self.links, output)
        self._clock = ClockExchange(self.name, dialect, self.time, self.links, self.services, output)
        self.outbox = Outbox(
            app, dialect.order, max_datagram, self.links, self.services, self._local, self.time, output
        )
        self._announcer = Announcer(dialect, place.discovery_port, place.ip != LOCALHOST, peers, now)

    # For our program

    def add_service(self, name: str, is_osc: bool = False) -> AddressTree[Handler]:
        """Offer a service, and return the tree of its handlers. Raises: ConfigError."""
        if self._local.add_service(name, is_osc):
            self.services.offer(name)
        return self._local.services[name].tree

    def remove_service(self, name: str) -> None:
        if self._local.remove_service(name):
            self.services.withdraw(name)

    def call_at(self, time: Shared, handler: Handler, now: Monotonic) -> Handle:
        """Schedule a handler, like a timed message. Raises: NoClock, NotScheduled."""
        self.outbox.check_time(time, None, now)
        return self._local.call_at(time, handler, now)

    def cancel(self, handle: Handle) -> bool:
        """True if the timer was still waiting."""
        return self._local.cancel(handle)

    def get_status(self, service: str, now: Monotonic) -> Status:
        provider = self.services.find(service)
        if provider is None:
            return Status.UNKNOWN
        is_synced = self.time.is_synced(now)
        process = self.processes.get(provider)
        if process is not None:
            return Status.REMOTE if is_synced and process.state is ProcessState.OK else Status.REMOTE_NOTIME
        local = self._local.services.get(service)  # None for the clock
        if local is not None and local.is_osc:
            return Status.TO_OSC if is_synced else Status.TO_OSC_NOTIME
        return Status.LOCAL if is_synced else Status.LOCAL_NOTIME

    def close(self) -> None:
        """Announce that we leave, and cut all links. No method may be called after this one."""
        self.services.on_close()
        self.links.close()

    # For the engine

    def on_datagram(self, data: bytes, ip: str, now: Monotonic) -> bool:
        """Take a datagram from either of our UDP ports. True if it caused nothing but deliveries. Never raises.

        The sender's `ip` is needed for discovery, and for all messages while there are `links.foreign`.
        """
        order = self.links.guess_order(ip) if self.links.foreign else self.dialect.order
        if self._local.repeat(data, order):
            return True
        try:
            if is_discovery(data):
                self.links.on_discovery(data, ip, now)
            else:
                self._on_message(data, order, None, now)
        except RemoteProtocolError:
            self.dropped["nonsense"] += 1
        return False

    def next_deadline(self) -> Monotonic:
        """The local time at which `on_time` should be called next."""
        links, held = self.links.next_deadline(), self._local.next_deadline()
        return min(self._announcer.due, self.time.next_deadline(), links, held)

    def on_time(self, now: Monotonic) -> None:
        self.effects.extend(self._announcer.on_time(self.links.discovery, now))
        self.links.on_time(now)
        self._clock.on_time(now)
        self._local.release(now)

    # Processes

    def _greet(self, process: Process, now: Monotonic) -> None:
        """Send init, our services, and whether we know the time: docs/protocol/bus.md, rule 9."""
        place, is_synced = self.place, self.time.is_synced(now)
        init = control.Init(place.ip, place.tcp_port, place.udp_port, is_synced, order=self.dialect.order)
        self.links.write(process, control.encode_init(init, process.name, self.dialect))
        self.services.greet(process)
        self._clock.greet(process, is_synced)

    def _on_found(self, process: Process) -> None:
        self.news.append(ProcessFound(process.name))

    def _on_lost(self, process: Process, now: Monotonic) -> None:
        self.services.on_lost(process)
        self.news.append(ProcessLost(process.name))
        if CLOCK_SERVICE in process.services:
            self._clock.choose_leader(now)

    # Messages

    def _on_message(self, data: bytes, order: Order, process: Process | None, now: Monotonic) -> None:
        """`process`: the sender, if the message came over a link. Raises: RemoteProtocolError."""
        time, address, at = peek(data, order)
        service = address[1:].partition("/")[0]
        if service in self._local.services:
            self._local.receive(RawMessage(time, address, data, order, at), now)
        elif service in (self.name, LOCAL_SERVICE, CLOCK_SERVICE) and address[0] != "#":
            self._on_control(decode_message(data, order), process, now)
        else:
            self.dropped["no such service here"] += 1

    def _on_control(self, message: BusMessage, process: Process | None, now: Monotonic) -> None:
        match control.decode_control(message, self.dialect):
            case control.Services() as services if process is not None and services.process == process.name:
                if self.services.on_services(process, services):
                    self._clock.choose_leader(now)
            case control.ClockSynced(name) if process is not None and name == process.name:
                process.move(ProcessState.OK)
            case control.ClockRequest() as request:
                self._clock.on_request(request, now)
            case control.ClockReply() as reply:
                self._on_clock_reply(reply, now)
            case _:
                self.dropped["no such control message"] += 1

    def _on_clock_reply(self, reply: control.ClockReply, now: Monotonic) -> None:
        has_jumped_back = self._clock.on_reply(reply, now)
        if has_jumped_back:
            self.dropped["for a time that is over"] += self._local.clear_held()
