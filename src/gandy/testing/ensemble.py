"""An ensemble on simulated time: hosts, datagrams that come late or never, links that are cut, clocks that drift.

What a member wants done is done here as sockets would do it. One seed is one run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from gandy.bus.core.coercion import Handler
from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.core.effects import Broadcast, Connect, Cut, Datagram, Effect, News, Write
from gandy.bus.core.member import Delivery, Endpoints, Member
from gandy.bus.wire.dialects import DIALECTS, DialectName
from gandy.testing.simulation import Simulation

SLACK: Final = 2e-9  # seconds; a program wakes up a little late, and never too early
FIRST_PORT, LAST_PORT = 20_000, 40_000  # of those that are not for discovery


class Air(Struct, frozen=True):
    """What the network does. Times are in seconds, the others are chances from 0 to 1."""

    min_delay: float = 0.0001
    max_delay: float = 0.002  # of each datagram by itself, so that they overtake one another
    loss: float = 0.0  # of datagrams
    twice: float = 0.0  # a datagram comes twice
    has_broadcast: bool = True
    tear: float = 0.1  # what is written at once arrives in two pieces
    keepalive: float = 11.0  # until the end of a link is noticed that nobody closed


class Host:
    """A machine. At 127.0.0.1 it has no network."""

    def __init__(self, ip: str) -> None:
        self.ip = ip
        self.udp: dict[int, SimMember] = {}
        self.tcp: dict[int, SimMember] = {}
        self.is_cut_off = False  # from all other machines


class Wire:
    """One end of a TCP connection."""

    def __init__(self, owner: "SimMember", number: int) -> None:
        self.owner = owner
        self.number = number  # as the owner counts
        self.other: Wire | None = None
        self.is_dead = False  # what is sent goes nowhere, and nobody says so
        self._arrival = 0.0  # of the last that was sent

    def send(self, action: Callable[["Wire"], None]) -> None:
        """Do something at the other end, after all that was sent before."""
        sim = self.owner.ensemble
        self._arrival = max(self._arrival, sim.now + sim.tell_delay())
        sim.call_later(self._arrival - sim.now, lambda: self._arrive(action))

    def _arrive(self, action: Callable[["Wire"], None]) -> None:
        if self.other is not None and not self.is_dead:
            action(self.other)


class SimMember:
    """A member with a clock of its own, and the program around it."""

    def __init__(self, ensemble: "EnsembleSim", host: Host, place: Endpoints, offset: float, drift: float) -> None:
        self.ensemble = ensemble
        self.host = host
        self.place = place
        self.is_up = True
        self.may_lead = False
        self.news: list[News] = []
        self.heard: list[tuple[float, Delivery]] = []  # with the true time
        self.wires: dict[int, Wire] = {}
        self._unsent: dict[int, bytes] = {}  # by link
        self._offset = offset
        self._rate = 1.0 + drift
        self._wakes_at = float("inf")
        self.member: Member

    @property
    def now(self) -> float:
        """Its local time."""
        return self._offset + self.ensemble.now * self._rate

    @property
    def shared(self) -> float:
        """The shared time as it sees it; also of one that is gone, whose clock goes on."""
        return self.member.time.clock.read(self.now)

    def on(self, service: str, path: str = "", types: str | None = None) -> None:
        """Hear messages."""
        self.member.add_service(service).add(path, Handler(types, print))
        self.flush()

    def send(self, address: str, *values: Any, at: float | None = None, is_reliable: bool = True) -> None:
        self.member.outbox.send(address, values, self.now, at=at, is_reliable=is_reliable)
        self.flush()

    # What happens to it

    def on_datagram(self, data: bytes, ip: str) -> None:
        if self.is_up:
            self.member.on_datagram(data, ip, self.now)
            self.flush()

    def on_data(self, wire: Wire, data: bytes) -> None:
        if self.is_up and wire.number in self.wires:
            self.member.on_data(wire.number, data, self.now)
            self.flush()

    def on_end(self, wire: Wire) -> None:
        """Of a wire, as the machine notices it."""
        if self.is_up and self.wires.pop(wire.number, None) is not None:
            self.member.on_cut(wire.number, self.now)
            self.flush()

    def on_accept(self, other: Wire) -> None:
        number = self.member.on_accept(self.now)
        if not number:
            self.ensemble.call_later(self.ensemble.tell_delay(), lambda: other.owner.on_end(other))
            return
        wire = self.wires[number] = Wire(self, number)
        wire.other, other.other = other, wire
        wire.send(lambda there: there.owner.on_connected(there))
        self.flush()

    def on_connected(self, wire: Wire) -> None:
        if self.is_up and wire.number in self.wires:
            self.member.on_connected(wire.number, self.now)
            self.flush()

    def wake(self, at: float) -> None:
        if self.is_up and at == self._wakes_at:
            self._wakes_at = float("inf")
            if self.now >= self.member.next_deadline():
                self.member.on_time(self.now)
            self.flush()

    # What it does

    def flush(self) -> None:
        """Perform all effects, take news and deliveries, and sleep until the next deadline."""
        member = self.member
        if member.effects:
            while member.effects:
                self._do(member.effects.popleft())
            self._write_all()
        if member.news or member.deliveries:
            self.news += member.news
            self.heard += [(self.ensemble.now, delivery) for delivery in member.deliveries]
            member.news.clear()
            member.deliveries.clear()
        due = max((member.next_deadline() - self._offset) / self._rate + SLACK, self.ensemble.now)
        if self.is_up and due < self._wakes_at:
            self._wakes_at = due
            self.ensemble.call_later(due - self.ensemble.now, lambda: self.wake(due))

    def _do(self, effect: Effect) -> None:
        match effect:
            case Datagram():
                self.ensemble.send_datagram(self, effect)
            case Broadcast(port, data):
                self.ensemble.broadcast(self, port, data)
            case Connect(link, ip, port):
                self.ensemble.connect(self, link, ip, port)
            case Write(link, data):
                self._unsent[link] = self._unsent.get(link, b"") + data
            case Cut(link):
                self._write_all()
                wire = self.wires.pop(link, None)
                if wire is not None:
                    wire.send(lambda there: there.owner.on_end(there))

    def _write_all(self) -> None:
        """What is for one link goes together."""
        for link, data in self._unsent.items():
            if link in self.wires:
                self._write(self.wires[link], data)
        self._unsent.clear()

    def _write(self, wire: Wire, data: bytes) -> None:
        at = len(data)
        if self.ensemble.happens(self.ensemble.air.tear):
            at = self.ensemble.sim.random.randrange(len(data) + 1)
        for piece in filter(None, (data[:at], data[at:])):
            wire.send(lambda there, piece=piece: there.owner.on_data(there, piece))  # type: ignore[misc]


class EnsembleSim:
    """Hosts and members. `sent`: what went out, by kind."""

    def __init__(self, seed: int = 0, dialect: DialectName = "2016", air: Air | None = None) -> None:
        self.sim = Simulation(seed)
        self.dialect = DIALECTS[dialect]
        self.air = air or Air()
        self.hosts: list[Host] = []
        self.members: list[SimMember] = []  # those that are up
        self.everybody: dict[str, SimMember] = {}  # by name, those that are gone too
        self.sent: Counter[str] = Counter()
        self._ports = list(range(FIRST_PORT, LAST_PORT))
        self.sim.random.shuffle(self._ports)

    @property
    def now(self) -> float:
        """The true time."""
        return self.sim.now

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        self.sim.call_later(delay, action)

    def tell_delay(self) -> float:
        return self.sim.random.uniform(self.air.min_delay, self.air.max_delay)

    def happens(self, chance: float) -> bool:
        return chance > 0 and self.sim.random.random() < chance

    def run(self, seconds: float, watch: Callable[[], None] | None = None, every: float = 0.1) -> None:
        """Let time pass; `watch` again and again."""
        end = self.now + seconds
        while (pause := min(every if watch is not None else seconds, end - self.now)) > 0:
            is_over: list[bool] = []
            self.call_later(pause, lambda is_over=is_over: is_over.append(True))  # type: ignore[misc]
            while not is_over:
                self.sim.step()
            if watch is not None:
                watch()

    # Who is there

    def add_host(self, ip: str | None = None) -> Host:
        host = Host(ip or f"10.0.{len(self.hosts) // 250}.{len(self.hosts) % 250 + 1}")
        self.hosts.append(host)
        return host

    def add_member(
        self,
        host: Host,
        *,
        may_lead: bool = False,
        peers: Iterable[str] = (),
        tcp_port: int | None = None,
        drift: float | None = None,
        app: str = "band",
    ) -> SimMember:
        """At the first discovery port that is free on the host. Its clock says anything; it drifts 49 ppm at most."""
        chance = self.sim.random
        taken = next(port for port in self.dialect.ports if port not in host.udp)
        place = Endpoints(host.ip, self._ports.pop() if tcp_port is None else tcp_port, self._ports.pop(), taken)
        drift = chance.uniform(-49e-6, 49e-6) if drift is None else drift
        member = SimMember(self, host, place, chance.uniform(0.0, 1e5), drift)
        member.may_lead = may_lead
        beginning = chance.random()
        member.member = Member(
            app, self.dialect, place, member.now, may_lead=may_lead, peers=tuple(peers), beginning=beginning
        )
        host.tcp[place.tcp_port] = host.udp[place.udp_port] = host.udp[place.discovery_port] = member
        self.members.append(member)
        self.everybody[place.name] = member
        member.flush()
        return member

    def leave(self, member: SimMember) -> None:
        """As a program does that ends."""
        member.member.close()
        member.flush()
        self._remove(member)

    def kill(self, member: SimMember, is_silent: bool = False) -> None:
        """Its machine tells the others, unless it is gone as well (`is_silent`)."""
        wires = list(member.wires.values())
        self._remove(member)
        for wire in wires:
            if is_silent:
                self._let_die(wire)
            else:
                wire.send(lambda there: there.owner.on_end(there))

    def _remove(self, member: SimMember) -> None:
        member.is_up = False
        member.wires.clear()
        self.members.remove(member)
        host, place = member.host, member.place
        del host.tcp[place.tcp_port], host.udp[place.udp_port], host.udp[place.discovery_port]

    def cut_off(self, host: Host) -> None:
        """No packet comes through, and nobody is told. Links die of it after a while, each end by itself."""
        host.is_cut_off = True
        for member in self.members:
            for wire in member.wires.values():
                if wire.other is not None and (member.host is host) != (wire.other.owner.host is host):
                    wire.is_dead = True
                    self._notice(wire)

    def let_in(self, host: Host) -> None:
        host.is_cut_off = False

    def cut(self, wire: Wire, is_half_open: bool = False) -> None:
        """A link breaks; `is_half_open`: its other end does not hear of it for a while."""
        wire.is_dead = True
        wire.owner.on_end(wire)
        if wire.other is not None:
            wire.other.is_dead = True
            if is_half_open:
                self._notice(wire.other)
            else:
                wire.other.owner.on_end(wire.other)

    def _let_die(self, wire: Wire) -> None:
        wire.is_dead = True
        if wire.other is not None:
            wire.other.is_dead = True
            self._notice(wire.other)

    def _notice(self, wire: Wire) -> None:
        delay = self.air.keepalive * self.sim.random.uniform(0.8, 1.2)
        self.call_later(delay, lambda: wire.owner.on_end(wire))

    # The network

    def send_datagram(self, sender: SimMember, datagram: Datagram) -> None:
        is_discovery = datagram.data[8:16] == b"!_o2/dy\0"
        is_local = datagram.ip == LOCALHOST
        self.sent[("local " if is_local else "direct ") + "discovery" if is_discovery else "datagram"] += 1
        host = self._route(sender.host, datagram.ip)
        if host is not None:
            source = LOCALHOST if is_local else sender.host.ip
            self._throw(host, datagram.port, datagram.data, source)

    def broadcast(self, sender: SimMember, port: int, data: bytes) -> None:
        """Seed 004: not received on the same machine."""
        self.sent["broadcast discovery"] += 1
        if not self.air.has_broadcast or sender.host.is_cut_off:
            return
        for host in self.hosts:
            if host is not sender.host and host.ip != LOCALHOST and not host.is_cut_off:
                self._throw(host, port, data, sender.host.ip)

    def _throw(self, host: Host, port: int, data: bytes, source: str) -> None:
        if port not in host.udp:
            return
        for _ in range(2 if self.happens(self.air.twice) else 1):
            if not self.happens(self.air.loss):
                self.call_later(self.tell_delay(), lambda: self._catch(host, port, data, source))

    def _catch(self, host: Host, port: int, data: bytes, source: str) -> None:
        member = host.udp.get(port)
        if member is not None:
            member.on_datagram(data, source)

    def connect(self, sender: SimMember, link: int, ip: str, port: int) -> None:
        wire = sender.wires[link] = Wire(sender, link)
        host = self._route(sender.host, ip)
        if host is not None:  # else nobody answers, and the member loses its patience
            self.call_later(self.tell_delay(), lambda: self._accept(host, port, wire))

    def _accept(self, host: Host, port: int, wire: Wire) -> None:
        server = host.tcp.get(port)
        if server is None:
            wire.owner.on_end(wire)
        elif wire.owner.is_up:
            server.on_accept(wire)

    def _route(self, host: Host, ip: str) -> Host | None:
        if ip in (LOCALHOST, host.ip):
            return host
        found = next((other for other in self.hosts if other.ip == ip), None)
        return found if found is not None and not (found.is_cut_off or host.is_cut_off) else None

    # What is true

    def know_all(self) -> bool:
        """Whether each member knows each other one."""
        names = {member.member.name for member in self.members}
        return all(self._list_known(member) == names - {member.member.name} for member in self.members)

    def _list_known(self, member: SimMember) -> set[str]:
        return {process.name for process in member.member.processes.values() if process.is_here}

    def list_leaders(self) -> list[SimMember]:
        return [member for member in self.members if member.member.time.leads]

    def list_wires(self) -> Iterator[Wire]:
        for member in self.members:
            yield from member.wires.values()
