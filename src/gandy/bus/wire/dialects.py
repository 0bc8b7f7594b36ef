"""How the generations of the bus differ on the wire, in one table. No other module compares their names.

docs/protocol/bus.md describes 2016. 1.0 is of 2017; 1.1 is of 2019, and is Debian's libo2. They do not understand one
another.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from gandy.bus.wire.values import Order

DialectName = Literal["2016", "1.0", "1.1"]

# Seconds between two discovery messages, at first and at most, and how they grow. (The 2016 program begins with 0.133.)
DISCOVERY_INTERVAL: Final = 0.33
LONGEST_DISCOVERY_INTERVAL: Final = 4.0
DISCOVERY_GROWTH: Final = 1.1

# Every process has the first; the leader of the clock offers the second.
LOCAL_SERVICE: Final = "_o2"
CLOCK_SERVICE: Final = "_cs"


class Shape(NamedTuple):
    """The arguments of a control message: their types and names."""

    types: str
    fields: tuple[str, ...]


class Dialect(NamedTuple):
    """One generation."""

    name: DialectName
    order: Order  # byte order of all that we send; 2016 allows either, but most programs understand only this one
    ports: tuple[int, ...]  # of discovery; a process takes the first free one
    sends_to_all_ports: bool  # else only to those up to its own
    higher_connects: bool  # to the lower name; else the lower to the higher
    inits_local_service: bool  # init goes to !_o2/in only; else to !<peer>/in, and both are read
    discovery: Shape  # its field "order" says in which byte order the sender sends everything
    init: Shape
    service_types: str  # for each service in /sv: its name, whether it is offered, and which service it taps
    announces_itself: bool  # the first /sv has the process's own name among its services
    removes_by_services: bool  # in /sv, by F; else by /sd, which the original documents but does not read
    reads_sync_of_init: bool  # else the process that connects must send /cs/cs as well

    def connects(self, ours: str, theirs: str) -> bool:
        """True if we connect to them; else they connect to us."""
        return ours > theirs if self.higher_connects else ours < theirs

    def list_targets(self, own_port: int) -> tuple[int, ...]:
        """The ports to which a process at this one sends discovery messages, in turn."""
        if self.sends_to_all_ports:
            return self.ports[1:] + self.ports[:1]  # the original begins with the second port
        return self.ports[: self.ports.index(own_port) + 1]

    def get_init_address(self, peer: str) -> str:
        return f"!{LOCAL_SERVICE if self.inits_local_service else peer}/in"


def grow_interval(interval: float) -> float:
    """Seconds between the next two discovery messages."""
    return min(interval * DISCOVERY_GROWTH, LONGEST_DISCOVERY_INTERVAL)


_D2016: Final = Dialect(
    name="2016",
    order="<",
    ports=(53472, 54859, 55764, 60238, 62711),
    sends_to_all_ports=True,
    higher_connects=True,
    inits_local_service=False,
    discovery=Shape("sssii", ("order", "app", "ip", "tcp_port", "discovery_port")),
    init=Shape("ssiii", ("order", "ip", "tcp_port", "udp_port", "is_synced")),
    service_types="s",
    announces_itself=False,
    removes_by_services=False,
    reads_sync_of_init=False,
)
_D10: Final = Dialect(
    name="1.0",
    order=">",
    ports=(
        *(64541, 60238, 57143, 55764, 56975, 62711, 57571, 53472),
        *(51779, 63714, 53304, 61696, 50665, 49404, 64828, 54859),
    ),
    sends_to_all_ports=False,
    higher_connects=False,
    inits_local_service=True,
    discovery=Shape("ssii", ("app", "ip", "tcp_port", "discovery_port")),
    init=Shape("siii", ("ip", "tcp_port", "udp_port", "is_synced")),
    service_types="sT",
    announces_itself=True,
    removes_by_services=True,
    reads_sync_of_init=True,
)
_D11: Final = _D10._replace(
    name="1.1",
    discovery=Shape("issii", ("is_hub", "app", "ip", "tcp_port", "discovery_port")),
    init=Shape("siiii", ("ip", "tcp_port", "udp_port", "is_synced", "is_hub")),
    service_types="sTs",
)

DIALECTS: Final[Mapping[DialectName, Dialect]] = {dialect.name: dialect for dialect in (_D2016, _D10, _D11)}
