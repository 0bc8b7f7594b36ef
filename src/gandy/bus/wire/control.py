"""The control messages of the bus in each dialect: identity, services, the clock (docs/protocol/bus.md).

Callers check whether a message is for them: only the path after the service is read here.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from msgspec import Struct

from gandy.bus.limits import MAX_ENSEMBLE_NAME, MAX_REPLY_TO, MAX_SERVICE_NAME
from gandy.bus.wire.dialects import CLOCK_SERVICE, LOCAL_SERVICE, Dialect, Shape
from gandy.bus.wire.messages import AT_ONCE, BusMessage, Order, decode_message, encode_message
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.moments import Shared

FLAGS: Final[Mapping[Order, str]] = {"<": "l", ">": "b"}
ORDERS: Final[Mapping[str, Order]] = {flag: order for order, flag in FLAGS.items()}


class Discovery(Struct, frozen=True):
    """A process announces itself: its ensemble, and where it takes connections and discovery messages."""

    app: str
    ip: str
    tcp_port: int
    discovery_port: int
    is_hub: bool = False
    order: Order = "<"  # byte order of everything that the sender sends; ours is that of the dialect

    @property
    def process(self) -> str:
        """The sender's name."""
        return f"{self.ip}:{self.tcp_port}"


class Init(Struct, frozen=True):
    """The first message on a link, in both directions: its sender, and whether the sender knows the time."""

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


class Services(Struct, frozen=True):
    """Services that a process offers from now on, and that it no longer offers."""

    process: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class ClockSynced(Struct, frozen=True):
    """From now on the process knows the time."""

    process: str


class ClockRequest(Struct, frozen=True):
    """A follower asks for the time."""

    serial: int
    reply_to: str

    @property
    def reply_address(self) -> str:
        """The address of the reply."""
        return self.reply_to + "/get-reply"


class ClockReply(Struct, frozen=True):
    """The time of the process that leads the clock."""

    serial: int
    time: Shared


Control = Services | ClockSynced | ClockRequest | ClockReply


def make_first_services(process: str, services: Iterable[str], dialect: Dialect) -> Services:
    """The services that a process announces on a new link."""
    itself = (process,) if dialect.announces_itself else ()
    return Services(process, (*itself, *services))


def make_clock_request(serial: int, process: str) -> ClockRequest:
    """`process`: the one that sends it."""
    return ClockRequest(serial, f"!{process}/cs")


# Encoding. Raises: ValueError: a value cannot be encoded.


def encode_discovery(discovery: Discovery, dialect: Dialect) -> bytes:
    return _encode_shape(f"!{LOCAL_SERVICE}/dy", discovery, dialect.discovery, dialect)


def encode_init(init: Init, peer: str, dialect: Dialect) -> bytes:
    return _encode_shape(dialect.get_init_address(peer), init, dialect.init, dialect)


def encode_services(services: Services, peer: str, dialect: Dialect) -> list[bytes]:
    """One message or, if removals have messages of their own, several."""
    rows = [(name, True, "") for name in services.added]
    removals: list[BusMessage] = []
    if dialect.removes_by_services:
        rows += [(name, False, "") for name in services.removed]
    else:
        removals = [BusMessage(AT_ONCE, f"!{peer}/sd", "ss", (services.process, name)) for name in services.removed]
    first = [_make_services(services.process, rows, peer, dialect)] if rows or not removals else []
    return [encode_message(message, dialect.order) for message in first + removals]


def encode_clock_synced(synced: ClockSynced, peer: str, dialect: Dialect) -> bytes:
    return encode_message(BusMessage(AT_ONCE, f"!{peer}/cs/cs", "s", (synced.process,)), dialect.order)


def encode_clock_request(request: ClockRequest, dialect: Dialect) -> bytes:
    message = BusMessage(AT_ONCE, f"!{CLOCK_SERVICE}/get", "is", (request.serial, request.reply_to))
    return encode_message(message, dialect.order)


def encode_clock_reply(reply: ClockReply, request: ClockRequest, dialect: Dialect) -> bytes:
    return encode_message(BusMessage(AT_ONCE, request.reply_address, "it", (reply.serial, reply.time)), dialect.order)


def _encode_shape(address: str, content: Discovery | Init, shape: Shape, dialect: Dialect) -> bytes:
    flag = FLAGS[dialect.order]
    args = tuple(flag if field == "order" else getattr(content, field) for field in shape.fields)
    return encode_message(BusMessage(AT_ONCE, address, shape.types, args), dialect.order)


def _make_services(process: str, rows: Iterable[tuple[str, bool, str]], peer: str, dialect: Dialect) -> BusMessage:
    types, args = "s", [process]
    for row in rows:
        types += dialect.service_types if row[1] else dialect.service_types.replace("T", "F")
        args += row[: len(dialect.service_types)]  # type: ignore[arg-type]
    return BusMessage(AT_ONCE, f"!{peer}/sv", types, tuple(args))


# Decoding. Raises: RemoteProtocolError.


def decode_discovery(data: bytes, dialect: Dialect) -> Discovery:
    """A datagram at a discovery port."""
    address, fields = _decode_shape(data, dialect.discovery, dialect)
    _check(address[1:] == f"{LOCAL_SERVICE}/dy", "no discovery message")
    discovery = Discovery(**fields)
    has_place = is_ip(discovery.ip) and _is_port(discovery.tcp_port) and _is_port(discovery.discovery_port)
    _check(has_place, "discovery without a valid address")
    _check(_is_text(discovery.app, MAX_ENSEMBLE_NAME), "discovery without a valid ensemble")
    return discovery


def decode_init(data: bytes, dialect: Dialect) -> Init:
    """The first message of a link. All later ones have its byte order."""
    address, fields = _decode_shape(data, dialect.init, dialect)
    is_init = address == dialect.get_init_address("") if dialect.inits_local_service else address.endswith("/in")
    _check(address[0] == "!" and is_init, "no init message")
    init = Init(**{**fields, "is_synced": fields["is_synced"] != 0})
    _check(is_ip(init.ip) and _is_port(init.tcp_port) and _is_port(init.udp_port), "init without a valid address")
    return init


def decode_control(message: BusMessage, dialect: Dialect) -> Control | None:
    """Any later message to _cs, _o2 or the name of the process. None for an unknown path, which is not an error."""
    service, _, path = message.address[1:].partition("/")
    match path:
        case "sv":
            return _decode_services(message, dialect)
        case "sd" if not dialect.removes_by_services:
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
    types = message.types.replace("F", "T").replace("B", "T")  # libo2 sends T at first, and B later
    _check(types == "s" + dialect.service_types * count, "services in another form")
    process, *rest = message.args
    defaults: Sequence[Any] = (True, "")[width - 1 :]  # if the dialect does not have them
    is_offered: dict[str, bool] = {}
    for at in range(0, len(rest), width):
        name, is_there, tappee = [*rest[at : at + width], *defaults]
        _check(is_name(name) and (not tappee or is_name(tappee)), f"a service of the name {name[:40]!r}")
        if not tappee:  # a tap gets copies of messages to another service; gandy has none, and ignores them
            is_offered[name] = is_there  # if a name comes twice, the last one counts
    _check(is_process(process), f"services of {process[:40]!r}")
    added = [name for name, is_there in is_offered.items() if is_there]
    removed = [name for name, is_there in is_offered.items() if not is_there]
    return Services(process, tuple(added), tuple(removed))


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
    """True for a valid name of a service."""
    return _is_text(name, MAX_SERVICE_NAME) and "/" not in name


def is_process(name: str) -> bool:
    """True for a name such as 127.0.0.1:39361."""
    ip, _, port = name.partition(":")
    return is_ip(ip) and _is_number(port, 5) and _is_port(int(port))


def _is_text(text: str, limit: int) -> bool:
    return text.isprintable() and 0 < len(text.encode()) <= limit


def is_ip(ip: str) -> bool:
    parts = ip.split(".", 4)
    return len(parts) == 4 and all(_is_number(part, 3) and int(part) < 256 for part in parts)


def _is_number(text: str, digits: int) -> bool:
    """In its shortest form: names are compared as text."""
    return len(text) <= digits and text.isascii() and text.isdecimal() and (text[0] != "0" or text == "0")


def _is_port(port: int) -> bool:
    return 0 < port < 0x10000
