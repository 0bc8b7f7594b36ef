"""`gandy foreman run`: a foreman in the foreground, until a signal or a client stops it."""

import asyncio
import logging
import os
import secrets
import signal
import socket
from pathlib import Path

from msgspec.structs import replace

from gandy import __version__
from gandy.bus.core.discovery import LOCALHOST
from gandy.clocks import read_monotonic
from gandy.config import SOCKET_NAME, Address, parse_address
from gandy.core.policy import Policy
from gandy.core.rows import Recovered
from gandy.core.shards import ForemanPlace
from gandy.core.standing import Standing
from gandy.errors import ConfigError, StoreError
from gandy.foreman.admission import Admission
from gandy.foreman.arguments import CrewArguments, FileArguments
from gandy.foreman.audit import Audit
from gandy.foreman.clock import read_boot
from gandy.foreman.crew_audit import CrewAudit
from gandy.foreman.doors import NATIVE_ONLY, NO_KEYS, Doors
from gandy.foreman.hosting import Hosting
from gandy.foreman.ring_table import OtherIdentity, RingTable
from gandy.foreman.server import Server
from gandy.foreman.shard import Shard, WholeCrew
from gandy.interfaces import find_ip, is_local, list_reachable
from gandy.keys.ensemble import open_own_key
from gandy.keys.files import make_private_folder
from gandy.keys.foreman import FOLDER as KEYS
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_PLACES
from gandy.net import loop
from gandy.net.exposure import describe_audience
from gandy.net.links import OWNER
from gandy.net.logs import begin_log
from gandy.net.open_files import allow_many_files
from gandy.reach import Reach
from gandy.store import make_crew_store, make_store
from gandy.store.base import Store
from gandy.store.crew import CrewStore
from gandy.store.lock import FileLock

ARGUMENTS_NAME = "arguments"
STORE_NAME = "jobs.sqlite"
HAND_OVER_SECONDS = 5.0  # that other foremen have to take over, when this one stops
KEEP_RESULTS = 30 * 86_400.0  # seconds that values of functions are kept, unless the user says otherwise

log = logging.getLogger("gandy.foreman")


def socket_address(home: str) -> Address:
    """Where the foreman of this home listens for clients and workers on this machine."""
    return parse_address(f"unix:{Path(home) / SOCKET_NAME}")


def make_home(home: str) -> None:
    """Raises: ConfigError."""
    try:
        make_private_folder(Path(home))
    except OSError as error:
        raise ConfigError(f"cannot make the folder {home}: {error.strerror}") from None


def refuse_plain(doors: Doors, insecure: bool) -> None:
    """Refuse doors without keys, even on this machine: its other users are strangers. Raises: ConfigError."""
    for door in doors.others:
        door.check(insecure)
    plain = [each for each in doors.listen if parse_address(each).scheme == "plain"]
    if plain and not insecure:
        raise ConfigError(f"{' and '.join(plain)} {NO_KEYS}. With keys: --listen tcp://HOST:PORT")


def needs_keys(doors: Doors) -> bool:
    """True if peers from the network connect with keys."""
    return any(parse_address(each).scheme == "tcp" for each in doors.listen)


def refuse_lonely(keys: ForemanKeys, store: str, doors: Doors) -> None:
    """Refuse to pose as a crew that is elsewhere, without its jobs and keys. Raises: ConfigError."""
    if needs_keys(doors) and keys.has_joined and keys.own is not None and not store.startswith("postgres"):
        crew = keys.own.about.addresses[0]
        raise ConfigError(
            f"this home is a foreman's of the crew at {crew}: name its database, --store postgresql://..."
        )


class ForemanProgram:
    """A foreman with its doors. `start` returns when it is open; `wait` ends when a signal or a client stops it."""

    def __init__(
        self,
        home: str,
        store: str | None,
        policy: Policy,
        insecure: bool = False,
        keep_results: float = KEEP_RESULTS,
    ) -> None:
        make_home(home)
        self.home = home
        self.is_insecure = insecure  # whether doors without keys are allowed
        self.store_name = store or f"sqlite:{Path(home) / STORE_NAME}"
        self.keys = ForemanKeys(Path(home) / KEYS)
        self.audit = Audit(home)
        self.has_failed = False
        self.server: Server
        self._crew = make_crew_store(self.store_name)  # None: the store is for one foreman
        self._store = None if self._crew else make_store(self.store_name)
        self.hosting: Hosting | None = None
        self._beating: asyncio.Task[None] | None = None
        self.must_restart = False  # another foreman has taken over what we ran
        self._crew_audit: CrewAudit | None = None
        self._crew_audit_loop: asyncio.Task[None] | None = None
        self._policy = policy
        self._keep_results = keep_results
        self._lock: FileLock | None = None
        self._admission: Admission | None = None
        self._warnings: list[str] = []

    async def start(self, doors: Doors = NATIVE_ONLY) -> None:
        """Raises: StoreError, ConfigError."""
        refuse_plain(doors, self.is_insecure)  # before anything is open
        refuse_lonely(self.keys, self.store_name, doors)
        # One foreman per home, even if two that start at the same moment have different stores.
        lock = FileLock(Path(socket_address(self.home).host))
        try:
            await self._open_server(doors)
            try:
                await self._open_doors(doors)
            except BaseException:
                await self._close_server()
                raise
            await self._begin_hosting()
        except BaseException:
            await self._close_store()
            lock.release()
            raise
        self._lock = lock
        standing = self.server.standing
        doors_without_keys = " and ".join(standing.insecure_doors)
        self.audit.note(
            "started the foreman", OWNER, listening=" and ".join(standing.listening), insecure=doors_without_keys
        )

    async def _open_server(self, doors: Doors) -> None:
        """Take up what the store knows. Raises: StoreError, ConfigError."""
        if self._crew is None:
            assert self._store is not None
            self.server = await self._make_server(self._store, await self._store.open(), WholeCrew())
            return
        await self._crew.open()
        name = socket.gethostname()
        me = ForemanPlace(f"{name}-{secrets.token_hex(4)}", name, __version__, (), read_boot())
        self.hosting = Hosting(
            self._crew, me, self.home, self._make_server, self._make_reach, self._restart, self._stop_soon
        )
        self._share_audit(self._crew, name)
        await self._share_keys(self.hosting, self._crew, doors)
        self.server = await self.hosting.start()
        self.server.requests.key_requests.list_other_places = self.hosting.list_other_places

    def _share_audit(self, crew: CrewStore, name: str) -> None:
        def note_lost(count: int) -> None:
            self.audit.note("left lines out of the crew's audit", OWNER, count=count)

        self._crew_audit = CrewAudit(crew.note_audit, note_lost)
        self._crew_audit_loop = asyncio.create_task(self._crew_audit.run())
        self.audit.foreman = name
        self.audit.on_line = self._crew_audit.add

    async def _share_keys(self, hosting: Hosting, crew: CrewStore, doors: Doors) -> None:
        """Use the keys of the crew. A foreman of another identity may run if it needs none. Raises: ConfigError."""
        try:
            await self.keys.share_ring(RingTable(crew, self.keys.fingerprint))
        except OtherIdentity:
            if needs_keys(doors):
                raise
            return
        self.keys.kept.on_change = hosting.spread
        self.keys.kept.on_revoked.append(self._on_revoked)
        hosting.on_ring_version = self.keys.kept.on_version

    def _on_revoked(self, fingerprint: str) -> None:
        if self.keys.own is not None and fingerprint == self.keys.own.fingerprint:
            log.critical("the key of this foreman was revoked, so it stops")
            self._fail()

    async def _begin_hosting(self) -> None:
        """Let other foremen know where we are. Raises: StoreError."""
        if self.hosting is None:
            return
        network = self.server.requests.key_requests.network
        listening = [str(each) for address in network for each in list_reachable(address)]
        places = (str(socket_address(self.home)), *listening)[:MAX_PLACES]
        self.hosting.me = replace(self.hosting.me, places=places)
        await self.hosting.look()
        self._beating = asyncio.create_task(self.hosting.run())

    def _make_reach(self, places: tuple[Address, ...]) -> Reach:
        """How this foreman reaches another one, or a shard of one."""
        return Reach(places, self.keys.own)

    def _restart(self) -> None:
        self.must_restart = True
        self._stop_soon()

    def _stop_soon(self) -> None:
        self.server.requests.should_stop.set()

    async def _make_server(self, store: Store, recovered: Recovered, shard: Shard) -> Server:
        """Raises: StoreError."""
        for problem in recovered.problems:
            log.error("%s", problem)
            self.audit.note("found a damaged store", OWNER, why=problem)
        for number in recovered.unreadable:
            log.error("job %d cannot be read and is set aside: see 'gandy job show %d'", number, number)
        standing = Standing(
            version=__version__,
            pid=os.getpid(),
            store=self.store_name,
            started=read_monotonic(),
            unreadable=set(recovered.unreadable),
            foreman="" if self.hosting is None else self.hosting.me.id,
        )
        files = Path(self.home) / ARGUMENTS_NAME
        arguments = FileArguments(files) if self._crew is None else CrewArguments(self._crew)
        server = Server(store, recovered, self._policy, standing, self.audit, self.keys, arguments, shard)
        await server.start(self._keep_results, self._fail)
        return server

    def _fail(self) -> None:
        self.has_failed = True
        self.server.requests.should_stop.set()

    async def _open_doors(self, doors: Doors) -> None:
        await self._open_door(socket_address(self.home))
        for each in doors.listen:
            await self._listen(parse_address(each))
        if doors.ensemble is not None:
            self._join(doors.ensemble, doors.listen)
        for door in doors.others:
            self._note_door(*await door.open(self.server, self.home, self.is_insecure))

    def _note_door(self, name: str, audience: str | None = None) -> None:
        """Note an open door. `audience`: from where it can be reached, if it is without keys."""
        self.server.standing.listening.append(name)
        if audience is not None:
            self.server.standing.insecure_doors.append(name)
            self._warnings.append(f"INSECURE: {name} is without keys, and open to {audience}")

    def _join(self, ensemble: str, listen: tuple[str, ...]) -> None:
        """Lead the clock of an ensemble, and be found there."""
        from gandy.bus import AsyncEnsemble
        from gandy.bus.crew import Signpost

        native = [socket_address(self.home), *map(parse_address, listen)]
        key = None if self.is_insecure else open_own_key(self.home)
        # Peers that were invited have the ensemble's key, too, and must be able to reach it.
        is_near = key is not None and not key.is_shared and all(is_local(each) for each in native)
        band = AsyncEnsemble(
            ensemble,
            clock="lead",
            insecure=self.is_insecure,
            key=None if key is None else key.secret,
            unix_time=True,  # so it goes on when a foreman starts again, and people can read it
            ip=LOCALHOST if is_near else find_ip(),
        )
        self.server.clock.join(band)
        Signpost(band, native, self.keys.fingerprint)
        self.server.requests.key_requests.ensemble = ensemble
        if self._admission is not None:
            self._admission.ensemble = ensemble
        self._note_door(f"ensemble:{ensemble}", "everyone on the network" if self.is_insecure else None)

    async def _listen(self, address: Address) -> None:
        """Listen on the network: with keys, unless the address says otherwise."""
        if address.scheme != "tcp":
            await self._open_door(address)
            return
        if self._admission is None:
            self._admission = Admission(self._find_server, self.keys, self.audit, self.home)
        await self._admission.listen(address)
        self._note_door(str(address))
        self.server.requests.key_requests.network.append(address)

    def _find_server(self, shard: int | None) -> Server | None:
        if self.hosting is not None:
            return self.hosting.find_server(shard)
        return self.server if shard is None else None

    async def _open_door(self, address: Address) -> None:
        """Listen without keys. A unix socket needs none: the kernel says which user connects."""
        await self.server.listen(address)
        self._note_door(str(address), None if address.scheme == "unix" else describe_audience(address.host))

    def warn(self) -> None:
        """Log a warning for every door without keys."""
        for each in self._warnings:
            log.warning("%s: every program that reaches it can run commands as you", each)

    async def wait(self) -> None:
        await self.server.requests.should_stop.wait()

    async def stop(self) -> None:
        await self.halt_hosting()
        await self._hand_over()
        await self._close_server()
        await self._close_store()
        Path(socket_address(self.home).host).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.release()

    async def halt_hosting(self) -> None:
        """Renew no lease, and take over nothing more."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    async def _hand_over(self) -> None:
        """Let other foremen of the crew go on with what we own, if there are any."""
        if self.hosting is None or self.must_restart:
            return
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS):
                await self.hosting.leave()
        except (StoreError, TimeoutError) as error:
            log.warning("other foremen take over when our leases expire: %s", str(error) or "no answer in time")

    async def _close_server(self) -> None:
        if self._admission is not None:
            await self._admission.close()
        await self.server.clock.leave()
        if self.hosting is None:
            await self.server.stop()
        else:
            await self.hosting.stop()

    async def _close_store(self) -> None:
        self.audit.close()
        if self._crew_audit is not None and self._crew_audit_loop is not None:
            self._crew_audit_loop.cancel()
            await asyncio.gather(self._crew_audit_loop, return_exceptions=True)
            await self._crew_audit.close()
        for store in (self._store, self._crew):
            if store is not None:
                await store.close()


def stop_on_signals(program: ForemanProgram) -> None:
    running = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, program.server.requests.should_stop.set)


def run(*, home: str, store: str | None, grace: float, insecure: bool, keep_results: float, doors: Doors) -> int:
    """Raises: StoreError, ConfigError."""
    begin_log(logging.INFO)
    allow_many_files()
    while True:
        program = ForemanProgram(home, store, Policy(grace=grace), insecure, keep_results)
        code = loop.run(_run(program, doors))
        if not program.must_restart:
            return code
        log.warning("another foreman has taken over what this one ran; it starts again")


async def _run(program: ForemanProgram, doors: Doors) -> int:
    await program.start(doors)
    stop_on_signals(program)
    log.info(
        "the foreman listens at %s and keeps jobs in %s",
        " and ".join(program.server.standing.listening),
        program.store_name,
    )
    program.warn()
    await program.wait()
    await program.stop()
    log.info("the foreman has stopped")
    return 1 if program.has_failed else 0
