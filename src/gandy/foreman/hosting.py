"""The shards that this process runs.

It takes a shard at its start, takes over those of foremen that are gone, and hands its own over when it stops.
`core.hosting` decides; this does it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, assert_never

from msgspec.structs import replace

from gandy.clocks import read_monotonic
from gandy.config import Address, parse_address
from gandy.core.hosting import (
    BEAT_PERIOD,
    Forget,
    HandOver,
    Retire,
    Seize,
    Silences,
    Step,
    list_ownerless,
    list_present,
    list_shard_places,
    note_lease,
    plan,
    plan_leaving,
    reach,
)
from gandy.core.links import Link
from gandy.core.refusal import Refusal
from gandy.core.shards import NO_SHARD, CrewView, Directory, ForemanPlace, Lease
from gandy.errors import GandyError, StoreError
from gandy.foreman.committer import STORE_PATIENCE, make_silence
from gandy.foreman.crew_shard import CrewShard
from gandy.foreman.draining import Draining
from gandy.foreman.job_source import MakeServer
from gandy.foreman.lease_guard import LeaseGuard
from gandy.foreman.other_foremen import OtherForemen
from gandy.foreman.server import Server
from gandy.moments import LONG_AGO, Monotonic
from gandy.reach import Reach
from gandy.store.base import Store
from gandy.store.crew import CrewStore

log = logging.getLogger("gandy.foreman")

LEAVE_SECONDS: Final = 1.0  # that the database has to take note that we leave

MakeReach = Callable[[tuple[Address, ...]], Reach]


class Hosted(NamedTuple):
    """A shard that runs here."""

    lease: Lease
    server: Server
    store: Store
    guard: LeaseGuard


class Hosting:
    """Implements `foreman.crew_shard.ShardHost`. `start`, then `run` it as a loop, and `stop` it."""

    def __init__(
        self,
        crew: CrewStore,
        me: ForemanPlace,
        home: str,
        make_reach: MakeReach,
        on_own_lost: Callable[[], None],
        on_drained: Callable[[], None],
    ) -> None:
        """`on_own_lost`: the shard that our clients talk to has another owner, so the program must start again.

        `on_drained`: all was handed over, as a client asked, so the program must stop.
        """
        self.me = me
        self.view = CrewView()
        self.own = 0  # the shard that our clients talk to
        self.hosted: dict[int, Hosted] = {}
        self._crew = crew
        self._home = Path(home)
        self._make_server: MakeServer
        self._make_reach = make_reach
        self._on_own_lost = on_own_lost
        self._on_drained = on_drained
        self._halted: list[Hosted] = []  # that was handed over while our clients are still connected to it
        self._directories: dict[int, tuple[Directory, Directory]] = {}  # that were sent last, by shard
        self._listed = self.view  # what `_lists` are of
        self._lists: dict[str, Directory] = {}  # by machine, for no shard yet
        self._asked = LONG_AGO  # when the last beat began
        self._silences = Silences()
        self._looking = asyncio.Lock()
        self._next_refresh: asyncio.Task[None] | None = None  # that has not begun
        self._nudged = asyncio.Event()
        self._others = OtherForemen(me.id, self._reach_foreman, self.nudge)
        self._is_leaving = False
        self.on_ring_version: Callable[[int], None] = lambda _version: None  # of the keyring, as the database has it
        self._tasks: set[asyncio.Task[None]] = set()

    # The loop

    async def start(self, make_server: MakeServer) -> Server:
        """Take a shard, and return its server. Raises: StoreError, ConfigError."""
        self._make_server = make_server
        asked = read_monotonic()
        lease = await self._crew.take_new(self.me.id)
        self.own = lease.shard
        return (await self._host(lease, asked)).server

    async def run(self) -> None:
        """Renew our leases, and follow what other foremen do. Runs until cancelled."""
        while True:
            timer = asyncio.get_running_loop().call_later(STORE_PATIENCE, self._on_silence)
            try:
                await self.look()
            except StoreError as error:
                self._note_trouble(error)
            finally:
                timer.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_PERIOD):
                    await self._nudged.wait()
            self._nudged.clear()

    def _on_silence(self) -> None:
        self._note_trouble(make_silence())

    def _note_trouble(self, error: StoreError) -> None:
        """The database has a problem: also a foreman that has nothing to commit must say so."""
        for each in self.hosted.values():
            if not each.server.standing.trouble:
                each.server.committer.note_trouble(error)

    def nudge(self) -> None:
        self._nudged.set()

    async def look(self) -> None:
        """Say that we are there, renew our leases, and do what the plan says. Raises: StoreError."""
        async with self._looking:
            await self._beat()
            if await self._act():
                await self._beat()
            self._announce()

    async def refresh(self) -> None:
        """Renew our leases, and read all the rest. What follows from it is left to `run`: a server that has lost its
        shard is stopped there, and cannot be stopped by one of its own coroutines. Raises: StoreError."""
        # A statement is never given up: the server would go on with it, and soon have no session left for us.
        refresh = self._next_refresh = self._next_refresh or self._spawn(self._refresh())
        done, _ = await asyncio.wait({refresh}, timeout=STORE_PATIENCE)
        if not done:
            raise make_silence()
        refresh.result()

    async def _refresh(self) -> None:
        async with self._looking:
            self._next_refresh = None  # what is asked from now on must see what has changed by now
            await self._beat()

    async def _beat(self) -> None:
        asked = self._asked = read_monotonic()
        self.view = await self._crew.beat(self.me, [each.lease for each in self.hosted.values()])
        self._silences.note(self.view, read_monotonic())
        self._check_leases(asked)
        self._others.on_view(self.view)
        self.on_ring_version(self.view.ring_version)

    def _check_leases(self, asked: Monotonic) -> None:
        held = {(lease.shard, lease.epoch) for lease in self.view.leases if lease.owner == self.me.id}
        for each in self.hosted.values():
            if (each.lease.shard, each.lease.epoch) in held:
                each.guard.renew(asked)
            else:
                each.guard.lose()

    async def _act(self) -> bool:
        """Do what the view asks for. True if something has changed."""
        lost = [shard for shard, each in self.hosted.items() if each.guard.is_lost]
        for shard in lost:
            await self._drop(shard)
        if self.own not in self.hosted or self._is_leaving:
            return bool(lost)
        given = [lease for lease in self.view.leases if lease.owner == self.me.id and lease.shard not in self.hosted]
        for lease in given:
            await self._try_to_host(lease, self._asked)
        spared = self._silences.find_spared(read_monotonic())
        steps = plan(self.view, self.me.id, self.own, self.hosted.keys(), self._others.dead, spared)
        done = [await self._perform(step) for step in steps]
        return bool(lost or given or any(done))

    async def _perform(self, step: Step) -> bool:
        """True if it has changed something."""
        match step:
            case Seize(seen):
                asked = read_monotonic()
                lease = await self._crew.seize(self.me.id, seen)
                if lease is not None:
                    log.info("taking over shard %d from %s", lease.shard, seen.owner or "no foreman")
                    await self._try_to_host(lease, asked)
                return lease is not None
            case HandOver(shard, heir):
                await self._hand_over(shard, heir)
                return True
            case Retire(shard):
                return await self._retire(shard)
            case Forget(foreman):
                await self._crew.leave(foreman)
                return True
            case _:
                assert_never(step)

    # Shards

    async def _try_to_host(self, lease: Lease, asked: Monotonic) -> None:
        """If it fails, the next look tries again: the lease is ours."""
        try:
            await self._host(lease, asked)
        except GandyError as error:
            log.error("shard %d cannot be started here: %s", lease.shard, error)

    async def _host(self, lease: Lease, asked: Monotonic) -> Hosted:
        """`asked`: when the database was asked that says that the lease is ours. Raises: StoreError, ConfigError."""
        store = self._crew.open_shard(lease)
        recovered = await store.open()
        guard = LeaseGuard(self.refresh)
        guard.renew(asked)
        own = {found.row.job for found in recovered.jobs}
        after = {job for found in recovered.jobs for job in found.row.spec.sources} - own
        elsewhere = await store.find_states(sorted(after)) if after else {}
        shard = CrewShard(self, lease, guard, elsewhere)
        server = await self._make_server(store, recovered, shard)
        shard.count_jobs = server.foreman.reactor.jobs.__len__
        # Before any worker comes: it must know which shard its tasks are of, so that their results go nowhere else.
        self.view = note_lease(self.view, lease)
        self._tell(lease.shard, server)
        await server.listen(self._find_socket(lease.shard))
        hosted = self.hosted[lease.shard] = Hosted(lease, server, store, guard)
        return hosted

    def _find_socket(self, shard: int) -> Address:
        return parse_address(f"unix:{self._home / f'shard-{shard}.sock'}")

    async def _drop(self, shard: int) -> None:
        """Stop a shard that is no longer ours."""
        hosted = self.hosted.pop(shard)
        self._directories.pop(shard, None)
        log.warning("shard %d has another owner now", shard)
        await self._close(hosted)
        if shard == self.own:
            self._on_own_lost()

    async def _close(self, hosted: Hosted) -> None:
        await hosted.server.stop()
        Path(self._find_socket(hosted.lease.shard).host).unlink(missing_ok=True)
        await hosted.store.close()

    async def _hand_over(self, shard: int, heir: str) -> None:
        """Let another foreman go on with a shard. Workers keep their links until they know where it is."""
        hosted = self.hosted.pop(shard)
        self._directories.pop(shard, None)
        await hosted.server.halt()
        try:
            if await self._crew.hand_over(hosted.lease, heir):
                log.info("handed shard %d over to %s", shard, heir)
                await self._others.nudge(heir)
        finally:  # whatever the database says: a server that was halted cannot go on
            if shard == self.own:  # the client that asked for it waits for the answer
                self._halted.append(hosted)
            else:
                await self._close(hosted)

    async def _retire(self, shard: int) -> bool:
        """Forget a shard that has nothing to do."""
        hosted = self.hosted[shard]
        if len(hosted.server.foreman.reactor.jobs):
            return False
        await hosted.server.samples.finish()
        if not await self._crew.retire(hosted.lease):
            return False
        log.info("shard %d has no jobs left, and is retired", shard)
        del self.hosted[shard]
        await self._close(hosted)
        return True

    def on_shard_lost(self, _shard: int) -> None:
        self.nudge()

    # Other foremen

    def spread(self) -> None:
        """Have all other foremen look at the database now: something has changed there."""
        self._spawn(self._others.nudge())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain if the client has hung up

    def list_other_places(self) -> tuple[str, ...]:
        """Where peers on other machines reach the other foremen."""
        others = [each for each in self.view.foremen if each.id != self.me.id]
        return tuple(place for each in others for place in each.places if place.startswith("tcp:"))

    def find_server(self, shard: int | None) -> Server | None:
        """The server of a shard that runs here; without a number, the one that our clients talk to."""
        hosted = self.hosted.get(self.own if shard is None else shard)
        return None if hosted is None else hosted.server

    def reach_shard(self, shard: int) -> Reach | None:
        places = {each.shard: each.places for each in list_shard_places(self.view, self.me.machine)}
        return self._make_reach(tuple(map(parse_address, places[shard]))) if places.get(shard) else None

    def _reach_foreman(self, foreman: ForemanPlace) -> Reach | None:
        places = reach(foreman, self.me.machine)
        return self._make_reach(tuple(map(parse_address, places))) if places else None

    def _announce(self) -> None:
        """Say to all workers where shards and foremen are, if that has changed."""
        foremen, shards = len(list_present(self.view)), tuple(sorted(lease.shard for lease in self.view.leases))
        for here, each in self.hosted.items():
            each.server.standing.foremen, each.server.standing.shards = foremen, shards
            if self._directories.get(here) != self._make_directories(here):
                self._tell(here, each.server)

    def _tell(self, here: int, server: Server) -> None:
        near, far = self._directories[here] = self._make_directories(here)
        server.foreman.set_directory(partial(_choose, near, far))

    def _make_directories(self, here: int) -> tuple[Directory, Directory]:
        """For peers on this machine, and for all others."""
        return self._make_directory(here, self.me.machine), self._make_directory(here, "")

    def _make_directory(self, here: int, machine: str) -> Directory:
        if self._listed is not self.view:  # hot: the lists are the same for all shards that run here
            self._listed = self.view
            self._lists.clear()
        lists = self._lists.get(machine)
        if lists is None:
            places, foremen = list_shard_places(self.view, machine), self._list_foremen(machine)
            lists = self._lists[machine] = Directory(NO_SHARD, places, foremen, list_ownerless(self.view))
        return Directory(here, lists.shards, lists.foremen, lists.ownerless)

    def _list_foremen(self, machine: str) -> tuple[tuple[str, ...], ...]:
        return tuple(places for each in self.view.foremen if (places := reach(each, machine)))

    # The end

    async def drain(self, foreman: str) -> None:
        if foreman not in ("", self.me.id, self.me.name):
            await Draining(self._others, lambda: self.view, self.refresh).drain(foreman)
            return
        # Not in the coroutine of the request: that ends if the client hangs up, and half a drain is worse than none.
        await asyncio.shield(self._spawn(self._drain_here()))

    async def _drain_here(self) -> None:
        """Raises: Refusal, StoreError."""
        try:
            if not await self.leave():
                raise Refusal("refused", "no other foreman is there to take over what this one owns")
        finally:
            if self._is_leaving:  # what could not be handed over is taken over when our leases expire
                self._on_drained()

    async def leave(self) -> bool:
        """Hand over all that we own. False: no foreman is there that could have it. Raises: StoreError."""
        async with self._looking:
            self.me = replace(self.me, is_leaving=True)
            try:
                await self._beat()
                steps = plan_leaving(self.view, self.me.id, self.hosted.keys(), self._others.dead)
                self._is_leaving = self._is_leaving or bool(steps)
            finally:
                self.me = replace(self.me, is_leaving=self._is_leaving)
            for step in sorted(steps, key=lambda step: step.shard == self.own):
                await self._hand_over(step.shard, step.heir)
            return bool(steps)

    async def stop(self) -> None:
        """Stop all that runs here, and say so to the crew. What was not handed over can be taken over at once."""
        for hosted in (*self.hosted.values(), *self._halted):
            await self._close(hosted)
        self.hosted.clear()
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._crew.leave(self.me.id)
        await self._others.nudge()
        self._others.close()


def _choose(near: Directory, far: Directory, link: Link) -> Directory:
    """What a peer is sent: sockets of this machine mean nothing elsewhere."""
    return near if link.port.source == "this machine" else far
