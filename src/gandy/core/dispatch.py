"""Who gets which task next: jobs by rank, workers by turn, free slots before places to wait.

Rank always decides. A job whose tasks still wait closes the workers that suit it to jobs of lower rank: those get no
more places to wait there, so the next slot that is free is for the job. Tasks of several slots have them gathered
(`core.gather`), and so have tasks that were lost with several workers and run with few neighbours.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from gandy.core.effects import Assignment, Give, Recall
from gandy.core.gather import Gathering, Place
from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.model import AttemptKey, JobSpec, TaskState
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.queue import Need
from gandy.core.recall import Recaller
from gandy.core.tasks import NO_STRIKES
from gandy.core.workers import Held, KnownWorker, WorkerTable
from gandy.ids import TaskNumber
from gandy.moments import LONG_AGO, NEVER, Monotonic

SHORTEST_PACE_US: Final = 1  # microseconds; no task is quicker
LEAD: Final = 2.0  # seconds before its time that a task goes to its worker, which keeps a slot for it

Space = Callable[[KnownWorker, ActiveJob], int]
Given = dict[str, list[Assignment]]  # by worker


class Dispatcher:
    """Looks at the tables of the reactor, and takes what it gives."""

    def __init__(self, policy: Policy, jobs: JobTable, workers: WorkerTable, owners: Owners) -> None:
        self._policy = policy
        self._look_ahead_us = int(policy.look_ahead * 1e6)
        self._jobs = jobs
        self._workers = workers
        self._owners = owners
        self._recaller = Recaller(policy, jobs, workers, owners)
        self._changed: list[KnownWorker] = []  # since the decision before the last one
        self._gathering = Gathering(policy, jobs, workers)
        self._now = Monotonic(0.0)  # of the decision that is being made
        self._given: Given = {}
        self.blocked_by_stale_attempt = False  # a worker could have had a task, but for an older attempt at it
        self.clock_ahead: float | None = None  # of the shared time before ours, where it is known

    @property
    def patient_until(self) -> Monotonic:
        """When to look again at tasks that wait on a worker while another is idle, or at slots that calls had."""
        return min(self._recaller.patient_until, self._gathering.patient_until)

    @property
    def next_look(self) -> Monotonic:
        """When to look for workers that end nothing while tasks wait there, or while slots are kept free."""
        return min(self._recaller.next_look, self._gathering.next_look)

    @property
    def places(self) -> Mapping[str, Place]:
        """Workers that gathered slots at the last decision."""
        return self._gathering.places

    @property
    def is_unsettled(self) -> bool:
        """The next decision may concern workers whose account has not changed."""
        return self.blocked_by_stale_attempt or bool(self.places)

    def list_unmet(self) -> set[Need | None]:
        """What tasks need that could start, and found no slot at the last decision."""
        unmet: set[Need | None] = set()
        for job in self._jobs.in_order(unmet):
            if self._may_start(job) and self._is_waiting(job):
                unmet.add(job.need)
        return unmet

    def due(self, job: ActiveJob) -> Monotonic:
        """When tasks of this job may go to workers, in our own time; `NEVER` while the shared time is not known."""
        if job.at is None:
            return LONG_AGO
        return NEVER if self.clock_ahead is None else job.find_start(self.clock_ahead) - LEAD

    def give(self, now: Monotonic, *, anew: bool) -> list[Give]:
        """All that fits.

        Unless `anew`, no task has become ready since the last time, so only workers whose account changed can get one.
        """
        self._now, self._given = now, {}
        self._gathering.begin(now)
        self.blocked_by_stale_attempt = False
        self._changed = self._workers.take_changed()
        in_turn = self._workers.in_turn() if anew else self._workers.sort_by_turn(self._changed)
        # Free slots first, everywhere; only then places to wait.
        self._fill_slots([worker for worker in in_turn if worker.info.id in self._workers.spare])
        self._fill_ahead(in_turn)
        return [Give(worker, tuple(assignments)) for worker, assignments in self._given.items()]

    def recall(self, now: Monotonic) -> list[Recall]:
        """What waits on workers, and should not wait there any longer; call it after `give`."""
        return self._recaller.recall(now, self._changed)

    def check(self, now: Monotonic) -> None:
        """What must hold when all was given out: nothing waits that could run."""
        for job in self._jobs:
            task = job.tasks.find_ready(now) if job.may_start and self.due(job) <= now else None
            for worker in self._workers.in_turn() if task is not None else ():
                fits = job.suits(worker) and worker.free >= job.spec.slots
                assert not fits or worker.holds((job.id, TaskNumber(task or 0)))

    # Jobs by rank

    def _fill_slots(self, workers: list[KnownWorker]) -> None:
        """Job by job, as long as a worker has a free slot."""
        given_up: set[Need | None] = set()
        in_turn = deque(workers)
        for job in self._jobs.in_order(given_up):
            if not in_turn:
                return
            if not self._may_start(job):
                continue
            self._give_suspects(job, in_turn)
            if job.tasks.find_ready(self._now) is not None and self._deal(job, in_turn, _count_free):
                while in_turn and not in_turn[0].free:
                    in_turn.popleft()
            if self._is_waiting(job) and self._is_hopeless(job, in_turn):
                given_up.add(job.need)

    def _is_hopeless(self, job: ActiveJob, in_turn: Iterable[KnownWorker]) -> bool:
        """No job with the same need can get a free slot either. Where slots must be gathered, the job asks for that."""
        if any(self._count_fitting(worker, job, _count_free) for worker in in_turn):
            return False
        return self._gather_for(job)

    def _fill_ahead(self, workers: list[KnownWorker]) -> None:
        """Job by job, as long as a worker has a place to wait and no job of higher rank waits for that worker."""
        given_up: set[Need | None] = set()
        in_turn = workers
        for job in self._jobs.in_order(given_up):
            if not in_turn:
                return
            if not self._may_start(job):
                continue
            self._gather_for_suspects(job)
            if job.tasks.find_ready(self._now) is not None and self._deal(job, in_turn, self._count_places):
                in_turn = [worker for worker in in_turn if worker.room]
            if self._is_waiting(job) and self._gather_for(job):
                given_up.add(job.need)
                if job.spec.slots == 1:
                    in_turn = [worker for worker in in_turn if not job.suits(worker)]

    def _may_start(self, job: ActiveJob) -> bool:
        return job.may_start and self.due(job) <= self._now

    def _is_waiting(self, job: ActiveJob) -> bool:
        return job.may_start and job.tasks.find_ready(self._now) is not None

    def _gather_for(self, job: ActiveJob) -> bool:
        """Have slots gathered, if tasks of this job need several. True if jobs with the same need gain nothing more."""
        if job.spec.slots == 1:
            return True
        return self._gathering.ask(job, job.spec.slots, job.count_startable())

    # Tasks to workers

    def _deal(self, job: ActiveJob, in_turn: Collection[KnownWorker], space: Space) -> bool:
        """As many tasks to each worker as to the others, in turn, as long as something fits. True if anything did.

        Each gets its share in one go: tasks that follow each other cost the store less.
        """
        wanted = job.count_startable()
        turns: Iterable[tuple[KnownWorker, int]] = (
            (worker, room) for worker in in_turn if (room := self._count_fitting(worker, job, space))
        )
        count = len(in_turn)
        dealt: dict[str, KnownWorker] = {}
        while wanted and count:
            # What waits again may be due later: only those that never ran are sure to go round.
            share = max(1, min(wanted, job.tasks.fresh) // count)
            again = []
            before = wanted
            for worker, room in turns:
                got = self._hand(job, worker, min(share, room, wanted))
                if got:
                    dealt[worker.info.id] = worker
                    wanted -= got
                if got < room:  # what it may not have now, another may take before its next turn
                    again.append((worker, room - got))
                if not wanted or job.tasks.find_ready(self._now) is None:
                    wanted = 0
                    break
            turns, count = again, len(again) if wanted < before else 0
        for worker in dealt.values():
            self._workers.use(worker)
        return bool(dealt)

    def _hand(self, job: ActiveJob, worker: KnownWorker, count: int) -> int:
        """Give it so many tasks, as far as any are ready that it may have. Gives how many."""
        # A long task fills the look-ahead of its slots, and no more.
        work_us = job.spec.slots * min(self._pace_us(job), self._look_ahead_us)
        held = Held(job.spec.slots, self._now, work_us)
        got = 0
        while got < count and (task := job.tasks.find_ready(self._now)) is not None:
            if not self._start(job, task, worker, held):
                break
            got += 1
        return got

    def _start(self, job: ActiveJob, task: TaskNumber, worker: KnownWorker, held: Held) -> bool:
        """Give a worker a task. False where an older attempt at it is not over there."""
        if job.tasks.attempts(task) > 0 and worker.holds((job.id, task)):
            self.blocked_by_stale_attempt = True
            return False
        state = TaskState.ASSIGNED if worker.info.reports_begun else TaskState.RUNNING
        attempt = AttemptKey(job.id, task, job.tasks.start(task, state))
        worker.ungiven.add(attempt)
        worker.last_moved = self._now
        self._owners.take(worker, attempt, held)
        if state is TaskState.RUNNING:
            worker.begun.add(attempt)
        self._gathering.on_taken(worker, job, held.slots)
        self._given.setdefault(worker.info.id, []).append(Assignment(attempt, _make_spec(job, task, held.slots)))
        return True

    # Tasks that may have killed their workers

    def _give_suspects(self, job: ActiveJob, in_turn: Iterable[KnownWorker]) -> None:
        """With as many slots as they take now, so that fewer tasks run beside them."""
        for task in self._list_suspects(job):
            wanted = max(job.spec.slots, job.tasks.suspect_slots(task))
            for worker in in_turn:
                slots = min(wanted, worker.slots.shared)
                held = Held(slots, self._now, slots * self._look_ahead_us)
                fits = worker.free >= slots and self._count_fitting(worker, job, _count_free) > 0
                if fits and self._start(job, task, worker, held):
                    self._workers.use(worker)
                    break
        self._gather_for_suspects(job)

    def _gather_for_suspects(self, job: ActiveJob) -> None:
        suspects = self._list_suspects(job)
        if suspects:
            slots = max(job.spec.slots, job.tasks.suspect_slots(suspects[0]))
            self._gathering.ask(job, slots, len(suspects), is_ordinary=False)

    def _list_suspects(self, job: ActiveJob) -> list[TaskNumber]:
        """As many as the job may start."""
        return job.tasks.list_suspects(self._now)[: job.count_startable()]

    # Room on workers

    def _count_fitting(self, worker: KnownWorker, job: ActiveJob, space: Space) -> int:
        """How many tasks of this job this worker can take."""
        if not job.suits(worker):
            return 0
        room = space(worker, job)
        if room < job.spec.slots:
            return 0
        return self._gathering.limit_room(worker, job, room, is_free=space is _count_free) // job.spec.slots

    def _count_places(self, worker: KnownWorker, job: ActiveJob) -> int:
        """Free slots and places to wait: half a second of work for each slot, with what runs there.

        So long tasks do not wait on a worker: there is time to send the next. What has a time is the first to begin on
        its worker, and need not wait here until all others have begun. A worker that ends nothing is slower than was
        thought, and gets nothing to wait there.
        """
        if job.at is not None:
            return worker.room
        if self._recaller.is_stalled(worker, self._now):
            return worker.free
        left_us = worker.slots.shared * self._look_ahead_us - worker.work_us
        return max(worker.free, min(worker.room, left_us // self._pace_us(job)))

    def _pace_us(self, job: ActiveJob) -> int:
        pace = self._policy.first_pace if job.pace is None else job.pace
        return max(SHORTEST_PACE_US, int(pace * 1e6))


def _count_free(worker: KnownWorker, _job: ActiveJob) -> int:
    return worker.free


def _make_spec(job: ActiveJob, task: TaskNumber, slots: int) -> JobSpec:
    """With the time as it is now. What is tried again after a failure begins as soon as it may."""
    at = job.at if job.tasks.strikes(task) == NO_STRIKES else None
    return job.spec if (at, slots) == (job.spec.at, job.spec.slots) else replace(job.spec, at=at, slots=slots)
