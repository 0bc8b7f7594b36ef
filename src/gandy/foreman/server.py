"""The foreman's loop: bytes in, decisions, commits in groups, and only then words to any peer.

It owns ports, the clock and the store. What to do about anything is decided in `core`.
"""

import asyncio
import logging
from collections.abc import Callable

from gandy.config import Address
from gandy.core.effects import Effect, Reply
from gandy.core.foreman import HEARTBEAT_EXPIRY, Batch, Foreman
from gandy.core.links import Link
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.recall import SOON
from gandy.core.records import ResultsDropped
from gandy.core.requests import EVENT, REPLY, Answer, encode, hide_values, make_failure
from gandy.core.roles import CrewRole
from gandy.core.snapshot import restore
from gandy.core.standing import Standing
from gandy.core.withdrawal import Withdrawal
from gandy.core.workers import WorkerInfo
from gandy.errors import REFUSALS, RemoteProtocolError
from gandy.foreman.call_timers import CallTimers
from gandy.foreman.clock import ForemanClock
from gandy.foreman.committer import Committer
from gandy.foreman.dead_workers import DeadWorkers
from gandy.limits import MAX_PAYLOAD_BYTES, MAX_SILENT_LINKS
from gandy.moments import Monotonic
from gandy.net.links import LinkOwner, SocketLink, Visitor, listen
from gandy.net.open_files import limit_by_files
from gandy.store.base import Store
from gandy.talk.events import ExtensionReceived
from gandy.talk.side import Side

log = logging.getLogger("gandy.foreman")

GREETING_PAUSE = 0.5  # seconds until a worker that waits for the foreman's OK(0) gets it
KEEP_RESULTS = 30 * 86_400.0  # seconds that values of functions are kept, unless the user says otherwise
DROP_PERIOD = 600.0  # seconds between two looks for those that are too old
LONGEST_SLEEP = 1.0  # seconds of the clock loop between two looks


class Server:
    """One foreman. `start` it, let it run, `stop` it."""

    def __init__(self, store: Store, policy: Policy, keep_results: float = KEEP_RESULTS) -> None:
        self.store = store
        self.clock = ForemanClock()
        self.standing = Standing(started=self.clock.now())
        self.on_commit: Callable[[Batch], None] = lambda _batch: None
        self.on_withdrawal: Callable[[Withdrawal], None] = lambda _new: None
        self.on_message: Callable[[Link, ExtensionReceived], None] = lambda _link, _message: None
        self.on_time: Callable[[Monotonic], None] = lambda _now: None
        self.on_failure: Callable[[], None] = lambda: None
        self.on_problems: Callable[[tuple[str, ...]], None] = lambda _problems: None
        self.on_gone: Callable[[Link], None] = lambda _link: None
        self.on_answered: Callable[[Link], None] = lambda _link: None
        self.on_stop: list[Callable[[], None]] = []
        self.on_drop: Callable[[float], None] = lambda _seconds: None
        self.on_refused: Callable[[Visitor, str], None] = lambda _who, _why: None
        self.on_worker: Callable[[Visitor, WorkerInfo, bool], None] = lambda _who, _worker, _is_here: None
        self._policy = policy
        self._keep_results = keep_results
        self._servers: list[asyncio.Server] = []
        self._will_flush = False
        self._look: asyncio.TimerHandle | None = None  # at what the reactor waits for
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Take up what the store knows.

        Raises: StoreError.
        """
        recovered = await self.store.open()
        for problem in recovered.problems:
            log.error("%s", problem)
        self.on_problems(recovered.problems)
        self.standing.unreadable = set(recovered.unreadable)
        for number in recovered.unreadable:
            log.error("job %d cannot be read and is set aside: see 'gandy job show %d'", number, number)
        reactor = Reactor(self._policy, recovered.next_job, self.clock.boot)
        self.foreman = Foreman(reactor, self.clock.now(), _Watcher(self), limit_by_files(MAX_SILENT_LINKS))
        self.call_timers = CallTimers(self.foreman)
        self.committer = Committer(self.foreman, self.store, self.standing, self.now)
        self.committer.on_reply = self._reply
        self.committer.on_commit = self.on_commit
        self.committer.on_withdrawal = self.on_withdrawal
        self.dead_workers = DeadWorkers(reactor, self.now, self.decide)
        for job in await self.store.list_jobs(None, 1, None):
            self.clock.note_last_stamp(job.changed)
        restore(reactor, recovered, self.now())
        loops = (self.committer.run(self._look_soon), self.committer.mend(), self._clock_loop(), self._drop_loop())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._on_loop_end)

    def _on_loop_end(self, task: asyncio.Task[None]) -> None:
        """A foreman that cannot go on must not pretend to: workers wait for the next one, and the store has it all."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("the foreman has a bug and stops", exc_info=error)
            self.on_failure()

    async def listen(self, address: Address, owner: LinkOwner | None = None) -> None:
        """`owner`: of the links, where it is not this server but a door to it. Raises: ConfigError."""
        role = CrewRole.OWNER if address.scheme == "unix" else CrewRole.ANYBODY
        await self.serve(address, lambda: SocketLink(owner or self, role))

    async def serve(self, address: Address, make: Callable[[], asyncio.Protocol]) -> None:
        """Make links of what connects at this address. Raises: ConfigError."""
        self._servers.append(await listen(address, make))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for listener in self.on_stop:
            listener()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self.call_timers.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks:
            for link in list(self.foreman.links.values()):
                link.port.close()
        await asyncio.sleep(0)
        await self.store.close()

    # Links

    def on_link(self, port: SocketLink, side: Side | None = None) -> None:
        """`side`: the conversation, where it is not that of the native wire."""
        if port.is_foreign:
            log.warning("another user tried to connect to the unix socket")
            self.on_refused(port.peer, "another user")
            port.abort()
            return
        port.link = self.foreman.on_link(port, port.credentials, self.clock.now(), side)
        asyncio.get_running_loop().call_later(GREETING_PAUSE, self.foreman.greet, port.link)

    def on_data(self, port: SocketLink, data: bytes) -> None:
        link = port.link
        if link is None:  # of another user, which is about to be gone
            return
        self.foreman.on_data(link, data, self.now())
        while link.inbox:
            self.on_message(link, link.inbox.popleft())
        self.call_timers.arm()
        if self.foreman.has_work:
            self.wake()

    def on_cut(self, port: SocketLink) -> None:
        link = port.link
        if link is None:
            return
        self.on_gone(link)
        if link.peer.worker is not None:
            self.on_worker(port.peer, link.peer.worker.info, False)
        self.foreman.on_cut(link, self.now())
        if port.peer_pid is not None:
            self.dead_workers.watch(link.worker, port.peer_pid)
        self.wake()

    # Deciding and doing

    def decide(self, effects: list[Effect]) -> None:
        """Take what the reactor decided; it is done as soon as the store knows."""
        self.committer.decide(effects)

    async def commit(self, effects: list[Effect]) -> None:
        """Take what the reactor decided, and wait until the store knows it, and everything before."""
        await self.committer.commit(effects)

    def wake(self) -> None:
        self.committer.wake()

    def _reply(self, reply: Reply) -> None:
        link, seq = reply.token
        self.answer(link, seq, reply.value)

    def answer(self, link: Link, seq: int, value: Answer) -> None:
        """Answer a request of a client, if it is still there. Each must be answered once."""
        payload = encode(hide_values(value))
        if len(payload) > MAX_PAYLOAD_BYTES:
            log.error("an answer of %d bytes does not fit a frame: %s", len(payload), type(value).__name__)
            payload = encode(make_failure("internal", f"the answer has {len(payload):,} bytes, which fit no frame"))
        if self.send(link, REPLY, payload, seq):
            self.on_answered(link)

    def tell(self, link: Link, seq: int, value: Answer) -> None:
        """Send a client an event that it asked for."""
        self.send(link, EVENT, encode(hide_values(value)), seq)

    def send(self, link: Link, kind: int, payload: bytes, seq: int) -> bool:
        """Send a message of an agreed extension in this turn of the loop. False: the link is not there any more."""
        if not self.foreman.send(link, kind, payload, seq):
            return False
        if not self._will_flush:  # with everything else that is said in this turn
            self._will_flush = True
            asyncio.get_running_loop().call_soon(self._flush)
        return True

    def _flush(self) -> None:
        self._will_flush = False
        self.foreman.flush()

    # Time

    def now(self) -> Monotonic:
        """When an event happens, for the reactor, which hears along with it what the wall clock shows."""
        self.foreman.reactor.clocks.wall_ahead = self.clock.read_wall_ahead()
        return self.clock.now()

    async def _clock_loop(self) -> None:
        """Once in a while: all that is due."""
        while True:
            deadline = self.foreman.reactor.next_deadline()
            wait = LONGEST_SLEEP if deadline is None else deadline - self.clock.now()
            await asyncio.sleep(min(LONGEST_SLEEP, max(0.01, wait)))
            self.foreman.reactor.on_clock(self.clock.find_shared_ahead())
            self._on_time()
            self.foreman.cut_expired(self.clock.wall())

    def _look_soon(self) -> None:
        """Call `on_time` for what is due within a second, in time. The clock loop, which may sleep, does the rest."""
        wait = max(SOON, self.foreman.reactor.next_moment() - self.clock.now())
        loop = asyncio.get_running_loop()
        if wait < LONGEST_SLEEP and (self._look is None or loop.time() + wait < self._look.when()):
            if self._look is not None:
                self._look.cancel()
            self._look = loop.call_later(wait, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._on_time()

    def _on_time(self) -> None:
        now = self.now()
        self.foreman.on_time(now)
        self.on_time(now)
        self.wake()

    async def _drop_loop(self) -> None:
        """Values of functions are not kept for ever."""
        while True:
            self.clock.read_wall_ahead()
            self.decide([ResultsDropped(self.clock.find_oldest(self._keep_results))])
            self.on_drop(self._keep_results)
            await asyncio.sleep(DROP_PERIOD)


class _Watcher:
    """Implements `core.foreman.Watcher`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def on_worker(self, link: Link, worker: WorkerInfo) -> None:
        self._server.on_worker(_visitor(link), worker, True)

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        log.warning("%s is cut: %s", link.name, error)
        if error.code in REFUSALS:
            self._server.on_refused(_visitor(link), str(error))

    def on_expired(self, link: Link) -> None:
        self._server.on_refused(_visitor(link), "its key has expired")

    def on_silent(self, worker: WorkerInfo) -> None:
        log.warning("worker %s has been silent for %.0f s; its link is cut", worker.name, HEARTBEAT_EXPIRY)


def _visitor(link: Link) -> Visitor:
    assert isinstance(link.port, SocketLink)
    return link.port.peer
