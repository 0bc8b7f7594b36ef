"""The least program around a conversation that makes it a worker or a foreman, for use in simulations."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Protocol

from gandy.talk.events import (
    Accepted,
    Acknowledged,
    ForemanEvent,
    Greeted,
    Kill,
    Leave,
    Refused,
    Reported,
    Start,
    WorkerEvent,
)
from gandy.talk.side import Side
from gandy.wire.messages import Task, TaskPair, TaskResult


def _ignore(_task: Task) -> None:
    """Tasks end when the test calls `WorkerEnd.end`."""


class WorkerConversation(Protocol):
    """A worker's side, whatever protocol it speaks."""

    def connect(self) -> None: ...

    def disconnect(self) -> None: ...

    def receive_data(self, data: bytes) -> None: ...

    def data_to_send(self) -> bytes: ...

    def next_event(self) -> WorkerEvent | None: ...

    def end(self, result: TaskResult) -> None: ...


class WorkerEnd:
    """A worker whose tasks run until `end` is called, or as `on_start` arranges it."""

    def __init__(self, side: WorkerConversation, on_start: Callable[[Task], None] = _ignore) -> None:
        self.side = side
        self.runs: Counter[TaskPair] = Counter()
        self.running: dict[TaskPair, Task] = {}
        self.acknowledged: list[TaskResult] = []
        self.has_left = False
        self._on_start = on_start

    def connect(self) -> None:
        self.side.connect()
        self.work()

    def on_cut(self) -> None:
        self.side.disconnect()

    def receive_data(self, data: bytes) -> None:
        self.side.receive_data(data)
        self.work()

    def data_to_send(self) -> bytes:
        return self.side.data_to_send()

    def end(self, pair: TaskPair, success: bool = True, status: str = "done") -> None:
        """A task ends now. Nothing happens where it is gone already: killed, or dropped by an immediate STOP."""
        if self.running.pop(pair, None) is not None:
            self.side.end(TaskResult(pair.job_id, pair.task, success, status))
            self.work()

    def work(self) -> None:
        """Do what the conversation says, until it says no more."""
        while (event := self.side.next_event()) is not None:
            self._on_event(event)

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case Start(tasks):
                for task in tasks:
                    self.runs[task.pair] += 1
                    self.running[task.pair] = task
                    self._on_start(task)
            case Kill(pairs):
                for pair in pairs:
                    self.end(pair, False, "killed: signal 9")
            case Acknowledged(results):
                self.acknowledged += results
            case Leave(immediate):
                self.has_left = True
                if immediate:
                    self.running.clear()
            case _:
                pass


class Ledger:
    """What a foreman knows of its tasks: each waits, is given to one worker, or has its one result."""

    def __init__(self, tasks: Iterable[Task] = ()) -> None:
        self.waiting: deque[Task] = deque(tasks)
        self.given: dict[TaskPair, tuple[str, Task]] = {}
        self.results: dict[TaskPair, TaskResult] = {}
        self.late: list[TaskResult] = []  # results of tasks that had one

    def give(self, worker: str, count: int) -> list[Task]:
        """Up to so many waiting tasks, now given to this worker."""
        tasks = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        self.given.update({task.pair: (worker, task) for task in tasks})
        return tasks

    def take_back(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            del self.given[task.pair]
            self.waiting.append(task)

    def record(self, result: TaskResult) -> None:
        if result.pair in self.results:
            self.late.append(result)
        else:
            self.results[result.pair] = result
            self.given.pop(result.pair, None)

    def given_to(self, worker: str) -> list[Task]:
        return [task for owner, task in self.given.values() if owner == worker]


class ForemanEnd:
    """A foreman's end of one worker's link. Ends of several workers share a ledger."""

    def __init__(self, side: Side, ledger: Ledger, worker: str = "worker", patient: bool = False) -> None:
        self.side = side
        self.ledger = ledger
        self.worker = worker
        self.patient = patient  # results are acknowledged when `acknowledge` is called, not at once
        self.reports: deque[Reported] = deque()
        self.refusals = 0

    def on_cut(self) -> None:
        self.ledger.take_back(self.side.disconnect())

    def receive_data(self, data: bytes) -> None:
        self.side.receive_data(data)
        self.work()

    def data_to_send(self) -> bytes:
        return self.side.data_to_send()

    def acknowledge(self) -> None:
        """Record the oldest result that waits, and tell the worker."""
        report = self.reports.popleft()
        for result in report.results:
            self.ledger.record(result)
        self.side.acknowledge(report)
        self.work()

    def work(self) -> None:
        """React to everything that came, then hand out what fits."""
        while (event := self.side.next_event()) is not None:
            self._on_event(event)
        tasks = self.ledger.give(self.worker, self.side.free)
        if tasks:
            self.side.give(tasks)

    def _on_event(self, event: ForemanEvent) -> None:
        match event:
            case Greeted():
                held = self.side.slots.running
                lost = [task for task in self.ledger.given_to(self.worker) if task.pair not in held]
                self.ledger.take_back(lost)
            case Reported():
                self.reports.append(event)
                if not self.patient:
                    self.acknowledge()
            case Refused(tasks):
                self.refusals += 1
                self.ledger.take_back(tasks)
            case Accepted() | _:
                pass
