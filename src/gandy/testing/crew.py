"""A whole crew on simulated time: foreman, disk, network and workers, each of which can fail at any moment.

The foreman's mind is the real one; only the program around it is simulated. Time passes in the simulation alone.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType

from gandy.core.effects import Effect, Give, Reply
from gandy.core.extensions import BEGUN, FOREMAN_OFFERS, WORKER_OFFERS, Begun, encode
from gandy.core.foreman import Batch, Foreman, NoPeerLog
from gandy.core.links import Link
from gandy.core.model import AttemptKey, Cause, JobSpec, TaskKey
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.roles import Credentials
from gandy.core.snapshot import restore
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.ids import JobId
from gandy.limits import MAX_FORMER
from gandy.moments import Monotonic, Wall
from gandy.store.base import Store
from gandy.talk.events import Acknowledged, Kill, Leave, Recalled, Start, Welcomed
from gandy.talk.foreman import ForemanSide
from gandy.talk.worker import WorkerSide
from gandy.testing.link import Watcher
from gandy.testing.simulation import Simulation
from gandy.testing.weather import Weather, WeatheredLink
from gandy.wire.messages import About, Extended, Extension, Report, Task, TaskPair, TaskResult

T = TypeVar("T")

BEGUN_SECONDS: Final = 0.1  # that a task runs before its worker says so
OLDEST: Final = 1e6  # seconds that the foreman's machine may have run


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine that never really waits, such as those of a store in memory."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise RuntimeError("this coroutine waits for something")


class Luck(Struct, frozen=True):
    """How bad a day it is. Times are in seconds, the others are chances from 0 to 1."""

    weather: Weather = Weather()
    max_commit: float = 0.005
    disk_error: float = 0.0  # a commit fails, and new work with it
    refusal: float = 0.0  # of a JOB by a worker that has a slot for it
    task_seconds: float = 0.05  # on average
    task_failure: float = 0.0


class Asked(Struct, frozen=True):
    """What a client waits for: that its work was taken, or that it was not."""

    on_done: Callable[[], None]
    on_refused: Callable[[], None]


class SimulatedForeman:
    """A foreman with its disk. `crash` forgets everything that was not committed; `start` begins again."""

    def __init__(self, simulation: Simulation, store: Store, luck: Luck, policy: Policy) -> None:
        self._simulation = simulation
        self._store = store
        self._luck = luck
        self._policy = policy
        self._links: dict[str, WeatheredLink] = {}
        self.life = 0  # of things that were begun in an earlier life, nothing may follow
        self._is_committing = False
        self._link_count = 0
        self._age = 0.0  # of the machine, by its monotonic clock, when the simulation began
        self.wall_ahead = 0.0  # of the time of day before the simulation's
        self.is_up = False
        self.acknowledged: list[JobId] = []  # jobs that a client was told about: these must never be lost
        self.refused: list[JobId] = []  # jobs that a client was told were not taken: these must never be there
        self.after_step: Callable[[], None] = lambda: None

    def start(self) -> None:
        """The machine was started again, too: its monotonic clock tells nothing about the life before."""
        self._age = self._simulation.random.uniform(-self._simulation.now, OLDEST)
        recovered = run_sync(self._store.open())
        reactor = Reactor(self._policy, recovered.next_job)
        self.foreman = Foreman(reactor, Monotonic(self._simulation.now + self._age), _NoRefusals())
        restore(self.foreman.reactor, recovered, self.now)
        self.is_up = True
        self._is_committing = False
        self._wake()

    @property
    def now(self) -> Monotonic:
        """The time of an event, by the monotonic clock."""
        now = self._simulation.now + self._age
        self.foreman.reactor.wall_ahead = self._simulation.now + self.wall_ahead - now
        return Monotonic(now)

    def crash(self) -> None:
        if not self.is_up:
            return
        self.is_up = False
        self.life += 1
        for link in list(self._links.values()):
            link.cut()
        run_sync(self._store.close())

    def connect(self, worker: "SimulatedWorker", watchers: tuple[Watcher, ...] = ()) -> WeatheredLink | None:
        """A link to a worker, or None while the foreman is down."""
        if not self.is_up:
            return None
        self._link_count += 1
        name = f"link{self._link_count}"
        side = ForemanSide(offers=FOREMAN_OFFERS, last_number=worker.last_number)
        end = _ForemanEnd(self, name)
        link = WeatheredLink(self._simulation, self._luck.weather, worker, end, watchers)
        end.attach(link, side)
        self._links[name] = link
        return link

    def submit(self, spec: JobSpec) -> None:
        """A client submits a job, and again as long as it hears that none was taken."""
        job, effects = self.foreman.reactor.submit(spec, self.now)

        def submit_again() -> None:
            self.refused.append(job)
            self.later(1.0, lambda: self.submit(spec))

        self.decide(effects, Asked(lambda: self.acknowledged.append(job), submit_again))

    def decide(self, effects: list[Effect], asked: Asked) -> None:
        """Take what the reactor decided for a client, and tell it when the store knows; never, after a crash."""
        self.foreman.batch.add([*effects, Reply(asked, None, takes_work=True)])
        self.pump()

    def cancel(self, job: JobId) -> None:
        self.foreman.batch.add(self.foreman.reactor.cancel(job, None, self.now))
        self.pump()

    def on_data(self, link: Link, data: bytes) -> None:
        self.foreman.on_data(link, data, self.now)
        self.pump()

    def on_cut(self, link: Link) -> None:
        del self._links[link.name]
        if self.is_up:
            self.foreman.on_cut(link, self.now)
            self.pump()

    def pump(self) -> None:
        """Commit what was decided, then do it. One commit at a time: what comes meanwhile is the next group."""
        self.after_step()
        if self._is_committing or not self.foreman.has_work:
            return
        batch = self.foreman.take_batch(self.now)
        if not batch.records:
            self._perform(batch, frozenset())
            return
        self._is_committing = True
        self.later(self._luck.max_commit, lambda: self._commit(batch))

    def _commit(self, batch: Batch) -> None:
        if batch.records and self._simulation.random.random() < self._luck.disk_error:
            for reply in self.foreman.on_commit_failed(batch, self.now).replies:
                reply.token.on_refused()
            self.later(0.05, lambda: self._commit(batch))
            self.later(0.5, self._resume)
            return
        lost = run_sync(self._store.commit(batch.records))
        self._is_committing = False
        self._perform(batch, lost)

    def _resume(self) -> None:
        self.foreman.on_store_ready(self.now)
        self.pump()

    def _perform(self, batch: Batch, lost: frozenset[AttemptKey]) -> None:
        self.foreman.reactor.on_claims_lost(lost)
        for send in batch.sends:
            if isinstance(send, Reply):
                send.token.on_done()
                continue
            if isinstance(send, Give) and any(assignment.attempt in lost for assignment in send.assignments):
                continue
            self.foreman.perform(send, {}, self.now)
        self.foreman.flush()
        self.pump()

    def _wake(self) -> None:
        """The one timer: whatever is due, at the time that the reactor asks for."""
        if self.foreman.reactor.next_deadline() is not None:
            self.foreman.on_time(self.now)
            self.pump()
        self.later(0.1, self._wake)

    def later(self, most: float, action: Callable[[], None]) -> None:
        life = self.life
        delay = self._simulation.random.uniform(0, most)
        self._simulation.call_later(delay, lambda: action() if life == self.life and self.is_up else None)


class _NoRefusals(NoPeerLog):
    """No peer in a simulated crew breaks the rules."""

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        raise AssertionError(f"{link.name} is refused") from error


class _ForemanEnd:
    """The foreman's end of one link. Implements `core.links.Port`, too."""

    source = "the network"

    def __init__(self, foreman: SimulatedForeman, name: str) -> None:
        self.name = name
        self._foreman = foreman
        self._output = bytearray()

    def attach(self, wire: WeatheredLink, side: ForemanSide) -> None:
        self._wire = wire
        self._link = self._foreman.foreman.on_link(self, Credentials(), self._foreman.now, side)

    def receive_data(self, data: bytes) -> None:
        self._foreman.on_data(self._link, data)

    def data_to_send(self) -> bytes:
        data = bytes(self._output)
        self._output.clear()
        return data

    def on_cut(self) -> None:
        self._foreman.on_cut(self._link)

    def write(self, data: bytes) -> None:
        self._output += data
        self._wire.flush()

    def dismiss(self, last_word: bytes) -> None:
        self.write(last_word)
        self.close()

    def close(self) -> None:
        self._foreman.later(0.0, self._wire.cut)

    def abort(self) -> None:
        self.close()


class _RefusingSide(WorkerSide):
    """Like the original, it may count a processor as taken a moment longer than the foreman does."""

    refuses: Callable[[], bool]

    def _find_refusal(self, tasks: tuple[Task, ...]) -> ErrorCode | None:
        return ErrorCode.NO_PROCS if self.refuses() else super()._find_refusal(tasks)


class SimulatedWorker:
    """A worker that connects again and again. `crash` kills its tasks with it; `start` begins a new life.

    Results that are not acknowledged are on its disk, and the next life reports them. A plain one has no name, knows
    nothing of attempts, and keeps nothing.
    """

    def __init__(
        self,
        simulation: Simulation,
        foreman: SimulatedForeman,
        name: str,
        slots: int,
        luck: Luck,
        is_plain: bool = False,
    ) -> None:
        self._is_plain = is_plain
        self._simulation = simulation
        self._foreman = foreman
        self._luck = luck
        self.name = name
        self.slots = slots
        self.last_number = 2 * simulation.random.choice([6, 50, 1_000_000]) + 1
        self.ahead = simulation.random.choice([0, 2, 5])
        self.runs: Counter[AttemptKey] = Counter()
        self.successes: Counter[TaskKey] = Counter()
        self._disk: dict[TaskPair, TaskResult] = {}
        self.lives = 0
        self.is_up = False
        self.watch: Callable[[], tuple[Watcher, ...]] = lambda: ()  # makes the watchers of each new link
        self.on_start: Callable[[Task], None] = lambda _task: None
        self.choose_seconds: Callable[[Task], float] = self._choose_seconds  # that a task takes

    def start(self) -> None:
        former = tuple(f"{self.name}.{life}" for life in range(1, self.lives + 1))[-MAX_FORMER:]
        self.lives += 1
        self.is_up = True
        self.side = self._make_side(former)
        self.side.refuses = lambda: self._simulation.random.random() < self._luck.refusal
        self.running: dict[TaskPair, Task] = {}
        self.waiting: dict[TaskPair, Task] = {}
        self._link: WeatheredLink | None = None
        self._connect()

    def _make_side(self, former: tuple[str, ...]) -> _RefusingSide:
        if self._is_plain:
            return _RefusingSide(self.slots, last_number=self.last_number)
        about = About(f"{self.name}.{self.lives}", self.name, self.slots, ahead=self.ahead, former=former)
        side = _RefusingSide(self.slots, about, offers=WORKER_OFFERS, last_number=self.last_number)
        side.inherit(self._disk.values())
        return side

    def crash(self) -> None:
        self.is_up = False
        self.running = {}
        self.waiting = {}
        if self._link is not None:
            self._link.cut()

    def cut(self) -> None:
        if self._link is not None:
            self._link.cut()

    def receive_data(self, data: bytes) -> None:
        if not self.is_up:
            return
        self.side.receive_data(data)
        try:
            self._work()
        except RemoteProtocolError:
            self.cut()

    def data_to_send(self) -> bytes:
        return self.side.data_to_send()

    def on_cut(self) -> None:
        self._link = None
        self.side.disconnect()
        if self.is_up:
            self._later(self._simulation.random.uniform(0.01, 0.2), self._connect)

    def _connect(self) -> None:
        self._link = self._foreman.connect(self, self.watch())
        if self._link is None:
            self._later(0.1, self._connect)
            return
        self.side.connect()
        self._link.flush()

    def _work(self) -> None:
        while (event := self.side.next_event()) is not None:
            match event:
                case Start(tasks):
                    self.waiting.update({task.pair: task for task in tasks})
                case Kill(pairs):
                    for pair in pairs:
                        self._end(pair, Cause.CANCELLED)
                case Recalled(pairs):
                    for pair in [pair for pair in pairs if pair in self.waiting]:
                        self._end(pair, Cause.RETURNED)
                case Acknowledged(results):
                    for result in results:
                        self._disk.pop(result.pair, None)
                case Welcomed():
                    self._later(BEGUN_SECONDS, lambda: self._report_begun(list(self.running.values())))
                case Leave():
                    self.crash()
                case _:
                    pass
        while self.waiting and self._fits(next(iter(self.waiting.values()))):
            self._start(self.waiting.pop(next(iter(self.waiting))))

    def _fits(self, task: Task) -> bool:
        """Like a real worker: the oldest goes first, and those behind it wait until it has its slots."""
        used = sum(map(_count_slots, self.running.values()))
        return not used or used + _count_slots(task) <= self.slots

    def _start(self, task: Task) -> None:
        if task.orders is not UNSET:
            self.runs[_get_attempt(task)] += 1
            self._later(BEGUN_SECONDS, lambda: self._report_begun([task]))
        self.running[task.pair] = task
        self.on_start(task)
        is_failure = self._simulation.random.random() < self._luck.task_failure
        seconds = self.choose_seconds(task)
        self._later(seconds, lambda: self._finish(task, is_failure, seconds))

    def _report_begun(self, tasks: list[Task]) -> None:
        """Those of the tasks that still run, after all that ended. Where there is no link, HELLO comes first."""
        attempts = tuple(_get_attempt(task) for task in tasks if self.running.get(task.pair) is task)
        if not attempts or self._link is None or Extension.BEGUN not in self.side.exchange.agreed:
            return
        self._link.flush()
        if self.side.has_unsent:
            self._later(BEGUN_SECONDS, lambda: self._report_begun(tasks))
            return
        self.side.exchange.send_extended(Extended(BEGUN, encode(Begun(attempts))))
        self._link.flush()

    def _choose_seconds(self, _task: Task) -> float:
        return self._simulation.random.expovariate(1 / self._luck.task_seconds)

    def _finish(self, task: Task, is_failure: bool, seconds: float) -> None:
        if self.running.get(task.pair) is task:
            self._end(task.pair, Cause.EXIT, 1 if is_failure else 0, seconds)
            if self._link is not None:
                self._link.flush()

    def _end(self, pair: TaskPair, cause: Cause, exit_code: int | None = None, seconds: float | None = None) -> None:
        task = self.running.pop(pair, None) or self.waiting.pop(pair, None)
        if task is None:
            return
        report: Report | UnsetType = UNSET
        if task.orders is not UNSET:
            started, ended = (None, None) if seconds is None else (Wall(0.0), Wall(seconds))
            report = Report(task.orders.attempt, int(cause), exit_code, started=started, ended=ended)
        result = TaskResult(pair.job_id, pair.task, exit_code == 0, "", None, report)
        if not self._is_plain:
            self._disk[pair] = result
            self.successes[pair.job_id, pair.task] += result.success
        self.side.end(result)
        self._work()

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        life = self.lives
        self._simulation.call_later(delay, lambda: action() if life == self.lives and self.is_up else None)


def _get_attempt(task: Task) -> AttemptKey:
    assert task.orders is not UNSET
    return AttemptKey(task.job.job_id, task.number, task.orders.attempt)


def _count_slots(task: Task) -> int:
    return 1 if task.orders is UNSET else task.orders.slots
