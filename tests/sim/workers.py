"""Workers of a simulated crew: tasks and calls in the same slots, over real conversations.

A machine restarts, and connects again when its link breaks. A gandy worker keeps results that are not acknowledged on
its disk; plain ones of both generations have no name, and keep nothing.
"""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Struct
from tests.sim.actors import Actor
from tests.sim.begun_reports import BegunReports
from tests.sim.foreman import ForemanProgram
from tests.sim.laws import BrokenLaw, Law, Laws
from tests.sim.network import LinkEnd
from tests.sim.serving import CallRunner
from tests.sim.shared_clock import Clock, NoClock
from tests.sim.task_runner import TaskRunner, count_slots, get_attempt

from gandy.core.extensions import (
    CAPACITY,
    FOREMAN_OFFERS,
    PING,
    RETRACT,
    RETRACTED,
    WORKER_OFFERS,
    Capacity,
    Retraction,
    decode_retraction,
    encode,
)
from gandy.core.model import AttemptKey
from gandy.doors.v1.foreman import V1ForemanSide
from gandy.doors.v1.worker import V1WorkerSide
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_FORMER
from gandy.talk.events import Acknowledged, ExtensionReceived, Kill, Leave, Recalled, Start, Welcomed, WorkerEvent
from gandy.talk.foreman import ForemanSide
from gandy.talk.side import Side
from gandy.talk.worker import WorkerSide
from gandy.testing.simulation import Simulation
from gandy.wire.messages import About, Extended, Extension, Reset, Task, TaskPair, TaskResult

HEARTBEAT_PERIOD: Final = 5.0  # seconds between two PINGs
HEARTBEAT_EXPIRY: Final = 15.0  # seconds without a message from the foreman, after which the link counts as dead


class WorkerLuck(Struct, frozen=True):
    """How work goes. Times are in seconds; all other values are chances from 0 to 1."""

    refusal: float = 0.0  # of a JOB by a worker that has a slot for it
    task_seconds: float = 0.05  # on average
    task_failure: float = 0.0
    call_failure: float = 0.05
    max_pause: float = 0.2  # between two tries to connect


class RefusingSide(WorkerSide):
    """Like the original, it may count a processor as taken a moment longer than the foreman does."""

    refuses: Callable[[], bool]

    def _find_refusal(self, tasks: tuple[Task, ...]) -> ErrorCode | None:
        return ErrorCode.NO_PROCS if self.refuses() else super()._find_refusal(tasks)


class WorkerMachine(Actor):
    """What all workers have: lives, links one after another, and tasks."""

    side: WorkerSide | V1WorkerSide
    is_watched = True

    def __init__(
        self, simulation: Simulation, program: ForemanProgram, laws: Laws, name: str, slots: int, luck: WorkerLuck
    ) -> None:
        super().__init__(simulation, name)
        self.laws = laws
        self.luck = luck
        self.slots = slots
        self.end: LinkEnd | None = None
        self.tasks = TaskRunner(self)
        self.last_number = 2 * self.random.choice([4, 6, 10, 50, 1_000_000]) + 1
        self.on_start: Callable[[Task], None] = lambda _task: None
        self._program = program
        self._foreman_side: Side  # of the same link

    # Life

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.side = self.make_side()
        self.tasks.forget()
        self._connect()

    def make_side(self) -> WorkerSide | V1WorkerSide:
        raise NotImplementedError

    def make_foreman_side(self) -> Side:
        return ForemanSide(offers=FOREMAN_OFFERS, last_number=self.last_number)

    def crash(self) -> None:
        """It dies without a word, and its tasks with it."""
        self.is_up = False
        self.tasks.forget()
        self.cut()
        self.end = None

    def restart(self) -> None:
        """Start it again after a moment; its results are on its disk meanwhile, if it has one."""
        if self.is_up:
            self.crash()
        life = self.life
        pause = self.random.uniform(0.0, 0.4)
        self.simulation.call_later(pause, lambda: self.start() if not self.is_up and self.life == life else None)

    def cut(self) -> None:
        if self.end is not None:
            self.end.wire.abort(by_foreman=False)

    # The link

    def _connect(self) -> None:
        end = LinkEnd(self)
        self._foreman_side = self.make_foreman_side()
        wire = self._program.connect(end, self._foreman_side, self.is_watched)
        if wire is None:
            self.call_later(self.random.uniform(0.02, self.luck.max_pause), self._connect)
            return
        end.wire = wire
        self.end = end
        self.side.connect()
        self.flush()

    def on_data(self, data: bytes) -> None:
        try:
            self.hear(data)
        except RemoteProtocolError as error:
            raise BrokenLaw(Law.PROTOCOL, f"the foreman is refused by {self.name}: {error}") from error
        for side in (self.side, self._foreman_side):
            if isinstance(side, WorkerSide | ForemanSide):
                self.laws.check_account(self.name, side.slots, self.slots)
        self.flush()

    def hear(self, data: bytes) -> None:
        self.side.receive_data(data)
        self.work()

    def on_link_cut(self) -> None:
        self.side.disconnect()
        if self.is_up:
            self.call_later(self.random.uniform(0.01, self.luck.max_pause), self._connect)

    def flush(self) -> None:
        if self.end is not None:
            self.end.wire.write_up(self.side.data_to_send())

    def work(self) -> None:
        while self.is_up and (event := self.side.next_event()) is not None:
            self.on_event(event)
        if self.is_up:
            self.tasks.start()

    def on_event(self, event: WorkerEvent) -> None:
        match event:
            case Start(tasks):
                self.tasks.add(tasks)
            case Kill(pairs):
                self.tasks.kill(pairs)
            case Recalled(pairs):
                self.tasks.give_back(pairs)
            case Acknowledged(results):
                for result in results:
                    self.on_acknowledged(result)
            case Leave(immediate):
                self.leave(immediate)
            case _:
                pass

    def on_acknowledged(self, result: TaskResult) -> None:
        """The foreman has it for good, or does not want it."""

    def leave(self, immediate: bool) -> None:
        """Its supervisor starts it again."""
        self.laws.seen["left at once" if immediate else "left"] += 1
        self.laws.excused.update(pair.job_id for pair in self.tasks.list_pairs() if immediate)
        if self.end is not None:
            self.end.wire.write_up(self.side.data_to_send())
            self.end.wire.close(by_foreman=False)
            self.end = None
        self.restart()

    # Tasks

    @property
    def is_idle(self) -> bool:
        """True if no call runs here."""
        return True

    @property
    def borrowed(self) -> int:
        """Slots that tasks cannot have, because calls do."""
        return 0

    def on_result(self, result: TaskResult) -> None:
        """A task ended."""
        self.side.end(result)

    def on_tasks_started(self) -> None:
        self.laws.check_slots(self.name, self.tasks.busy, self.slots)


class GandyWorker(WorkerMachine):
    """A worker with a name and a disk, which also serves calls."""

    side: RefusingSide

    def __init__(
        self,
        simulation: Simulation,
        program: ForemanProgram,
        laws: Laws,
        name: str,
        slots: int,
        luck: WorkerLuck,
        commands: tuple[str, ...] = (),
        clock: Clock | None = None,
    ) -> None:
        super().__init__(simulation, program, laws, name, slots, luck)
        self.ahead = self.random.choice([0, 2, 5])
        self.held_limit = self.random.choice([0, 1, 2, 4])
        self.clock = clock or NoClock()
        self.disk: dict[TaskPair, TaskResult] = {}
        reserved = self.random.choice([0, 0, 1]) if commands else 0
        self.calls = CallRunner(self, commands, reserved)
        self._begun = BegunReports(self)
        laws.slots[name] = slots
        self._last_heard = 0.0
        self._is_leaving = False

    @property
    def id(self) -> str:
        return f"{self.name}.{self.life}"

    def start(self) -> None:
        self._is_leaving = False
        super().start()
        self.call_later(HEARTBEAT_PERIOD, self._beat)

    def make_side(self) -> RefusingSide:
        former = tuple(f"{self.name}.{life}" for life in range(1, self.life))[-MAX_FORMER:]
        about = About(self.id, self.name, self.slots, ahead=self.ahead, former=former)
        side = RefusingSide(
            self.slots,
            about,
            offers=WORKER_OFFERS,
            last_number=self.last_number,
            held_limit=self.held_limit,
            on_call=self.calls.on_frame,
        )
        side.refuses = lambda: self.happens(self.luck.refusal)
        side.inherit(self.disk.values())
        return side

    def make_foreman_side(self) -> Side:
        return ForemanSide(offers=FOREMAN_OFFERS, last_number=self.last_number, held_limit=self.held_limit)

    def crash(self) -> None:
        super().crash()
        self.calls.on_cut()
        self._begun.on_cut()

    def hear(self, data: bytes) -> None:
        self._last_heard = self.simulation.now
        if not self.side.framing.receive_calls(data):
            self.work()
        self.calls.flush()

    def on_link_cut(self) -> None:
        self.calls.on_cut()
        self._begun.on_cut()
        super().on_link_cut()
        if self._is_leaving:
            self.restart()

    def on_event(self, event: WorkerEvent) -> None:
        if isinstance(event, Welcomed):
            self._last_heard = self.simulation.now
            self.calls.on_welcome()
            self._begun.on_welcome()
            if self.tasks.allowed < self.slots:
                self._send_capacity()
        elif isinstance(event, ExtensionReceived) and event.type == RETRACT:
            dropped = self.tasks.retract(decode_retraction(event.payload).attempts)
            self.side.framing.send_extended(Extended(RETRACTED, encode(Retraction(dropped))), event.seq)
        super().on_event(event)

    def on_acknowledged(self, result: TaskResult) -> None:
        assert result.report is not UNSET
        self.laws.on_acknowledged(self.name, AttemptKey(result.job_id, result.task, result.report.attempt))
        self.disk.pop(result.pair, None)

    def leave(self, immediate: bool) -> None:
        """It stays for its calls."""
        if immediate:
            self.laws.excused.update(pair.job_id for pair in self.disk)
            super().leave(immediate)
            return
        self._is_leaving = True
        self.calls.leave()
        self.maybe_leave()

    def maybe_leave(self) -> None:
        if self._is_leaving and self.calls.is_idle and self.is_up:
            self.calls.flush()
            super().leave(immediate=False)

    def on_result(self, result: TaskResult) -> None:
        self.disk[result.pair] = result
        if result.success:
            assert result.report is not UNSET
            self.laws.on_success(self.id, AttemptKey(result.job_id, result.task, result.report.attempt))
        super().on_result(result)

    # Calls

    @property
    def is_idle(self) -> bool:
        return self.calls.is_idle

    @property
    def borrowed(self) -> int:
        return self.calls.borrowed

    def on_tasks_started(self) -> None:
        self.check_slots()
        self._begun.look_soon()
        self.calls.report_yielded(self.slots - self.tasks.busy)

    def check_slots(self) -> None:
        slots = self.slots + self.calls.reserved
        if self.tasks.busy + self.calls.in_use > slots and self.tasks.allowed == self.slots:
            self.laws.check_slots(self.name, self._count_known_busy() + self.calls.in_use, slots)

    def _count_known_busy(self) -> int:
        """A foreman that does not know a task, and is about to have it killed, does not know its slots."""
        owners = self._program.foreman.reactor.owners
        running = self.tasks.running.values()
        return sum(count_slots(task) if get_attempt(task) in owners else 1 for task in running)

    # Other messages

    def _beat(self) -> None:
        self.call_later(HEARTBEAT_PERIOD, self._beat)
        if self.end is None or Extension.HEARTBEAT not in self.side.framing.agreed:
            return
        if self.simulation.now - self._last_heard > HEARTBEAT_EXPIRY:
            self.laws.seen["silent foreman"] += 1
            self.cut()
            return
        self.side.framing.send_extended(Extended(PING, b""), 1)
        self.flush()

    def change_capacity(self, slots: int) -> None:
        """It is short of something, or not any more."""
        self.tasks.allowed = slots
        if self.end is not None and Extension.HEARTBEAT in self.side.framing.agreed:
            self._send_capacity()
            self.tasks.start()
            self.flush()

    def _send_capacity(self) -> None:
        capacity = Capacity(self.tasks.allowed, self.ahead if self.tasks.allowed else 0, "memory")
        self.side.framing.send_extended(Extended(CAPACITY, encode(capacity)), 0)

    def reset(self) -> None:
        """Start the sequence numbers again, if that is possible now."""
        if self.is_up and self.side.exchange.can_request(Reset()):
            self.side.exchange.request(Reset())
            self.flush()


class PlainWorker(WorkerMachine):
    """A worker that speaks plain v2, or v2 with the smallest of gandy's extensions."""

    side: RefusingSide

    def __init__(
        self, simulation: Simulation, program: ForemanProgram, laws: Laws, name: str, slots: int, luck: WorkerLuck
    ) -> None:
        super().__init__(simulation, program, laws, name, slots, luck)
        self._offers = self.random.choice([Extension.NONE, Extension.ATOMIC, Extension.ATOMIC | Extension.UPDATES])

    def make_side(self) -> RefusingSide:
        side = RefusingSide(self.slots, last_number=self.last_number, offers=self._offers)
        side.refuses = lambda: self.happens(self.luck.refusal)
        return side

    def on_tasks_started(self) -> None:
        """A task that needs several slots takes one here: plain v2 has no word for slots."""


class FirstGenerationWorker(WorkerMachine):
    """A worker that speaks v1. It cannot say which task it refuses, so it refuses none."""

    side: V1WorkerSide
    is_watched = False

    def make_side(self) -> V1WorkerSide:
        return V1WorkerSide(self.slots)

    def make_foreman_side(self) -> Side:
        return V1ForemanSide()
