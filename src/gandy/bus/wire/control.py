"""What processes of the bus tell one another about themselves, in each dialect: who they are, services, the clock.

Whether a message is meant for us is not asked here: of its address only the path behind the service is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple

from msgspec import Struct

from gandy.bus.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE, Dialect, Shape
from gandy.bus.wire.messages import BusMessage, Order, decode_message, encode_message
from gandy.errors import ErrorCode, RemoteProtocolError

MAX_NAME: Final = 64  # bytes of a service's name: the original looks up no more
MAX_APP: Final = 255  # bytes of an ensemble's name
MAX_REPLY_TO: Final = 255  # characters; it goes back as the beginning of an address

FLAGS: Final[Mapping[Order, str]] = {"<": "l", ">": "b"}
ORDERS: Final[Mapping[str, Order]] = {flag: order for order, flag in FLAGS.items()}


class Discovery(Struct, frozen=True):
    """I exist: the ensemble that I belong to, and where I take connections and discovery messages."""

    app: str
    ip: str
    tcp_port: int
    discovery_port: int
    is_hub: bool = False
    order: Order = "<"  # of all that the sender sends; what we send has that of the dialect

    @property
    def process(self) -> str:
        """The sender's name."""
        return f"{self.ip}:{self.tcp_port}"


class Init(Struct, frozen=True):
    """Who is at this end of the connection, and whether it knows the time: the first message, in both directions."""

    ip: str
    tcp_port: int
    udp_port: int
    is_synced: bool
    is_hub: bool = False
    order: Order = "<"  # as above

    @property
    def process(self) -> str:
        """The sender's name."""
        return f"{self.ip}:{self.tcp_port}"


class Tap(NamedTuple):
    """A service that gets a copy of all that another one gets (1.1)."""

    tapper: str
    tappee: str


class Services(Struct, frozen=True):
    """Services of a process that came, and that went."""

    process: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    taps: tuple[Tap, ...] = ()
    untaps: tuple[Tap, ...] = ()


class ClockSynced(Struct, frozen=True):
    """The process knows the time from now on."""

    process: str


class ClockRequest(Struct, frozen=True):
    """What time is it?"""

    serial: int
    reply_to: str

    @property
    def reply_address(self) -> str:
        """Where the answer goes."""
        return self.reply_to + "/get-reply"


class ClockReply(Struct, frozen=True):
    """The time of the process that leads the clock."""

    serial: int
    time: float


Control = Services | ClockSynced | ClockRequest | ClockReply


def make_first_services(process: str, services: Iterable[str], dialect: Dialect) -> Services:
    """What a process tells of itself on a new connection."""
    itself = (process,) if dialect.announces_itself else ()
    return Services(process, (*itself, *services))


def make_clock_request(serial: int, process: str) -> ClockRequest:
    """The answer comes to this process, which asks."""
    return ClockRequest(serial, f"!{process}/cs")


# Encoding. Raises: ValueError, for what the wire has no place for.


def encode_discovery(discovery: Discovery, dialect: Dialect) -> bytes:
    return _encode_shape(f"!{LOCAL_SERVICE}/dy", discovery, dialect.discovery, dialect)


def encode_init(init: Init, peer: str, dialect: Dialect) -> bytes:
    return _encode_shape(dialect.get_init_address(peer), init, dialect.init, dialect)


def encode_services(services: Services, peer: str, dialect: Dialect) -> list[bytes]:
    """One message or, where removals have messages of their own, several. Of taps only 1.1 can tell."""
    rows = [(name, True, "") for name in services.added]
    removals: list[BusMessage] = []
    if dialect.tells_removal_in_services:
        rows += [(name, False, "") for name in services.removed]
    else:
        removals = [BusMessage(0.0, f"!{peer}/sd", "ss", (services.process, name)) for name in services.removed]
    if dialect.tells_taps:
        rows += [(tapper, True, tappee) for tapper, tappee in services.taps]
        rows += [(tapper, False, tappee) for tapper, tappee in services.untaps]
    first = [_make_services(services.process, rows, peer, dialect)] if rows or not removals else []
    return [encode_message(message, dialect.order) for message in first + removals]


def encode_clock_synced(synced: ClockSynced, peer: str, dialect: Dialect) -> bytes:
    return encode_message(BusMessage(0.0, f"!{peer}/cs/cs", "s", (synced.process,)), dialect.order)


def encode_clock_request(request: ClockRequest, dialect: Dialect) -> bytes:
    message = BusMessage(0.0, f"!{CLOCK_SERVICE}/get", "is", (request.serial, request.reply_to))
    return encode_message(message, dialect.order)


def encode_clock_reply(reply: ClockReply, request: ClockRequest, dialect: Dialect) -> bytes:
    return encode_message(BusMessage(0.0, request.reply_address, "it", (reply.serial, reply.time)), dialect.order)


def _encode_shape(address: str, said: Discovery | Init, shape: Shape, dialect: Dialect) -> bytes:
    flag = FLAGS[dialect.order]
    args = tuple(flag if field == "order" else getattr(said, field) for field in shape.fields)
    return encode_message(BusMessage(0.0, address, shape.types, args), dialect.order)


def _make_services(process: str, rows: Iterable[tuple[str, bool, str]], peer: str, dialect: Dialect) -> BusMessage:
    types, args = "s", [process]
    for row in rows:
        types += dialect.service_types if row[1] else dialect.service_types.replace("T", "F")
        args += row[: len(dialect.service_types)]  # type: ignore[arg-type]
    return BusMessage(0.0, f"!{peer}/sv", types, tuple(args))


# Decoding. Raises: RemoteProtocolError.


def decode_discovery(data: bytes, dialect: Dialect) -> Discovery:
    """A datagram at a discovery port."""
    address, fields = _decode_shape(data, dialect.discovery, dialect)
    _check(address[1:] == f"{LOCAL_SERVICE}/dy", "no discovery message")
    said = Discovery(**fields)
    _check(is_ip(said.ip) and _is_port(said.tcp_port) and _is_port(said.discovery_port), "discovery of no place")
    _check(_is_text(said.app, MAX_APP), "discovery of no ensemble")
    return said


def decode_init(data: bytes, dialect: Dialect) -> Init:
    """The first message of a connection. All that follow are in its order."""
    address, fields = _decode_shape(data, dialect.init, dialect)
    is_init = address == dialect.get_init_address("") if dialect.inits_local_service else address.endswith("/in")
    _check(address[0] == "!" and is_init, "no init message")
    said = Init(**{**fields, "is_synced": fields["is_synced"] != 0})
    _check(is_ip(said.ip) and _is_port(said.tcp_port) and _is_port(said.udp_port), "init from no place")
    return said


def decode_control(message: BusMessage, dialect: Dialect) -> Control | None:
    """Any later message to _cs, _o2 or the name of the process. None where the path is not known: that is no error."""
    service, _, path = message.address[1:].partition("/")
    match path:
        case "sv":
            return _decode_services(message, dialect)
        case "sd" if not dialect.tells_removal_in_services:
            return _decode_removal(message)
        case "cs/cs":
            return _decode_synced(message)
        case "cs/get-reply":
            return _decode_reply(message)
        case "get" if service == CLOCK_SERVICE:
            return _decode_request(message)
    return None


def _decode_shape(data: bytes, shape: Shape, dialect: Dialect) -> tuple[str, dict[str, Any]]:
    message = decode_message(data, dialect.order)
    _check(message.types == shape.types, f"types {message.types[:40]!r}, and not {shape.types!r}")
    fields: dict[str, Any] = dict(zip(shape.fields, message.args, strict=True))
    order = dialect.order
    if "order" in fields:
        flag = fields["order"]
        _check(flag in ORDERS, f"an order of bytes {flag[:40]!r}")
        order = ORDERS[flag]
    if order != dialect.order:  # the flag itself reads the same either way
        fields = dict(zip(shape.fields, decode_message(data, order).args, strict=True))
    return message.address, {**fields, "order": order, "is_hub": fields.get("is_hub", 0) != 0}


def _decode_services(message: BusMessage, dialect: Dialect) -> Services:
    width = len(dialect.service_types)
    count = (len(message.args) - 1) // width
    types = message.types.replace("F", "T").replace("B", "T")  # libo2 tells the first ones by T, later ones by B
    _check(types == "s" + dialect.service_types * count, "services in another form")
    process, *rest = message.args
    defaults: Sequence[Any] = (True, "")[width - 1 :]  # where the dialect does not tell
    rows: dict[tuple[str, str], bool] = {}
    for at in range(0, len(rest), width):
        name, is_there, tappee = [*rest[at : at + width], *defaults]
        _check(is_name(name) and (not tappee or is_name(tappee)), f"a service of the name {name[:40]!r}")
        rows[name, tappee] = is_there  # of a name that is told twice, the last counts
    _check(is_process(process), f"services of {process[:40]!r}")
    return Services(
        process,
        tuple([name for (name, tappee), is_there in rows.items() if is_there and not tappee]),
        tuple([name for (name, tappee), is_there in rows.items() if not is_there and not tappee]),
        tuple([Tap(*row) for row, is_there in rows.items() if is_there and row[1]]),
        tuple([Tap(*row) for row, is_there in rows.items() if not is_there and row[1]]),
    )


def _decode_removal(message: BusMessage) -> Services:
    process, name = _open(message, "ss")
    _check(is_process(process) and is_name(name), f"removal of {name[:40]!r} by {process[:40]!r}")
    return Services(process, removed=(name,))


def _decode_synced(message: BusMessage) -> ClockSynced:
    (process,) = _open(message, "s")
    _check(is_process(process), f"the clock of {process[:40]!r}")
    return ClockSynced(process)


def _decode_request(message: BusMessage) -> ClockRequest:
    serial, reply_to = _open(message, "is")
    _check(reply_to[:1] in ("!", "/") and len(reply_to) <= MAX_REPLY_TO, f"a reply to {reply_to[:40]!r}")
    return ClockRequest(serial, reply_to)


def _decode_reply(message: BusMessage) -> ClockReply:
    serial, time = _open(message, "it")
    _check(isfinite(time), f"a clock at {time}")
    return ClockReply(serial, time)


def _open(message: BusMessage, types: str) -> tuple[Any, ...]:
    _check(message.types == types, f"types {message.types[:40]!r} for {message.address[:40]!r}, and not {types!r}")
    return message.args


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise RemoteProtocolError(what, ErrorCode.BAD_PAYLOAD)


# Names


def is_name(name: str) -> bool:
    """Of a service."""
    return _is_text(name, MAX_NAME) and "/" not in name


def is_process(name: str) -> bool:
    """As in 127.0.0.1:39361."""
    ip, _, port = name.partition(":")
    return is_ip(ip) and _is_number(port, 5) and _is_port(int(port))


def _is_text(text: str, limit: int) -> bool:
    return text.isprintable() and 0 < len(text.encode()) <= limit


def is_ip(ip: str) -> bool:
    parts = ip.split(".", 4)
    return len(parts) == 4 and all(_is_number(part, 3) and int(part) < 256 for part in parts)


def _is_number(text: str, digits: int) -> bool:
    """In the only form that it has: names are compared as text."""
    return len(text) <= digits and text.isascii() and text.isdecimal() and (text[0] != "0" or text == "0")


def _is_port(port: int) -> bool:
    return 0 < port < 0x10000
