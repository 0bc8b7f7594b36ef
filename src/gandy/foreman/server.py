"""The foreman's loop: bytes in, decisions, commits in groups, and only then words to anybody.

It owns links, the clock and the store. What to do about anything is decided in `core`.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from gandy.config import Address
from gandy.core.effects import Acknowledge, Dismiss, Effect, Reply
from gandy.core.foreman import Batch, Foreman
from gandy.core.lobby import Lobby
from gandy.core.model import AttemptKey
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.recall import SOON
from gandy.core.records import ResultsDropped
from gandy.core.reports import read_attempt, read_ending
from gandy.core.requests import EVENT, REPLY, Answer, encode, hide_values, make_failure
from gandy.core.roles import OFFERS, CrewRole, admits, make_refusal
from gandy.core.snapshot import restore
from gandy.core.withdrawal import Withdrawal
from gandy.core.workers import WorkerInfo
from gandy.errors import REFUSALS, ErrorCode, RemoteProtocolError, StoreError
from gandy.foreman.clock import ForemanClock
from gandy.foreman.inputs import InputCache
from gandy.foreman.lane import Lane
from gandy.foreman.overview import Overview
from gandy.ids import JobId
from gandy.journal import Left, read_abandoned
from gandy.limits import HELLO_SECONDS, MAX_PAYLOAD_BYTES, MAX_SILENT_LINKS
from gandy.net.links import Link, LinkOwner, Visitor, listen
from gandy.net.open_files import limit_by_files
from gandy.processes import is_dead
from gandy.store.base import Store
from gandy.talk.events import ExtensionReceived
from gandy.talk.foreman import ForemanSide
from gandy.talk.side import Side
from gandy.wire.messages import Extension

log = logging.getLogger("gandy.foreman")

HEARTBEAT_EXPIRY = 15.0  # seconds of silence after which a worker's link is cut
# Seconds between two looks at whether a worker's process is gone, and its watchdog has written down what ended.
MIN_BURIAL_PAUSE, MAX_BURIAL_PAUSE = 0.05, 1.0
GREETING_PAUSE = 0.5  # seconds until a worker that waits for the foreman's OK(0) gets it
COMMIT_INTERVAL = 0.008  # seconds from one commit to the next: busy crews share commits, idle ones do not wait
KEEP_RESULTS = 30 * 86_400.0  # seconds that values of functions are kept, unless somebody says otherwise
DROP_PERIOD = 600.0  # seconds between two looks for those that are too old
FEW_RECORDS = 8  # in a commit; a crew that has no more to tell at a time is not busy
LAST_WORD_PAUSE = 1.0  # seconds that a link has to take its last word
STORE_RETRY = 1.0  # seconds between tries of a commit that failed, and between looks at a store with a problem
MAX_SLEEP = 1.0  # seconds of the clock loop between two looks

OnMessage = Callable[[str, ExtensionReceived], None]


class Server:
    """One foreman. `start` it, let it run, `stop` it."""

    def __init__(self, store: Store, policy: Policy, keep_results: float = KEEP_RESULTS) -> None:
        self.store = store
        self.trouble = ""  # what the store complains about; while it does, no new work is taken
        self.is_stuck = False  # not even results and cancels can be recorded
        self.unreadable: set[JobId] = set()  # jobs that were set aside at the start
        self.clock = ForemanClock()
        self.on_commit: list[Callable[[Batch], None]] = []
        self.on_withdrawal: Callable[[Withdrawal], None] = lambda _new: None
        self.on_message: OnMessage = lambda _link, _message: None
        self.on_failure: Callable[[], None] = lambda: None
        self.on_problems: Callable[[tuple[str, ...]], None] = lambda _problems: None
        self.on_gone: Callable[[str], None] = lambda _link: None
        self.on_answered: Callable[[str], None] = lambda _link: None
        self.on_stop: list[Callable[[], None]] = []
        self.on_drop: Callable[[float], None] = lambda _seconds: None
        self.on_refused: Callable[[Visitor, str], None] = lambda _who, _why: None
        self.on_worker: Callable[[Visitor, WorkerInfo, bool], None] = lambda _who, _worker, _is_here: None
        self._at_work: dict[str, tuple[Visitor, WorkerInfo]] = {}  # by their links
        self._strangers: set[Link] = set()  # of other users, until they are gone
        self._silent: Lobby[Link] = Lobby(limit_by_files(MAX_SILENT_LINKS), HELLO_SECONDS)
        self._policy = policy
        self._keep_results = keep_results
        self._inputs = InputCache(store)
        self._links: dict[str, Link] = {}
        self._pids: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []
        self._work = asyncio.Event()
        self._has_trouble = asyncio.Event()
        self._will_flush = False
        self._look: asyncio.TimerHandle | None = None  # at what the reactor waits for
        self._next_silence = 0.0  # when the first worker may have been silent for too long
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Take up what the store knows.

        Raises: StoreError.
        """
        recovered = await self.store.open()
        for problem in recovered.problems:
            log.error("%s", problem)
        self.on_problems(recovered.problems)
        self.unreadable = set(recovered.unreadable)
        for number in recovered.unreadable:
            log.error("job %d cannot be read and is set aside: see 'gandy job show %d'", number, number)
        self.foreman = Foreman(Reactor(self._policy, recovered.next_job, self.clock.boot))
        self.lane = Lane(self._links)
        for job in await self.store.list_jobs(None, 1, None):
            self.clock.note_last_stamp(job.changed)
        restore(self.foreman.reactor, recovered, self.now())
        loops = (self._commit_loop(), self._mend_loop(), self._clock_loop(), self._drop_loop())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._on_loop_end)

    def _on_loop_end(self, task: asyncio.Task[None]) -> None:
        """A foreman that cannot go on must not pretend to: workers wait for the next one, and the store has it all."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("the foreman has a bug and stops", exc_info=error)
            self.on_failure()

    @property
    def overview(self) -> Overview:
        """Jobs and tasks, for people."""
        return Overview(self.store, self.foreman.reactor)

    async def listen(self, address: Address, owner: LinkOwner | None = None) -> None:
        """`owner`: of the links, where it is not this server but a door to it. Raises: ConfigError."""
        role = CrewRole.OWNER if address.scheme == "unix" else CrewRole.ANYBODY
        await self.serve(address, lambda: Link(owner or self, role))

    async def serve(self, address: Address, make: Callable[[], asyncio.Protocol]) -> None:
        """Let others make links of what comes at this address. Raises: ConfigError."""
        self._servers.append(await listen(address, make))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for listener in self.on_stop:
            listener()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            self.lane.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in list(self._links.values()):
            link.close()
        await asyncio.sleep(0)
        await self.store.close()

    # Links

    def on_link(self, link: Link) -> None:
        if self.turns_away(link):
            return
        self.add_link(link, ForemanSide(offers=OFFERS[link.role], admits=partial(admits, link.role)))
        asyncio.get_running_loop().call_later(GREETING_PAUSE, self._greet, link.name)

    def turns_away(self, link: Link) -> bool:
        """Whether another user is at the other end of a unix socket. It is cut then."""
        if not link.is_foreign:
            return False
        log.warning("another user tried to come in by the unix socket")
        self.on_refused(link.peer, "another user")
        self._strangers.add(link)
        link.abort()
        return True

    def add_link(self, link: Link, side: Side) -> None:
        self._links[link.name] = link
        if (pid := link.peer_pid) is not None:
            self._pids[link.name] = pid
        self.foreman.on_link(link.name, side, link.role if link.key is None else link.key.fingerprint)
        if side.exchange is not None:
            self.lane.add_link(link.name, side.exchange, link.role)
        self._flush_link(link.name)
        self._silent.enter(link, link.source, self.clock.now())

    def on_data(self, link: Link, data: bytes) -> None:
        taken = self.lane.take(link.name, data)
        if taken == len(data):
            return
        if taken:
            data = data[taken:]
        if link in self._strangers:
            return
        desk = self.foreman.desks[link.name]
        try:
            self.lane.begin()
            if self.foreman.on_data(link.name, data, self.now()):
                self.lane.end()
                return
            if not desk.is_client:
                worker = self.foreman.reactor.workers.find(desk.worker)
                self.lane.introduce(link.name, worker)
                if worker is not None and link.name not in self._at_work:
                    self._at_work[link.name] = link.peer, worker.info
                    self.on_worker(link.peer, worker.info, True)
            self.lane.end()
        except RemoteProtocolError as error:
            self._turn_out(link.name, error)
            return
        if not link.is_known and desk.is_known:
            link.is_known = True
            self._silent.leave(link)
        while desk.inbox:
            self.on_message(link.name, desk.inbox.popleft())
        self.foreman.dirty.discard(link.name)
        self._flush_link(link.name)  # nothing in there waits for the store: what does is sent by `_perform`
        if self.foreman.has_work:
            self.wake()

    def _turn_out(self, name: str, error: RemoteProtocolError) -> None:
        """Whoever broke the rules hears which one, and is cut."""
        log.warning("%s is cut: %s", name, error)
        link = self._links[name]
        if error.code in REFUSALS:
            self.on_refused(link.peer, str(error))
        link.write(self.foreman.desks[name].side.data_to_send())
        link.close()
        if self.foreman.has_work:
            self.wake()

    def on_cut(self, link: Link) -> None:
        if link in self._strangers:
            self._strangers.discard(link)
            return
        del self._links[link.name]
        self._silent.leave(link)
        self.on_gone(link.name)
        if link.name in self._at_work:
            self.on_worker(*self._at_work.pop(link.name), False)
        self.lane.on_cut(link.name)
        worker = self.foreman.desks[link.name].worker
        self.foreman.on_cut(link.name, self.now())
        pid = self._pids.pop(link.name, None)
        if pid is not None:
            self._forget_if_dead(worker, pid)
        self.wake()

    def _forget_if_dead(self, worker: str, pid: int, pause: float = MIN_BURIAL_PAUSE) -> None:
        """Do not wait for a worker whose process is gone, but count what it left. Links end before their process."""
        found = self.foreman.reactor.workers.find(worker)
        if found is None or found.connected:
            return
        left = read_abandoned(found.info.folder) if is_dead(pid) else None
        if left is not None:
            self._count_left(worker, left)
        else:
            later = min(MAX_BURIAL_PAUSE, 1.2 * pause)
            asyncio.get_running_loop().call_later(pause, self._forget_if_dead, worker, pid, later)

    def _count_left(self, worker: str, left: Left) -> None:
        """A dead worker's results count as if it had reported them; what else it held is lost."""
        reactor, now = self.foreman.reactor, self.now()
        ended = [(read_attempt(result), read_ending(result)) for result in left.results]
        self.decide([*reactor.on_results(worker, ended, now), *reactor.on_gone(worker, now)])

    def _greet(self, name: str) -> None:
        desk = self.foreman.desks.get(name)
        if desk is not None:
            desk.side.greet()
            self._flush_link(name)

    def find_link(self, name: str) -> Link | None:
        return self._links.get(name)

    def count_links(self, fingerprint: str) -> int:
        return sum(1 for link in self._links.values() if link.key is not None and link.key.fingerprint == fingerprint)

    def cut_links(self, fingerprint: str) -> None:
        """A key is no longer good."""
        for link in list(self._links.values()):
            if link.key is not None and link.key.fingerprint == fingerprint:
                self._dismiss(link, ErrorCode.REVOKED_KEY)

    def _dismiss(self, link: Link, code: ErrorCode) -> None:
        """With a last word, which it may not wait for by reading nothing."""
        link.write(make_refusal(code))
        link.close()
        asyncio.get_running_loop().call_later(LAST_WORD_PAUSE, link.abort)

    # Deciding and doing

    def decide(self, effects: list[Effect]) -> None:
        """Take what the reactor decided; it is done as soon as the store knows."""
        self.foreman.batch.add(effects)
        self.wake()

    async def commit(self, effects: list[Effect]) -> None:
        """Take what the reactor decided, and wait until the store knows it, and everything before."""
        done = asyncio.get_running_loop().create_future()
        self.decide([*effects, Reply(done, None)])
        await done

    def wake(self) -> None:
        self._work.set()

    async def _commit_loop(self) -> None:
        """Everything that was decided since the last group was written is the next group."""
        loop = asyncio.get_running_loop()
        next_commit = 0.0
        while True:
            await self._work.wait()
            await asyncio.sleep(next_commit - loop.time())
            self._work.clear()
            batch = self.foreman.take_batch(self.now())
            self.lane.on_room()  # of what ends from now on, tasks have the first choice
            next_commit = loop.time() + (COMMIT_INTERVAL if len(batch.records) > FEW_RECORDS else 0.0)
            lost = await self._commit(batch)
            await self._perform(batch, lost)
            self._flush()
            if self.foreman.has_work:
                self.wake()
            self._look_soon()

    def _look_soon(self) -> None:
        """Call `on_time` for what is due within a second, in time. The clock loop, which may sleep, does the rest."""
        wait = max(SOON, self.foreman.reactor.next_moment() - self.clock.now())
        loop = asyncio.get_running_loop()
        if wait < MAX_SLEEP and (self._look is None or loop.time() + wait < self._look.when()):
            if self._look is not None:
                self._look.cancel()
            self._look = loop.call_later(wait, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self.foreman.on_time(self.now())
        self.wake()

    async def _commit(self, batch: Batch) -> frozenset[AttemptKey]:
        """Until the store has it, or what is left of it without new work."""
        while batch.records:
            try:
                lost = await self.store.commit(batch.records)
            except StoreError as error:
                self._note_trouble(error)
                if not self._withdraw(batch, error):
                    self.is_stuck = True
                    self._put_off(batch, error)
                    await asyncio.sleep(STORE_RETRY)
            else:
                self.is_stuck = False
                return lost
        return frozenset()

    def _note_trouble(self, error: StoreError) -> None:
        if str(error) != self.trouble:
            log.error("the store has a problem, and no new work is taken: %s", error)
        self.trouble = str(error)
        self._has_trouble.set()

    def _withdraw(self, batch: Batch, error: StoreError) -> bool:
        """Take no new work, and tell those who asked. False if there is none in the batch."""
        new = self.foreman.on_commit_failed(batch, self.now())
        self.on_withdrawal(new)
        for reply in new.replies:
            self._refuse(reply, StoreError(f"nothing was taken: {error}", error.retryable))
        return bool(new)

    def _put_off(self, batch: Batch, error: StoreError) -> None:
        """What was decided stays decided, but its clients need not wait for the store."""
        waiting = [send for send in batch.sends if isinstance(send, Reply)]
        batch.sends = [send for send in batch.sends if not isinstance(send, Reply)]
        for reply in waiting:
            self._refuse(reply, StoreError(f"it is done when the store works again: {error}", error.retryable))

    def _refuse(self, reply: Reply, error: StoreError) -> None:
        if not isinstance(reply.token, asyncio.Future):
            self._reply(Reply(reply.token, make_failure("store", str(error), error.retryable)))
        elif not reply.token.done():
            reply.token.set_exception(error)

    async def _mend_loop(self) -> None:
        """After trouble: see whether new work can be taken again."""
        while True:
            await self._has_trouble.wait()
            await asyncio.sleep(STORE_RETRY)
            if self.is_stuck:  # the commit loop tries again already
                continue
            try:
                await self.store.prepare()
            except StoreError as error:
                self._note_trouble(error)
            else:
                log.info("the store works again")
                self.trouble = ""
                self._has_trouble.clear()
                self.foreman.on_store_ready(self.now())
                self.wake()

    async def _perform(self, batch: Batch, lost: frozenset[AttemptKey]) -> None:
        now = self.now()
        self.foreman.reactor.on_claims_lost(lost)
        self._inputs.note(batch.records)
        inputs, unreadable = await self._inputs.find(batch.sends)
        if unreadable:
            log.error("tasks fail because the store cannot read what they need: %s", next(iter(unreadable.values())))
            batch.sends = self.foreman.fail_unreadable(batch.sends, unreadable, now)
        for send in batch.sends:
            if isinstance(send, Reply):
                self._reply(send)
            elif isinstance(send, Dismiss) and self.foreman.find_desk(send.worker) is None:
                self.lane.dismiss(send.worker, send.immediate)
            else:
                try:
                    self.foreman.perform(send, inputs, now)
                except RemoteProtocolError as error:
                    assert isinstance(send, Acknowledge)
                    self._turn_out(self.foreman.get_link(send.worker), error)
        for listener in self.on_commit:
            listener(batch)

    def _reply(self, reply: Reply) -> None:
        """To a client on a link, or to somebody in this process who waits."""
        if isinstance(reply.token, asyncio.Future):
            if not reply.token.done():
                reply.token.set_result(reply.value)
        else:
            link, seq = reply.token
            self.answer(link, seq, reply.value)

    def _flush_soon(self, name: str) -> None:
        """With everything else that is said to it in this turn of the loop."""
        self.foreman.dirty.add(name)
        if not self._will_flush:
            self._will_flush = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._will_flush = False
        for name in self.foreman.dirty:
            self._flush_link(name)
        self.foreman.dirty.clear()

    def _flush_link(self, name: str) -> None:
        link = self._links.get(name)
        if link is not None and (data := self.foreman.desks[name].side.data_to_send()):
            link.write(data)

    def answer(self, link: str, seq: int, value: Answer) -> None:
        """Answer a request of a client, if it is still there. Each must be answered once."""
        payload = encode(hide_values(value))
        if len(payload) > MAX_PAYLOAD_BYTES:
            log.error("an answer of %d bytes does not fit a frame: %s", len(payload), type(value).__name__)
            payload = encode(make_failure("internal", f"the answer has {len(payload):,} bytes, which fit no frame"))
        if self.send(link, REPLY, payload, seq):
            self.on_answered(link)

    def tell(self, link: str, seq: int, value: Answer) -> None:
        """Send a client an event that it asked for."""
        self.send(link, EVENT, encode(hide_values(value)), seq)

    def send(self, link: str, kind: int, payload: bytes, seq: int) -> bool:
        """Send a message of an agreed extension in this turn of the loop. False: the link is not there any more."""
        desk = self.foreman.desks.get(link)
        if desk is None:
            return False
        desk.send(kind, payload, seq)
        self._flush_soon(link)
        return True

    # Time

    def now(self) -> float:
        """When an event happens, for the reactor, which hears along with it what the wall clock shows."""
        self.foreman.reactor.wall_ahead = self.clock.read_wall_ahead()
        return self.clock.now()

    async def _clock_loop(self) -> None:
        """Once in a while: pauses that end, workers that stay away, workers that fell silent."""
        while True:
            await asyncio.sleep(self._seconds_to_next())
            self.look_at_clock()
            now = self.now()
            self.foreman.on_time(now)
            self._cut_silent(now)
            self._silent.expire(now)
            self._cut_expired(self.clock.wall())
            self.wake()

    def look_at_clock(self) -> None:
        """Let the reactor know the shared time as it is now."""
        self.foreman.reactor.on_clock(self.clock.find_ahead())

    async def _drop_loop(self) -> None:
        """Values of functions are not kept for ever."""
        while True:
            self.clock.read_wall_ahead()
            self.decide([ResultsDropped(self.clock.find_oldest(self._keep_results))])
            self.on_drop(self._keep_results)
            await asyncio.sleep(DROP_PERIOD)

    def _seconds_to_next(self) -> float:
        deadline = self.foreman.reactor.next_deadline()
        wait = MAX_SLEEP if deadline is None else deadline - self.clock.now()
        return min(MAX_SLEEP, max(0.01, wait))

    def _cut_silent(self, now: float) -> None:
        if now < self._next_silence:  # a look at a thousand workers takes milliseconds
            return
        self._next_silence = now + HEARTBEAT_EXPIRY
        for name, link in list(self._links.items()):
            desk = self.foreman.desks[name]
            worker = self.foreman.reactor.workers.find(desk.worker)
            if worker is None or Extension.HEARTBEAT not in desk.agreed:
                continue
            if now - worker.last_heard > HEARTBEAT_EXPIRY:
                log.warning("worker %s has been silent for %.0f s; its link is cut", worker.info.name, HEARTBEAT_EXPIRY)
                link.abort()
            else:
                self._next_silence = min(self._next_silence, worker.last_heard + HEARTBEAT_EXPIRY)

    def _cut_expired(self, wall: float) -> None:
        for link in list(self._links.values()):
            if link.key is not None and link.key.expires is not None and wall >= link.key.expires:
                self.on_refused(link.peer, "its key has expired")
                self._dismiss(link, ErrorCode.EXPIRED_KEY)
