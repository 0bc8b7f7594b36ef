"""The program around a simulated foreman: the real `core.Foreman`, with simulated links, disk, clocks and timers.

It is as thin as `foreman/server.py` and `foreman/committer.py`, which it stands for. It decides nothing.
"""

from collections.abc import Callable
from typing import Final

from tests.sim.actors import Actor
from tests.sim.disk import Disk
from tests.sim.laws import BrokenLaw, Law, Laws
from tests.sim.network import End, Network, Wire
from tests.sim.requests import ClientRequests
from tests.sim.shared_clock import Clock
from tests.waiting import run_sync

from gandy.core.effects import Effect, Give, Reply, Send
from gandy.core.foreman import Batch, Foreman
from gandy.core.link_tasks import Inputs
from gandy.core.links import Link
from gandy.core.model import AttemptKey, Input
from gandy.core.peer_log import PeerLog
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.recall import SOON
from gandy.core.requests import REPLY, Answer, encode, make_failure
from gandy.core.roles import Credentials
from gandy.core.sharing import PATIENCE
from gandy.core.snapshot import restore
from gandy.core.standing import Standing
from gandy.core.workers import WorkerInfo
from gandy.errors import ErrorCode, RemoteProtocolError, StoreError
from gandy.ids import TaskNumber
from gandy.talk.side import Side
from gandy.testing.simulation import Simulation

GREETING_PAUSE: Final = 0.5  # seconds until a worker that waits for the foreman's OK(0) gets it
STORE_RETRY: Final = 0.3  # seconds between tries of a commit that failed; a real foreman has more patience
LOOK_PERIOD: Final = 1.0  # seconds between two looks at calls that wait, and at the clock
MAX_AGE: Final = 1e6  # seconds that the foreman's machine may have run


class ForemanPort:
    """The foreman's end of one link. Implements `core.links.Port`."""

    source = "the network"

    def __init__(self, program: "ForemanProgram", name: str) -> None:
        self.name = name
        self._program = program
        self._life = program.life
        self.wire: Wire
        self.link: Link

    def receive_data(self, data: bytes) -> None:
        if self._is_alive:
            self._program.on_data(self.link, data)

    def on_cut(self) -> None:
        if self._is_alive:
            self._program.on_cut(self.link)

    @property
    def _is_alive(self) -> bool:
        return self._program.is_up and self._program.life == self._life

    def write(self, data: bytes) -> None:
        self.wire.write_down(data)

    def dismiss(self, last_message: bytes) -> None:
        self.write(last_message)
        self.close()

    def close(self) -> None:
        self.wire.close(by_foreman=True)

    def abort(self) -> None:
        self.wire.abort(by_foreman=True)


class _LawAbidingPeers(PeerLog):
    """No peer in a simulated crew breaks the rules, or is silent without a reason."""

    def __init__(self, program: "ForemanProgram") -> None:
        self._program = program

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        if link.framing is None and error.code is ErrorCode.BAD_STATE:
            # A v1 worker got a task again that it still has from an earlier link, of which it has no word to tell.
            self._program.laws.seen["v1 refusal"] += 1
            return
        raise BrokenLaw(Law.PROTOCOL, f"{link.worker} is refused: {error}") from error

    def on_silent(self, worker: WorkerInfo) -> None:
        link = self._program.foreman.links.find(worker.id)
        assert link is not None
        assert isinstance(link.port, ForemanPort)
        self._program.laws.on_silent(worker.id, self._program.simulation.now - link.port.wire.heard)


class ForemanProgram(Actor):
    """`crash` forgets everything that was not committed; `start` begins again."""

    foreman_class: type[Foreman] = Foreman  # tests of the laws have worse ones

    def __init__(
        self,
        simulation: Simulation,
        network: Network,
        disk: Disk,
        laws: Laws,
        policy: Policy,
        clock: Clock,
    ) -> None:
        super().__init__(simulation, "foreman")
        self.laws = laws
        self.disk = disk
        self.foreman: Foreman
        self.wall_ahead = 0.0  # of the time of day before the simulation's; it steps
        self.on_start: list[Callable[[], None]] = []  # of doors
        self.on_crash: list[Callable[[], None]] = []
        self.may_reboot = True  # when it starts again
        self.after_step: Callable[[], None] = lambda: None
        self._network = network
        self._policy = policy
        self._clock = clock
        self._ports: dict[str, ForemanPort] = {}
        self._age = 0.0  # of the machine, by its monotonic clock, when the simulation began
        self._boots = 0
        self._links = 0
        self.is_committing = False
        self.standing = Standing()
        self._is_sharing = False
        self._looks_at = 0.0

    # Life

    def start(self) -> None:
        """Perhaps the machine was started again, too: then its monotonic clock tells nothing about the life before."""
        self.life += 1
        self.is_up = True
        if not self._boots or (self.may_reboot and self.happens(0.5)):
            self._boots += 1
            self._age = self.random.uniform(-self.simulation.now, MAX_AGE)
        self.is_committing = self._is_sharing = False
        self.standing = Standing()
        recovered = run_sync(self.disk.store.open())
        reactor = Reactor(self._policy, recovered.next_job, f"boot {self._boots}")
        self.foreman = self.foreman_class(reactor, self.simulation.now + self._age, _LawAbidingPeers(self))
        self._requests = ClientRequests(self)
        self.foreman.batch.add(restore(reactor, recovered, self.now))
        self._requests.on_start()
        for listener in self.on_start:
            listener()
        self._watch_clock()
        self._watch_calls()
        self.pump()

    def crash(self) -> None:
        self.is_up = False
        for port in self._ports.values():
            port.abort()
        self._ports.clear()
        for listener in self.on_crash:
            listener()

    # Time

    @property
    def now(self) -> float:
        """The time of an event, by the monotonic clock. The reactor hears along with it what the wall clock shows."""
        now = self.simulation.now + self._age
        self.foreman.reactor.clocks.wall_ahead = self.wall_ahead - self._age
        return now

    def read_shared(self) -> float | None:
        return self._clock.read()

    def look_at_clock(self) -> None:
        shared = self._clock.read()
        self.foreman.reactor.on_clock(None if shared is None else shared - self.now)

    def _watch_clock(self) -> None:
        deadline = self.foreman.reactor.next_deadline()
        wait = LOOK_PERIOD if deadline is None else deadline - self.now
        self.call_later(min(LOOK_PERIOD, max(0.01, wait)), self._on_clock)

    def _on_clock(self) -> None:
        self.look_at_clock()
        self.foreman.on_time(self.now)
        self.foreman.liveness.cut_expired(self.simulation.now + self.wall_ahead)
        self._requests.on_time()
        self.pump()
        self._watch_clock()

    def _look_soon(self) -> None:
        """For what is due within milliseconds."""
        wait = max(SOON, self.foreman.reactor.next_moment() - self.now)
        due = self.simulation.now + wait
        if wait < LOOK_PERIOD and not self.simulation.now < self._looks_at <= due:
            self._looks_at = due
            self.call_later(wait, self._look_again)

    def _look_again(self) -> None:
        self.foreman.on_time(self.now)
        self.pump()

    def _watch_calls(self) -> None:
        self.foreman.on_call_time(self.now)
        self._arm()
        self.after_step()
        self.call_later(LOOK_PERIOD, self._watch_calls)

    def _arm(self) -> None:
        """See to it that calls that wait get slots in time."""
        if not self._is_sharing and self.foreman.switchboard.dispatcher.needs_ticks:
            self._is_sharing = True
            self.call_later(PATIENCE, self._share)

    def _share(self) -> None:
        self._is_sharing = False
        self.foreman.share_slots(self.now)
        self._arm()
        self.after_step()

    # Links

    def connect(self, peer: End, side: Side | None = None, is_watched: bool = True) -> Wire | None:
        """A link, or None while the foreman is down. `side`: where the conversation is not that of the native wire."""
        if not self.is_up:
            return None
        self._links += 1
        port = ForemanPort(self, f"link{self._links}")
        port.wire = self._network.connect(peer, port, is_watched)
        self._ports[port.name] = port
        port.link = self.foreman.on_link(port, Credentials(), self.now, side)
        self.call_later(GREETING_PAUSE, lambda: self.foreman.links.greet(port.link))
        return port.wire

    def on_data(self, link: Link, data: bytes) -> None:
        self.foreman.on_data(link, data, self.now)
        while link.inbox:
            self._requests.on_message(link, link.inbox.popleft())
        self._arm()
        self.pump()

    def on_cut(self, link: Link) -> None:
        self._ports.pop(link.name)
        self._requests.on_gone(link)
        self.foreman.on_cut(link, self.now)
        self.pump()

    def on_door(self, act: Callable[[float], None]) -> None:
        """A step of a door."""
        now = self.foreman.switchboard.now = self.now
        act(now)
        self.foreman.switchboard.output.flush(now)
        self._arm()
        self.pump()

    # Deciding and doing

    def decide(self, effects: list[Effect]) -> None:
        """What the reactor decided is done as soon as the store knows. A `pump` follows."""
        self.foreman.batch.add(effects)

    def answer(self, link: Link, seq: int, value: Answer) -> None:
        self.foreman.links.send(link, REPLY, encode(value), seq)
        self.foreman.links.flush()

    def pump(self) -> None:
        """Commit what was decided, then do it. One commit at a time: what comes meanwhile is the next group."""
        self.after_step()
        if not self.is_committing and self.foreman.has_work:
            self.is_committing = True
            self.handle(self.foreman.take_batch(self.now))

    def handle(self, batch: Batch) -> None:
        if batch.records:
            self.call_later(self.disk.choose_delay(), lambda: self._commit(batch))
        else:
            self.call_later(0.0, lambda: self._finish(batch, frozenset()))

    def _commit(self, batch: Batch) -> None:
        try:
            lost = self.disk.commit(batch.records)
        except StoreError as error:
            self._on_store_error(batch, str(error))
        else:
            self.standing.is_stuck = False
            self._finish(batch, lost)

    def _on_store_error(self, batch: Batch, trouble: str) -> None:
        """Take no new work. What is left of the batch is committed as soon as the store can."""
        if not self.standing.trouble:
            self.call_later(STORE_RETRY, self._mend)
        self.standing.trouble = trouble
        new = self.foreman.on_commit_failed(batch, self.now)
        self._requests.on_withdrawal(new)
        for reply in new.replies:
            self._refuse(reply)
        self.after_step()
        if new:
            self.handle(batch)
        else:
            self.standing.is_stuck = True
            self._put_off(batch)
            self.call_later(STORE_RETRY, lambda: self._commit(batch))

    def _put_off(self, batch: Batch) -> None:
        """What was decided stays decided, but its clients need not wait for the store."""
        replies = [send for send in batch.sends if isinstance(send, Reply)]
        batch.sends = [send for send in batch.sends if not isinstance(send, Reply)]
        for reply in replies:
            self._refuse(reply)

    def _mend(self) -> None:
        if self.standing.is_stuck or self.disk.is_full:
            self.call_later(STORE_RETRY, self._mend)
            return
        self.standing.trouble = ""
        self.foreman.on_store_ready(self.now)
        self.pump()

    def _finish(self, batch: Batch, lost: frozenset[AttemptKey]) -> None:
        self.perform(batch.sends, lost)
        self.is_committing = False
        self._look_soon()
        self.pump()

    def perform(self, sends: list[Send], lost: frozenset[AttemptKey]) -> None:
        self.foreman.reactor.on_claims_lost(lost)
        inputs = self._read_inputs(sends)
        for send in sends:
            if isinstance(send, Reply):
                self._reply(send)
            else:
                self.foreman.perform(send, inputs, self.now)
        self.foreman.links.flush()

    def _read_inputs(self, sends: list[Send]) -> Inputs:
        inputs: dict[AttemptKey, Input] = {}
        for send in sends:
            for given in send.assignments if isinstance(send, Give) else ():
                if given.spec.has_lines:
                    attempt = given.attempt
                    found = run_sync(self.disk.store.read_lines(attempt.job, TaskNumber(attempt.task), 1))
                    inputs.update((attempt, line) for line in found)
        return inputs

    def _reply(self, reply: Reply) -> None:
        """To a client on a link, or to a request that waits for the store."""
        if callable(reply.token):
            reply.token(None)
        else:
            link, seq = reply.token
            self.answer(link, seq, reply.value)

    def _refuse(self, reply: Reply) -> None:
        trouble = self.standing.trouble
        if callable(reply.token):
            reply.token(StoreError(trouble, retryable=True))
        else:
            link, seq = reply.token
            self.answer(link, seq, make_failure("store", trouble, retryable=True))
