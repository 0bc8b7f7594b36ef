"""What a member of an ensemble produces: effects for its engine to perform, and news for its program. Data only."""

from collections import Counter, deque

from msgspec import Struct

from gandy.bus.wire.messages import frame


class Datagram(Struct, frozen=True, gc=False):
    """Send this by UDP."""

    ip: str
    port: int
    data: bytes


class Broadcast(Struct, frozen=True):
    """Send this by UDP to all hosts of the local network."""

    port: int
    data: bytes


class Connect(Struct, frozen=True):
    """Make a TCP connection, then call `on_connected` or `on_cut`."""

    link: int
    ip: str
    port: int


class Write(Struct, frozen=True, gc=False):
    """Send this over a link."""

    link: int
    data: bytes


class Cut(Struct, frozen=True):
    """Close a link. `on_cut` is not called for it."""

    link: int


Effect = Datagram | Broadcast | Connect | Write | Cut


class ProcessFound(Struct, frozen=True):
    """A process of the ensemble is connected to us."""

    process: str


class ProcessLost(Struct, frozen=True):
    process: str


class ServiceFound(Struct, frozen=True):
    """Messages to this service go to this process from now on."""

    service: str
    process: str


class ServiceLost(Struct, frozen=True):
    """No process offers it any more."""

    service: str


class ClockFound(Struct, frozen=True):
    """We know the shared time."""

    leader: str


class ClockLost(Struct, frozen=True):
    """The leader of the clock has gone; our clock goes on by itself."""

    leader: str


class ClockChanged(Struct, frozen=True):
    """The shared time jumped. Backward (`seconds` is negative): all timed messages that were waiting are dropped."""

    leader: str
    seconds: float


News = ProcessFound | ProcessLost | ServiceFound | ServiceLost | ClockFound | ClockLost | ClockChanged


class MemberOutput:
    """Everything that a member produces, except deliveries. `dropped`: how many messages it dropped, by reason."""

    def __init__(self) -> None:
        self.effects: deque[Effect] = deque()
        self.news: deque[News] = deque()
        self.dropped: Counter[str] = Counter()

    def write(self, link: int, message: bytes) -> None:
        self.effects.append(Write(link, frame(message)))
