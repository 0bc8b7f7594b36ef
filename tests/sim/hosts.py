"""Foreman processes of a simulated crew: the real `Hosting` and the real servers, on simulated loops, links and disks.

A process is killed in the middle of a step, its machine dies without a word, it is stopped for longer than its leases,
cut off from any other party, drained, and started again. `foreman/main.py` is what this stands for.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

from msgspec.structs import replace
from tests.sim.actors import Actor
from tests.sim.crew_store import Connection, SimCrewStore
from tests.sim.database import Database
from tests.sim.laws import BrokenLaw, Law, Laws, require
from tests.sim.network import End, Network, Wire
from tests.sim.process_loop import ProcessLoop

from gandy.config import Address, parse_address
from gandy.core.effects import Reply, Send
from gandy.core.link_tasks import Inputs
from gandy.core.links import Link
from gandy.core.policy import Policy
from gandy.core.roles import CrewRole
from gandy.core.rows import Recovered
from gandy.core.shards import ForemanPlace, Lease
from gandy.core.standing import Standing
from gandy.errors import LinkError, NothingListens, RemoteProtocolError, StoreError
from gandy.foreman.arguments import CrewArguments
from gandy.foreman.audit import Audit
from gandy.foreman.hosting import Hosting
from gandy.foreman.lease_guard import LeaseGuard
from gandy.foreman.main import HAND_OVER_SECONDS
from gandy.foreman.server import Server
from gandy.foreman.shard import Shard
from gandy.keys.foreman import ForemanKeys
from gandy.net.links import SocketLink
from gandy.reach import Reach
from gandy.store.base import Store
from gandy.testing.simulation import Simulation

CONNECT_SECONDS: Final = 1.0  # until a process stops waiting for a machine that does not answer
MAX_AGE: Final = 1e6  # seconds that a machine may have run
KEEP_RESULTS: Final = 86_400.0  # seconds
FOREVER: Final = 1e12

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Transport(asyncio.Transport):
    """One end of a link, in a process. Implements `network.End`."""

    def __init__(self, process: "ForemanProcess", peer: str, by_foreman: bool) -> None:
        super().__init__()
        self.process = process
        self.peer = peer
        self.protocol: asyncio.Protocol | None = None
        self.wire: Wire
        self._by_foreman = by_foreman
        self._life = process.life
        self._loop = process.loop
        self._is_closing = False
        process.transports.add(self)

    # The network

    def receive_data(self, data: bytes) -> None:
        self._loop.perform(lambda: self._receive(data))

    def _receive(self, data: bytes) -> None:
        if self.protocol is not None and not self._is_closing:
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

    def die(self) -> None:
        """The kernel closes what a dead process had open."""
        self.wire.abort(self._by_foreman)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer, 1) if name == "peername" else default

    def pause_reading(self) -> None:
        raise NotImplementedError("no simulated peer sends so many requests")


class ProcessOwner(Protocol):
    """The crew, as its processes know it."""

    simulation: Simulation
    network: Network
    database: Database
    laws: Laws

    def find_process(self, place: str) -> "ForemanProcess": ...

    def on_bug(self, bug: BaseException | str) -> None: ...

    def check_step(self, process: "ForemanProcess") -> None: ...


class Unreachable(Exception):
    """Nothing answers, as if the machine were not there."""


class Refused(Exception):
    """The machine is there, and says that nothing listens."""


class ForemanProcess(Actor):
    """One machine with a foreman, one life after another."""

    guard_class: type[LeaseGuard] = LeaseGuard  # tests of the laws have worse ones

    def __init__(self, crew: ProcessOwner, number: int, policy: Policy) -> None:
        super().__init__(crew.simulation, f"foreman{number}")
        self.crew = crew
        self.place = f"tcp://{self.name}:1"
        self.loop: ProcessLoop
        self.hosting: Hosting
        self.transports: set[Transport] = set()
        self.has_machine = True  # else not even its kernel answers
        self.is_drained = False
        self.must_restart = False
        self._policy = policy
        self._main: asyncio.Task[None] | None = None
        self._connection: Connection
        self._is_doomed = False  # it dies in this step
        self._spared: dict[str, bool] = {}  # what still goes out in that step
        self._jobs = 0

    # Life

    def start(self) -> None:
        self.life += 1
        self.is_up = self.has_machine = True
        self.is_drained = self.must_restart = self._is_doomed = False
        self._spared = {}
        age = self.random.uniform(-self.simulation.now, MAX_AGE)
        loop = self.loop = ProcessLoop(self.simulation, age, self.random, self.crew.on_bug)
        loop.after_step = self._after_step
        self._connection = Connection(self.crew.database, loop, self.name, lambda: self.may_send("database"))
        loop.perform(self._begin)

    def _begin(self) -> None:
        self._main = self.loop.create_task(self._run())
        self._main.add_done_callback(self._on_end)

    def _after_step(self) -> None:
        if self._is_doomed:
            self._is_doomed = False
            self.kill()
        else:
            self.crew.check_step(self)

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

    def _on_end(self, main: "asyncio.Task[None]") -> None:
        if not main.cancelled() and (error := main.exception()) is not None and not isinstance(error, StoreError):
            self.crew.on_bug(error)
        self.simulation.call_later(0.0, self.kill)

    # The program

    async def _run(self) -> None:
        me = ForemanPlace(f"{self.name}-{self.life}", self.name, "sim", ())
        store = SimCrewStore(self._connection)
        hosting = self.hosting = Hosting(
            store, me, f"/nowhere/{self.name}", self._make_server, self._make_reach, self._restart, self._on_drained
        )
        self._arguments = CrewArguments(store)
        own = await hosting.start()
        self._should_stop = own.requests.should_stop
        hosting.me = replace(hosting.me, places=(self.place,))
        await hosting.look()
        running = asyncio.create_task(hosting.run())
        running.add_done_callback(self._on_hosting_end)
        await self._should_stop.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if not self.must_restart:
            try:
                async with asyncio.timeout(HAND_OVER_SECONDS):
                    await hosting.leave()
            except (StoreError, TimeoutError):
                pass
        await hosting.stop()

    def _on_hosting_end(self, running: "asyncio.Task[None]") -> None:
        if not running.cancelled() and (error := running.exception()) is not None:
            self.crew.on_bug(error)

    def stop(self) -> None:
        """As a user stops it."""
        if self.is_up and hasattr(self, "_should_stop"):
            self.loop.perform(self._should_stop.set)

    def _restart(self) -> None:
        self.must_restart = True
        self._should_stop.set()

    def _on_drained(self) -> None:
        self.is_drained = True
        self._should_stop.set()

    async def _make_server(self, store: Store, recovered: Recovered, shard: Shard) -> Server:
        standing = Standing(version="sim", started=self.loop.time(), foreman=self.hosting.me.id)
        audit, keys = cast("Audit", SilentAudit()), cast("ForemanKeys", object())
        server = SimServer(store, recovered, self._policy, standing, audit, keys, self._arguments, shard)
        server.obey(self)
        await server.start(KEEP_RESULTS, lambda: self.crew.on_bug(f"{self.name} cannot go on"))
        return server

    def _make_reach(self, places: tuple[Address, ...]) -> Reach:
        return cast("Reach", SimReach(self, places))

    # Links

    def check_reach(self, origin: str) -> None:
        """Raises: Unreachable, Refused."""
        cuts = self.crew.network.cuts
        if not self.has_machine or (origin, self.name) in cuts or (self.name, origin) in cuts:
            raise Unreachable
        if not self.is_up:
            raise Refused

    def accept(self, origin: str, end: End, shard: int) -> Wire:
        """A connection to a shard that runs here; without a number, to the one that clients talk to."""
        transport = Transport(self, origin, by_foreman=True)
        transport.wire = wire = self.crew.network.connect(end, transport, sites=(origin, self.name))
        loop = self.loop
        self.simulation.call_later(0.0, lambda: loop.perform(lambda: self._accept(transport, shard)))
        return wire

    def _accept(self, transport: Transport, shard: int) -> None:
        hosting: Hosting | None = getattr(self, "hosting", None)
        server = None if hosting is None or not hosting.me.places else hosting.find_server(shard or None)
        if server is None:
            transport.abort()
            return
        transport.protocol = link = SocketLink(server, CrewRole.OWNER)
        link.connection_made(transport)


class SilentAudit:
    def note(self, what: str, who: object, **about: object) -> None:
        pass

    def close(self) -> None:
        pass


class SimServer(Server):
    """A server that is watched by the laws. It listens nowhere: `ForemanProcess.accept` finds it."""

    def obey(self, process: ForemanProcess) -> None:
        laws, database = process.crew.laws, process.crew.database
        perform = self.foreman.perform

        def on_refused(link: Link, error: RemoteProtocolError) -> None:
            process.crew.on_bug(BrokenLaw(Law.PROTOCOL, f"{link.worker} is refused: {error}"))

        def checked(send: Send, inputs: Inputs, now: float) -> None:
            lease = database.shards[self.shard.number]
            is_ours = lease.owner == process.hosting.me.id
            if not is_ours and not isinstance(send, Reply):
                process.crew.on_bug(BrokenLaw(Law.SPEECH, f"{process.name} sends {send} for {self.shard.number}"))
            perform(send, inputs, now)

        self.peer_log.on_refused = on_refused  # type: ignore[method-assign]
        self.foreman.perform = checked  # type: ignore[method-assign]
        laws.seen["server"] += 1

    async def listen(self, address: Address, owner: object = None) -> None:
        pass


class SimReach:
    """How a process reaches another one. Stands for `reach.Reach`."""

    def __init__(self, process: ForemanProcess, places: tuple[Address, ...]) -> None:
        self._process = process
        self.places = places

    async def dial(self, make: Callable[[Address], P]) -> P:
        return await self.dial_shard(0, self.places, make)

    async def dial_shard(self, shard: int, places: tuple[Address, ...], make: Callable[[Address], P]) -> P:
        origin = self._process
        target = origin.crew.find_process(str(places[0]))
        try:
            target.check_reach(origin.name)
        except Unreachable:
            await asyncio.sleep(CONNECT_SECONDS)
            raise LinkError("no answer in time") from None
        except Refused:
            raise NothingListens("nothing listens there") from None
        transport = Transport(origin, target.name, by_foreman=False)
        made = make(places[0])
        transport.protocol = cast("asyncio.Protocol", made)
        transport.wire = target.accept(origin.name, transport, shard)
        made.connection_made(transport)
        return made
