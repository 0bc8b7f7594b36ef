"""An ensemble on simulated time: members whose clocks drift, and whose effects a simulated network performs."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.sim.ensemble_network import Host, NetworkFaults, SimNetwork, TcpEnd

from gandy.bus.core.coercion import Handler
from gandy.bus.core.effects import Broadcast, Connect, Cut, Datagram, Effect, News, Write
from gandy.bus.core.member import Delivery, Endpoints, Member
from gandy.bus.wire.dialects import DIALECTS, DialectName
from gandy.moments import Monotonic, Shared
from gandy.testing.simulation import Simulation

SLACK: Final = 2e-9  # seconds; a program wakes up a little late, never early
FIRST_PORT, LAST_PORT = 20_000, 40_000  # of those that are not for discovery


class SimMember:
    """A member with a clock of its own, and the program around it."""

    def __init__(self, network: SimNetwork, host: Host, place: Endpoints, offset: float, drift: float) -> None:
        self.network = network
        self.host = host
        self.place = place
        self.is_up = True
        self.may_lead = False
        self.news: list[News] = []
        self.heard: list[tuple[float, Delivery]] = []  # with the true time
        self.ends: dict[int, TcpEnd] = {}
        self._unsent: dict[int, bytes] = {}  # by link
        self._offset = offset
        self._rate = 1.0 + drift
        self._wakes_at = float("inf")
        self.member: Member

    @property
    def now(self) -> Monotonic:
        """Its local time."""
        return Monotonic(self._offset + self.network.now * self._rate)

    @property
    def shared(self) -> float:
        """The shared time by its clock, which goes on when the member has gone."""
        return float(self.member.time.clock.read(self.now))

    def on(self, service: str, path: str = "", types: str | None = None) -> None:
        """Keep the messages to a service."""
        self.member.add_service(service).add(path, Handler(types, print))
        self.flush()

    def send(self, address: str, *values: Any, at: float | None = None, is_reliable: bool = True) -> None:
        self.member.outbox.send(
            address, values, self.now, at=None if at is None else Shared(at), is_reliable=is_reliable
        )
        self.flush()

    # What happens to it

    def on_datagram(self, data: bytes, ip: str) -> None:
        if self.is_up:
            self.member.on_datagram(data, ip, self.now)
            self.flush()

    def on_data(self, end: TcpEnd, data: bytes) -> None:
        if self.is_up and end.number in self.ends:
            self.member.links.on_data(end.number, data, self.now)
            self.flush()

    def on_end(self, end: TcpEnd) -> None:
        """As its machine notices it."""
        if self.is_up and self.ends.pop(end.number, None) is not None:
            self.member.links.on_cut(end.number, self.now)
            self.flush()

    def on_accept(self, other: TcpEnd) -> None:
        number = self.member.links.on_accept(self.now)
        end = self.ends[number] = TcpEnd(self, number)
        end.other, other.other = other, end
        end.send(lambda there: there.owner.on_connected(there))
        self.flush()

    def on_connected(self, end: TcpEnd) -> None:
        if self.is_up and end.number in self.ends:
            self.member.links.on_connected(end.number, self.now)
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
            self.heard += [(self.network.now, delivery) for delivery in member.deliveries]
            member.news.clear()
            member.deliveries.clear()
        due = max((float(member.next_deadline()) - self._offset) / self._rate + SLACK, self.network.now)
        if self.is_up and due < self._wakes_at:
            self._wakes_at = due
            self.network.call_later(due - self.network.now, lambda: self.wake(due))

    def _do(self, effect: Effect) -> None:
        match effect:
            case Datagram():
                self.network.send_datagram(self, effect)
            case Broadcast(port, data):
                self.network.broadcast(self, port, data)
            case Connect(link, ip, port):
                self.network.connect(self, link, ip, port)
            case Write(link, data):
                self._unsent[link] = self._unsent.get(link, b"") + data
            case Cut(link):
                self._write_all()
                end = self.ends.pop(link, None)
                if end is not None:
                    end.send_end()

    def _write_all(self) -> None:
        """What is for one link goes together."""
        for link, data in self._unsent.items():
            if link in self.ends:
                self._write(self.ends[link], data)
        self._unsent.clear()

    def _write(self, end: TcpEnd, data: bytes) -> None:
        at = len(data)
        if self.network.happens(self.network.faults.tear):
            at = self.network.sim.random.randrange(len(data) + 1)
        for piece in filter(None, (data[:at], data[at:])):
            end.send(lambda there, piece=piece: there.owner.on_data(there, piece))  # type: ignore[misc]


class EnsembleSim:
    """Members on simulated hosts. One seed is one run."""

    def __init__(
        self,
        seed: int = 0,
        dialect: DialectName = "2016",
        faults: NetworkFaults | None = None,
        simulation: Simulation | None = None,
    ) -> None:
        """`simulation`: a shared one, instead of one of its own."""
        self.sim = simulation or Simulation(seed)
        self.dialect = DIALECTS[dialect]
        self.network = SimNetwork(self.sim, faults or NetworkFaults())
        self.members = self.network.members  # those that are up
        self.all_members: dict[str, SimMember] = {}  # by name, with those that have gone
        self._ports: set[int] = set()  # that were given out

    @property
    def now(self) -> float:
        """The true time."""
        return self.sim.now

    def run(self, seconds: float, watch: Callable[[], None] | None = None, every: float = 0.1) -> None:
        """Let time pass; call `watch` again and again."""
        end = self.now + seconds
        while (pause := min(every if watch is not None else seconds, end - self.now)) > 0:
            is_over: list[bool] = []
            self.sim.call_later(pause, lambda is_over=is_over: is_over.append(True))  # type: ignore[misc]
            while not is_over:
                self.sim.step()
            if watch is not None:
                watch()

    # Members

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
        """At the first free discovery port of the host. Its clock starts at a random time and drifts 49 ppm at most."""
        chance = self.sim.random
        taken = next(port for port in self.dialect.ports if port not in host.udp)
        place = Endpoints(host.ip, self._draw_port() if tcp_port is None else tcp_port, self._draw_port(), taken)
        drift = chance.uniform(-49e-6, 49e-6) if drift is None else drift
        member = SimMember(self.network, host, place, chance.uniform(0.0, 1e5), drift)
        member.may_lead = may_lead
        beginning = Shared(chance.random())
        member.member = Member(
            app, self.dialect, place, member.now, may_lead=may_lead, peers=tuple(peers), beginning=beginning
        )
        self.network.attach(member)
        self.all_members[place.name] = member
        member.flush()
        return member

    def _draw_port(self) -> int:
        while (port := self.sim.random.randrange(FIRST_PORT, LAST_PORT)) in self._ports:
            pass
        self._ports.add(port)
        return port

    def leave(self, member: SimMember) -> None:
        """As a program does that ends."""
        member.member.close()
        member.flush()
        self._remove(member)

    def kill(self, member: SimMember, is_silent: bool = False) -> None:
        """Its machine closes its links, unless it is gone as well (`is_silent`)."""
        ends = list(member.ends.values())
        self._remove(member)
        for end in ends:
            if is_silent:
                self.network.abandon(end)
            else:
                end.send_end()

    def _remove(self, member: SimMember) -> None:
        member.is_up = False
        member.ends.clear()
        self.network.detach(member)

    # What is true

    def all_know_all(self) -> bool:
        names = {member.member.name for member in self.members}
        return all(self._list_known(member) == names - {member.member.name} for member in self.members)

    def _list_known(self, member: SimMember) -> set[str]:
        return {process.name for process in member.member.processes.values() if process.is_here}

    def list_leaders(self) -> list[SimMember]:
        return [member for member in self.members if member.member.time.leads]
