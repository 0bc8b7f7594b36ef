"""When and where a member announces itself: docs/protocol/bus.md, rules 3 and 4."""

from collections.abc import Iterator, Sequence
from typing import Final

from gandy.bus.core.effects import Broadcast, Datagram
from gandy.bus.wire.dialects import DISCOVERY_INTERVAL, LOCAL_SERVICE, Dialect, grow_interval
from gandy.moments import Monotonic

LOCALHOST: Final = "127.0.0.1"

_ADDRESS: Final = f"!{LOCAL_SERVICE}/dy\0".encode()
_PLACE: Final = slice(8, 8 + len(_ADDRESS))  # of the address in a message
FIRST_MESSAGES: Final = 10  # two for each of five ports, of which one may be lost


def is_discovery(data: bytes) -> bool:
    """True for a discovery message; the rest of it is not checked."""
    return data[_PLACE] == _ADDRESS


def meeting_time(dialect: Dialect) -> float:
    """Seconds until a new process and an old one have met."""
    return sending_time(max(FIRST_MESSAGES, len(dialect.ports)))


def sending_time(messages: int = FIRST_MESSAGES) -> float:
    """Seconds that a process takes for its first discovery messages."""
    total, interval = 0.0, DISCOVERY_INTERVAL
    for _ in range(messages):
        total, interval = total + interval, grow_interval(interval)
    return total


class Announcer:
    """Sends the same message again and again, to one port at a time."""

    def __init__(
        self, dialect: Dialect, own_port: int, has_network: bool, peers: Sequence[str], now: Monotonic
    ) -> None:
        """`peers`: hosts that broadcasts do not reach."""
        self._ports = dialect.list_targets(own_port)
        # Once to the other ports, too: else we find an old process at a later port only by its own messages, which come
        # to each port once a minute.
        self._first = self._ports + tuple([port for port in dialect.ports if port not in self._ports])
        self._own_port = own_port
        self._has_network = has_network
        self._peers = tuple(peers)
        self._count = 0
        self._interval = DISCOVERY_INTERVAL
        self.due = now

    def on_time(self, data: bytes, now: Monotonic) -> Iterator[Datagram | Broadcast]:
        """The messages to send now."""
        if now < self.due:
            return
        ports = self._first if self._count < len(self._first) else self._ports
        port = ports[self._count % len(ports)]
        self._count += 1
        self.due = now + self._interval
        self._interval = grow_interval(self._interval)
        if self._has_network:
            yield Broadcast(port, data)
        for peer in self._peers:
            yield Datagram(peer, port, data)
        if port != self._own_port:
            yield Datagram(LOCALHOST, port, data)
