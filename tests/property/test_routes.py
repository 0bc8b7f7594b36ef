"""A member that remembers where messages went delivers what one does that looks anew for each of them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.bus_strategies import make_messages, mutate
from tests.ensembles import START, accept, make_member

from gandy.bus.core.coercion import Handler
from gandy.bus.core.effects import Datagram
from gandy.bus.core.local_services import Delivery
from gandy.bus.wire.dialects import DIALECTS
from gandy.bus.wire.messages import frame
from gandy.bus.wire.types import INFINITUM
from gandy.errors import GandyError

PATHS = st.sampled_from(["", "/hit", "/a", "/hat"])
SERVICES = st.sampled_from(["drum", "horn"])
WANTED = st.sampled_from([None, "", "i", "f", "fs", "s"])


class Twins(RuleBasedStateMachine):
    """Both have the same handlers, and hear the same."""

    @initialize(name=st.sampled_from(sorted(DIALECTS)))
    def start(self, name: str) -> None:
        self.quick, self.slow = (make_member(5000, name) for _ in range(2))  # type: ignore[arg-type]
        self.twins = (self.quick, self.slow)
        self.links = [accept(member, 6000) for member in self.twins]
        self.messages = make_messages(self.quick.dialect)
        self.handlers: list[tuple[str, str, Handler]] = []
        self.said: list[bytes] = []
        for member in self.twins:
            member.add_service("drum")

    @rule(service=SERVICES, path=PATHS, types=WANTED)
    def add(self, service: str, path: str, types: str | None) -> None:
        handler = Handler(types, print)
        self.handlers.append((service, path, handler))
        for member in self.twins:
            member.add_service(service).add(path, handler)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.handlers:
            service, path, handler = self.handlers.pop(data.draw(st.integers(0, len(self.handlers) - 1)))
            assert len({member.add_service(service).remove(path, handler) for member in self.twins}) == 1

    @rule(service=SERVICES)
    def withdraw(self, service: str) -> None:
        for member in self.twins:
            member.remove_service(service)

    @rule(data=st.data(), is_reliable=st.booleans())
    def say(self, data: st.DataObject, is_reliable: bool) -> None:
        self.said.append(data.draw(self.messages))
        self._tell(self.said[-1], is_reliable)

    @rule(data=st.data(), is_reliable=st.booleans())
    def repeat(self, data: st.DataObject, is_reliable: bool) -> None:
        if self.said:
            self._tell(data.draw(st.sampled_from(self.said)), is_reliable)

    @rule(data=st.data())
    def repeat_with_faults(self, data: st.DataObject) -> None:
        if self.said:
            self._tell(data.draw(mutate(st.sampled_from(self.said))), False)

    def _tell(self, said: bytes, is_reliable: bool) -> None:
        self.slow._local._routes.clear()
        for member, link in zip(self.twins, self.links, strict=True):
            if is_reliable:
                member.links.on_data(link, frame(said), START)
            else:
                member.on_datagram(said, "10.0.0.1", START)

    @invariant()
    def both_did_the_same(self) -> None:
        quick, slow = ([_describe(delivery) for delivery in member.deliveries] for member in self.twins)
        assert quick == slow
        for member in self.twins:
            member.deliveries.clear()
        assert self.quick.dropped == self.slow.dropped
        assert self.quick.next_deadline() == self.slow.next_deadline()
        assert list(self.quick.effects) == list(self.slow.effects)
        assert list(self.quick.news) == list(self.slow.news)


def _describe(delivery: Delivery) -> tuple[int, str]:
    return id(delivery.handler), repr((delivery.args, delivery.time, delivery.address, delivery.types))


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=60, stateful_step_count=40)

VALUES: st.SearchStrategy[object] = st.one_of(
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=5),
    st.sampled_from([None, True, False, INFINITUM, [1, "x"], (1, 2), (1.5,), {}]),
)


@given(
    values=st.lists(VALUES, max_size=4).map(tuple),
    types=st.one_of(st.none(), st.sampled_from(["", "i", "f", "ii", "sd", "T", "x"])),
    at=st.one_of(st.none(), st.just(0.0)),
)
def test_a_message_sent_again_is_the_same(values: tuple[object, ...], types: str | None, at: float | None) -> None:
    member = make_member(may_lead=True)
    member.on_time(START + 3.0)
    accept(member, 6000, is_synced=True)
    outcomes = []
    for _ in range(2):
        try:
            member.outbox.send("!10.0.0.1:6000/x", values, START + 3.0, types=types, at=at, is_reliable=False)
            outcomes.append(str([effect.data for effect in member.effects if isinstance(effect, Datagram)]))
        except (ValueError, GandyError) as error:
            outcomes.append(str(error))
        member.effects.clear()
    assert outcomes[0] == outcomes[1]
