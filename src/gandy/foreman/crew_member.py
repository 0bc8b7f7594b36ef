"""A foreman's part in a crew with many foremen: the database that they share, and the shards that run here."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from gandy import __version__
from gandy.config import Address
from gandy.core.shards import ForemanPlace
from gandy.errors import StoreError
from gandy.foreman.arguments import CrewArguments
from gandy.foreman.audit import Audit
from gandy.foreman.clock import read_boot
from gandy.foreman.crew_audit import CrewAudit
from gandy.foreman.hosting import Hosting
from gandy.foreman.job_source import MakeServer, make_foreman_id
from gandy.foreman.ring_table import OtherIdentity, RingTable
from gandy.foreman.server import Server
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_PLACES
from gandy.net.links import OWNER
from gandy.reach import Reach
from gandy.store.crew import CrewStore

log = logging.getLogger("gandy.foreman")

HAND_OVER_SECONDS: Final = 5.0  # that other foremen have to take over, when this one stops


class CrewMember:
    """Implements `foreman.job_source.JobSource`."""

    def __init__(
        self,
        crew: CrewStore,
        home: str,
        keys: ForemanKeys,
        audit: Audit,
        stop: Callable[[], None],
        fail: Callable[[], None],
    ) -> None:
        """`stop`: the program must stop; if `must_restart` is set, it must start again then. `fail`: it must not."""
        name = socket.gethostname()
        self.foreman = make_foreman_id()
        self.arguments = CrewArguments(crew)
        self.must_restart = False  # another foreman has taken over the shard that our clients talk to
        me = ForemanPlace(self.foreman, name, __version__, (), read_boot())
        self.hosting = Hosting(crew, me, home, self._make_reach, self._restart, stop)
        self._crew = crew
        self._keys = keys
        self._audit = audit
        self._crew_audit = CrewAudit(crew.note_audit, self._note_lost)
        self._stop = stop
        self._fail = fail
        self._loops: list[asyncio.Task[None]] = []

    async def open(self, make_server: MakeServer, is_on_network: bool) -> Server:
        await self._crew.open()
        self._share_audit()
        await self._share_keys(is_on_network)
        server = await self.hosting.start(make_server)
        server.requests.key_requests.list_other_places = self.hosting.list_other_places
        server.requests.key_requests.list_crew_audit = self._crew.list_audit
        return server

    def _share_audit(self) -> None:
        self._loops.append(asyncio.create_task(self._crew_audit.run()))
        self._audit.foreman = self.hosting.me.name
        self._audit.on_line = self._crew_audit.add

    def _note_lost(self, count: int) -> None:
        self._audit.note("left lines out of the crew's audit", OWNER, count=count)

    async def _share_keys(self, is_on_network: bool) -> None:
        """Use the keys of the crew. A foreman of another identity may run if it needs none. Raises: ConfigError."""
        try:
            await self._keys.share_ring(RingTable(self._crew, self._keys.fingerprint))
        except OtherIdentity:
            if is_on_network:
                raise
            return
        self._keys.kept.on_change = self.hosting.spread
        self._keys.kept.on_revoked.append(self._on_revoked)
        self.hosting.on_ring_version = self._keys.kept.on_version

    def _on_revoked(self, fingerprint: str) -> None:
        if self._keys.own is not None and fingerprint == self._keys.own.fingerprint:
            log.critical("the key of this foreman was revoked, so it stops")
            self._fail()

    async def announce(self, places: tuple[str, ...]) -> None:
        self.hosting.me = replace(self.hosting.me, places=places[:MAX_PLACES])
        await self.hosting.look()
        self._loops.append(asyncio.create_task(self.hosting.run()))

    def find_server(self, shard: int | None) -> Server | None:
        return self.hosting.find_server(shard)

    async def halt(self) -> None:
        """Renew no lease, and take over nothing more."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    async def leave(self) -> None:
        await self.halt()
        if self.must_restart:
            return
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS):
                await self.hosting.leave()
        except StoreError as error:
            log.warning("other foremen take over when our leases expire: %s", error)
        except TimeoutError:
            log.warning("other foremen take over when our leases expire: the database did not answer in time")

    async def close(self) -> None:
        await self.halt()
        await self.hosting.stop()
        await self._crew_audit.close()
        await self._crew.close()

    def _make_reach(self, places: tuple[Address, ...]) -> Reach:
        """How this foreman reaches another one, or a shard of one."""
        return Reach(places, self._keys.own)

    def _restart(self) -> None:
        self.must_restart = True
        self._stop()
