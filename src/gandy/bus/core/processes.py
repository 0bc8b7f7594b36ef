"""Records of the processes of an ensemble and of the services that they offer. It sends nothing.

docs/protocol/bus.md, rule 12: of several processes that offer a service, the one with the greatest name has it. So all
members agree, whatever the order in which they received the offers, and need not ask one another.
"""

from collections.abc import Iterator
from enum import IntEnum

from gandy.bus.wire.messages import Framer, Order
from gandy.moments import Monotonic


class ProcessState(IntEnum):
    """The states of docs/protocol/bus.md, rule 10, in order."""

    DISCOVERED = 1
    CONNECTING = 2
    CONNECTED = 3
    NO_CLOCK = 4
    OK = 5


class Status(IntEnum):
    """How a service can be reached, with the original's numbers: docs/protocol/bus.md, rule 13."""

    UNKNOWN = -1
    LOCAL_NOTIME = 0
    REMOTE_NOTIME = 1
    BRIDGE_NOTIME = 2
    TO_OSC_NOTIME = 3
    LOCAL = 4
    REMOTE = 5
    BRIDGE = 6
    TO_OSC = 7


class Process:
    """Another process of the ensemble, as this member knows it."""

    def __init__(self, name: str, ip: str) -> None:
        self.name = name
        self.ip = ip
        self.udp_port = 0  # until its init message
        self.order: Order = "<"  # byte order of what it sends
        self.state = ProcessState.DISCOVERED
        self.is_here = False  # we have received its init message
        self.link = 0
        self.services: dict[str, None] = {}  # in the order of its announcements, so that simulations are repeatable
        self.knows_our_state = False  # we have announced to it that we know the time

    def move(self, state: ProcessState) -> None:
        self.state = state
        self.is_here = state >= ProcessState.NO_CLOCK


class PeerLink:
    """A TCP connection. `process` is None until an accepted one has identified itself."""

    def __init__(self, number: int, limit: int, now: Monotonic, process: Process | None = None) -> None:
        self.number = number
        self.framer = Framer(limit)
        self.since = now
        self.process = process


class Providers:
    """The processes that offer each service."""

    def __init__(self) -> None:
        self._providers: dict[str, list[str]] = {}  # by service; the greatest name is last

    def find(self, service: str) -> str | None:
        """The process that has the service."""
        providers = self._providers.get(service)
        return None if providers is None else providers[-1]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter([(service, providers[-1]) for service, providers in self._providers.items()])

    def add(self, service: str, process: str) -> bool:
        """True if another process has the service now."""
        before = self.find(service)
        providers = self._providers.setdefault(service, [])
        if process not in providers:
            providers.append(process)
            providers.sort(key=str.encode)
        return self.find(service) != before

    def remove(self, service: str, process: str) -> bool:
        """True if another process, or none, has the service now."""
        before = self.find(service)
        providers = self._providers.get(service, [])
        if process in providers:
            providers.remove(process)
            if not providers:
                del self._providers[service]
        return self.find(service) != before
