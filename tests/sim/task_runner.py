"""Tasks on a simulated worker: the oldest begins first, in slots that calls have not borrowed; some wait for a time."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from gandy.core.model import AttemptKey, Cause
from gandy.wire.messages import Report, Task, TaskPair, TaskResult

if TYPE_CHECKING:
    from tests.sim.workers import WorkerMachine

SLICE: Final = 0.5  # seconds between two reads of a clock that may be corrected meanwhile


class TaskRunner:
    """What waits and what runs on one worker."""

    def __init__(self, worker: "WorkerMachine") -> None:
        self._worker = worker
        self.allowed = worker.slots  # fewer, while the worker is short of something
        self.waiting: dict[TaskPair, Task] = {}
        self.running: dict[TaskPair, Task] = {}  # and what has its slots until its time comes
        self.begun: dict[TaskPair, Task] = {}  # of these, the ones that really run
        self.busy = 0  # slots
        self.choose_seconds: Callable[[Task], float] = self._choose_seconds  # that a task takes

    def forget(self) -> None:
        """The worker died."""
        self.waiting.clear()
        self.running.clear()
        self.begun.clear()
        self.busy = 0

    def list_pairs(self) -> list[TaskPair]:
        return [*self.waiting, *self.running]

    def add(self, tasks: Iterable[Task]) -> None:
        self.waiting.update({task.pair: task for task in tasks})
        timed = [task for task in self.waiting.values() if _get_time(task) is not None]
        if timed:
            self.waiting = {task.pair: task for task in timed} | self.waiting

    def kill(self, pairs: Iterable[TaskPair]) -> None:
        for pair in pairs:
            self._end(pair, Cause.CANCELLED)

    def give_back(self, pairs: Iterable[TaskPair]) -> None:
        """Give back the tasks that have not begun."""
        for pair in [pair for pair in pairs if pair in self.waiting]:
            self._end(pair, Cause.RETURNED)

    def retract(self, attempts: Iterable[AttemptKey]) -> tuple[AttemptKey, ...]:
        """End attempts that have not begun. Returns which."""
        waiting = {get_attempt(task): task.pair for task in self.waiting.values()}
        dropped = tuple(attempt for attempt in attempts if attempt in waiting)
        for attempt in dropped:
            self._end(waiting[attempt], Cause.CANCELLED)
        return dropped

    def start(self) -> None:
        """Start the tasks that fit."""
        borrowed = self._worker.borrowed
        limit = min(self._worker.slots - borrowed, self.allowed)
        while self.waiting:
            pair, task = next(iter(self.waiting.items()))
            slots = count_slots(task)
            if not self.allowed or ((self.running or borrowed) and self.busy + slots > limit):
                break
            del self.waiting[pair]
            self.running[pair] = task
            self.busy += slots
            self._hold(task)
        self._worker.on_tasks_started()

    def _hold(self, task: Task) -> None:
        """Hold it until its time. If that is over, it begins now: a task is better late than never."""
        worker, at = self._worker, _get_time(task)
        if at is None:
            self._begin(task)
            return
        shared = worker.clock.read()  # type: ignore[attr-defined]  # only gandy workers get such tasks
        if shared is None:
            self._end(task.pair, Cause.RETURNED)
        elif shared >= at:
            worker.laws.on_timed(task.job.name, shared, worker.simulation.now)
            self._begin(task)
        else:
            worker.call_later(min(SLICE, max(1e-5, at - shared)), lambda: self._hold_on(task))

    def _hold_on(self, task: Task) -> None:
        if self.running.get(task.pair) is task:
            self._hold(task)
            self._worker.flush()

    def _begin(self, task: Task) -> None:
        worker = self._worker
        worker.laws.runs[task.job.job_id, task.number] += 1
        if task.orders is not UNSET:
            worker.laws.on_started(worker.name, get_attempt(task))
            worker.laws.check_line(task.number, task.orders.line)
        self.begun[task.pair] = task
        worker.on_start(task)
        seconds = self.choose_seconds(task)
        is_failure = worker.happens(worker.luck.task_failure)
        worker.call_later(seconds, lambda: self._finish(task, is_failure, seconds))

    def _choose_seconds(self, _task: Task) -> float:
        return self._worker.random.expovariate(1 / self._worker.luck.task_seconds)

    def _finish(self, task: Task, is_failure: bool, seconds: float) -> None:
        if self.running.get(task.pair) is task:
            self._end(task.pair, Cause.EXIT, 1 if is_failure else 0, seconds)
            self._worker.work()
            self._worker.flush()

    def _end(self, pair: TaskPair, cause: Cause, exit_code: int | None = None, seconds: float | None = None) -> None:
        self.begun.pop(pair, None)
        task = self.running.pop(pair, None)
        if task is not None:
            self.busy -= count_slots(task)
        else:
            task = self.waiting.pop(pair, None)
        if task is None:
            return
        report: Report | UnsetType = UNSET
        if task.orders is not UNSET:
            started = None if seconds is None else 0.0
            report = Report(task.orders.attempt, int(cause), exit_code, started=started, ended=seconds)
        self._worker.on_result(TaskResult(pair.job_id, pair.task, exit_code == 0, "", None, report))


def count_slots(task: Task) -> int:
    return 1 if task.orders is UNSET else task.orders.slots


def get_attempt(task: Task) -> AttemptKey:
    """Of a worker that knows attempts."""
    assert task.orders is not UNSET
    return AttemptKey(task.job.job_id, task.number, task.orders.attempt)


def _get_time(task: Task) -> float | None:
    return None if task.orders is UNSET else task.orders.at
