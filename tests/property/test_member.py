"""Whatever comes over the network, and whenever: a member does not fail, and its tables hold together."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.bus_strategies import IPS, NAMES, OFFERS, PORTS, SERVICES, TIMES, make_messages, mutate
from tests.ensembles import START, listen, make_member

from gandy.bus.core.coercion import Handler
from gandy.bus.core.effects import Connect, Cut, Datagram, Write
from gandy.bus.core.member import Member
from gandy.bus.core.processes import ProcessState
from gandy.bus.limits import MAX_CONNECTING, MAX_SERVICES, MAX_STRANGERS
from gandy.bus.wire.control import (
    ClockReply,
    ClockRequest,
    ClockSynced,
    Init,
    Services,
    encode_clock_reply,
    encode_clock_synced,
    encode_init,
    encode_services,
)
from gandy.bus.wire.dialects import DIALECTS
from gandy.bus.wire.messages import decode_message, frame
from gandy.errors import GandyError


def check(member: Member) -> None:
    """What must be so after each step."""
    links = member.links
    assert len(links._waiting) <= MAX_CONNECTING + MAX_STRANGERS
    known = {link.process.name: number for number, link in links._links.items() if link.process is not None}
    assert known == {name: process.link for name, process in member.processes.items()}
    for number, link in links._links.items():
        is_known = link.process is not None and link.process.is_here
        assert (number in links._waiting) == (not is_known)
    assert member.name not in member.processes
    offers = {name: set(process.services) for name, process in member.processes.items()}
    assert all(len(offered) <= MAX_SERVICES for offered in offers.values())
    offers[member.name] = set(member.services._list_own())
    for service in set().union(*offers.values()):
        assert member.services.find(service) == max(name for name, offered in offers.items() if service in offered)
    assert {service for service, _ in member.services} == set().union(*offers.values())
    leader = member.time.leader
    assert leader is None or leader == member.services.find("_cs") or member.time.leads


class Hostile(RuleBasedStateMachine):
    """A member among peers that say anything, at any time, over links that come and go."""

    @initialize(name=st.sampled_from(sorted(DIALECTS)), may_lead=st.booleans())
    def start(self, name: str, may_lead: bool) -> None:
        self.now = START
        self.member = make_member(5000, name, may_lead=may_lead)  # type: ignore[arg-type]
        self.messages = make_messages(self.member.dialect)
        listen(self.member, "drum")
        listen(self.member, "drum", "/hit", "i")
        self.links: list[int] = []
        self.open: set[int] = set()
        self.asked: list[int] = []  # serial numbers of requests for the time

    @rule(data=st.data(), ip=IPS)
    def datagram(self, data: st.DataObject, ip: str) -> None:
        self.member.on_datagram(data.draw(self.messages), ip, self.now)

    @rule(data=st.data(), ip=IPS)
    def bad_datagram(self, data: st.DataObject, ip: str) -> None:
        self.member.on_datagram(data.draw(mutate(self.messages)), ip, self.now)

    @rule()
    def accept(self) -> None:
        link = self.member.links.on_accept(self.now)
        if link:
            self.links.append(link)
            self.open.add(link)

    @rule(name=NAMES, is_synced=st.booleans())
    def join(self, name: str, is_synced: bool) -> None:
        self.accept()
        ip, _, port = name.partition(":")
        init = encode_init(Init(ip, int(port), 7, is_synced), self.member.name, self.member.dialect)
        self.member.links.on_data(self.links[-1], frame(init), self.now)

    @precondition(lambda self: self.member.processes)
    @rule(data=st.data(), added=OFFERS, removed=OFFERS)
    def tell(self, data: st.DataObject, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
        """A process speaks of itself."""
        process = self.member.processes[data.draw(st.sampled_from(sorted(self.member.processes)))]
        for told in encode_services(Services(process.name, added, removed), self.member.name, self.member.dialect):
            self.member.links.on_data(process.link, frame(told), self.now)

    @precondition(lambda self: self.member.processes)
    @rule(data=st.data())
    def know_the_time(self, data: st.DataObject) -> None:
        process = self.member.processes[data.draw(st.sampled_from(sorted(self.member.processes)))]
        synced = encode_clock_synced(ClockSynced(process.name), self.member.name, self.member.dialect)
        self.member.links.on_data(process.link, frame(synced), self.now)

    @precondition(lambda self: self.asked)
    @rule(seconds=st.sampled_from([0.0, 0.001, 0.5]), time=st.floats(0.0, 20.0), count=st.integers(1, 5))
    def answer_clock_requests(self, seconds: float, time: float, count: int) -> None:
        """The leader answers, more or less rightly."""
        for _ in range(count):
            self.now = max(self.now, min(self.member.next_deadline(), self.now + 1.0)) + seconds
            self.member.on_time(self.now)
            self.take_effects()
            reply = ClockReply(self.asked[-1], time + self.now - START)
            request = ClockRequest(0, f"!{self.member.name}/cs")
            self.member.on_datagram(encode_clock_reply(reply, request, self.member.dialect), "10.0.0.1", self.now)

    @precondition(lambda self: self.links)
    @rule(data=st.data(), ip=IPS, port=PORTS, is_synced=st.booleans())
    def introduce(self, data: st.DataObject, ip: str, port: int, is_synced: bool) -> None:
        init = encode_init(Init(ip, port, 7, is_synced), self.member.name, self.member.dialect)
        self.member.links.on_data(data.draw(st.sampled_from(self.links)), frame(init), self.now)

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def say(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from(self.links))
        self.member.links.on_data(link, frame(data.draw(self.messages)), self.now)

    @precondition(lambda self: self.links)
    @rule(data=st.data(), cut=st.integers(0, 30))
    def say_badly(self, data: st.DataObject, cut: int) -> None:
        link = data.draw(st.sampled_from(self.links))
        self.member.links.on_data(link, frame(data.draw(mutate(self.messages)))[cut:], self.now)

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from(self.links))
        self.open.discard(link)
        self.member.links.on_cut(link, self.now)

    @precondition(lambda self: self.links)
    @rule(data=st.data())
    def connect(self, data: st.DataObject) -> None:
        self.member.links.on_connected(data.draw(st.sampled_from(self.links)), self.now)

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.1, 1.0, 6.0, 2000.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.member.on_time(self.now)
        assert self.member.next_deadline() > self.now

    @rule()
    def wait_for_the_next(self) -> None:
        self.now = max(self.now, self.member.next_deadline())
        self.member.on_time(self.now)
        assert self.member.next_deadline() > self.now

    @rule(name=SERVICES, is_there=st.booleans())
    def offer(self, name: str, is_there: bool) -> None:
        if name not in ("_cs", "_o2", self.member.name):
            if is_there:
                self.member.add_service(name)
            else:
                self.member.remove_service(name)

    @rule(name=SERVICES, at=st.one_of(st.none(), TIMES), is_reliable=st.booleans())
    def send(self, name: str, at: float | None, is_reliable: bool) -> None:
        with suppress(GandyError):
            self.member.outbox.send(f"/{name}/hit", (1,), self.now, at=at, is_reliable=is_reliable)

    @rule(at=TIMES)
    def call(self, at: float) -> None:
        with suppress(GandyError):
            self.member.call_at(at, Handler(None, print), self.now)

    def take_effects(self) -> None:
        while self.member.effects:
            match self.member.effects.popleft():
                case Connect(link, _, _):
                    self.links.append(link)
                    self.open.add(link)
                case Write(link, _):
                    assert link in self.open
                case Cut(link):
                    self.open.discard(link)
                case Datagram(_, _, data) if data[8:16] == b"!_cs/get":
                    self.asked.append(decode_message(data, self.member.dialect.order).args[0])
                case _:
                    pass

    @invariant()
    def holds(self) -> None:
        self.take_effects()
        self.member.deliveries.clear()
        check(self.member)


TestHostile = Hostile.TestCase
TestHostile.settings = settings(max_examples=settings().max_examples * 2 // 5, stateful_step_count=50)


@given(st.sampled_from(sorted(DIALECTS)), st.binary(max_size=200))
def test_any_bytes_are_survived(name: str, data: bytes) -> None:
    member = make_member(5000, name)  # type: ignore[arg-type]
    listen(member, "drum")
    member.on_datagram(data, "10.0.0.1", START)
    link = member.links.on_accept(START)
    member.links.on_data(link, data, START)
    member.on_time(START + 10.0)
    check(member)


@given(st.data(), st.sampled_from(sorted(DIALECTS)), st.booleans())
def test_changed_messages_of_a_known_process_are_survived(data: st.DataObject, name: str, is_synced: bool) -> None:
    member = make_member(5000, name)  # type: ignore[arg-type]
    listen(member, "drum")
    link = member.links.on_accept(START)
    init = encode_init(Init("10.0.0.1", 6000, 7, is_synced), member.name, member.dialect)
    member.links.on_data(link, frame(init), START)
    for _ in range(5):
        member.links.on_data(link, frame(data.draw(mutate(make_messages(member.dialect)))), START)
    member.on_time(START + 10.0)
    state = [process.state for process in member.processes.values()]
    assert state in ([], [ProcessState.NO_CLOCK], [ProcessState.OK]) or len(state) > 1
    check(member)
