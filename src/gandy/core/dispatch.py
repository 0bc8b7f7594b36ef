"""Which worker gets which task next: jobs by rank, workers by turn, free slots before places to wait.

Rank always decides. A job whose tasks still wait closes the workers that suit it to jobs of lower rank: these get no
more places to wait there, so the next free slot is for the job. Slots are gathered (`core.gather`) for tasks that need
several, and for tasks that were lost with several workers and run beside fewer tasks.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gandy.core.assigner import Assigner, count_free
from gandy.core.effects import Give, Recall
from gandy.core.gather import Gathering, Place
from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.offsets import ClockOffsets
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.queue import Need
from gandy.core.recall import Recaller
from gandy.core.workers import KnownWorker, WorkerTable
from gandy.ids import TaskNumber
from gandy.moments import LONG_AGO, NEVER, Monotonic

LEAD: Final = 2.0  # seconds before its time that a task goes to its worker, which keeps a slot for it


class Dispatcher:
    """Knows when a decision is needed, and makes it."""

    def __init__(
        self, policy: Policy, jobs: JobTable, workers: WorkerTable, owners: Owners, clocks: ClockOffsets
    ) -> None:
        self._jobs = jobs
        self._workers = workers
        self._clocks = clocks
        self._recaller = Recaller(policy, jobs, workers, owners)
        self._gathering = Gathering(policy, jobs, workers)
        self._assigner = Assigner(policy, workers, owners, self._gathering)
        self._now = LONG_AGO  # of the last decision
        self._changed: list[KnownWorker] = []  # workers whose account changed between the last two decisions
        self.is_needed = False  # something has happened since the last decision
        self.has_more = True  # perhaps workers whose account has not changed can get a task, too
        self._next_again = NEVER  # when the first of the tasks that wait again may start
        self.unmet: set[Need | None] = set()  # needs of tasks that could start and found no slot at the last decision

    # When to decide

    def request(self) -> None:
        """Ask for a decision about all workers: any of them might get a task now."""
        self.is_needed = self.has_more = True

    def on_wait(self, due: Monotonic) -> None:
        """A task waits again, until `due`."""
        self._next_again = min(self._next_again, due)

    def on_room(self, worker: KnownWorker) -> None:
        """Ask for a decision if this worker has slots again that a task needs: calls may have returned some."""
        if any(need is not None and need.fits(worker) for need in self.unmet):
            self._workers.settle(worker)
            self.is_needed = True

    @property
    def places(self) -> Mapping[str, Place]:
        """Workers where slots were kept free for a task that needs several, at the last decision."""
        return self._gathering.places

    @property
    def patient_until(self) -> Monotonic:
        """When to look again at tasks that wait on a worker while another is idle, or at slots that calls had."""
        return min(self._recaller.patient_until, self._gathering.patient_until)

    def list_dues(self) -> Iterator[Monotonic]:
        """When a decision can do more than the last one. Tasks that were due by then wait for slots."""
        dues = [job.tasks.delayed.next_due() for job in self._jobs.delayed.values() if job.may_start]
        dues += map(self.due, self._jobs.timed.values())
        dues += self._recaller.next_look, self._gathering.next_look
        yield from (due for due in dues if due is not None and self._now < due < NEVER)
        if self.patient_until < NEVER:
            yield self.patient_until

    def due(self, job: ActiveJob) -> Monotonic:
        """When tasks of this job may go to workers, in our own time; `NEVER` while the shared time is not known."""
        if job.at is None:
            return LONG_AGO
        ahead = self._clocks.shared_ahead
        return NEVER if ahead is None else job.find_start(ahead) - LEAD

    # The decision

    def give(self, now: Monotonic) -> list[Give]:
        """Give workers all tasks that fit.

        If no task has become ready since the last time, only workers whose account changed can get one.
        """
        is_time = any(self._now < self.due(job) <= now for job in self._jobs.timed.values())
        is_anew = self.has_more or self._next_again <= now or is_time
        self._now = now
        self._gathering.begin(now)
        self._assigner.begin(now)
        self._changed = self._workers.take_changed()
        in_turn = self._workers.in_turn() if is_anew else self._workers.sort_by_turn(self._changed)
        # Free slots first, everywhere; only then places to wait.
        self._fill_slots([worker for worker in in_turn if worker.info.id in self._workers.spare])
        self._fill_ahead(in_turn)
        self._on_decided()
        return self._assigner.list_given()

    def recall(self, now: Monotonic) -> list[Recall]:
        """The tasks that should not wait on their workers any longer; call it after `give`."""
        return self._recaller.recall(now, self._changed)

    def check(self) -> None:
        """What must hold after a decision, for tests: no task waits that could run."""
        if self.is_needed or self.has_more:
            return
        for job in self._jobs:
            task = job.tasks.find_ready(self._now) if self._may_start(job) else None
            for worker in self._workers.in_turn() if task is not None else ():
                fits = job.suits(worker) and worker.free >= job.spec.slots
                assert not fits or worker.held.has_task((job.id, TaskNumber(task or 0)))

    def _on_decided(self) -> None:
        self.is_needed = False
        self.has_more = self._assigner.is_blocked or bool(self.places)
        self.unmet = self._find_unmet()
        if self._next_again <= self._now:
            dues = (job.tasks.delayed.next_due() for job in self._jobs.delayed.values())
            self._next_again = min((due for due in dues if due is not None), default=NEVER)

    def _find_unmet(self) -> set[Need | None]:
        unmet: set[Need | None] = set()
        for job in self._jobs.in_order(unmet):
            if self._may_start(job) and self._is_waiting(job):
                unmet.add(job.need)
        return unmet

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
            for task in self._list_suspects(job):
                self._assigner.give_suspect(job, task, _count_suspect_slots(job, task), in_turn)
            self._gather_for_suspects(job)
            if job.tasks.find_ready(self._now) is not None and self._assigner.deal(job, in_turn, count_free):
                while in_turn and not in_turn[0].free:
                    in_turn.popleft()
            if self._is_waiting(job) and self._is_hopeless(job, in_turn):
                given_up.add(job.need)

    def _is_hopeless(self, job: ActiveJob, in_turn: Iterable[KnownWorker]) -> bool:
        """True if no job with the same need can get a free slot either. Has slots gathered if the job needs several."""
        if any(self._assigner.count_fitting(worker, job, count_free) for worker in in_turn):
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
            is_ready = job.tasks.find_ready(self._now) is not None
            if is_ready and self._assigner.deal(job, in_turn, self._assigner.count_places):
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
        """Have slots gathered, if tasks of this job need several. True if no other job with this need gains more."""
        if job.spec.slots == 1:
            return True
        return self._gathering.ask(job, job.spec.slots, job.count_startable())

    # Tasks that may have killed their workers

    def _gather_for_suspects(self, job: ActiveJob) -> None:
        suspects = self._list_suspects(job)
        if suspects:
            self._gathering.ask(job, _count_suspect_slots(job, suspects[0]), len(suspects), is_ordinary=False)

    def _list_suspects(self, job: ActiveJob) -> list[TaskNumber]:
        """The suspects that may start now, as many as the job may start."""
        return job.tasks.delayed.list_suspects(self._now)[: job.count_startable()]


def _count_suspect_slots(job: ActiveJob, task: TaskNumber) -> int:
    """How many slots a suspect gets: more than it needs, so that fewer tasks run beside it."""
    return max(job.spec.slots, job.tasks.strikes[task].suspect_slots)
