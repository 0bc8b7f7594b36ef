"""Who else is there: discovery messages, links, and the state of each process in the seed's order.

What is said over a link after its first message is not understood here: whoever owns the links reacts to it.
"""

from collections import Counter, deque
from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple

from gandy.bus.core.discovery import LOCALHOST
from gandy.bus.core.effects import Connect, Cut, Datagram, Effect
from gandy.bus.core.processes import MAX_PROCESSES, Link, Process, ProcessState
from gandy.bus.wire.control import Discovery, Init, decode_discovery, decode_init, encode_discovery
from gandy.bus.wire.dialects import Dialect
from gandy.bus.wire.messages import MAX_BUS_MESSAGE, Order
from gandy.errors import RemoteProtocolError

MAX_CONNECTING: Final = 64  # connections that are being made: whoever announces thousands only wants us to try them
MAX_STRANGERS: Final = 256  # links that have not said yet who they are
PATIENCE: Final = 5.0  # seconds for a connection to be made, and for its first message
MAX_INIT: Final = 4096  # bytes of that message
MAX_DISCOVERY: Final = 512  # bytes; no right one is longer
CACHED_DISCOVERIES: Final = 1024  # the same few come again and again


_recall: Final = lru_cache(CACHED_DISCOVERIES)(decode_discovery)


class Place(NamedTuple):
    """Where a member is."""

    ip: str
    tcp_port: int
    udp_port: int
    discovery_port: int

    @property
    def name(self) -> str:
        return f"{self.ip}:{self.tcp_port}"


class Reactions(NamedTuple):
    """What the owner does."""

    greet: Callable[[Process, float], None]  # say who we are: the link is there
    on_found: Callable[[Process], None]  # it has said who it is
    repeat: Callable[[bytes, Order], bool]  # whether it went where one like it went before
    on_message: Callable[[bytes, Order, Process, float], None]  # else; raises: RemoteProtocolError
    on_lost: Callable[[Process, float], None]  # one that was found


class Links:
    """All of them, and the processes at their other ends."""

    def __init__(
        self,
        app: str,
        dialect: Dialect,
        place: Place,
        effects: deque[Effect],
        dropped: Counter[str],
        reactions: Reactions,
    ) -> None:
        self.processes: dict[str, Process] = {}
        discovery = Discovery(app, place.ip, place.tcp_port, place.discovery_port, order=dialect.order)
        self.discovery = encode_discovery(discovery, dialect)  # what we say of ourselves
        self._app = app
        self._dialect = dialect
        self._name = place.name
        self._effects = effects
        self._dropped = dropped
        self._react = reactions
        self._links: dict[int, Link] = {}
        self._waiting: dict[int, Link] = {}  # those whose first message has not come; the oldest first
        self.foreign: set[str] = set()  # processes that do not send in the order of the dialect
        self._next = 0

    def list_greeted(self) -> list[Process]:
        """All who know who we are. What we tell, we tell them: they may not have answered yet."""
        return [process for process in self.processes.values() if process.state >= ProcessState.CONNECTED]

    # Discovery

    def on_discovery(self, data: bytes, ip: str, now: float) -> None:
        """Seed 004: other ensembles, ourselves and those that we know are ignored; one of two connects.

        Raises: RemoteProtocolError.
        """
        said = _recall(data, self._dialect) if len(data) <= MAX_DISCOVERY else decode_discovery(data, self._dialect)
        if said.app != self._app or said.process == self._name or said.process in self.processes:
            return
        if said.ip == LOCALHOST != ip:  # the name of another process, on this machine, or of nobody
            self._dropped["discovery of a place elsewhere"] += 1
        elif self._dialect.connects(self._name, said.process):
            self._connect(said, now)
        else:
            self._effects.append(Datagram(said.ip, said.discovery_port, self.discovery))

    def _connect(self, said: Discovery, now: float) -> None:
        connecting = sum(1 for link in self._waiting.values() if link.process is not None)
        if connecting >= MAX_CONNECTING or len(self.processes) >= MAX_PROCESSES:
            self._dropped["too many processes"] += 1  # they will announce themselves again
            return
        process = self.processes[said.process] = Process(said.process, said.ip, said.tcp_port, now)
        link = self._add(now, process)
        process.move(ProcessState.CONNECTING, now)
        self._effects.append(Connect(link.number, said.ip, said.tcp_port))

    def guess_order(self, ip: str) -> Order:
        """A datagram does not tell: in 2016 it is the order of whoever is there, if they all have the same."""
        orders = {process.order for process in self.processes.values() if process.ip == ip}
        return orders.pop() if len(orders) == 1 else self._dialect.order

    # Links

    def on_accept(self, now: float) -> int:
        """Where there are too many, the one that has waited longest goes: who means well needs no time at all."""
        strangers = [link.number for link in self._waiting.values() if link.process is None]
        if len(strangers) >= MAX_STRANGERS:
            self._dropped["too many connections"] += 1
            self._cut(strangers[0], now)
        return self._add(now).number

    def _add(self, now: float, process: Process | None = None) -> Link:
        self._next += 1
        link = self._links[self._next] = self._waiting[self._next] = Link(self._next, MAX_INIT, now, process)
        if process is not None:
            process.link = link.number
        return link

    def on_connected(self, number: int, now: float) -> None:
        link = self._links.get(number)
        if link is not None and link.process is not None and link.process.state is ProcessState.CONNECTING:
            link.process.move(ProcessState.CONNECTED, now)
            self._react.greet(link.process, now)

    def on_data(self, number: int, data: bytes, now: float) -> bool:
        """Whether all went where others like it went before. Never raises: whoever makes no sense is cut."""
        link = self._links.get(number)
        if link is None:
            return True
        are_known = True
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
                are_known = False
        except RemoteProtocolError:
            self._dropped["nonsense"] += 1
            self._cut(number, now)
            are_known = False
        return are_known

    def _on_init(self, link: Link, init: Init, now: float) -> None:
        is_accepted = link.process is None
        process = self._identify(link, init, now)
        if process is None:
            self._dropped["init of somebody else"] += 1
            self._cut(link.number, now)
            return
        process.udp_port, process.order = init.udp_port, init.order
        if init.order != self._dialect.order:
            self.foreign.add(process.name)
        del self._waiting[link.number]
        link.framer.limit = MAX_BUS_MESSAGE
        process.move(ProcessState.OK if init.is_synced else ProcessState.NO_CLOCK, now)
        self._react.on_found(process)
        if is_accepted:
            self._react.greet(process, now)

    def _identify(self, link: Link, init: Init, now: float) -> Process | None:
        """The process at the other end; None where it cannot be."""
        if link.process is not None:
            return link.process if link.process.name == init.process else None
        before = self.processes.get(init.process)
        if before is not None and not self._dialect.connects(self._name, init.process):
            self._cut(before.link, now)  # it comes again, and we have not noticed that it went
        if init.process == self._name or init.process in self.processes or len(self.processes) >= MAX_PROCESSES:
            return None
        process = self.processes[init.process] = Process(init.process, init.ip, init.tcp_port, now)
        process.link, link.process = link.number, process
        return process

    def on_cut(self, number: int, now: float) -> None:
        """A link ended, or was never made. Discovery goes on, so whoever it was may come back."""
        link = self._links.pop(number, None)
        self._waiting.pop(number, None)
        if link is not None and link.process is not None:
            process = self.processes.pop(link.process.name)
            self.foreign.discard(process.name)
            if process.is_here:
                self._react.on_lost(process, now)

    def _cut(self, number: int, now: float) -> None:
        self._effects.append(Cut(number))
        self.on_cut(number, now)

    def next_deadline(self) -> float:
        return next((link.since + PATIENCE for link in self._waiting.values()), inf)

    def on_time(self, now: float) -> None:
        while self.next_deadline() <= now:
            self._cut(next(iter(self._waiting)), now)

    def close(self) -> None:
        self._effects.extend(map(Cut, self._links))
        self._links.clear()
        self._waiting.clear()
        self.foreign.clear()
        self.processes.clear()
