"""Worker processes of a simulated crew: the real `WorkerService`, with simulated links, disk and tasks.

What survives a kill is on the worker's disk: the journal, and the table of tasks that ended. The next worker in the
same folder finds it there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import patch

from tests.sim.laws import Law, Laws, require
from tests.sim.processes import Process, SimReach, Surroundings, Transport
from tests.sim.serving import DURATIONS, STREAMED, WIDE
from tests.sim.workers import WorkerLuck

from gandy.config import parse_address
from gandy.core.extensions import DIRECTORY, MachineLoad, decode_directory
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result, read_attempt
from gandy.journal import Left
from gandy.limits import MAX_FORMER
from gandy.reach import Reach
from gandy.talk.events import Acknowledged, ExtensionReceived, Start, WorkerEvent
from gandy.wire import payloads
from gandy.wire.messages import About, TaskResult
from gandy.worker import service, task_service
from gandy.worker.commands import Commands
from gandy.worker.conversation import ShardConversation
from gandy.worker.foreman_link import Dial
from gandy.worker.order import Order
from gandy.worker.recovery import _give_back_stopped
from gandy.worker.running_task import RunningTask
from gandy.worker.running_tasks import RunningTasks
from gandy.worker.service import WorkerService

FOLDER: Final = Path("/nowhere")
KILL_SECONDS: Final = 0.02  # that a killed task takes to end


class WorkerDisk:
    """The folder of a worker, which outlives its processes."""

    def __init__(self) -> None:
        self.ids: tuple[str, ...] = ()
        self.journal: list[bytes] = []
        self.table: dict[AttemptKey, TaskResult] = {}  # tasks that ended, until the journal has them

    def recover(self) -> Left:
        """As `worker.recovery.recover` does."""
        left = payloads.decode_results(payloads.join(self.journal)) if self.journal else ()
        known = set(map(read_attempt, left))
        results = [*left, *(result for attempt, result in self.table.items() if attempt not in known)]
        kept = tuple(map(_give_back_stopped, results))
        self.journal = [payloads.encode(result) for result in kept]
        self.table.clear()
        return Left(self.ids, kept)


class SimJournal:
    """Stands for `journal.Journal`."""

    is_large = False
    is_behind = False

    def __init__(self, process: "WorkerProcess") -> None:
        self._process = process
        self._life = process.life

    def _write(self, packed: list[bytes]) -> None:
        if self._process.is_up and self._process.life == self._life:
            self._process.disk.journal = packed

    def add(self, packed: Sequence[bytes]) -> None:
        self._write([*self._process.disk.journal, *map(bytes, packed)])

    def compact(self, packed: Sequence[bytes]) -> None:
        self._write(list(map(bytes, packed)))

    def forget(self) -> None:
        self._write([])

    def close(self) -> None:
        pass


class NoOutputs:
    def move_rest(self) -> None:
        pass


class SimFolder:
    """Stands for `worker.worker_folder.WorkerFolder`."""

    def __init__(self, process: "WorkerProcess") -> None:
        self.path = FOLDER
        self.outputs = NoOutputs()
        self.left = process.disk.recover()
        self._process = process

    def open_journal(self, worker: str) -> SimJournal:
        self._process.disk.ids = (*self.left.ids, worker)[-MAX_FORMER:]
        return SimJournal(self._process)


class SimFinished:
    """Stands for `worker.finished_tasks.FinishedTasks`."""

    def __init__(self, process: "WorkerProcess", on_end: Callable[[AttemptKey, Ending], None]) -> None:
        self._disk = process.disk
        self._on_end = on_end
        self._unreported: list[tuple[AttemptKey, Ending]] = []
        self._reported: list[AttemptKey] = []

    def add(self, attempt: AttemptKey, ending: Ending) -> None:
        self._unreported.append((attempt, ending))

    def report(self) -> None:
        while self._unreported:
            attempt, ending = self._unreported.pop(0)
            self._reported.append(attempt)
            self._on_end(attempt, ending)

    def forget_reported(self) -> None:
        for attempt in self._reported:
            self._disk.table.pop(attempt, None)
        self._reported.clear()


class SimRunner:
    """Runs tasks that only take time. Stands for `worker.runner.Runner`."""

    def __init__(
        self,
        process: "WorkerProcess",
        folder: SimFolder,
        on_end: Callable[[AttemptKey, Ending], None],
        on_free: Callable[[Order], None],
        on_over: Callable[[AttemptKey], None],
        **_others: Any,
    ) -> None:
        self.folder = folder
        self.finished = SimFinished(process, on_end)
        self.running = RunningTasks()
        self.pool = object()
        self._process = process
        self._on_free = on_free
        self._on_over = on_over

    def start(self, order: Order) -> None:
        process = self._process
        task = RunningTask(order, None)
        task.note_begin()
        process.on_begin(order)
        self.running.add(task)
        laws, luck = process.laws, process.luck
        busy = sum(each.order.slots for each in self.running.values())
        laws.check_slots(process.name, busy if len(self.running) > 1 else 0, process.slots)
        seconds = process.choose_seconds(order)
        exit_code = int(process.happens(luck.task_failure))
        ending = Ending(cause=Cause.EXIT, exit_code=exit_code, started=0.0, ended=seconds)
        process.loop.call_later(seconds, self._end, task, ending)

    def _end(self, task: RunningTask, ending: Ending) -> None:
        attempt, order, process = task.attempt, task.order, self._process
        if self.running.get(attempt) is not task:
            return
        self.running.remove(task)
        process.disk.table[attempt] = make_result(attempt, ending, order.identity, order.shard)
        if ending.is_success:
            process.laws.on_success(process.id, attempt)
        self.finished.add(attempt, ending)
        self._on_free(order)
        self._on_over(attempt)

    def kill(self, attempt: AttemptKey, cause: Cause, note: str = "", *, immediate: bool = False) -> bool:
        task = self.running.get(attempt)
        if task is None:
            return False
        if cause is Cause.WORKER_STOPPED:
            self._process.laws.excused.add(attempt.job)
        pause = 0.0 if immediate else self._process.random.random() * KILL_SECONDS
        self._process.loop.call_later(pause, self._end, task, Ending(cause=cause, note=note))
        return True

    def kill_all(self, cause: Cause, note: str = "", *, immediate: bool = False) -> None:
        for attempt in list(self.running):
            self.kill(attempt, cause, note, immediate=immediate)

    def close(self) -> None:
        self.running.clear()


class SimConversation(ShardConversation):
    """Watched by the laws."""

    process: "WorkerProcess"

    def _find_epoch(self) -> int:
        """Of the lease of the foreman at the other end."""
        assert self.link.link is not None
        transport = self.link.link._transport
        assert isinstance(transport, Transport)
        return transport.wire.epoch

    def _on_event(self, event: WorkerEvent) -> None:
        process = self.process
        match event:
            case Acknowledged(results):
                for result in results:
                    process.laws.on_acknowledged(process.name, read_attempt(result))
            case ExtensionReceived(_, kind, payload) if kind == DIRECTORY:
                directory = decode_directory(payload)
                for place in directory.shards:
                    process.epochs[place.shard] = max(place.epoch, process.epochs.get(place.shard, 0))
            case Start(tasks):
                known, epoch = process.epochs.get(self.shard, 0), self._find_epoch()
                text = (
                    f"{process.name} gets tasks for shard {self.shard} in epoch {epoch}, and knows of {known}: {tasks}"
                )
                require(epoch >= known, Law.SPEECH, text)
            case _:
                pass
        super()._on_event(event)


class SimWorkerService(WorkerService):
    """Without the parts that only look at a disk."""

    process: "WorkerProcess"

    def _make_conversation(self, dial: Callable[[ShardConversation], Dial]) -> ShardConversation:
        parts = (self._tasks, self._reader, self._machine)
        made = self.process.conversation_class(self._about, self._make_calls, *parts, self, dial)
        made.process = self.process
        return made

    async def run(self) -> None:
        self._machine.note(MachineLoad(1.0, 4))  # every foreman is told
        linking = asyncio.create_task(self.conversations.keep())
        done = asyncio.create_task(self._done.wait())
        both: set[asyncio.Task[Any]] = {linking, done}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if linking.done():
            linking.result()
        linking.cancel()
        await asyncio.gather(linking, return_exceptions=True)
        await self._close()


class WorkerProcess(Process):
    """One machine with a worker, one life after another in the same folder."""

    conversation_class: type[SimConversation] = SimConversation  # tests of the laws have worse ones

    def __init__(
        self,
        crew: Surroundings,
        laws: Laws,
        name: str,
        slots: int,
        luck: WorkerLuck,
        commands: tuple[str, ...],
        places: Iterable[str],
    ) -> None:
        super().__init__(crew, name)
        self.laws = laws
        self.luck = luck
        self.slots = slots
        self.disk = WorkerDisk()
        self.epochs: dict[int, int] = {}  # the highest of each shard that it has heard of
        self.on_start: Callable[[Order], None] = lambda _order: None
        self.choose_seconds: Callable[[Order], float] = self._choose_seconds
        self.service: SimWorkerService
        self._ahead = self.random.choice([0, 2, 5])
        self._reserved = self.random.choice([0, 0, 1]) if commands else 0
        self._commands = commands
        self._places = tuple(map(parse_address, places))
        laws.slots[name] = slots

    @property
    def id(self) -> str:
        return f"{self.name}.{self.life}"

    async def run(self) -> None:
        self.epochs = {}
        places = list(self._places)
        self.random.shuffle(places)
        reach = cast("Reach", SimReach(self, tuple(places)))
        about = About(self.id, self.name, self.slots, ahead=self._ahead)
        folder = SimFolder(self)
        with (
            patch.object(service, "WorkerFolder", lambda _path: folder),
            patch.object(task_service, "Runner", lambda *args, **options: SimRunner(self, *args, **options)),
        ):
            made = SimWorkerService(reach, about, FOLDER, commands=self._make_commands(), reserved=self._reserved)
        made.process = self
        self.service = made
        await made.run()
        self.laws.seen["left"] += 1

    def restart(self) -> None:
        self.kill()
        life, pause = self.life, self.random.uniform(0.0, 0.4)
        self.simulation.call_later(pause, lambda: self.start() if not self.is_up and self.life == life else None)

    # Tasks

    def on_begin(self, order: Order) -> None:
        attempt = order.attempt
        self.laws.runs[attempt.job, attempt.task] += 1
        self.laws.on_started(self.name, attempt)
        self.laws.check_line(attempt.task, order.line)
        self.on_start(order)

    def _choose_seconds(self, _order: Order) -> float:
        return self.random.expovariate(1 / self.luck.task_seconds)

    # Calls

    def _make_commands(self) -> Commands:
        commands = Commands()
        for name in self._commands:
            make = self._make_stream if name == STREAMED else self._make_command
            commands.add(make(name), name, 2 if name == WIDE else 1)
        return commands

    def _make_command(self, name: str) -> Callable[..., Any]:
        async def run(*args: bytes) -> bytes:
            self.laws.on_begun(self.name, args[-1], name)
            await asyncio.sleep(self.random.choice(DURATIONS))
            if self.happens(self.luck.call_failure):
                raise ValueError(args[-1].decode())
            return args[-1]

        return run

    def _make_stream(self, name: str) -> Callable[..., Any]:
        async def run(*args: bytes) -> AsyncIterator[bytes]:
            self.laws.on_begun(self.name, args[-1], name)
            for _ in range(self.random.choice((1, 2, 5))):
                await asyncio.sleep(self.random.choice(DURATIONS) / 4)
                yield args[-1] + b":"

        return run
