"""Processes of a simulated crew, which run real asyncio code: they die in the middle of a step, stop, and reach others.

A process is killed, its machine dies without a word, or it is stopped for a while and does not notice.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

from tests.sim.actors import Actor
from tests.sim.network import End, Network, Wire
from tests.sim.process_loop import ProcessLoop

from gandy.config import Address, parse_address
from gandy.errors import LinkError, NothingListens
from gandy.testing.simulation import Simulation

CONNECT_SECONDS: Final = 1.0  # until a process stops waiting for a machine that does not answer
MAX_AGE: Final = 1e6  # seconds that a machine may have run

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Unreachable(Exception):
    """Nothing answers, as if the machine were not there."""


class Refused(Exception):
    """The machine is there, and says that nothing listens."""


class Listener(Protocol):
    """A process that accepts links."""

    name: str

    def check_reach(self, origin: str) -> None:
        """Raises: Unreachable, Refused."""

    def accept(self, origin: str, end: End, shard: int) -> Wire:
        """A link to a shard that runs here; without a number, to the one that clients talk to."""


class Surroundings(Protocol):
    """The crew, as its processes know it."""

    simulation: Simulation
    network: Network

    def find_listener(self, place: str) -> Listener: ...

    def on_bug(self, bug: BaseException | str) -> None: ...


class Process(Actor):
    """One machine with one process, one life after another. A life ends with `run`."""

    def __init__(self, crew: Surroundings, name: str) -> None:
        super().__init__(crew.simulation, name)
        self.surroundings = crew
        self.loop: ProcessLoop
        self.transports: set[Transport] = set()
        self.has_machine = True  # else not even its kernel answers
        self._is_doomed = False  # it dies in this step
        self._spared: dict[str, bool] = {}  # what still goes out in that step

    def start(self) -> None:
        self.life += 1
        self.is_up = self.has_machine = True
        self._is_doomed = False
        self._spared = {}
        age = self.random.uniform(-self.simulation.now, MAX_AGE)
        loop = self.loop = ProcessLoop(self.simulation, age, self.random, self.surroundings.on_bug)  # type: ignore[abstract]
        loop.after_step = self._after_step
        loop.perform(self._begin)

    def run(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError

    def check(self) -> None:
        """After each step."""

    def _begin(self) -> None:
        self._main = self.loop.create_task(self.run())
        self._main.add_done_callback(self._on_end)

    def _on_end(self, main: "asyncio.Task[None]") -> None:
        error = None if main.cancelled() else main.exception()
        life = self.life
        self.simulation.call_later(0.0, lambda: self.kill() if self.life == life else None)
        if error is not None:
            self.on_failure(error)

    def on_failure(self, error: BaseException) -> None:
        """`run` raised this."""
        self.surroundings.on_bug(error)

    def _after_step(self) -> None:
        if self._is_doomed:
            self._is_doomed = False
            self.kill()
        else:
            self.check()

    # The end

    def doom(self) -> None:
        """Die in the next step: some of what it writes in that step goes out, some does not."""
        if self.is_up and not self.loop.is_stopped:
            self._is_doomed = True
            self._spared = {}

    def may_send(self, peer: str) -> bool:
        if not self._is_doomed:
            return self.is_up
        if peer not in self._spared:
            # Not by our own stream: peers are written to in no particular order.
            self._spared[peer] = Random(f"{self.simulation.seed} {self.name} {self.life} {peer}").random() < 0.5
        return self._spared[peer]

    def kill(self, with_machine: bool = False) -> None:
        """It dies without a word. `with_machine`: nothing at its address says so."""
        if not self.is_up:
            return
        self.is_up = False
        self.has_machine = not with_machine
        self.loop.die()
        for transport in sorted(self.transports, key=lambda each: each.wire.name):
            if with_machine:
                transport.vanish()
            else:
                transport.die()
        self.transports.clear()

    def stop_for(self, seconds: float) -> None:
        """As by SIGSTOP and, later, SIGCONT."""
        loop = self.loop
        if self.is_up and not loop.is_stopped:
            loop.is_stopped = True
            self.simulation.call_later(seconds, loop.resume)


class Transport(asyncio.Transport):
    """One end of a link, in a process. Implements `network.End`."""

    def __init__(self, process: Process, peer: str, by_foreman: bool) -> None:
        super().__init__()
        self.process = process
        self.peer = peer
        self.protocol: asyncio.Protocol | None = None
        self.wire: Wire
        self._by_foreman = by_foreman
        self._loop = process.loop
        self._is_closing = False
        self._held: bytearray | None = None  # what has come while nothing is read
        process.transports.add(self)

    # The network

    def receive_data(self, data: bytes) -> None:
        self._loop.perform(self._receive, data)

    def _receive(self, data: bytes) -> None:
        if self._held is not None:
            self._held += data
        elif self.protocol is not None and not self._is_closing:
            self.protocol.data_received(data)

    def on_cut(self) -> None:
        self._loop.perform(self._on_cut)

    def _on_cut(self) -> None:
        self._is_closing = True
        self.process.transports.discard(self)
        protocol, self.protocol = self.protocol, None
        if protocol is not None:
            protocol.connection_lost(None)

    def vanish(self) -> None:
        self.wire.vanish(self._by_foreman)

    def die(self) -> None:
        """The kernel closes what a dead process had open."""
        self.wire.abort(self._by_foreman)

    # The process

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._loop.is_alive and not self._is_closing and self.process.may_send(self.wire.name):
            write = self.wire.write_down if self._by_foreman else self.wire.write_up
            write(bytes(data))

    def close(self) -> None:
        if self._loop.is_alive and not self._is_closing:
            self._is_closing = True
            self.wire.close(self._by_foreman)

    def abort(self) -> None:
        if self._loop.is_alive:
            self._is_closing = True
            self.wire.abort(self._by_foreman)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self.wire.count_unread(self._by_foreman)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer, 1) if name == "peername" else default

    def pause_reading(self) -> None:
        if self._held is None:
            self._held = bytearray()

    def resume_reading(self) -> None:
        held, self._held = self._held, None
        if held:
            self._loop.call_soon(self._receive, bytes(held))

    def on_drained(self) -> None:
        if self.protocol is not None:
            self._loop.perform(self.protocol.resume_writing)

    @property
    def unread_bytes(self) -> int:
        return len(self._held or b"")


class SimReach:
    """How a process reaches foremen. Stands for `reach.Reach`."""

    keys: Final = object()  # that it has some

    def __init__(self, process: Process, places: tuple[Address, ...]) -> None:
        self._process = process
        self.places = places

    def add_places(self, places: Iterable[str]) -> "SimReach":
        return SimReach(self._process, (*self.places, *map(parse_address, places)))

    def remember_foremen(self, foremen: Iterable[Iterable[str]], now: float) -> None:
        pass

    async def dial(self, make: Callable[[Address], P]) -> P:
        return await self.dial_shard(0, self.places, make)

    async def dial_shard(self, shard: int, places: tuple[Address, ...], make: Callable[[Address], P]) -> P:
        """Raises: LinkError, NothingListens."""
        problems: list[LinkError] = []
        for place in places:
            try:
                return await self._try(shard, place, make)
            except LinkError as error:
                problems.append(error)
        if problems and all(isinstance(each, NothingListens) for each in problems):
            raise problems[0]
        raise LinkError("no foreman answers")

    async def _try(self, shard: int, place: Address, make: Callable[[Address], P]) -> P:
        process = self._process
        target = process.surroundings.find_listener(str(place))
        try:
            target.check_reach(process.name)
        except Unreachable:
            await asyncio.sleep(CONNECT_SECONDS)
            raise LinkError("no answer in time") from None
        except Refused:
            raise NothingListens((str(place),), "start one") from None
        transport = Transport(process, target.name, by_foreman=False)
        made = make(place)
        transport.protocol = cast("asyncio.Protocol", made)
        transport.wire = target.accept(process.name, transport, shard)
        made.connection_made(transport)
        return made
