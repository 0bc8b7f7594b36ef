"""One process of an ensemble, without sockets: where messages go, who offers what, and who tells the time.

Datagrams, bytes of links and the time come in; `effects` are to be performed in order, `deliveries` are for handlers,
`news` for those who want to know. Local time is monotonic seconds, read as `bus.core.clock` says.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final, assert_never

from gandy.bus.core.addresses import AddressTree, split_address
from gandy.bus.core.clock import LeadAct
from gandy.bus.core.coercion import Handler
from gandy.bus.core.delivery import Delivery, Inbox, Letter
from gandy.bus.core.discovery import LOCALHOST, Announcer, is_discovery, meeting_time
from gandy.bus.core.effects import (
    ClockChanged,
    ClockFound,
    ClockLost,
    Datagram,
    Effect,
    News,
    ProcessFound,
    ProcessLost,
    ServiceFound,
    ServiceLost,
    Write,
)
from gandy.bus.core.links import Links, Place, Reactions
from gandy.bus.core.processes import MAX_SERVICES, Process, ProcessState, Services, Status
from gandy.bus.core.schedule import HORIZON, Handle
from gandy.bus.core.timekeeper import Heard, Timekeeper
from gandy.bus.wire.control import (
    ClockReply,
    ClockRequest,
    ClockSynced,
    Init,
    decode_control,
    encode_clock_reply,
    encode_clock_request,
    encode_clock_synced,
    encode_init,
    encode_services,
    is_process,
    make_clock_request,
    make_first_services,
)
from gandy.bus.wire.control import Services as ServicesTold
from gandy.bus.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE, Dialect
from gandy.bus.wire.messages import (
    MAX_DATAGRAM,
    BusMessage,
    Draft,
    Order,
    decode_message,
    draft,
    frame,
    infer_types,
    peek,
)
from gandy.errors import AddressError, NoClock, NotScheduled, RemoteProtocolError, UnknownService

__all__ = ["Delivery", "Member", "Place"]

MAX_DRAFTS: Final = 1_024  # messages that our program sends again and again; all are forgotten at once
MAX_DRAFTED: Final = 32  # types of one of them


class Member:
    """One of them."""

    def __init__(
        self,
        app: str,
        dialect: Dialect,
        place: Place,
        now: float,
        *,
        may_lead: bool = False,
        peers: Sequence[str] = (),
        beginning: float = 0.0,
        first_patience: float = 0.0,
        max_datagram: int = MAX_DATAGRAM,
    ) -> None:
        """`peers`: hosts that broadcasts do not reach. `beginning`: the shared time now, should we lead first.

        `first_patience`: seconds before we begin a new time, where messages of those who have one may be lost.
        `max_datagram`: bytes of the longest message that fits one.
        """
        self.app = app
        self.dialect = dialect
        self.place = place
        self.name = place.name
        self._order = dialect.order
        self._max_datagram = max_datagram
        self._drafts: dict[tuple[str, str], tuple[str, Draft]] = {}  # by address and types: the service, and the rest
        self.effects: deque[Effect] = deque()
        self.news: deque[News] = deque()
        self.dropped: Counter[str] = Counter()
        self.time = Timekeeper(self.name, may_lead, beginning, now, meeting_time(dialect), first_patience)
        self.services = Services()
        self._inbox = Inbox(self.time, self.dropped)
        self.deliveries = self._inbox.deliveries
        reactions = Reactions(self._greet, self._on_found, self._inbox.repeat, self._on_message, self._on_lost)
        self._links = Links(app, dialect, place, self.effects, self.dropped, reactions)
        self.processes = self._links.processes
        self.foreign = self._links.foreign  # while this is not empty, `on_datagram` needs the IP of every sender
        self._announcer = Announcer(dialect, place.discovery_port, place.ip != LOCALHOST, peers, now)

    # What our program wants

    def add_service(self, name: str, is_osc: bool = False) -> AddressTree[Handler]:
        """The tree for its handlers. Raises: ConfigError."""
        if self._inbox.add_service(name, is_osc):
            self._offer(name)
        return self._inbox.locals[name].tree

    def remove_service(self, name: str) -> None:
        if self._inbox.remove_service(name):
            self._withdraw(name)

    def send(
        self,
        address: str,
        values: Sequence[Any],
        now: float,
        *,
        types: str | None = None,
        at: float | None = None,
        is_reliable: bool = True,
    ) -> None:
        """Raises: UnknownService, NoClock, AddressError, NotScheduled; ValueError, where values do not fit types."""
        if types is None:
            types = infer_types(values)
        service, draft = self._drafts.get((address, types)) or self._draft(address, types)
        data = draft.encode(at or 0.0, values)
        if not is_reliable and len(data) > self._max_datagram:
            raise ValueError(f"{len(data):,} bytes do not fit a datagram: send it reliably")
        process = self._find_target(service)
        if at is not None:
            self._check_time(at, process, now)
        if process is None:  # as if it had come from elsewhere: what is wrong is wrong everywhere
            self._inbox.accept(Letter(at or 0.0, address, data, self._order, peek(data, self._order)[2]), now)
        elif is_reliable:
            self.effects.append(Write(process.link, frame(data)))
        else:
            self.effects.append(Datagram(process.ip, process.udp_port, data))

    def _draft(self, address: str, types: str) -> tuple[str, Draft]:
        parts = split_address(address)
        if parts is None:
            raise AddressError(f"{address!r} is no address: write /service/path, or !service/path")
        drafted = parts[0], draft(address, types, self._order)
        if len(types) <= MAX_DRAFTED:
            if len(self._drafts) >= MAX_DRAFTS:
                self._drafts.clear()
            self._drafts[address, types] = drafted
        return drafted

    def _find_target(self, service: str) -> Process | None:
        """The process that has the service; None is ourselves."""
        provider = service if service in self.processes else self.services.find(service)
        if provider is None:
            raise UnknownService(f"nobody in {self.app} offers the service {service}")
        process = self.processes.get(provider)
        if process is not None and not process.is_here:
            raise UnknownService(f"{provider} is not connected yet")
        return process

    def _check_time(self, at: float, process: Process | None, now: float) -> None:
        if not self.time.is_synced(now):
            raise NoClock("the shared time is not known yet: wait until it is, or send without a time")
        if process is not None and process.state is not ProcessState.OK:
            raise NoClock(f"{process.name}, which has the service, does not know the shared time yet")
        if not at - self.time.clock.read(now) <= HORIZON:  # whoever gets it would drop it
            raise NotScheduled(f"more than {HORIZON:g} s ahead is too far", retryable=False)

    def call_at(self, time: float, handler: Handler, now: float) -> Handle:
        """A timer of our own, on the same schedule. Raises: NoClock, NotScheduled."""
        self._check_time(time, None, now)
        return self._inbox.call_at(time, handler, now)

    def cancel(self, handle: Handle) -> bool:
        """Whether the timer had not come yet."""
        return self._inbox.cancel(handle)

    def get_status(self, service: str, now: float) -> Status:
        provider = self.services.find(service)
        if provider is None:
            return Status.UNKNOWN
        is_synced = self.time.is_synced(now)
        process = self.processes.get(provider)
        if process is not None:
            return Status.REMOTE if is_synced and process.state is ProcessState.OK else Status.REMOTE_NOTIME
        local = self._inbox.locals.get(service)  # none for the clock
        if local is not None and local.is_osc:
            return Status.TO_OSC if is_synced else Status.TO_OSC_NOTIME
        return Status.LOCAL if is_synced else Status.LOCAL_NOTIME

    def close(self) -> None:
        """Tell the others, and cut all links. Nothing comes after it."""
        if not self.dialect.tells_removal_in_services:  # libo2 1.1 hangs when a process goes that took a service back
            self._tell_all(ServicesTold(self.name, removed=tuple(self._list_own())))
        self._links.close()

    # What happens

    def on_datagram(self, data: bytes, ip: str, now: float) -> bool:
        """At either of our UDP ports. Whether nothing but deliveries came of it. Never raises."""
        order = self._links.guess_order(ip) if self.foreign else self._order
        if self._inbox.repeat(data, order):
            return True
        try:
            if is_discovery(data):
                self._links.on_discovery(data, ip, now)
            else:
                self._on_message(data, order, None, now)
        except RemoteProtocolError:
            self.dropped["nonsense"] += 1
        return False

    def on_accept(self, now: float) -> int:
        """Somebody connected to us. The number of the link."""
        return self._links.on_accept(now)

    def on_connected(self, link: int, now: float) -> None:
        """A connection that we wanted is there."""
        self._links.on_connected(link, now)

    def on_data(self, link: int, data: bytes, now: float) -> bool:
        """Bytes of a link. Whether nothing but deliveries came of them. Never raises: who makes no sense is cut."""
        return self._links.on_data(link, data, now)

    def on_cut(self, link: int, now: float) -> None:
        """A link ended, or was never made."""
        self._links.on_cut(link, now)

    def next_deadline(self) -> float:
        """When `on_time` should be called next, in local time."""
        links, held = self._links.next_deadline(), self._inbox.next_deadline()
        return min(self._announcer.due, self.time.next_deadline(), links, held)

    def on_time(self, now: float) -> None:
        self.effects.extend(self._announcer.on_time(self._links.discovery, now))
        self._links.on_time(now)
        others_know = any(process.state is ProcessState.OK for process in self.processes.values())
        self._act(self.time.on_time(now, others_know), self.name)
        for serial in self.time.follower.on_time(now):
            self._ask_time(serial)
        self._inbox.release(now)

    # Processes

    def _greet(self, process: Process, now: float) -> None:
        """Both sides say who they are, what they offer, and whether they know the time."""
        place, is_synced = self.place, self.time.is_synced(now)
        init = Init(place.ip, place.tcp_port, place.udp_port, is_synced, order=self.dialect.order)
        self.effects.append(Write(process.link, frame(encode_init(init, process.name, self.dialect))))
        self._tell_services(process, make_first_services(self.name, self._list_own(), self.dialect))
        if is_synced and not self.dialect.reads_sync_of_init:
            self._tell_synced(process)
        process.knows_our_state = is_synced

    def _on_found(self, process: Process) -> None:
        self.news.append(ProcessFound(process.name))

    def _on_lost(self, process: Process, now: float) -> None:
        """Its services are gone."""
        for service in process.services:
            self._note(service, self.services.remove(service, process.name))
        self.news.append(ProcessLost(process.name))
        if CLOCK_SERVICE in process.services:
            self._choose_leader(now)

    # Services

    def _offer(self, name: str) -> None:
        self._tell_all(ServicesTold(self.name, (name,)))
        self._note(name, self.services.add(name, self.name))

    def _withdraw(self, name: str) -> None:
        self._tell_all(ServicesTold(self.name, removed=(name,)))
        self._note(name, self.services.remove(name, self.name))

    def _tell_all(self, told: ServicesTold) -> None:
        for process in self._links.list_greeted():
            self._tell_services(process, told)

    def _tell_services(self, process: Process, told: ServicesTold) -> None:
        for data in encode_services(told, process.name, self.dialect):
            self.effects.append(Write(process.link, frame(data)))

    def _note(self, service: str, has_changed: bool) -> None:
        if has_changed:
            provider = self.services.find(service)
            self.news.append(ServiceLost(service) if provider is None else ServiceFound(service, provider))

    def _list_own(self) -> list[str]:
        return [*self._inbox.locals, CLOCK_SERVICE] if self.time.leads else list(self._inbox.locals)

    # Messages

    def _on_message(self, data: bytes, order: Order, process: Process | None, now: float) -> None:
        """From a process, if it came over a link. Raises: RemoteProtocolError."""
        time, address, at = peek(data, order)
        service = address[1:].partition("/")[0]
        if service in self._inbox.locals:
            self._inbox.receive(Letter(time, address, data, order, at), now)
        elif service in (self.name, LOCAL_SERVICE, CLOCK_SERVICE) and address[0] != "#":
            self._on_control(decode_message(data, order), process, now)
        else:
            self.dropped["no such service here"] += 1

    def _on_control(self, message: BusMessage, process: Process | None, now: float) -> None:
        match decode_control(message, self.dialect):
            case ServicesTold() as told if process is not None and told.process == process.name:
                self._on_services(process, told, now)
            case ClockSynced(name) if process is not None and name == process.name:
                process.move(ProcessState.OK, now)
            case ClockRequest() as request:
                self._on_clock_request(request, now)
            case ClockReply(serial, time):
                self._on_clock_reply(self.time.on_reply(serial, time, now))
            case _:
                self.dropped["no such control message"] += 1

    def _on_services(self, process: Process, told: ServicesTold, now: float) -> None:
        had_clock = CLOCK_SERVICE in process.services
        for name in told.added:
            if is_process(name) or name == LOCAL_SERVICE:  # each has these itself, and nobody else's
                continue
            if len(process.services) >= MAX_SERVICES and name not in process.services:
                self.dropped["too many services"] += 1
                continue
            process.services[name] = None
            self._note(name, self.services.add(name, process.name))
        for name in told.removed:
            if name in process.services:
                del process.services[name]
                self._note(name, self.services.remove(name, process.name))
        if had_clock != (CLOCK_SERVICE in process.services):
            self._choose_leader(now)

    # The clock

    def _choose_leader(self, now: float) -> None:
        others = [process.name for process in self.processes.values() if CLOCK_SERVICE in process.services]
        greater = sum(1 for name in self.processes if name > self.name)
        before = self.time.leader or self.name
        self._act(self.time.on_offers(others, greater, now), before)

    def _act(self, acts: tuple[LeadAct, ...], before: str) -> None:
        """`before`: who led."""
        for act in acts:
            match act:
                case LeadAct.OFFER:
                    self._offer(CLOCK_SERVICE)
                    self._on_synced()
                case LeadAct.ANNOUNCE:
                    self._tell_all(ServicesTold(self.name, (CLOCK_SERVICE,)))
                case LeadAct.WITHDRAW:
                    self._withdraw(CLOCK_SERVICE)
                case LeadAct.WAIT:
                    self.news.append(ClockLost(before))
                case LeadAct.FOLLOW:
                    pass  # its time is ours when it has told it
                case _:
                    assert_never(act)

    def _on_synced(self) -> None:
        self.news.append(ClockFound(self.time.leader or self.name))
        for process in self._links.list_greeted():
            if not process.knows_our_state:
                self._tell_synced(process)

    def _on_clock_reply(self, heard: Heard) -> None:
        if heard.leap:
            self.news.append(ClockChanged(self.time.leader or "", heard.leap))
        if heard.leap < 0.0:  # the times in them are those of another clock
            self.dropped["for a time that is over"] += self._inbox.clear_held()
        if heard.is_new_leader:
            self._on_synced()

    def _tell_synced(self, process: Process) -> None:
        process.knows_our_state = True
        data = encode_clock_synced(ClockSynced(self.name), process.name, self.dialect)
        self.effects.append(Write(process.link, frame(data)))

    def _on_clock_request(self, request: ClockRequest, now: float) -> None:
        time = self.time.on_request(now)
        asker = self.processes.get(request.reply_to[1:].partition("/")[0])
        if time is None or asker is None or not asker.is_here:
            self.dropped["clock request"] += 1
            return
        # MAX_REPLY_TO characters, with a name among them, always make an address.
        data = encode_clock_reply(ClockReply(request.serial, time), request, self.dialect)
        self.effects.append(Datagram(asker.ip, asker.udp_port, data))

    def _ask_time(self, serial: int) -> None:
        leader = self.processes.get(self.time.leader or "")
        if leader is not None:  # there is none after `close`
            data = encode_clock_request(make_clock_request(serial, self.name), self.dialect)
            self.effects.append(Datagram(leader.ip, leader.udp_port, data))
