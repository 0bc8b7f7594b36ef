"""Messages of the bus for property tests: valid ones, and ones with wrong bytes in them."""

from functools import lru_cache

from hypothesis import strategies as st
from tests.bundles import encode_element

from gandy.bus.wire.control import (
    ClockReply,
    ClockRequest,
    ClockSynced,
    Discovery,
    Init,
    Services,
    encode_clock_reply,
    encode_clock_request,
    encode_clock_synced,
    encode_discovery,
    encode_init,
    encode_services,
)
from gandy.bus.wire.dialects import Dialect
from gandy.bus.wire.messages import BusBundle, BusMessage

PORTS = st.sampled_from([1, 4000, 5000, 5001, 6000, 65535])
IPS = st.sampled_from(["10.0.0.1", "127.0.0.1", "9.0.0.1", "255.255.255.255"])
NAMES = st.builds("{}:{}".format, IPS, PORTS)
SERVICES = st.sampled_from(["drum", "horn", "_cs", "_o2", "10.0.0.1:5000", "x" * 64, "é"])
TIMES = st.one_of(st.just(0.0), st.floats(-10.0, 100.0), st.sampled_from([1e300, -1e300, 5e-324]))
OFFERS = st.lists(SERVICES, max_size=3).map(tuple)
SERIALS = st.integers(-1, 12)


@lru_cache
def make_messages(dialect: Dialect) -> st.SearchStrategy[bytes]:
    """Everything that a process may send, in valid form."""
    order = dialect.order
    paths = st.sampled_from(["", "/hit", "/h*", "/{a,b", "/in", "/get", "/cs/cs"])
    addresses = st.builds("{}{}{}".format, st.sampled_from("/!"), SERVICES, paths)
    values = st.sampled_from([("", ()), ("i", (1,)), ("fs", (0.5, "x")), ("[i]vd", ([1], (2.0,))), ("b", (b"abc",))])
    plain = st.builds(lambda time, to, value: BusMessage(time, to, *value), TIMES, addresses, values)
    inner = st.builds(BusBundle, TIMES, SERVICES, st.lists(plain, max_size=3).map(tuple))
    bundle = st.builds(BusBundle, TIMES, SERVICES, st.lists(st.one_of(plain, inner), max_size=3).map(tuple))
    services = st.builds(Services, NAMES, OFFERS, OFFERS)
    request = st.builds(ClockRequest, SERIALS, st.one_of(NAMES.map("!{}/cs".format), st.just("/x")))
    return st.one_of(
        st.builds(Discovery, st.sampled_from(["band", "x"]), IPS, PORTS, PORTS).map(
            lambda message: encode_discovery(message, dialect)
        ),
        st.builds(Init, IPS, PORTS, PORTS, st.booleans()).map(
            lambda message: encode_init(message, "10.0.0.1:5000", dialect)
        ),
        services.map(lambda message: b"".join(encode_services(message, "10.0.0.1:5000", dialect)[:1])),
        NAMES.map(lambda name: encode_clock_synced(ClockSynced(name), "10.0.0.1:5000", dialect)),
        request.map(lambda message: encode_clock_request(message, dialect)),
        st.builds(ClockReply, SERIALS, st.floats(-1.0, 1e10)).map(
            lambda message: encode_clock_reply(message, ClockRequest(0, "!10.0.0.1:5000/cs"), dialect)
        ),
        st.one_of(plain, bundle).map(lambda element: encode_element(element, order)),
    )


@st.composite
def mutate(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> bytes:
    """A valid message with a few bytes changed, added or removed."""
    data = bytearray(draw(messages))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=5))
    return bytes(data)
