"""The foreman's pump: bytes in, decisions, commits in groups, and only then bytes to any peer.

It owns the links and the loops. What to do about anything is decided in `core`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.foreman import Foreman
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.roles import CrewRole
from gandy.core.rows import Recovered
from gandy.core.snapshot import restore
from gandy.core.standing import Standing
from gandy.foreman.arguments import ArgumentStore
from gandy.foreman.audit import Audit
from gandy.foreman.audited_peers import AuditedPeers
from gandy.foreman.call_timers import CallTimers
from gandy.foreman.clock import ForemanClock, read_boot
from gandy.foreman.committer import Committer
from gandy.foreman.dead_workers import DeadWorkers
from gandy.foreman.dependencies import follow_other_shards
from gandy.foreman.requests import Requests
from gandy.foreman.sample_writer import SampleWriter
from gandy.foreman.shard import ServedShard, WholeCrew
from gandy.foreman.timers import JobTimers, drop_old_values
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_SILENT_LINKS
from gandy.net.links import LinkOwner, SocketLink, listen
from gandy.net.open_files import limit_by_files
from gandy.store.base import Store
from gandy.talk.side import Side

log = logging.getLogger("gandy.foreman")

GREETING_PAUSE: Final = 0.5  # seconds until a worker that waits for the foreman's OK(0) gets it


class Server:
    """One foreman, which takes up what is in its store. `start` it, let it run, `stop` it."""

    def __init__(
        self,
        store: Store,
        recovered: Recovered,
        policy: Policy,
        standing: Standing,
        audit: Audit,
        keys: ForemanKeys,
        arguments: ArgumentStore,
        shard: ServedShard | None = None,
    ) -> None:
        """`shard`: of the jobs of a crew with many foremen."""
        self.shard = shard or WholeCrew()
        reactor = Reactor(policy, recovered.next_job, read_boot())
        self.standing = standing
        self.clock = ForemanClock(reactor)
        self.peer_log = AuditedPeers(audit)
        most = limit_by_files(MAX_SILENT_LINKS)
        self.foreman = Foreman(reactor, self.clock.now(), self.peer_log, most, self.shard.number)
        self.foreman.batch.add(restore(reactor, recovered, self.clock.now(), self.shard.elsewhere))
        self.committer = Committer(self.foreman, store, standing, self.clock, self.shard)
        self.requests = Requests(self.foreman, self.committer, self.clock, arguments, keys, audit, self.shard)
        self.call_timers = CallTimers(self.foreman)
        self.samples = SampleWriter(self.foreman, self.committer, self.clock)
        self.on_stop: list[Callable[[], None]] = []
        self._arguments = arguments
        self._on_revoked = keys.kept.on_revoked
        self._on_revoked.append(self.foreman.liveness.cut_key)
        self._dead_workers = DeadWorkers(reactor, self.clock, self.committer)
        self._listeners: list[asyncio.Server] = []
        self._is_stopped = False
        self._loops: list[asyncio.Task[None]] = []

    async def start(self, keep_results: float, on_failure: Callable[[], None]) -> None:
        """`on_failure`: the foreman has a bug, and must stop. Raises: StoreError."""
        for job in await self.committer.store.list_jobs(None, 1, None):
            self.clock.note_last_stamp(job.changed)
        timers = JobTimers(self.foreman, self.clock, self.committer, self.requests)
        dropping = drop_old_values(self.committer, self.clock, self._arguments, keep_results)
        loops = [self.committer.run(timers.look_soon), self.committer.mend(), timers.run(), dropping]
        loops.append(self.samples.run())
        if self.shard.number:
            loops.append(follow_other_shards(self.foreman, self.clock, self.committer))
        self._loops = [asyncio.create_task(loop) for loop in loops]
        if self.foreman.has_work:  # of jobs that were restored
            self.committer.wake()

        def on_end(loop: asyncio.Task[None]) -> None:
            # A foreman that cannot go on must not pretend to: workers wait for the next one, and the store has it all.
            if not loop.cancelled() and (error := loop.exception()) is not None:
                log.critical("the foreman has a bug and stops", exc_info=error)
                on_failure()

        for loop in self._loops:
            loop.add_done_callback(on_end)

    async def listen(self, address: Address, owner: LinkOwner | None = None) -> None:
        """`owner`: of the links, if it is not this server but a door to it. Raises: ConfigError."""
        role = CrewRole.OWNER if address.scheme == "unix" else CrewRole.ANYBODY
        await self.serve(address, lambda: SocketLink(owner or self, role))

    async def serve(self, address: Address, make: Callable[[], asyncio.Protocol]) -> None:
        """Listen at this address; `make` makes the protocol of each connection. Raises: ConfigError."""
        self._listeners.append(await listen(address, make))

    async def halt(self) -> None:
        """Decide and commit nothing more. Links stay open, and what peers send is dropped when `stop` closes them."""
        if self._loops:
            await self.samples.finish()
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops = []

    async def stop(self) -> None:
        self._is_stopped = True
        await self.requests.close()
        self._on_revoked.remove(self.foreman.liveness.cut_key)
        for listener in self._listeners:
            listener.close()
        for last in self.on_stop:
            last()
        self.call_timers.close()
        await self.halt()
        for link in list(self.foreman.links.by_name.values()):
            link.port.close()
        await asyncio.sleep(0)

    def on_link(self, port: SocketLink, side: Side | None = None) -> None:
        """`side`: the conversation, if it is not that of the native wire."""
        if port.is_foreign:
            self.peer_log.on_foreign_user(port.peer)
            port.abort()
            return
        if self._is_stopped:  # it was accepted just before: the peer must not wait for answers
            port.abort()
            return
        port.link = self.foreman.on_link(port, port.credentials, read_monotonic(), side)
        asyncio.get_running_loop().call_later(GREETING_PAUSE, self.foreman.links.greet, port.link)

    def on_data(self, port: SocketLink, data: bytes) -> None:
        link = port.link
        if link is None:  # of another user: it is being aborted
            return
        self.foreman.on_data(link, data, self.clock.now())
        while link.inbox:
            self.requests.on_message(link, link.inbox.popleft())
        self.call_timers.arm()
        if self.foreman.has_work:
            self.committer.wake()

    def on_cut(self, port: SocketLink) -> None:
        link = port.link
        if link is None:
            return
        self.requests.on_gone(link)
        if link.peer.worker is not None:
            self.peer_log.on_worker_left(port.peer, link.peer.worker.info)
        self.foreman.on_cut(link, self.clock.now())
        if port.peer_pid is not None:
            self._dead_workers.watch(link.worker, port.peer_pid)
        self.committer.wake()
