"""Targets for the bus and OSC: datagrams, streams and control messages from any peer.

Only `RemoteProtocolError` may come out. What is read can be written, and is then what it was: bytes may differ at
first, in padding and in numbers that are none, but not a second time.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.bundles import encode_element, encode_osc_element
from tests.fuzz.talks import cut

from gandy.bus.wire import control as bus_control
from gandy.bus.wire import messages as bus
from gandy.bus.wire import osc
from gandy.bus.wire.control import ClockReply, ClockSynced, Control, Discovery, Init, Services
from gandy.bus.wire.dialects import DIALECTS, Dialect
from gandy.bus.wire.messages import BusBundle, BusMessage, Framer, Order, frame
from gandy.errors import RemoteProtocolError

ORDERS: Final[tuple[Order, ...]] = ("<", ">")


def fuzz_bus(data: bytes) -> None:
    """A datagram, in either order."""
    for order in ORDERS:
        element = _try(bus.decode, data, order)
        if element is not None:
            written = encode_element(element, order)
            assert encode_element(bus.decode(written, order), order) == written
            _check_pieces(data, element, order)


def _check_pieces(data: bytes, element: BusMessage | BusBundle, order: Order) -> None:
    """To look at the address first makes no difference."""
    time, address, at = bus.peek(data, order)
    if isinstance(element, BusBundle):
        assert (time, address) == (element.time, "#" + element.service)
    else:
        types, args = bus.decode_args(data, at, order)
        assert (time, address, types, repr(args)) == (*element[:3], repr(element.args))


def fuzz_bus_stream(data: bytes) -> None:
    """However a stream is cut, it means the same."""
    whole = _read_frames([data])
    assert _read_frames(cut(data)) == whole
    for message in whole[0]:
        _try(bus.decode, message, "<")


def _read_frames(pieces: list[bytes]) -> tuple[list[bytes], int | None]:
    """The messages, and what is left; None where they are refused."""
    framer = Framer(limit=200)
    messages: list[bytes] = []
    for piece in pieces:
        framer.receive_data(piece)
        try:
            messages += iter(framer.next_message, None)
        except RemoteProtocolError:
            return messages, None
    return messages, framer.unread


def fuzz_bus_control(data: bytes) -> None:
    """A datagram to a discovery port, the first message of a connection, and a later one, in each dialect."""
    for dialect in DIALECTS.values():
        discovery = _try(bus_control.decode_discovery, data, dialect)
        if discovery is not None:
            theirs = dialect._replace(order=discovery.order)
            assert bus_control.decode_discovery(bus_control.encode_discovery(discovery, theirs), dialect) == discovery
        init = _try(bus_control.decode_init, data, dialect)
        if init is not None:
            theirs = dialect._replace(order=init.order)
            assert bus_control.decode_init(bus_control.encode_init(init, "1.2.3.4:5", theirs), dialect) == init
        message = _try(bus.decode_message, data, dialect.order)
        if message is not None:
            _check_control(message, dialect)


def _check_control(message: BusMessage, dialect: Dialect) -> None:
    control = _try(bus_control.decode_control, message, dialect)
    if control is not None:
        for written in _encode_control(control, dialect):
            assert bus_control.decode_control(bus.decode_message(written, dialect.order), dialect) is not None


def _encode_control(control: Control, dialect: Dialect) -> list[bytes]:
    match control:
        case Services():
            return bus_control.encode_services(control, "1.2.3.4:5", dialect)
        case ClockSynced():
            return [bus_control.encode_clock_synced(control, "1.2.3.4:5", dialect)]
        case ClockReply():
            request = bus_control.make_clock_request(control.serial, "1.2.3.4:5")
            return [bus_control.encode_clock_reply(control, request, dialect)]
        case _:
            # As the leader of the clock would.
            reply = bus_control.encode_clock_reply(ClockReply(control.serial, 1.0), control, dialect)
            assert bus.decode_message(reply, dialect.order).args == (control.serial, 1.0)
            return [bus_control.encode_clock_request(control, dialect)]


def fuzz_osc(data: bytes) -> None:
    element = _try(osc.decode, data)
    if element is not None:
        written = encode_osc_element(element)
        assert encode_osc_element(osc.decode(written)) == written


def _try(read: Callable[..., Any], *arguments: object) -> Any:
    try:
        return read(*arguments)
    except RemoteProtocolError:
        return None


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "bus": fuzz_bus,
    "bus_stream": fuzz_bus_stream,
    "bus_control": fuzz_bus_control,
    "osc": fuzz_osc,
}

# Good input.

_ARGS: Final = (1, 2**40, 0.5, 0.25, 3.0, "text", "é", "c", b"midi", b"blob!", True, True, False, None, bus.INFINITUM)
_MESSAGE: Final = BusMessage(0.5, "/a/b", "ihfdtsScmbBTFNI", _ARGS)
_MANY: Final = BusMessage(0.0, "!a/b", "[i[s]]vivhvfvd", ([1, ["x"]], (1, 2), (3,), (0.5,), (0.25, 1.0)))
_BUNDLE: Final = BusBundle(1.0, "a", (_MANY, BusBundle(2.0, "b", (_MESSAGE,))))
_OSC: Final = osc.OscMessage("/a/b", "ifstr[T]", (1, 0.5, "text", 1 << 40, b"rgba", [True]))
_OSC_BUNDLE: Final = osc.OscBundle(osc.IMMEDIATELY, (_OSC, osc.OscBundle(1 << 60, (osc.OscMessage("/c"),))))

_MESSAGES: Final = [encode_element(element, order) for order in ORDERS for element in (_MESSAGE, _MANY, _BUNDLE)]


def _list_controls(dialect: Dialect) -> list[bytes]:
    ours, theirs = "10.0.0.1:4000", "10.0.0.2:5000"
    request = bus_control.make_clock_request(1, ours)
    services = Services(ours, (ours, "synth", "_cs"), ("old",))
    return [
        bus_control.encode_discovery(Discovery("band", "10.0.0.1", 4000, dialect.ports[0]), dialect),
        bus_control.encode_init(Init("10.0.0.1", 4000, 4001, is_synced=True), theirs, dialect),
        *bus_control.encode_services(services, theirs, dialect),
        bus_control.encode_clock_synced(ClockSynced(ours), theirs, dialect),
        bus_control.encode_clock_request(request, dialect),
        bus_control.encode_clock_reply(ClockReply(1, 1.5), request, dialect),
    ]


_CONTROLS: Final = [
    data for dialect in (*DIALECTS.values(), DIALECTS["2016"]._replace(order=">")) for data in _list_controls(dialect)
]
SEEDS: Final[Mapping[str, list[bytes]]] = {
    "bus": [*_MESSAGES, *_CONTROLS[:3]],
    "bus_stream": [frame(_MESSAGES[0]) + frame(b"") + frame(_CONTROLS[0]), b"".join(map(frame, _CONTROLS[:5]))],
    "bus_control": _CONTROLS,
    "osc": [encode_osc_element(_OSC), encode_osc_element(_OSC_BUNDLE), b"/a\0\0"],
}
