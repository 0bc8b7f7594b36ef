"""`gandy foreman run`: a foreman in the foreground, until a signal or a client stops it."""

import asyncio
import logging
import os
import signal
import socket
from pathlib import Path

from gandy import __version__
from gandy.clocks import read_monotonic
from gandy.config import SOCKET_NAME, Address, parse_address
from gandy.core.policy import Policy
from gandy.core.rows import Recovered
from gandy.core.standing import Standing
from gandy.errors import ConfigError
from gandy.foreman.admission import Admission
from gandy.foreman.audit import Audit
from gandy.foreman.clock import ForemanClock
from gandy.foreman.crew_member import CrewMember
from gandy.foreman.doors import NATIVE_ONLY, NO_KEYS, Doors
from gandy.foreman.job_source import JobSource, OwnStore
from gandy.foreman.server import Server
from gandy.foreman.shard import ServedShard
from gandy.interfaces import find_ip, is_local, list_reachable
from gandy.keys.ensemble import open_own_key
from gandy.keys.files import make_private_folder
from gandy.keys.foreman import FOLDER as KEYS
from gandy.keys.foreman import ForemanKeys
from gandy.net import loop
from gandy.net.exposure import describe_audience
from gandy.net.links import OWNER
from gandy.net.logs import begin_log
from gandy.net.open_files import allow_many_files
from gandy.store import describe_store, make_crew_store, make_store
from gandy.store.base import Store
from gandy.store.lock import FileLock

STORE_NAME = "jobs.sqlite"
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
        is_temporary: bool = False,
    ) -> None:
        """`is_temporary`: the home is new, and ends with this process."""
        make_home(home)
        self.home = home
        self.is_insecure = insecure  # whether doors without keys are allowed
        self.store_name = store or f"sqlite:{Path(home) / STORE_NAME}"
        self.keys = ForemanKeys(Path(home) / KEYS, is_temporary)
        self.audit = Audit(home)
        self.has_failed = False
        self._has_signal = False  # a signal stops it, whatever else happens
        self.server: Server
        crew = make_crew_store(self.store_name)
        self.member = (
            None if crew is None else CrewMember(crew, home, self.keys, self.audit, self._stop_soon, self._fail)
        )
        self._source: JobSource = self.member or OwnStore(make_store(self.store_name), home)
        self._policy = policy
        self._keep_results = keep_results
        self._lock: FileLock | None = None
        self._admission: Admission | None = None
        self._clock: ForemanClock | None = None  # once there is a server
        self._warnings: list[str] = []

    async def start(self, doors: Doors = NATIVE_ONLY) -> None:
        """Raises: StoreError, ConfigError."""
        refuse_plain(doors, self.is_insecure)  # before anything is open
        refuse_lonely(self.keys, self.store_name, doors)
        # One foreman per home, even if two that start at the same moment have different stores.
        lock = FileLock(Path(socket_address(self.home).host))
        try:
            self.server = await self._source.open(self._make_server, needs_keys(doors))
            self._clock = self.server.clock
            await self._open_doors(doors)
            await self._source.announce(self._list_places())
        except BaseException:
            await self._close()
            lock.release()
            raise
        self._lock = lock
        standing = self.server.standing
        doors_without_keys = " and ".join(standing.insecure_doors)
        self.audit.note(
            "started the foreman", OWNER, listening=" and ".join(standing.listening), insecure=doors_without_keys
        )

    def _list_places(self) -> tuple[str, ...]:
        """Where other foremen and their peers reach this one."""
        network = self.server.requests.key_requests.network
        return (str(socket_address(self.home)), *(str(each) for place in network for each in list_reachable(place)))

    @property
    def must_restart(self) -> bool:
        """True if another foreman has taken over what we ran: we go on as a new one."""
        return self.member is not None and self.member.must_restart and not self._has_signal

    def on_signal(self) -> None:
        """Stop for good, even if it is about to start again."""
        self._has_signal = True
        self._stop_soon()

    def _stop_soon(self) -> None:
        self.server.requests.should_stop.set()

    async def _make_server(self, store: Store, recovered: Recovered, shard: ServedShard) -> Server:
        """Raises: StoreError."""
        for problem in recovered.problems:
            log.error("%s", problem)
            self.audit.note("found a damaged store", OWNER, why=problem)
        for number in recovered.unreadable:
            log.error("job %d cannot be read and is set aside: see 'gandy job show %d'", number, number)
        standing = Standing(
            id=self._source.foreman,
            name=socket.gethostname(),
            version=__version__,
            pid=os.getpid(),
            store=describe_store(self.store_name),
            started=read_monotonic(),
            unreadable=set(recovered.unreadable),
        )
        parts = (self.audit, self.keys, self._source.arguments, shard)
        server = Server(store, recovered, self._policy, standing, *parts)
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
        from gandy.bus.core.discovery import LOCALHOST
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
            self._admission = Admission(self._source.find_server, self.keys, self.audit, self.home)
        await self._admission.listen(address)
        self._note_door(str(address))
        self.server.requests.key_requests.network.append(address)

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
        await self._source.leave()
        await self._close()
        self.audit.close()
        Path(socket_address(self.home).host).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.release()

    async def _close(self) -> None:
        """Close all that is open, as far as we came."""
        if self._admission is not None:
            await self._admission.close()
        if self._clock is not None:
            await self._clock.leave()
        await self._source.close()


def stop_on_signals(program: ForemanProgram) -> None:
    running = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, program.on_signal)


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
        describe_store(program.store_name),
    )
    program.warn()
    await program.wait()
    await program.stop()
    log.info("the foreman has stopped")
    return 1 if program.has_failed else 0
