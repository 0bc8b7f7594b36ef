"""Who gets which task next: jobs by rank, workers by turn, free slots before places to wait."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from math import inf
from typing import Final

from msgspec.structs import replace

from gandy.core.effects import Assignment, Give, Recall
from gandy.core.jobs import Job, JobTable
from gandy.core.model import AttemptKey, JobSpec
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.queue import Need
from gandy.core.tasks import NO_STRIKES
from gandy.core.workers import Worker, WorkerTable
from gandy.ids import JobId, TaskNumber

MIN_PACE: Final = 1e-6  # seconds; no task is quicker
MAX_LOOKS: Final = 10_000  # at workers where a task might wait and may not; there is no harm in giving up
SOON: Final = 0.02  # seconds; what should begin within this time is not worth having back
LEAD: Final = 2.0  # seconds before its time that a task goes to its worker, which keeps a slot for it

Space = Callable[[Worker, Job], int]


class Dispatcher:
    """Looks at the tables of the reactor, and takes what it gives."""

    def __init__(self, policy: Policy, jobs: JobTable, workers: WorkerTable, owners: Owners) -> None:
        self._policy = policy
        self._jobs = jobs
        self._workers = workers
        self._owners = owners
        self.is_haunted = False  # whether a worker could have had a task, but for an older attempt at it
        self.patient_until = inf  # when to look again at what was not worth having back
        self.clock_ahead: float | None = None  # of the shared time before ours, where it is known

    def tell_due(self, job: Job) -> float:
        """When tasks of this job may go to workers, in our own time. `inf`: nobody knows."""
        if job.at is None:
            return -inf
        return inf if self.clock_ahead is None else job.at - self.clock_ahead - LEAD

    def give(self, now: float, *, anew: bool) -> list[Give]:
        """All that fits.

        Unless `anew`, no task has become ready since the last time, so only workers whose account changed can get one.
        """
        given: dict[str, list[Assignment]] = {}
        self.is_haunted = False
        in_turn = self._workers.in_turn() if anew else self._workers.changed_in_turn()
        self._workers.forget_changes()
        # Free slots first, everywhere; only then places to wait.
        spare = [worker for worker in in_turn if worker.info.id in self._workers.spare]
        self._fill(spare, now, given, ahead=False)
        self._fill(in_turn, now, given, ahead=True)
        return [Give(worker, tuple(assignments)) for worker, assignments in given.items()]

    def recall(self, now: float) -> list[Recall]:
        """Where a worker is idle while tasks wait on another, have them back; those that have begun go on.

        Half of them, if that is more than the idle slots: one by one, each would cost a way there and back.
        """
        self.patient_until = inf
        recalls: list[Recall] = []
        idle_for: dict[JobId, _Idle] = {}  # by the job of the last one: what waits on a worker is mostly of one
        for worker in list(self._workers.laden.values()) if self._workers.spare else ():
            last = (attempt for attempt in reversed(worker.held) if self._may_recall(attempt, worker))
            first = next(last, None)
            if first is None:
                continue
            job = self._jobs.find(first.job)
            assert job is not None, "what is current is of a job that is here"
            idle = idle_for.get(job.id)
            if idle is None:
                idle = idle_for[job.id] = _Idle(self._list_free(job))
            free = idle.count(worker.waiting)
            if not free:
                continue
            if self._begin_soon(worker, job, now):
                idle.use(worker.waiting)
                self.patient_until = min(self.patient_until, worker.last_moved + SOON)
                continue
            count = min(worker.waiting, max(free, worker.waiting // 2))
            wanted = (first, *islice(last, count - 1))
            worker.recalled.update(wanted)
            idle.use(count)
            self._workers.settle(worker)
            recalls.append(Recall(worker.info.id, wanted))
        return recalls

    def _list_free(self, job: Job) -> Iterator[int]:
        """Slots for tasks of this job, worker by worker."""
        for worker in self._workers.spare.values():
            if self._count_fitting(worker, job, _tell_free):
                yield worker.free

    def check(self, now: float) -> None:
        """What must hold when all was given out: nothing waits that could run."""
        for job in self._jobs:
            task = job.tasks.find_ready(now) if job.may_start and self.tell_due(job) <= now else None
            for worker in self._workers.in_turn() if task is not None else ():
                fits = self._count_fitting(worker, job, _tell_free) > 0
                assert not fits or worker.holds((job.id, TaskNumber(task or 0)))

    def _begin_soon(self, worker: Worker, job: Job, now: float) -> bool:
        """Whether all that waits there should begin before a recall is answered: it goes by the pace of the last job.

        A worker that ends nothing in that time may be busy with a slow task, and then nobody is patient.
        """
        is_quick = job.pace is not None and worker.waiting * job.pace < SOON * worker.info.slots
        return is_quick and now < worker.last_moved + SOON

    def _may_recall(self, attempt: AttemptKey, worker: Worker) -> bool:
        """What has a time stays: perhaps nobody else knows the time."""
        job = self._jobs.find(attempt.job)
        is_timed = job is not None and job.at is not None
        return not is_timed and attempt not in worker.recalled and self._owners.is_current(attempt, worker)

    def _fill(self, workers: list[Worker], now: float, given: dict[str, list[Assignment]], *, ahead: bool) -> None:
        """Job by job, as long as a worker has a free slot, or, `ahead`, a place to wait."""
        space = self._tell_room if ahead else _tell_free
        looks = MAX_LOOKS if ahead else inf
        given_up: set[Need | None] = set()
        in_turn = deque(workers)
        for job in self._jobs.in_order(given_up):
            if not in_turn or looks <= 0:
                return
            if job.may_start and self.tell_due(job) <= now and job.tasks.find_ready(now) is not None:
                if self._deal(job, in_turn, space, now, given):
                    while in_turn and not (in_turn[0].room if ahead else in_turn[0].free):
                        in_turn.popleft()
                else:
                    looks -= len(in_turn)
                    # Tasks with a pace wait on a worker in numbers of their own; others are as good as one another.
                    if (job.pace is None or not ahead) and not any(self._count_fitting(w, job, space) for w in in_turn):
                        given_up.add(job.need)

    def _deal(
        self, job: Job, in_turn: Collection[Worker], space: Space, now: float, given: dict[str, list[Assignment]]
    ) -> bool:
        """As many tasks to each worker as to the others, in turn, as long as something fits. Whether anything did.

        Each gets its share in one go: tasks that follow each other cost the store less.
        """
        wanted = job.count_startable()
        turns: Iterable[tuple[Worker, int]] = (
            (worker, room) for worker in in_turn if (room := self._count_fitting(worker, job, space))
        )
        count = len(in_turn)
        dealt: dict[str, Worker] = {}
        while wanted and count:
            # What waits again may be due later: only those that never ran are sure to go round.
            share = max(1, min(wanted, job.tasks.fresh) // count)
            again = []
            before = wanted
            for worker, room in turns:
                got = self._hand(job, worker, min(share, room, wanted), now, given)
                if got:
                    dealt[worker.info.id] = worker
                    wanted -= got
                if got < room:  # what it may not have now, another may take before its next turn
                    again.append((worker, room - got))
                if not wanted or job.tasks.find_ready(now) is None:
                    wanted = 0
                    break
            turns, count = again, len(again) if wanted < before else 0
        for worker in dealt.values():
            self._workers.use(worker)
        return bool(dealt)

    def _hand(self, job: Job, worker: Worker, count: int, now: float, given: dict[str, list[Assignment]]) -> int:
        """Give it so many tasks, as far as any are ready that it may have. Gives how many."""
        got = 0
        while got < count and (task := job.tasks.find_ready(now)) is not None:
            if _is_haunted(worker, job, task):
                self.is_haunted = True
                break
            attempt = AttemptKey(job.id, task, job.tasks.start(task))
            worker.ungiven.add(attempt)
            self._owners.take(worker, attempt, job.spec.slots)
            given.setdefault(worker.info.id, []).append(Assignment(attempt, _tell_spec(job, task)))
            got += 1
        return got

    def _tell_room(self, worker: Worker, job: Job) -> int:
        """Free slots and places to wait. Long tasks do not wait on a worker: there is time to send the next.

        What has a time is the first to begin on its worker, and need not wait here until all others have begun.
        """
        if job.at is not None:
            return worker.room
        pace = self._policy.first_pace if job.pace is None else job.pace
        return worker.tell_room(int(self._policy.look_ahead / max(pace, MIN_PACE)))

    def _count_fitting(self, worker: Worker, job: Job, space: Space) -> int:
        """How many tasks of this job this worker can take."""
        spec = job.spec
        suits = worker.info.tags.issuperset(spec.tags) and (job.at is None or worker.knows_time)
        return space(worker, job) // spec.slots if suits and spec.slots <= worker.info.slots else 0


class _Idle:
    """Slots, as far as somebody had to count: a thousand workers may be idle."""

    def __init__(self, counts: Iterator[int]) -> None:
        self._counts = counts
        self._left = 0

    def count(self, most: int) -> int:
        """How many are left. Of more than `most` perhaps not all."""
        while self._left < most and (more := next(self._counts, None)) is not None:
            self._left += more
        return self._left

    def use(self, count: int) -> None:
        self._left -= min(self._left, count)


def _tell_free(worker: Worker, _job: Job) -> int:
    return worker.free


def _tell_spec(job: Job, task: TaskNumber) -> JobSpec:
    """With the time as it is now. What is tried again after a failure begins as soon as it may."""
    at = job.at if job.tasks.strikes(task) == NO_STRIKES else None
    return job.spec if at == job.spec.at else replace(job.spec, at=at)


def _is_haunted(worker: Worker, job: Job, task: TaskNumber) -> bool:
    """Whether an older attempt at this task is not over yet on this worker."""
    return job.tasks.attempts(task) > 0 and worker.holds((job.id, task))
