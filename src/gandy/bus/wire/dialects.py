"""What the generations of the bus do differently on the wire, in one table. Nothing else asks which one it is.

The seed describes 2016. 1.0 is of 2017; 1.1 is of 2019, and is what Debian has as libo2. They do not understand one
another.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from gandy.bus.wire.values import Order

DialectName = Literal["2016", "1.0", "1.1"]

# Seconds between two discovery messages, at first and at most, and how they grow. (2016 really begins with 0.133.)
DISCOVERY_INTERVAL: Final = 0.33
MAX_DISCOVERY_INTERVAL: Final = 4.0
DISCOVERY_GROWTH: Final = 1.1

# What each process has, and nobody announces.
LOCAL_SERVICE: Final = "_o2"
CLOCK_SERVICE: Final = "_cs"


class Shape(NamedTuple):
    """Arguments of a control message: their types, and what they are called."""

    types: str
    fields: tuple[str, ...]


class Dialect(NamedTuple):
    """One generation."""

    name: DialectName
    order: Order  # of all that we send; in 2016 it may be either, but most programs understand only this one
    ports: tuple[int, ...]  # of discovery; a process takes the first one that is free
    sends_to_all_ports: bool  # else only to those up to its own
    higher_connects: bool  # to the lower name; else the lower to the higher
    inits_local_service: bool  # init is for !_o2/in, and for nothing else; else for !<peer>/in, and both are read
    discovery: Shape  # with "order", numbers are in the sender's own order, and so is all that it sends
    init: Shape
    service_types: str  # of each service in /sv: name, whether it is there, what it taps
    announces_itself: bool  # the first /sv has the process's own name among its services
    tells_removal_in_services: bool  # in /sv, by F; else in /sd of the seed, which its programs do not read
    reads_sync_of_init: bool  # else whoever connects must tell its clock by /cs/cs as well

    @property
    def tells_taps(self) -> bool:
        return len(self.service_types) == 3

    def connects(self, ours: str, theirs: str) -> bool:
        """Whether we connect to them; else they do to us."""
        return ours > theirs if self.higher_connects else ours < theirs

    def list_targets(self, own_port: int) -> tuple[int, ...]:
        """Ports that discovery messages go to, in turn, by whoever listens at this one."""
        if self.sends_to_all_ports:
            return self.ports[1:] + self.ports[:1]  # the original begins with the second
        return self.ports[: self.ports.index(own_port) + 1]

    def get_init_address(self, peer: str) -> str:
        return f"!{LOCAL_SERVICE if self.inits_local_service else peer}/in"


def grow_interval(interval: float) -> float:
    """Seconds to the next discovery message but one."""
    return min(interval * DISCOVERY_GROWTH, MAX_DISCOVERY_INTERVAL)


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
    tells_removal_in_services=False,
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
    tells_removal_in_services=True,
    reads_sync_of_init=True,
)
_D11: Final = _D10._replace(
    name="1.1",
    discovery=Shape("issii", ("is_hub", "app", "ip", "tcp_port", "discovery_port")),
    init=Shape("siiii", ("ip", "tcp_port", "udp_port", "is_synced", "is_hub")),
    service_types="sTs",
)

DIALECTS: Final[Mapping[DialectName, Dialect]] = {dialect.name: dialect for dialect in (_D2016, _D10, _D11)}
