"""The tasks that foremen gave this worker, from JOB until their results are with the `ResultSender`.

Starts, kills and gives them back as their foremen demand. Knows nothing of links and calls, except that calls share its
slots and that isolated calls run in its runner.
"""

import asyncio
from collections.abc import Callable, Iterable

from msgspec import UNSET

from gandy.clocks import read_wall
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result
from gandy.journal import Journal
from gandy.limits import MAX_RESULT_BYTES
from gandy.wire.messages import Task, TaskPair
from gandy.worker.call_slots import BorrowedSlots
from gandy.worker.ensemble_clock import EnsembleClock
from gandy.worker.foreman_link import ForemanLink
from gandy.worker.function_inputs import is_complete
from gandy.worker.isolated_calls import NO_JOB, IsolatedCalls
from gandy.worker.large_results import LargeResults
from gandy.worker.order import Order, make_order
from gandy.worker.result_sender import ResultSender
from gandy.worker.runner import Runner
from gandy.worker.running_task import RunningTask
from gandy.worker.shard_queue import ShardQueue
from gandy.worker.task_scheduler import TaskScheduler, get_queue
from gandy.worker.throttle import DISK_PERIOD, Throttle
from gandy.worker.worker_folder import WorkerFolder


class TaskService:
    """One per worker, on the current loop. Once `done` is set, nothing is started or reported any more."""

    def __init__(
        self,
        folder: WorkerFolder,
        preload: tuple[str, ...],
        slots: int,
        call_slots: BorrowedSlots,
        clock: EnsembleClock,
        journal: Journal | None,
        done: asyncio.Event,
        on_capacity: Callable[[], None],
    ) -> None:
        """`on_capacity` is called when the number of slots that the worker uses has changed."""
        self.is_stopping = False  # the worker is stopping: tasks that have not begun are given back
        self.is_draining = False  # a foreman has dismissed the worker: likewise, but tasks that run go on
        self.runner = Runner(
            folder,
            self._on_end,
            on_free=self._on_free,
            on_followed=self._on_followed,
            on_returned=self._on_returned,
            on_over=self._on_over,
            preload=preload,
        )
        self.runner.running.on_start = _on_start
        left = () if journal is None else folder.left.results
        self.results = ResultSender(journal, self.runner.finished, left)
        self.scheduler = TaskScheduler(self.runner, call_slots, clock, slots, self._report, self.request_turn)
        self.throttle = Throttle(slots, folder.path, self.scheduler, self._on_throttled)
        self.large_results = LargeResults(self.runner.folder.outputs, self._report, self.throttle.on_shortage)
        self.isolated = IsolatedCalls(self.runner)
        self._on_capacity = on_capacity
        self._done = done
        self._orders: dict[TaskPair, Order] = {}  # of tasks that run or wait here
        self._is_turn_due = False

    def add_queue(self, queue: ShardQueue, link: ForemanLink) -> None:
        """A conversation begins. Its results go over this link."""
        self.scheduler.queues.append(queue)
        self.results.ends.append((queue, link))

    def remove_queue(self, queue: ShardQueue) -> None:
        """A conversation has ended, with nothing left to report."""
        self.scheduler.queues.remove(queue)
        self.results.ends = [end for end in self.results.ends if end[0] is not queue]

    def abandon(self, queue: ShardQueue) -> None:
        """The shard of a queue is retired: its jobs have ended, so nothing that is held for it counts any more."""
        for order in [order for order in self._orders.values() if order.queue is queue]:
            self._kill(order)
        queue.side.results.forget_all()
        self.results.rewrite_journal()

    # What foremen demand

    def start(self, tasks: Iterable[Task], queue: ShardQueue) -> None:
        """Queue tasks for slots. `start_waiting` must follow."""
        has_timed = False
        for task in tasks:
            orders = None if task.orders is UNSET else task.orders
            packed = orders.python if orders is not None else None
            python = None if packed is None else queue.inputs.make(task.job.job_id, packed)
            order = make_order(task, python, queue)
            self._orders[task.pair] = order
            has_timed = has_timed or order.at is not None
            if python is None or is_complete(python):
                queue.add(order)
            else:
                queue.inputs.fetch(order, self._on_fetched, self._on_not_fetched)
        if has_timed:
            self.scheduler.put_timed_first(queue)

    def _on_fetched(self, order: Order) -> None:
        queue = get_queue(order)
        queue.add(order)
        if order.at is not None:
            self.scheduler.put_timed_first(queue)
        self.start_waiting()
        self.results.flush()

    def _on_not_fetched(self, attempt: AttemptKey, why: str) -> None:
        self._report(attempt, Ending(cause=Cause.NOT_STARTED, ended=read_wall(), note=why))
        self.results.flush()

    def kill(self, pairs: Iterable[TaskPair], queue: ShardQueue) -> None:
        for order in self._find(pairs, queue):
            self._kill(order)

    def give_back(self, pairs: Iterable[TaskPair], queue: ShardQueue) -> None:
        """Give back the tasks that have not begun."""
        for order in self._find(pairs, queue):
            self._give_back(order)

    def retract(self, attempts: Iterable[AttemptKey], queue: ShardQueue) -> tuple[AttemptKey, ...]:
        """Cancel the attempts that have not begun, and return them."""
        found = ((attempt, self._find((TaskPair(attempt.job, attempt.task),), queue)) for attempt in attempts)
        known = [order for attempt, orders in found for order in orders if order.attempt == attempt]
        dropped = tuple(order.attempt for order in known if self._drop_waiting(order))
        for attempt in dropped:
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled before it began"))
        return dropped

    def _find(self, pairs: Iterable[TaskPair], queue: ShardQueue) -> Iterable[Order]:
        """Find the tasks of a queue. Tasks of other foremen are none of its business."""
        for pair in pairs:
            order = self._orders.get(pair)
            if order is not None and order.queue is queue:  # else it has ended, perhaps while we looked at another one
                yield order

    def _kill(self, order: Order) -> None:
        attempt = order.attempt
        # When we try to kill a function task that seemed to run, it may turn out to be waiting.
        if self.large_results.drop(attempt):
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled"))
        elif self._drop_waiting(order) or (
            not self.runner.kill(attempt, Cause.CANCELLED, "cancelled") and self._drop_waiting(order)
        ):
            self._report(attempt, Ending(cause=Cause.CANCELLED, note="cancelled before it began"))

    def _give_back(self, order: Order) -> None:
        if self._drop_waiting(order):
            self._report(order.attempt, Ending(cause=Cause.WORKER_STOPPED if self.is_stopping else Cause.RETURNED))

    def _drop_waiting(self, order: Order) -> bool:
        """Forget a task that has not begun. False: it has begun or ended."""
        return get_queue(order).inputs.drop(order.attempt) or self.scheduler.drop(order)

    def start_waiting(self) -> None:
        """Start the tasks that fit; or, if the worker is stopping, give back those that have not begun."""
        if self.is_draining or self.is_stopping:
            for attempt in self._list_unstarted():
                self._give_back(self._orders[TaskPair(attempt.job, attempt.task)])
        self.scheduler.start()

    def _list_unstarted(self) -> list[AttemptKey]:
        incomplete = [attempt for queue in self.scheduler.queues for attempt in queue.inputs.incomplete]
        return [*self.scheduler.unstarted, *incomplete]

    def end_now(self) -> None:
        """The worker dies: kill what runs, and save what has ended."""
        self.is_stopping = True  # nothing more is started
        self.runner.end_now()
        self.start_waiting()
        self.results.flush_held()

    def close(self) -> None:
        for queue in self.scheduler.queues:
            queue.begun.on_cut()
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
            self.isolated.on_returned(order)
        else:
            self.scheduler.on_returned(order)
            if get_queue(order).begun.has_reported(order.attempt):  # the foreman thinks that it runs
                self._give_back(order)

    def _on_over(self, attempt: AttemptKey) -> None:
        """A shell task is over. While results may be held, it is reported with others, which costs less."""
        self.results.allowance -= 1
        if self.results.allowance <= 0 or attempt.attempt != 1:
            self.request_turn()

    def _on_end(self, attempt: AttemptKey, ending: Ending) -> None:
        if ending.cause is Cause.RETURNED:
            self.throttle.on_shortage(ending.note)
        if attempt.job == NO_JOB:
            self.isolated.on_end(attempt, ending)
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
            self.request_turn()

    def _report(self, attempt: AttemptKey, ending: Ending) -> None:
        order = self._orders.pop(TaskPair(attempt.job, attempt.task))
        queue = get_queue(order)
        queue.side.end(make_result(attempt, ending, order.identity, queue.shard))

    def request_turn(self) -> None:
        """Take a turn soon: once for all events of one turn of the loop."""
        if not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_turn_due = False
        if not self._done.is_set():
            self.results.save()  # before the next tasks are started, which takes longer
            self.start_waiting()
            self.results.flush_or_hold()

    # Shortages

    def _on_throttled(self, uses_less: bool) -> None:
        """The number of slots that the worker uses has changed. If it is lower, give waiting tasks back."""
        if self._done.is_set():
            return
        for order in self.scheduler.waiting if uses_less else ():
            self._give_back(order)
        self.start_waiting()
        self._on_capacity()  # after slots were shared anew
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


def _on_start(task: RunningTask) -> None:
    """A task or an isolated call has begun: its foreman may have to be told."""
    if task.order.queue is not None:
        get_queue(task.order).begun.look_soon()
