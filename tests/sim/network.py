"""The network of a simulated crew: byte links that delay, tear, go dead in one direction and break.

It owns what is under way. An end notices a break late, and not at the same moment as the other.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Final, Protocol
from zlib import crc32

from msgspec import Struct

from gandy.talk.law import Role
from gandy.testing.link import Watcher
from gandy.testing.simulation import Simulation

KEEPALIVE: Final = 25.0  # seconds until the kernel notices a link that is dead in some direction
MAX_NOTICE: Final = 0.02  # seconds until an end notices a link that is broken in the ordinary way
RETRANSMISSION: Final = 0.2  # seconds until the kernel tries again to reach a machine that it is cut off from

Sites = tuple[str, str]  # the machines at both ends of a link: the peer's, the foreman's
ANYWHERE: Final = ("", "")


class LinkFaults(Struct, frozen=True):
    """What the network does. Times are in seconds, the others are chances from 0 to 1."""

    min_delay: float = 0.0002
    max_delay: float = 0.005
    tear: float = 0.3  # a packet arrives in two pieces
    cut: float = 0.0  # the link breaks when a packet arrives
    deaf: float = 0.0  # of a break, that the link goes dead in one or both directions without an error


class End(Protocol):
    """What is at either end of a link."""

    def receive_data(self, data: bytes) -> None: ...

    def on_cut(self) -> None: ...


class LinkOwner(Protocol):
    """A peer that has one link after another."""

    end: "LinkEnd | None"

    def on_data(self, data: bytes) -> None: ...

    def on_link_cut(self) -> None: ...


class LinkEnd:
    """The peer's end of one of its links. Data from an older link is ignored. Implements `End`."""

    def __init__(self, owner: LinkOwner) -> None:
        self._owner = owner
        self.wire: Wire

    def receive_data(self, data: bytes) -> None:
        if self._owner.end is self:
            self._owner.on_data(data)

    def on_cut(self) -> None:
        if self._owner.end is self:
            self._owner.end = None
            self._owner.on_link_cut()


class _Socket:
    """One end, and what it has written that has not arrived."""

    def __init__(self, end: End, role: Role, path: Sites) -> None:
        self.end = end
        self.role = role
        self.path = path  # from this machine to the other
        self.other: _Socket
        self.is_open = True
        self.data = bytearray()
        self.is_moving = False
        self.is_dead = False  # written bytes are lost


class Network:
    """Makes links. `transcript`, if there is one, gets a line for everything that arrives."""

    def __init__(self, simulation: Simulation, faults: LinkFaults) -> None:
        self.simulation = simulation
        self.faults = faults
        self.transcript: list[str] | None = None
        self.watch: Callable[[Wire], Iterable[Watcher]] = lambda _wire: ()  # makes the watchers of a v2 link
        self.cuts: set[tuple[str, str]] = set()  # machines from which nothing reaches another one
        self._count = 0
        self._counts: Counter[Sites] = Counter()  # of links between machines that have names

    def connect(self, peer: End, foreman: End, is_watched: bool = True, sites: Sites = ANYWHERE) -> "Wire":
        wire = Wire(self, self._choose_name(sites), peer, foreman, sites)
        if is_watched:
            wire.watchers = tuple(self.watch(wire))
        return wire

    def _choose_name(self, sites: Sites) -> str:
        if sites == ANYWHERE:
            self._count += 1
            return f"wire{self._count}"
        self._counts[sites] += 1
        return f"{sites[0]} to {sites[1]} {self._counts[sites]}"

    def note(self, text: str) -> None:
        if self.transcript is not None:
            self.transcript.append(f"{self.simulation.now:.9f} {text}")


class Wire:
    """One TCP connection between a peer and the foreman."""

    def __init__(self, network: Network, name: str, peer: End, foreman: End, sites: Sites = ANYWHERE) -> None:
        self.name = name
        self._network = network
        self._simulation = network.simulation
        self._random = Random(f"{network.simulation.seed} {name}")
        self.watchers: tuple[Watcher, ...] = ()
        self._peer = _Socket(peer, Role.WORKER, sites)
        self._foreman = _Socket(foreman, Role.FOREMAN, sites[::-1])
        self._peer.other, self._foreman.other = self._foreman, self._peer
        self.is_broken = False
        self.heard = network.simulation.now  # when the foreman got the last bytes
        self.epoch = 0  # of the foreman's lease, in a crew with many foremen

    def write_up(self, data: bytes) -> None:
        self._write(self._peer, data)

    def write_down(self, data: bytes) -> None:
        self._write(self._foreman, data)

    def _write(self, sender: _Socket, data: bytes) -> None:
        if not data or not sender.is_open or self.is_broken:
            return
        for watcher in self.watchers:
            watcher.on_sent(sender.role, data)
        if sender.is_dead:
            return
        sender.data += data
        if not sender.is_moving:
            self._move(sender)

    def _move(self, sender: _Socket) -> None:
        sender.is_moving = True
        faults = self._network.faults
        delay = faults.min_delay + (faults.max_delay - faults.min_delay) * self._random.random()
        self._simulation.call_later(delay, partial(self._arrive, sender))

    def _arrive(self, sender: _Socket) -> None:
        sender.is_moving = False
        if self.is_broken or sender.is_dead or not sender.other.is_open:
            return
        if sender.path in self._network.cuts:
            sender.is_moving = True
            self._simulation.call_later(RETRANSMISSION, partial(self._arrive, sender))
            return
        faults, chance = self._network.faults, self._random
        if faults.cut and chance.random() < faults.cut:
            self.fail()
            return
        count = len(sender.data)
        if chance.random() < faults.tear:
            count = chance.randint(1, count)
        data = bytes(sender.data[:count])
        del sender.data[:count]
        if sender.data:
            self._move(sender)
        self._deliver(sender, data)

    def _deliver(self, sender: _Socket, data: bytes) -> None:
        if sender is self._peer:
            self.heard = self._simulation.now
        if self._network.transcript is not None:
            self._network.note(f"{self.name} {sender.role.value} {len(data)} {crc32(data):08x}")
        for watcher in self.watchers:
            watcher.on_delivered(sender.role, data)
        sender.other.end.receive_data(data)

    def count_unread(self, by_foreman: bool) -> int:
        """Bytes that one end has written and the other one has not read."""
        socket = self._foreman if by_foreman else self._peer
        held: int = getattr(socket.other.end, "unread_bytes", 0)
        return len(socket.data) + held

    def notify_drained(self) -> None:
        """The peer has read everything: so the foreman's end may hear from its kernel."""
        drain = getattr(self._foreman.end, "on_drained", None)
        if drain is not None and not self._foreman.data:
            drain()

    def fail(self) -> None:
        """Break, or go dead in some direction so that only silence shows it."""
        if self._random.random() >= self._network.faults.deaf:
            self.cut()
            return
        up, down = self._peer, self._foreman
        for sender in self._random.choice(((up,), (down,), (up, down))):
            sender.is_dead = True
            sender.data.clear()
        self._simulation.call_later(KEEPALIVE, self.cut)

    def vanish(self, by_foreman: bool) -> None:
        """The machine of one end is gone without a word. The other end learns it from the kernel, much later."""
        socket = self._foreman if by_foreman else self._peer
        socket.is_open = False
        socket.is_dead = socket.other.is_dead = True
        self._hang_up_later(socket.other, KEEPALIVE)

    def cut(self) -> None:
        """What is in flight is lost. Each end notices a moment later."""
        if not self.is_broken:
            self.is_broken = True
            for socket in (self._peer, self._foreman):
                self._hang_up_later(socket, self._random.random() * MAX_NOTICE)

    def abort(self, by_foreman: bool) -> None:
        """One end gives the link up. The other end notices, unless the link is dead in that direction."""
        socket = self._foreman if by_foreman else self._peer
        if socket.is_open:
            socket.is_open = False
            self._simulation.call_later(0.0, socket.end.on_cut)
            self._hang_up_later(socket.other, KEEPALIVE if socket.is_dead else self._random.random() * MAX_NOTICE)

    def close(self, by_foreman: bool) -> None:
        """The same, behind what was written."""
        socket = self._foreman if by_foreman else self._peer
        if socket.data and not socket.is_dead and not self.is_broken and socket.other.is_open:
            self._simulation.call_later(self._network.faults.max_delay, lambda: self.close(by_foreman))
        else:
            self.abort(by_foreman)

    def _hang_up_later(self, socket: _Socket, delay: float) -> None:
        self._simulation.call_later(delay, partial(self._hang_up, socket))

    def _hang_up(self, socket: _Socket) -> None:
        if socket.is_open and socket.other.path in self._network.cuts:
            self._hang_up_later(socket, RETRANSMISSION)
        elif socket.is_open:
            socket.is_open = False
            socket.end.on_cut()
