"""Gives tasks of one job to workers: how many fit each worker, and which attempts they become.

The dispatcher (`core.dispatch`) chooses the job.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from msgspec.structs import replace

from gandy.core.effects import Assignment, Give
from gandy.core.gather import Gathering
from gandy.core.held import Held
from gandy.core.jobs import ActiveJob
from gandy.core.model import AttemptKey, JobSpec, TaskState
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.recall import is_stalled
from gandy.core.workers import KnownWorker, WorkerTable
from gandy.ids import TaskNumber
from gandy.moments import Monotonic

SHORTEST_PACE_US: Final = 1  # microseconds; what a task takes at least, for the look-ahead

Space = Callable[[KnownWorker, ActiveJob], int]


class Assigner:
    """Collects what each worker is given in one decision."""

    def __init__(self, policy: Policy, workers: WorkerTable, owners: Owners, gathering: Gathering) -> None:
        self._policy = policy
        self._look_ahead_us = int(policy.look_ahead * 1e6)
        self._workers = workers
        self._owners = owners
        self._gathering = gathering
        self._now = Monotonic(0.0)  # of the decision that is being made
        self._given: dict[str, list[Assignment]] = {}  # by worker
        self.is_blocked = False  # a task was not given to a worker that still has an older attempt at it

    def begin(self, now: Monotonic) -> None:
        """Begin a decision."""
        self._now, self._given, self.is_blocked = now, {}, False

    def list_given(self) -> list[Give]:
        """What each worker gets by this decision."""
        return [Give(worker, tuple(assignments)) for worker, assignments in self._given.items()]

    def deal(self, job: ActiveJob, in_turn: Collection[KnownWorker], space: Space) -> bool:
        """Give the same number of tasks to each worker, in turn, until no more fit. True if any did.

        A worker gets its share at once: tasks with consecutive numbers cost the store less.
        """
        wanted = job.count_startable()
        turns: Iterable[tuple[KnownWorker, int]] = (
            (worker, room) for worker in in_turn if (room := self.count_fitting(worker, job, space))
        )
        count = len(in_turn)
        dealt: dict[str, KnownWorker] = {}
        while wanted and count:
            # Tasks that wait again may be due later; only those that never ran can be shared out now.
            share = max(1, min(wanted, job.tasks.fresh) // count)
            again = []
            before = wanted
            for worker, room in turns:
                got = self._hand(job, worker, min(share, room, wanted))
                if got:
                    dealt[worker.info.id] = worker
                    wanted -= got
                if got < room:  # another worker may take the task that this one may not have
                    again.append((worker, room - got))
                if not wanted or job.tasks.find_ready(self._now) is None:
                    wanted = 0
                    break
            turns, count = again, len(again) if wanted < before else 0
        for worker in dealt.values():
            self._workers.use(worker)
        return bool(dealt)

    def give_suspect(self, job: ActiveJob, task: TaskNumber, wanted: int, in_turn: Iterable[KnownWorker]) -> None:
        """Give a suspect as many slots as are wanted, or a whole worker, so that fewer tasks run beside it."""
        for worker in in_turn:
            slots = min(wanted, worker.slots.shared)
            held = Held(slots, self._now, slots * self._look_ahead_us)
            fits = worker.free >= slots and self.count_fitting(worker, job, count_free) > 0
            if fits and self._start(job, task, worker, held):
                self._workers.use(worker)
                return

    def _hand(self, job: ActiveJob, worker: KnownWorker, count: int) -> int:
        """Give a worker up to `count` tasks that are ready. Returns how many it got."""
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
        """Give a worker a task. False if the worker still has an older attempt at it."""
        if job.tasks.attempts(task) > 0 and worker.held.has_task((job.id, task)):
            self.is_blocked = True
            return False
        state = TaskState.ASSIGNED if worker.info.reports_begun else TaskState.RUNNING
        attempt = AttemptKey(job.id, task, job.tasks.start(task, state))
        worker.held.unsent.add(attempt)
        worker.last_moved = self._now
        self._owners.take(worker, attempt, held)
        if state is TaskState.RUNNING:
            worker.held.begun.add(attempt)
        self._gathering.on_taken(worker, job, held.slots)
        self._given.setdefault(worker.info.id, []).append(Assignment(attempt, _make_spec(job, task, held.slots)))
        return True

    # Room on workers

    def count_fitting(self, worker: KnownWorker, job: ActiveJob, space: Space) -> int:
        """How many tasks of this job this worker can take."""
        if not job.suits(worker):
            return 0
        room = space(worker, job)
        if room < job.spec.slots:
            return 0
        return self._gathering.limit_room(worker, job, room, is_free=space is count_free) // job.spec.slots

    def count_places(self, worker: KnownWorker, job: ActiveJob) -> int:
        """Free slots and places to wait: up to half a second of work for each slot, with what runs there.

        So long tasks do not wait on a worker: there is time to send the next one. Timed tasks go out as long as there
        is room: their worker begins them before the tasks that wait there. A worker that ends nothing is slower than
        expected, and gets no tasks to wait.
        """
        if job.at is not None:
            return worker.room
        if is_stalled(worker, self._now, self._policy):
            return worker.free
        left_us = worker.slots.shared * self._look_ahead_us - worker.held.work_us
        return max(worker.free, min(worker.room, left_us // self._pace_us(job)))

    def _pace_us(self, job: ActiveJob) -> int:
        pace = self._policy.first_pace if job.pace is None else job.pace
        return max(SHORTEST_PACE_US, int(pace * 1e6))


def count_free(worker: KnownWorker, _job: ActiveJob) -> int:
    return worker.free


def _make_spec(job: ActiveJob, task: TaskNumber, slots: int) -> JobSpec:
    """The spec with the current time of the job. A task that is tried again begins as soon as it may."""
    at = None if task in job.tasks.strikes else job.at
    return job.spec if (at, slots) == (job.spec.at, job.spec.slots) else replace(job.spec, at=at, slots=slots)
