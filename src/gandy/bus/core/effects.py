"""What a member of an ensemble wants done, and what it tells. Data only."""

from msgspec import Struct


class Datagram(Struct, frozen=True, gc=False):
    """Send this by UDP."""

    ip: str
    port: int
    data: bytes


class Broadcast(Struct, frozen=True):
    """Send this by UDP to everybody on the local network."""

    port: int
    data: bytes


class Connect(Struct, frozen=True):
    """Make a TCP connection, and tell `on_connected` or `on_cut` about it."""

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
    """A process is part of the ensemble, as far as we see."""

    process: str


class ProcessLost(Struct, frozen=True):
    process: str


class ServiceFound(Struct, frozen=True):
    """Messages to this service go to this process from now on."""

    service: str
    process: str


class ServiceLost(Struct, frozen=True):
    """Nobody offers it any more."""

    service: str


class ClockFound(Struct, frozen=True):
    """We know the shared time."""

    leader: str


class ClockLost(Struct, frozen=True):
    """Nobody tells the shared time any more; ours goes on by itself."""

    leader: str


class ClockChanged(Struct, frozen=True):
    """The shared time leapt. Back (`seconds` is negative): whatever waited for a time was dropped."""

    leader: str
    seconds: float


News = ProcessFound | ProcessLost | ServiceFound | ServiceLost | ClockFound | ClockLost | ClockChanged
