"""The network of a simulated ensemble: hosts, datagrams that come late, twice or never, and links that break."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from gandy.bus.core.discovery import LOCALHOST, is_discovery
from gandy.bus.core.effects import Datagram
from gandy.testing.simulation import Simulation

if TYPE_CHECKING:
    from tests.sim.ensemble import SimMember


class NetworkFaults(Struct, frozen=True):
    """How bad the network is. Times are in seconds; all other values are chances from 0 to 1."""

    min_delay: float = 0.0001
    max_delay: float = 0.002  # of each datagram by itself, so that they overtake one another
    loss: float = 0.0  # of datagrams
    twice: float = 0.0  # a datagram comes twice
    has_broadcast: bool = True
    tear: float = 0.1  # bytes written at once arrive in two pieces
    keepalive: float = 11.0  # until an end notices that its link is dead


class Host:
    """A machine. At 127.0.0.1 it has no network."""

    def __init__(self, ip: str) -> None:
        self.ip = ip
        self.udp: dict[int, SimMember] = {}
        self.tcp: dict[int, SimMember] = {}
        self.is_cut_off = False  # from all other machines


class TcpEnd:
    """One end of a TCP connection."""

    def __init__(self, owner: "SimMember", number: int) -> None:
        self.owner = owner
        self.number = number  # by which the owner knows the link
        self.other: TcpEnd | None = None
        self.is_dead = False  # bytes are lost without an error
        self._arrival = 0.0  # of the last bytes that were sent

    def send(self, action: Callable[["TcpEnd"], None]) -> None:
        """Do something at the other end, after all that was sent before."""
        network = self.owner.network
        self._arrival = max(self._arrival, network.now + network.draw_delay())
        network.call_later(self._arrival - network.now, lambda: self._arrive(action))

    def send_end(self) -> None:
        """The other end sees that this one was closed."""
        self.send(lambda there: there.owner.on_end(there))

    def _arrive(self, action: Callable[["TcpEnd"], None]) -> None:
        if self.other is not None and not self.is_dead:
            action(self.other)


class SimNetwork:
    """Hosts, and the members that are up on them. `sent`: how many datagrams, by kind."""

    def __init__(self, sim: Simulation, faults: NetworkFaults) -> None:
        self.sim = sim
        self.faults = faults
        self.hosts: list[Host] = []
        self.members: list[SimMember] = []
        self.sent: Counter[str] = Counter()

    @property
    def now(self) -> float:
        """The true time."""
        return self.sim.now

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        self.sim.call_later(delay, action)

    def draw_delay(self) -> float:
        return self.sim.random.uniform(self.faults.min_delay, self.faults.max_delay)

    def happens(self, chance: float) -> bool:
        return chance > 0 and self.sim.random.random() < chance

    def add_host(self, ip: str | None = None) -> Host:
        host = Host(ip or f"10.0.{len(self.hosts) // 250}.{len(self.hosts) % 250 + 1}")
        self.hosts.append(host)
        return host

    def attach(self, member: "SimMember") -> None:
        host, place = member.host, member.place
        host.tcp[place.tcp_port] = host.udp[place.udp_port] = host.udp[place.discovery_port] = member
        self.members.append(member)

    def detach(self, member: "SimMember") -> None:
        host, place = member.host, member.place
        del host.tcp[place.tcp_port], host.udp[place.udp_port], host.udp[place.discovery_port]
        self.members.remove(member)

    # Datagrams

    def send_datagram(self, sender: "SimMember", datagram: Datagram) -> None:
        is_local = datagram.ip == LOCALHOST
        kind = ("local " if is_local else "direct ") + "discovery" if is_discovery(datagram.data) else "datagram"
        self.sent[kind] += 1
        host = self._route(sender.host, datagram.ip)
        if host is not None:
            source = LOCALHOST if is_local else sender.host.ip
            self._transmit(host, datagram.port, datagram.data, source)

    def broadcast(self, sender: "SimMember", port: int, data: bytes) -> None:
        """docs/protocol/bus.md, rule 4: the sender's own machine does not receive it."""
        self.sent["broadcast discovery"] += 1
        if not self.faults.has_broadcast or sender.host.is_cut_off:
            return
        for host in self.hosts:
            if host is not sender.host and host.ip != LOCALHOST and not host.is_cut_off:
                self._transmit(host, port, data, sender.host.ip)

    def _transmit(self, host: Host, port: int, data: bytes, source: str) -> None:
        if port not in host.udp:
            return
        for _ in range(2 if self.happens(self.faults.twice) else 1):
            if not self.happens(self.faults.loss):
                self.call_later(self.draw_delay(), lambda: self._receive(host, port, data, source))

    def _receive(self, host: Host, port: int, data: bytes, source: str) -> None:
        member = host.udp.get(port)
        if member is not None:
            member.on_datagram(data, source)

    # Links

    def connect(self, sender: "SimMember", link: int, ip: str, port: int) -> None:
        end = sender.ends[link] = TcpEnd(sender, link)
        host = self._route(sender.host, ip)
        if host is not None:  # otherwise there is no answer, and the member gives up after a while
            self.call_later(self.draw_delay(), lambda: self._accept(host, port, end))

    def _accept(self, host: Host, port: int, end: TcpEnd) -> None:
        server = host.tcp.get(port)
        if server is None:
            end.owner.on_end(end)
        elif end.owner.is_up:
            server.on_accept(end)

    def _route(self, host: Host, ip: str) -> Host | None:
        if ip in (LOCALHOST, host.ip):
            return host
        found = next((other for other in self.hosts if other.ip == ip), None)
        return found if found is not None and not (found.is_cut_off or host.is_cut_off) else None

    def list_ends(self) -> Iterator[TcpEnd]:
        for member in self.members:
            yield from member.ends.values()

    # Faults

    def cut_off(self, host: Host) -> None:
        """No packet gets through. After a while each end of a link notices by itself."""
        host.is_cut_off = True
        for end in self.list_ends():
            if end.other is not None and (end.owner.host is host) != (end.other.owner.host is host):
                end.is_dead = True
                self._notice(end)

    def let_in(self, host: Host) -> None:
        host.is_cut_off = False

    def cut(self, end: TcpEnd, is_half_open: bool = False) -> None:
        """A link breaks; `is_half_open`: its other end notices that only later."""
        end.is_dead = True
        end.owner.on_end(end)
        if end.other is not None:
            end.other.is_dead = True
            if is_half_open:
                self._notice(end.other)
            else:
                end.other.owner.on_end(end.other)

    def abandon(self, end: TcpEnd) -> None:
        """Its machine is gone: the other end notices that only later."""
        end.is_dead = True
        if end.other is not None:
            end.other.is_dead = True
            self._notice(end.other)

    def _notice(self, end: TcpEnd) -> None:
        delay = self.faults.keepalive * self.sim.random.uniform(0.8, 1.2)
        self.call_later(delay, lambda: end.owner.on_end(end))
