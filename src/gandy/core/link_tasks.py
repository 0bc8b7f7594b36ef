"""The attempts that a worker holds, as the conversation on its link knows them: by job and task.

A plain worker knows no attempts: what it reports of a task counts for the attempt that it was given.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import astuple

from gandy.core.effects import Assignment
from gandy.core.model import AttemptKey, Cause, Ending, Input, JobSpec
from gandy.core.reactor import Reactor
from gandy.core.reports import read_attempt, read_ending, read_identity
from gandy.errors import LocalProtocolError
from gandy.ids import JobId
from gandy.limits import MAX_SHARED_SENT
from gandy.talk.events import Reported, Requested
from gandy.talk.packing import Unsendable
from gandy.talk.side import Side
from gandy.wire.messages import Extension, JobDescription, Orders, PythonOrders, Status, Task, TaskPair

Inputs = Mapping[AttemptKey, Input]


class NotGiven(NamedTuple):
    """Attempts that did not go to the worker."""

    refused: Sequence[AttemptKey] = ()  # it has no room for them now
    unsendable: Sequence[tuple[AttemptKey, Ending]] = ()  # no frame can carry them, so no worker will ever have them


class LinkTasks:
    """Gives attempts to the worker of one link, and takes its reports."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._held: dict[TaskPair, AttemptKey] = {}
        self._reports: dict[AttemptKey, Reported] = {}  # that are not acknowledged, by the last attempt of each
        self._shared: set[JobId] = set()  # jobs whose shared part this worker has

    def __contains__(self, pair: TaskPair) -> bool:
        return pair in self._held

    def give(self, assignments: Sequence[Assignment], inputs: Inputs) -> NotGiven:
        """Send these attempts. Returns those that could not be sent; mostly there are none."""
        try:
            self._give(assignments, inputs)
        except LocalProtocolError:
            return self._give_some(assignments, inputs)
        return NotGiven()

    def _give_some(self, assignments: Sequence[Assignment], inputs: Inputs) -> NotGiven:
        """Send what can be sent: the worker has less room than expected, or some tasks fit no frame."""
        new = [given for given in assignments if _get_pair(given.attempt) not in self._side.slots.running]
        fitting = new[: self._side.free]
        kept = {given.attempt for given in fitting}
        refused = [given.attempt for given in assignments if given.attempt not in kept]
        reasons: Mapping[TaskPair, str] = {}
        try:
            self._give(fitting, inputs)
        except Unsendable as error:
            reasons = error.reasons
            self._give([given for given in fitting if _get_pair(given.attempt) not in reasons], inputs)
        failed = [attempt for attempt in kept if _get_pair(attempt) in reasons]
        endings = [(it, Ending(cause=Cause.NOT_STARTED, note=reasons[_get_pair(it)])) for it in sorted(failed)]
        return NotGiven(refused, endings)

    def _give(self, assignments: Sequence[Assignment], inputs: Inputs) -> None:
        """Raises: LocalProtocolError. Nothing was given then."""
        framing = self._side.framing
        is_gandy = framing is not None and framing.is_gandy
        is_shard = framing is not None and Extension.SHARDS in framing.agreed
        new: set[JobId] = set()  # jobs whose shared part is in here
        tasks = []
        job = None
        for attempt, spec in map(astuple, assignments):
            if attempt.job != job:  # mostly all are of one job
                job, description = attempt.job, _describe(attempt.job, spec)
                has_shared = attempt.job in self._shared or attempt.job in new
                new.add(attempt.job)
            orders = _make_orders(attempt, spec, inputs.get(attempt), has_shared, is_shard) if is_gandy else UNSET
            tasks.append(Task(attempt.task, description, orders))
            has_shared = True
        self._side.give(tasks)
        self._shared |= new
        if len(self._shared) >= MAX_SHARED_SENT:
            self._shared.clear()
        for task, assignment in zip(tasks, assignments, strict=True):
            self._held[task.pair] = assignment.attempt

    def kill(self, attempts: Iterable[AttemptKey]) -> None:
        if pairs := self._list_held(attempts):
            self._side.cancel(pairs)

    def recall(self, attempts: Iterable[AttemptKey]) -> None:
        if pairs := self._list_held(attempts):
            self._side.recall(pairs)

    def _list_held(self, attempts: Iterable[AttemptKey]) -> list[TaskPair]:
        """The tasks of attempts that the worker still has. The wire names no attempts, and a newer one is not meant."""
        pairs = ((_get_pair(attempt), attempt) for attempt in attempts)
        return [pair for pair, attempt in pairs if self._held.get(pair) == attempt]

    def acknowledge(self, attempts: Iterable[AttemptKey]) -> bool:
        """Acknowledge reports that are on record. True if `Link.pull` may find messages behind them now."""
        is_answered = False
        for attempt in attempts:
            report = self._reports.pop(attempt, None)
            if report is not None:
                self._side.acknowledge(report)
                is_answered = is_answered or isinstance(report.ticket, Requested)
        return is_answered

    def on_refused(self, tasks: Iterable[Task]) -> list[AttemptKey]:
        """The worker did not take these."""
        self._shared.clear()
        return [self._held.pop(task.pair) for task in tasks]

    def on_reported(self, event: Reported, reactor: Reactor) -> list[tuple[AttemptKey, Ending]]:
        """The attempts that have ended, and how."""
        ended = []
        for result in event.results:
            attempt = read_attempt(result)
            if result.report is UNSET:
                attempt = self._held.get(result.pair, attempt)
            if reactor.jobs.is_same(attempt.job, read_identity(result)):
                self._held.pop(result.pair, None)
            else:
                attempt = AttemptKey(attempt.job, attempt.task, 0)  # of a lost job with the same number
            ended.append((attempt, read_ending(result)))
        self._reports[ended[-1][0]] = event
        return ended

    def on_former_reported(self, event: Reported, attempt: AttemptKey) -> None:
        """The end of an attempt that the worker got over an earlier link."""
        self._reports[attempt] = event

    def on_greeted(self, running: Iterable[Task], reactor: Reactor) -> list[AttemptKey]:
        """The worker says what it runs. Returns all attempts that it holds."""
        self._shared.clear()
        on_way = set(self._side.slots.running)
        self._held = {pair: attempt for pair, attempt in self._held.items() if pair in on_way}
        for task in running:
            self._held[task.pair] = _read_held_attempt(task, reactor)
        return list(self._held.values())


def _get_pair(attempt: AttemptKey) -> TaskPair:
    return TaskPair(attempt.job, attempt.task)


def _read_held_attempt(task: Task, reactor: Reactor) -> AttemptKey:
    """Which attempt a worker holds. A plain peer cannot say, so it is taken for the current one."""
    if task.orders is not UNSET:
        return AttemptKey(task.job.job_id, task.number, task.orders.attempt)
    return reactor.current_attempt(task.job.job_id, task.number)


def _describe(job: JobId, spec: JobSpec) -> JobDescription:
    text = spec.command if isinstance(spec.command, str) else shlex.join(spec.command)
    return JobDescription(job, spec.name, spec.tasks, spec.cwd, "", text, Status.RUNNING)


def _make_orders(attempt: AttemptKey, spec: JobSpec, given: Input | None, has_shared: bool, is_shard: bool) -> Orders:
    """`is_shard`: the worker shares its slots among shards, by rank."""
    line = given if isinstance(given, str) else None
    python = None
    if spec.python is not None:
        pickled = given if isinstance(given, bytes) else b""
        shared = None if has_shared else spec.python.shared
        python = PythonOrders(pickled, shared, spec.python.fresh)
    return Orders(
        attempt.attempt,
        spec.command,
        spec.env,
        spec.timeout,
        line,
        spec.slots,
        spec.memory,
        python,
        spec.at,
        spec.identity,
        spec.priority if is_shard else 0,
    )
