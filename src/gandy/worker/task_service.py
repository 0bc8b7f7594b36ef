"""The tasks that the foreman gave this worker, from JOB until their results are with the `ResultSender`.

Starts, kills and gives them back as the foreman demands. Knows nothing of links and calls, except that calls share its
slots and that isolated calls run in its runner.
"""

import asyncio
from collections.abc import Callable, Iterable

from msgspec import UNSET

from gandy.clocks import read_wall
from gandy.core.extensions import Fetch
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result
from gandy.journal import Journal
from gandy.limits import MAX_RESULT_BYTES
from gandy.talk.worker import WorkerSide
from gandy.wire.messages import Task, TaskPair
from gandy.worker.begun import BegunReporter
from gandy.worker.call_service import CallService
from gandy.worker.foreman_link import ForemanLink
from gandy.worker.function_inputs import FunctionInputs, is_complete
from gandy.worker.isolated_calls import NO_JOB, IsolatedCalls
from gandy.worker.large_results import LargeResults
from gandy.worker.order import Order, make_order
from gandy.worker.result_sender import ResultSender
from gandy.worker.runner import Runner
from gandy.worker.task_scheduler import TaskScheduler
from gandy.worker.throttle import DISK_PERIOD, Throttle
from gandy.worker.worker_folder import WorkerFolder


class TaskService:
    """One per worker, on the current loop. Once `done` is set, nothing is started or reported any more."""

    def __init__(
        self,
        folder: WorkerFolder,
        preload: tuple[str, ...],
        calls: CallService,
        side: WorkerSide,
        link: ForemanLink,
        journal: Journal | None,
        done: asyncio.Event,
        send_fetch: Callable[[Fetch, int], bool],
        send_begun: Callable[[list[AttemptKey]], None],
        on_capacity: Callable[[], None],
    ) -> None:
        """`on_capacity` is called when the number of slots that the worker uses has changed."""
        self.is_stopping = False  # the worker is stopping: tasks that have not begun are given back
        self.runner = Runner(
            folder,
            self._on_end,
            on_free=self._on_free,
            on_followed=self._on_followed,
            on_returned=self._on_returned,
            on_over=self._on_over,
            preload=preload,
        )
        slots = side.slots.limit
        self.results = ResultSender(side, journal, self.runner.finished, link)
        self.begun = BegunReporter(self.runner.running, self.results.report_ends, send_begun)
        self.scheduler = TaskScheduler(self.runner, calls.slots, calls.clock, slots, self._report, self._request_turn)
        self.throttle = Throttle(slots, folder.path, self.scheduler, self._on_throttled)
        self.large_results = LargeResults(self.runner.folder.outputs, self._report, self.throttle.on_shortage)
        self.inputs = FunctionInputs(send_fetch)
        self._isolated = IsolatedCalls(calls.results, self.runner)
        calls.runner.isolated = self._isolated
        self._side = side
        self._on_capacity = on_capacity
        self._done = done
        self._orders: dict[TaskPair, Order] = {}  # of tasks that run or wait here
        self._is_turn_due = False

    # What the foreman demands

    def start(self, tasks: Iterable[Task]) -> None:
        """Queue tasks for slots. `start_waiting` must follow."""
        has_timed = False
        for task in tasks:
            orders = None if task.orders is UNSET else task.orders
            packed = orders.python if orders is not None else None
            order = make_order(task, None if packed is None else self.inputs.make(task.job.job_id, packed))
            self._orders[task.pair] = order
            has_timed = has_timed or order.at is not None
            if order.python is None or is_complete(order.python):
                self.scheduler.add(order)
            else:
                self.inputs.fetch(order, self._on_fetched, self._on_not_fetched)
        if has_timed:
            self.scheduler.put_timed_first()

    def _on_fetched(self, order: Order) -> None:
        self.scheduler.add(order)
        if order.at is not None:
            self.scheduler.put_timed_first()
        self.start_waiting()
        self.results.flush()

    def _on_not_fetched(self, attempt: AttemptKey, why: str) -> None:
        self._report(attempt, Ending(cause=Cause.NOT_STARTED, ended=read_wall(), note=why))
        self.results.flush()

    def kill(self, pairs: Iterable[TaskPair]) -> None:
        for attempt in self._find(pairs):
            self._kill(attempt)

    def give_back(self, pairs: Iterable[TaskPair]) -> None:
        """Give back the tasks that have not begun."""
        for attempt in self._find(pairs):
            self._give_back(attempt)

    def retract(self, attempts: Iterable[AttemptKey]) -> tuple[AttemptKey, ...]:
        """Cancel the attempts that have not begun, and return them."""
        known = [attempt for attempt in attempts if attempt in self._find((TaskPair(attempt.job, attempt.task),))]
        dropped = tuple(attempt for attempt in known if self._drop_waiting(attempt))
        for attempt in dropped:
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled before it began"))
        return dropped

    def _find(self, pairs: Iterable[TaskPair]) -> Iterable[AttemptKey]:
        for pair in pairs:
            if pair in self._orders:  # else it has ended, perhaps while we looked at another one
                yield self._orders[pair].attempt

    def _kill(self, attempt: AttemptKey) -> None:
        # When we try to kill a function task that seemed to run, it may turn out to be waiting.
        if self.large_results.drop(attempt):
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled"))
        elif self._drop_waiting(attempt) or (
            not self.runner.kill(attempt, Cause.CANCELLED, "cancelled") and self._drop_waiting(attempt)
        ):
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled before it began"))

    def _give_back(self, attempt: AttemptKey) -> None:
        if self._drop_waiting(attempt):
            self._report(attempt, Ending(cause=Cause.WORKER_STOPPED if self.is_stopping else Cause.RETURNED))

    def _drop_waiting(self, attempt: AttemptKey) -> bool:
        """Forget an attempt that has not begun. False: it has begun or ended."""
        return self.inputs.drop(attempt) or self.scheduler.drop(attempt)

    def start_waiting(self) -> None:
        """Start the tasks that fit, the oldest first; or, if the worker is stopping, give back those not begun."""
        if self._side.slots.limit == 0 or self.is_stopping:
            for attempt in [*self.scheduler.unstarted, *self.inputs.incomplete]:
                self._give_back(attempt)
        self.scheduler.start()

    def end_now(self) -> None:
        """The worker dies: kill what runs, and save what has ended."""
        self.is_stopping = True  # nothing more is started
        self.runner.end_now()
        self.start_waiting()
        self.results.flush_held()

    def close(self) -> None:
        self.begun.on_cut()
        self.throttle.close()
        self.runner.close()
        self.results.close()

    # What the runner reports

    def _on_free(self, order: Order) -> None:
        # The next shell task runs while we report the last. Function tasks end many at a time, with others behind them.
        if order.python is None:
            self.scheduler.on_free(order.attempt)
            if not self._done.is_set():
                self.start_waiting()
        elif order.attempt.job != NO_JOB:
            self.scheduler.on_free(order.attempt)

    def _on_followed(self, attempt: AttemptKey) -> None:
        self.scheduler.on_followed(attempt)

    def _on_returned(self, order: Order) -> None:
        if order.attempt.job == NO_JOB:
            self._isolated.on_returned(order)
        else:
            self.scheduler.on_returned(order)
            if self.begun.has_reported(order.attempt):  # the foreman thinks that it runs
                self._give_back(order.attempt)

    def _on_over(self, attempt: AttemptKey) -> None:
        """A shell task is over. While results may be held, it is reported with others, which costs less."""
        self.results.allowance -= 1
        if self.results.allowance <= 0 or attempt.attempt != 1:
            self._request_turn()

    def _on_end(self, attempt: AttemptKey, ending: Ending) -> None:
        if ending.cause is Cause.RETURNED:
            self.throttle.on_shortage(ending.note)
        if attempt.job == NO_JOB:
            self._isolated.on_end(attempt, ending)
            return
        if not self._done.is_set():
            if attempt in self.scheduler.late:
                ending = self.scheduler.add_lateness(attempt, ending)
            if len(ending.result) > MAX_RESULT_BYTES:
                order = self._orders[TaskPair(attempt.job, attempt.task)]
                self.large_results.keep(attempt, ending, order.identity)
            else:
                self._report(attempt, ending)
            if attempt.attempt != 1:  # an earlier attempt was lost, perhaps with its worker: send the result at once
                self.results.may_hold = False
            self._request_turn()

    def _report(self, attempt: AttemptKey, ending: Ending) -> None:
        order = self._orders.pop(TaskPair(attempt.job, attempt.task))
        self._side.end(make_result(attempt, ending, order.identity))

    def _request_turn(self) -> None:
        """Take a turn soon: once for all events of one turn of the loop."""
        if not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_due = False
        if not self._done.is_set():
            self.results.save()  # before the next tasks are started, which takes longer
            self.start_waiting()
            self.results.flush_or_hold(self.scheduler.ready)

    # Shortages

    def _on_throttled(self, uses_less: bool) -> None:
        """The number of slots that the worker uses has changed. If it is lower, give waiting tasks back."""
        if self._done.is_set():
            return
        for attempt in self.scheduler.waiting if uses_less else ():
            self._give_back(attempt)
        self._on_capacity()
        self.start_waiting()
        self.results.flush()

    async def watch_disk(self) -> None:
        """Start nothing while the disk is nearly full, and save what had to wait for room. Runs until cancelled."""
        while True:
            self.throttle.look_at_disk()
            self.runner.folder.outputs.move_rest()
            self.large_results.try_again()
            self.results.catch_up()
            self.results.flush()
            await asyncio.sleep(DISK_PERIOD)
