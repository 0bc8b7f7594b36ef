"""Members of an ensemble in one process: messages arrive at once, and time passes when the test says so."""

import pytest

from gandy.bus.core.coercion import Handler
from gandy.bus.core.effects import Broadcast, Connect, Cut, Datagram, Effect, News, Write
from gandy.bus.core.member import Endpoints, Member
from gandy.bus.core.processes import Process
from gandy.bus.wire.control import Discovery, Init, encode_discovery, encode_init
from gandy.bus.wire.dialects import DIALECTS, DialectName
from gandy.bus.wire.messages import BusMessage, Framer, decode_message, encode_message, frame

APP = "band"
START = 1000.0  # local time is not shared time, and not 0
EVERY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)


def make_member(
    port: int = 5000,
    dialect: DialectName = "2016",
    *,
    ip: str = "10.0.0.1",
    now: float = START,
    may_lead: bool = False,
    peers: tuple[str, ...] = (),
    beginning: float = 0.0,
) -> Member:
    """Its TCP port is `port`, and UDP has the next one."""
    place = Endpoints(ip, port, port + 1, DIALECTS[dialect].ports[0])
    return Member(APP, DIALECTS[dialect], place, now, may_lead=may_lead, peers=peers, beginning=beginning)


def announce(member: Member, app: str = APP) -> bytes:
    """Its discovery message."""
    place = member.place
    return encode_discovery(Discovery(app, place.ip, place.tcp_port, place.discovery_port), member.dialect)


def take_effects(member: Member) -> list[Effect]:
    effects = list(member.effects)
    member.effects.clear()
    return effects


def take_news(member: Member) -> list[News]:
    news = list(member.news)
    member.news.clear()
    return news


def take_written(member: Member, link: int) -> list[BusMessage]:
    """What it wrote to a link, and nothing else."""
    framer = Framer()
    for effect in take_effects(member):
        assert isinstance(effect, Write), effect
        assert effect.link == link
        framer.receive_data(effect.data)
    messages = []
    while (data := framer.next_message()) is not None:
        messages.append(decode_message(data, member.dialect.order))
    return messages


def listen(member: Member, service: str, path: str = "", types: str | None = None) -> Handler:
    handler = Handler(types, print)
    member.add_service(service).add(path, handler)
    return handler


def take_heard(member: Member) -> list[tuple[str, tuple[object, ...]]]:
    """Addresses and arguments of all deliveries."""
    heard = [(delivery.address, delivery.args) for delivery in member.deliveries]
    member.deliveries.clear()
    return heard


def write(member: Member, message: BusMessage) -> bytes:
    """As another member of its dialect would send it over a link."""
    return frame(encode_message(message, member.dialect.order))


def write_init(member: Member, port: int, *, ip: str = "10.0.0.1", udp_port: int = 9, is_synced: bool = False) -> bytes:
    """The first message of a process, for this member."""
    init = Init(ip, port, udp_port, is_synced, order=member.dialect.order)
    return frame(encode_init(init, member.name, member.dialect))


def accept(member: Member, port: int, *, ip: str = "10.0.0.1", is_synced: bool = False, now: float = START) -> int:
    """A process connects and sends its init. Returns the link; the member's answer is not kept."""
    link = member.links.on_accept(now)
    member.links.on_data(link, write_init(member, port, ip=ip, is_synced=is_synced), now)
    member.effects.clear()
    member.news.clear()
    return link


def get_process(member: Member, other: Member) -> Process:
    return member.processes[other.name]


def say(member: Member, link: int, path: str, types: str, *args: object) -> None:
    """The process at the other end of a link sends a control message."""
    member.links.on_data(link, write(member, BusMessage(0.0, f"!{member.name}{path}", types, args)), START)


def make_band(count: int = 2, dialect: DialectName = "2016", leaders: int = 0) -> "Band":
    """Members that know one another; the last ones may lead."""
    members = [make_member(5000 + 10 * number, dialect, may_lead=number >= count - leaders) for number in range(count)]
    band = Band(*members)
    band.meet()
    return band


class Band:
    """Datagrams and bytes arrive in the order in which they are sent, one member after the other."""

    def __init__(self, *members: Member, now: float = START) -> None:
        self.now = now
        self.members = list(members)
        self.loses: set[type[Effect]] = set()  # kinds of effects that do not arrive
        self.written: list[bytes] = []  # to links
        self.wires: dict[tuple[Member, int], tuple[Member, int]] = {}

    def meet(self) -> None:
        """Every member learns of every other."""
        for member in self.members:
            for other in self.members:
                if other is not member:
                    member.on_datagram(announce(other), other.place.ip, self.now)
        self.settle()

    def settle(self) -> None:
        while any(member.effects for member in self.members):
            for member in self.members:
                for effect in take_effects(member):
                    if type(effect) not in self.loses:
                        self._do(member, effect)

    def run(self, seconds: float) -> None:
        """Time passes, from deadline to deadline. No member is woken without a reason."""
        end = self.now + seconds
        while (due := min(member.next_deadline() for member in self.members)) <= end:
            self.now = max(self.now, due)
            for member in self.members:
                if member.next_deadline() <= self.now:
                    member.on_time(self.now)
                    assert member.next_deadline() > self.now
            self.settle()
        self.now = end

    def cut(self, first: Member, second: Member) -> None:
        """The link between two."""
        for (member, link), (other, _) in list(self.wires.items()):
            if {member, other} == {first, second}:
                del self.wires[member, link]
                member.links.on_cut(link, self.now)
        self.settle()

    def lose(self, lost: Member) -> None:
        self.members.remove(lost)
        for other in self.members:
            self.cut(lost, other)
        lost.effects.clear()

    def _do(self, member: Member, effect: Effect) -> None:
        match effect:
            case Datagram(ip, port, data):
                for other in self.members:
                    if other.place.ip == ip and port in (other.place.udp_port, other.place.discovery_port):
                        other.on_datagram(data, member.place.ip, self.now)
            case Connect(link, ip, port):
                other = next(other for other in self.members if other.place[:2] == (ip, port))
                there = other.links.on_accept(self.now)
                self.wires[member, link], self.wires[other, there] = (other, there), (member, link)
                member.links.on_connected(link, self.now)
            case Write(link, data):
                self.written.append(data)
                if (member, link) in self.wires:
                    other, there = self.wires[member, link]
                    other.links.on_data(there, data, self.now)
            case Cut(link):
                if (member, link) in self.wires:
                    other, there = self.wires.pop((member, link))
                    self.wires.pop((other, there), None)
                    other.links.on_cut(there, self.now)
            case Broadcast(port, data):
                for other in self.members:
                    if other is not member and other.place.discovery_port == port:
                        other.on_datagram(data, member.place.ip, self.now)
