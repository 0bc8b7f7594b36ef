"""Chooses tasks that wait on a worker and should be given back, because they would begin sooner elsewhere.

Or because the worker is slower than expected when it got them, and they keep out tasks of higher rank.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from gandy.core.effects import Recall
from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.model import AttemptKey
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.queue import Need, Rank
from gandy.core.workers import KnownWorker, WorkerTable
from gandy.ids import JobId
from gandy.moments import LONG_AGO, NEVER, Monotonic

SOON: Final = 0.02  # seconds; what should begin within this time is not worth a recall
SURPLUS: Final = 2  # times the look-ahead; less work is not recalled, so that a changing pace costs little


class Recaller:
    """Looks at the tables of the reactor, and marks what is recalled."""

    def __init__(self, policy: Policy, jobs: JobTable, workers: WorkerTable, owners: Owners) -> None:
        self._policy = policy
        self._jobs = jobs
        self._workers = workers
        self._owners = owners
        self._recalled: dict[str, list[AttemptKey]] = {}  # by this decision, by worker
        self._next_look = LONG_AGO  # for workers that end nothing
        self.patient_until = NEVER  # when to look again at what was not worth a recall

    def recall(self, now: Monotonic, changed: Iterable[KnownWorker]) -> list[Recall]:
        """`changed`: workers whose account changed since the last time."""
        self.patient_until = NEVER
        self._recalled = {}
        for worker in changed:
            if worker.info.id in self._workers.laden:
                self._take_back(worker, self._count_surplus(worker))
        if now >= self._next_look:
            self._next_look = now + self._policy.look_ahead
            self._recall_from_stalled(now)
            self._recall_late(now)
        self._recall_for_idle(now)
        return [Recall(worker, tuple(attempts)) for worker, attempts in self._recalled.items()]

    @property
    def next_look(self) -> Monotonic:
        """When to look for workers that end nothing while tasks wait there."""
        return self._next_look if self._workers.laden else NEVER

    def _recall_from_stalled(self, now: Monotonic) -> None:
        """Recall tasks that wait behind a slow task while tasks of another job could begin instead."""
        stalled = [worker for worker in self._workers.laden.values() if is_stalled(worker, now, self._policy)]
        waiting = (job.id for job in self._jobs.in_order() if job.may_start and job.tasks.find_ready(now) is not None)
        ready = set(islice(waiting, 2)) if stalled else set()
        for worker in stalled:
            if ready - {next(reversed(worker.held)).job}:
                self._take_back(worker, worker.waiting)

    def _recall_late(self, now: Monotonic) -> None:
        """Recall tasks that should have begun by now, to make room for tasks of higher rank."""
        waiting = self._list_first_waiting(now)
        for worker in list(self._workers.laden.values()):
            begun = set(worker.held.list_suspects())
            first = next((attempt for attempt in worker.held if attempt not in begun), None)
            if first is None:
                continue
            last_rank = self._find_rank(next(reversed(worker.held)))
            highest = min([last_rank, *(job.rank for job in waiting if job.suits(worker))])
            if highest == max(last_rank, self._find_rank(first)):
                continue
            late_at = worker.held[first].since + self._policy.look_ahead
            if late_at > now:
                self._next_look = min(self._next_look, late_at)
                continue
            lower = (attempt for attempt in self._list_recallable(worker) if self._find_rank(attempt) > highest)
            self._mark(worker, list(islice(lower, max(0, worker.waiting))))

    def _list_first_waiting(self, now: Monotonic) -> list[ActiveJob]:
        """The first job with each need that could start a task now."""
        given_up: set[Need | None] = set()
        first = []
        for job in self._jobs.in_order(given_up):
            is_ready = job.tasks.find_ready(now) is not None or job.tasks.delayed.list_suspects(now)
            if job.may_start and job.at is None and is_ready:
                given_up.add(job.need)
                first.append(job)
        return first

    def _find_rank(self, attempt: AttemptKey) -> Rank:
        """An attempt of a job that is gone is about to be killed."""
        job = self._jobs.find(attempt.job)
        return (0, attempt.job) if job is None else job.rank

    def _count_surplus(self, worker: KnownWorker) -> int:
        """Slots' worth of tasks beyond the look-ahead, by the pace of the last job as it is known now."""
        last = next(reversed(worker.held))
        job = self._jobs.find(last.job)
        pace = None if job is None else job.pace
        if not pace:
            return 0
        places = worker.slots.shared * self._policy.look_ahead / pace
        return worker.waiting - int(places) if worker.waiting > SURPLUS * places + worker.slots.shared else 0

    def _recall_for_idle(self, now: Monotonic) -> None:
        """Recall tasks that wait on one worker while another is idle.

        Half of them, if that is more than the idle slots: recalled one by one, each would cost a round trip.
        """
        idle_for: dict[JobId, _Idle] = {}  # by the job of the last one: what waits on a worker is mostly of one
        for worker in list(self._workers.laden.values()) if self._workers.spare else ():
            first = next(self._list_recallable(worker), None)
            if first is None:
                continue
            job = self._jobs.find(first.job)
            assert job is not None, "what is current is of a job that is here"
            idle = idle_for.get(job.id)
            if idle is None:
                idle = idle_for[job.id] = _Idle(self._list_free(job))
            free = idle.count(worker.waiting) if worker.waiting > 0 else 0
            if not free:
                continue
            if self._begins_soon(worker, job, now):
                idle.use(worker.waiting)
                self.patient_until = min(self.patient_until, worker.last_moved + SOON)
                continue
            count = min(worker.waiting, max(free, worker.waiting // 2))
            idle.use(count)
            self._take_back(worker, count)

    def _take_back(self, worker: KnownWorker, count: int) -> None:
        """Recall so many tasks, the one that was given last first."""
        self._mark(worker, list(islice(self._list_recallable(worker), max(0, count))))

    def _mark(self, worker: KnownWorker, chosen: list[AttemptKey]) -> None:
        if chosen:
            worker.held.recalled.update(chosen)
            self._workers.settle(worker)
            self._recalled.setdefault(worker.info.id, []).extend(chosen)

    def _list_recallable(self, worker: KnownWorker) -> Iterator[AttemptKey]:
        return (attempt for attempt in reversed(worker.held) if self._may_recall(attempt, worker))

    def _may_recall(self, attempt: AttemptKey, worker: KnownWorker) -> bool:
        """False for what has begun, and for timed tasks: perhaps no other worker knows the time."""
        job = self._jobs.find(attempt.job)
        is_timed = job is not None and job.at is not None
        may_wait = not is_timed and attempt not in worker.held.begun
        return may_wait and attempt not in worker.held.recalled and self._owners.is_current(attempt, worker)

    def _list_free(self, job: ActiveJob) -> Iterator[int]:
        """Slots for tasks of this job, worker by worker."""
        for worker in self._workers.spare.values():
            if job.suits(worker) and worker.free >= job.spec.slots:
                yield worker.free

    def _begins_soon(self, worker: KnownWorker, job: ActiveJob, now: Monotonic) -> bool:
        """True if all that waits there should begin before a recall is answered, by the pace of the last job.

        A worker that ends nothing in that time may be busy with a slow task, and is given no more time.
        """
        is_quick = job.pace is not None and worker.waiting * job.pace < SOON * worker.slots.shared
        return is_quick and now < worker.last_moved + SOON


def is_stalled(worker: KnownWorker, now: Monotonic, policy: Policy) -> bool:
    """True if the worker is full, and has ended nothing for as long as all that waits there should take."""
    return worker.slots.by_tasks >= worker.slots.shared and now - worker.last_moved >= policy.look_ahead


class _Idle:
    """Idle slots, counted only as far as needed: a thousand workers may be idle."""

    def __init__(self, counts: Iterator[int]) -> None:
        self._counts = counts
        self._left = 0

    def count(self, most: int) -> int:
        """How many are left. If there are more than `most`, perhaps not all are counted."""
        while self._left < most and (more := next(self._counts, None)) is not None:
            self._left += more
        return self._left

    def use(self, count: int) -> None:
        self._left -= min(self._left, count)
