"""The other processes: discovery messages, links to them, and the state of each (docs/protocol/bus.md, rules 6 to 10).

It decodes only the first message of a link, and passes all later ones to the owner of the links.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.core.effects import Connect, Cut, Datagram, MemberOutput
from gandy.bus.core.processes import PeerLink, Process, ProcessState
from gandy.bus.limits import (
    MAX_BUS_MESSAGE,
    MAX_CONNECTING,
    MAX_DISCOVERY_BYTES,
    MAX_INIT_BYTES,
    MAX_PROCESSES,
    MAX_STRANGERS,
)
from gandy.bus.wire.control import Discovery, Init, decode_discovery, decode_init, encode_discovery
from gandy.bus.wire.dialects import Dialect
from gandy.bus.wire.messages import Order
from gandy.errors import RemoteProtocolError
from gandy.moments import NEVER, Monotonic

PATIENCE: Final = 5.0  # seconds for a connection to be made, and for its first message
CACHED_DISCOVERIES: Final = 1024  # processes repeat the same message


_decode_cached: Final = lru_cache(CACHED_DISCOVERIES)(decode_discovery)


class Endpoints(NamedTuple):
    """Where other processes reach a member."""

    ip: str
    tcp_port: int
    udp_port: int
    discovery_port: int

    @property
    def name(self) -> str:
        """The name of the process: docs/protocol/bus.md, rule 1."""
        return f"{self.ip}:{self.tcp_port}"


class Reactions(NamedTuple):
    """How the owner of the links reacts."""

    greet: Callable[[Process, Monotonic], None]  # to a new link: send our init message and our services
    on_found: Callable[[Process], None]  # to the peer's init message
    repeat: Callable[[bytes, Order], bool]  # to a message whose head is known; False if it is not
    on_message: Callable[[bytes, Order, Process, Monotonic], None]  # to any other message; raises: RemoteProtocolError
    on_lost: Callable[[Process, Monotonic], None]  # to the end of a link whose init message had come


class Links:
    """All links of a member, and the processes at their other ends."""

    def __init__(
        self, app: str, dialect: Dialect, place: Endpoints, output: MemberOutput, reactions: Reactions
    ) -> None:
        self.processes: dict[str, Process] = {}
        self.foreign: set[str] = set()  # processes whose byte order is not that of the dialect
        discovery = Discovery(app, place.ip, place.tcp_port, place.discovery_port, order=dialect.order)
        self.discovery = encode_discovery(discovery, dialect)  # our own message
        self._app = app
        self._dialect = dialect
        self._name = place.name
        self._output = output
        self._react = reactions
        self._links: dict[int, PeerLink] = {}
        self._waiting: dict[int, PeerLink] = {}  # for their first message; the oldest first
        self._next = 0

    def list_greeted(self) -> list[Process]:
        """All processes to which we sent our init message. Announcements go to them, even if theirs has not come."""
        return [process for process in self.processes.values() if process.state >= ProcessState.CONNECTED]

    def write(self, process: Process, message: bytes) -> None:
        self._output.write(process.link, message)

    # Discovery

    def on_discovery(self, data: bytes, ip: str, now: Monotonic) -> None:
        """Connect to a new process, or send it our discovery message: docs/protocol/bus.md, rules 6 and 7.

        Raises: RemoteProtocolError.
        """
        decode = _decode_cached if len(data) <= MAX_DISCOVERY_BYTES else decode_discovery
        message = decode(data, self._dialect)
        if message.app != self._app or message.process == self._name or message.process in self.processes:
            return
        if message.ip == LOCALHOST != ip:  # another machine cannot have a process of this name
            self._output.dropped["discovery of a place elsewhere"] += 1
        elif self._dialect.connects(self._name, message.process):
            self._connect(message, now)
        else:
            self._output.effects.append(Datagram(message.ip, message.discovery_port, self.discovery))

    def _connect(self, message: Discovery, now: Monotonic) -> None:
        connecting = sum(1 for link in self._waiting.values() if link.process is not None)
        if connecting >= MAX_CONNECTING or len(self.processes) >= MAX_PROCESSES:
            self._output.dropped["too many processes"] += 1  # the process will announce itself again
            return
        process = self.processes[message.process] = Process(message.process, message.ip)
        link = self._add(now, process)
        process.move(ProcessState.CONNECTING)
        self._output.effects.append(Connect(link.number, message.ip, message.tcp_port))

    def guess_order(self, ip: str) -> Order:
        """The byte order of a 2016 datagram: that of the processes at this IP, if they agree."""
        orders = {process.order for process in self.processes.values() if process.ip == ip}
        return orders.pop() if len(orders) == 1 else self._dialect.order

    # Links

    def on_accept(self, now: Monotonic) -> int:
        """A peer connected to us. Returns the number of its link.

        If too many links have not identified themselves, the oldest is cut: honest processes do so at once.
        """
        strangers = [link.number for link in self._waiting.values() if link.process is None]
        if len(strangers) >= MAX_STRANGERS:
            self._output.dropped["too many connections"] += 1
            self._cut(strangers[0], now)
        return self._add(now).number

    def _add(self, now: Monotonic, process: Process | None = None) -> PeerLink:
        self._next += 1
        link = self._links[self._next] = self._waiting[self._next] = PeerLink(self._next, MAX_INIT_BYTES, now, process)
        if process is not None:
            process.link = link.number
        return link

    def on_connected(self, number: int, now: Monotonic) -> None:
        """Our connection to a process was made."""
        link = self._links.get(number)
        if link is not None and link.process is not None and link.process.state is ProcessState.CONNECTING:
            link.process.move(ProcessState.CONNECTED)
            self._react.greet(link.process, now)

    def on_data(self, number: int, data: bytes, now: Monotonic) -> bool:
        """True if the bytes caused nothing but deliveries. Never raises: invalid bytes cut the link."""
        link = self._links.get(number)
        if link is None:
            return True
        only_deliveries = True
        try:
            link.framer.receive_data(data)
            while number in self._links and (message := link.framer.next_message()) is not None:
                process = link.process
                if process is None or not process.is_here:
                    self._on_init(link, decode_init(message, self._dialect), now)
                elif self._react.repeat(message, process.order):
                    continue
                else:
                    self._react.on_message(message, process.order, process, now)
                only_deliveries = False
        except RemoteProtocolError:
            self._output.dropped["nonsense"] += 1
            self._cut(number, now)
            only_deliveries = False
        return only_deliveries

    def _on_init(self, link: PeerLink, init: Init, now: Monotonic) -> None:
        is_accepted = link.process is None
        process = self._identify(link, init, now)
        if process is None:
            self._output.dropped["init of another process"] += 1
            self._cut(link.number, now)
            return
        process.udp_port, process.order = init.udp_port, init.order
        if init.order != self._dialect.order:
            self.foreign.add(process.name)
        del self._waiting[link.number]
        link.framer.limit = MAX_BUS_MESSAGE
        process.move(ProcessState.OK if init.is_synced else ProcessState.NO_CLOCK)
        self._react.on_found(process)
        if is_accepted:
            self._react.greet(process, now)

    def _identify(self, link: PeerLink, init: Init, now: Monotonic) -> Process | None:
        """The process at the other end; None if it cannot be the one that it claims to be."""
        if link.process is not None:
            return link.process if link.process.name == init.process else None
        before = self.processes.get(init.process)
        if before is not None and not self._dialect.connects(self._name, init.process):
            self._cut(before.link, now)  # the process came back before we noticed that it had gone
        if init.process == self._name or init.process in self.processes or len(self.processes) >= MAX_PROCESSES:
            return None
        process = self.processes[init.process] = Process(init.process, init.ip)
        process.link, link.process = link.number, process
        return process

    def on_cut(self, number: int, now: Monotonic) -> None:
        """A link ended, or was never made. Discovery goes on, so its process may come back."""
        link = self._links.pop(number, None)
        self._waiting.pop(number, None)
        if link is not None and link.process is not None:
            process = self.processes.pop(link.process.name)
            self.foreign.discard(process.name)
            if process.is_here:
                self._react.on_lost(process, now)

    def _cut(self, number: int, now: Monotonic) -> None:
        self._output.effects.append(Cut(number))
        self.on_cut(number, now)

    def next_deadline(self) -> Monotonic:
        return next((link.since + PATIENCE for link in self._waiting.values()), NEVER)

    def on_time(self, now: Monotonic) -> None:
        while self.next_deadline() <= now:
            self._cut(next(iter(self._waiting)), now)

    def close(self) -> None:
        self._output.effects.extend(map(Cut, self._links))
        self._links.clear()
        self._waiting.clear()
        self.foreign.clear()
        self.processes.clear()
