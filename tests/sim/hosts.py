"""Foreman processes of a simulated crew: the real `CrewMember` and the real servers, with simulated links and database.

`foreman/main.py` is what this stands for.
"""

import asyncio
from types import SimpleNamespace
from typing import Final, Protocol, cast

from msgspec.structs import replace
from tests.sim.crew_store import Connection, SimCrewStore
from tests.sim.database import Database
from tests.sim.laws import BrokenLaw, Law, Laws
from tests.sim.network import End, Wire
from tests.sim.processes import Process, Refused, SimReach, Surroundings, Transport, Unreachable

from gandy.config import Address
from gandy.core.effects import Reply, Send
from gandy.core.link_tasks import Inputs
from gandy.core.links import Link
from gandy.core.policy import Policy
from gandy.core.roles import CrewRole
from gandy.core.rows import Recovered
from gandy.core.standing import Standing
from gandy.errors import RemoteProtocolError, StoreError
from gandy.foreman.audit import Audit
from gandy.foreman.crew_member import CrewMember
from gandy.foreman.other_foremen import OtherForemen
from gandy.foreman.server import Server
from gandy.foreman.shard import ServedShard
from gandy.keys.foreman import ForemanKeys
from gandy.net.links import SocketLink
from gandy.reach import Reach
from gandy.store.base import Store

KEEP_RESULTS: Final = 86_400.0  # seconds
CHECK_PERIOD: Final = 8  # steps of a process: tables that disagree do so for a while, and a look at them takes long


class ManyForemen(Surroundings, Protocol):
    """The crew, as its foremen know it."""

    database: Database
    laws: Laws

    def check_server(self, server: Server) -> None: ...


class ForemanProcess(Process):
    """One machine with a foreman, one life after another."""

    is_heard = True  # by the law of what foremen say

    def __init__(self, crew: ManyForemen, number: int, policy: Policy) -> None:
        super().__init__(crew, f"foreman{number}")
        self.crew = crew
        self.place = f"tcp://{self.name}:1"
        self.member: SimMember | None = None
        self._policy = policy
        self._should_stop: asyncio.Event | None = None
        self._steps = 0

    # The program

    async def run(self) -> None:
        self._should_stop = None
        connection = Connection(self.crew.database, self.loop, self.name, lambda: self.may_send("database"))
        self.member = member = SimMember(self, SimCrewStore(connection))
        self._should_stop = (await member.open(self._make_server, False)).requests.should_stop
        await member.announce((self.place,))
        member.watch()
        await self._should_stop.wait()
        await member.leave()
        await member.close()
        self.crew.laws.seen["own shard lost" if member.must_restart else "foreman stopped"] += 1

    def on_failure(self, error: BaseException) -> None:
        if not isinstance(error, StoreError):  # it could not start without the database
            super().on_failure(error)

    def stop(self) -> None:
        """As a user stops it."""
        if self.is_up:
            self.loop.perform(self.stop_soon)

    def stop_soon(self) -> None:
        if self._should_stop is not None:
            self._should_stop.set()

    async def _make_server(self, store: Store, recovered: Recovered, shard: ServedShard) -> Server:
        standing = Standing(id=self.id, name=self.name, version="sim", started=self.loop.time())
        assert self.member is not None
        parts = (self.member.audit, self.member.keys, self.member.arguments, shard)
        server = SimServer(store, recovered, self._policy, standing, *parts)
        server.obey(self)
        await server.start(KEEP_RESULTS, lambda: self.crew.on_bug(f"{self.name} cannot go on"))
        return server

    @property
    def id(self) -> str:
        """New for each start."""
        return f"{self.name}-{self.life}"

    def list_servers(self) -> list[Server]:
        return [] if self.member is None else [each.server for each in self.member.hosting.hosted.values()]

    def check(self) -> None:
        self._steps += 1
        if self._steps % CHECK_PERIOD == 0:
            for server in self.list_servers():
                self.crew.check_server(server)

    # Links

    def check_reach(self, origin: str) -> None:
        """Raises: Unreachable, Refused."""
        cuts = self.crew.network.cuts
        if not self.has_machine or (origin, self.name) in cuts or (self.name, origin) in cuts:
            raise Unreachable
        if not self.is_up:
            raise Refused

    def accept(self, origin: str, end: End, shard: int) -> Wire:
        transport, loop = Transport(self, origin, by_foreman=True), self.loop
        transport.wire = wire = self.crew.network.connect(end, transport, sites=(origin, self.name))
        self.simulation.call_later(0.0, lambda: loop.perform(lambda: self._accept(transport, shard)))
        return wire

    def _accept(self, transport: Transport, shard: int) -> None:
        if transport.is_closing():  # the peer has hung up
            return
        member = self.member
        is_open = member is not None and self._should_stop is not None  # before that, no door is
        server = member.find_server(shard or None) if member is not None and is_open else None
        if server is None:
            transport.abort()
            return
        assert member is not None
        transport.wire.epoch = member.hosting.hosted[server.shard.number].lease.epoch
        transport.protocol = link = SocketLink(server, CrewRole.OWNER)
        link.name = transport.wire.name  # its own is another one in each run, and viewers are told it
        link.connection_made(transport)


class SimMember(CrewMember):
    """Its part in the crew."""

    def __init__(self, process: ForemanProcess, store: SimCrewStore) -> None:
        self.keys = cast("ForemanKeys", SimpleNamespace(kept=SimpleNamespace(is_shared=False, on_revoked=[])))
        audit = self.audit = cast("Audit", SilentAudit())
        super().__init__(store, f"/nowhere/{process.name}", self.keys, audit, process.stop_soon, process.stop_soon)
        self._process = process
        self.foreman = process.id
        hosting = self.hosting
        hosting.me = replace(hosting.me, id=process.id, name=process.name, machine="")
        hosting._others = OtherForemen(process.id, hosting._reach_foreman, hosting.nudge)

    async def _share_keys(self, is_on_network: bool) -> None:
        """No peer of a simulated crew needs keys."""

    def _make_reach(self, places: tuple[Address, ...]) -> Reach:
        return cast("Reach", SimReach(self._process, places))

    def watch(self) -> None:
        """Note if the loop has a bug."""
        for loop in self._loops:
            loop.add_done_callback(self._on_end)

    def _on_end(self, beating: "asyncio.Task[None]") -> None:
        if not beating.cancelled() and (error := beating.exception()) is not None:
            self._process.crew.on_bug(error)


class SilentAudit:
    """Stands for `foreman.audit.Audit`."""

    def note(self, what: str, who: object, **about: object) -> None:
        pass

    def close(self) -> None:
        pass


class SimServer(Server):
    """A server that is watched by the laws. It listens nowhere: `ForemanProcess.accept` finds it."""

    def obey(self, process: ForemanProcess) -> None:
        database, perform = process.crew.database, self.foreman.perform
        me = process.id

        def on_refused(link: Link, error: RemoteProtocolError) -> None:
            process.crew.on_bug(BrokenLaw(Law.PROTOCOL, f"{link.worker} is refused: {error}"))

        def checked(send: Send, inputs: Inputs, now: float) -> None:
            row = database.shards[self.shard.number]
            if row.owner != me and not row.is_retired and not isinstance(send, Reply) and process.is_heard:
                process.crew.on_bug(BrokenLaw(Law.SPEECH, f"{process.name} sends {send} for {self.shard.number}"))
            perform(send, inputs, now)

        self.peer_log.on_refused = on_refused  # type: ignore[method-assign]
        self.foreman.perform = checked  # type: ignore[method-assign]
        process.crew.laws.seen["server"] += 1

    async def listen(self, address: Address, owner: object = None) -> None:
        pass
