"""Who gets which task next: jobs by rank, workers by turn, free slots before places to wait."""

from collections.abc import Callable
from math import inf
from typing import Final

from msgspec.structs import replace

from gandy.core.effects import Assignment, Give, Recall
from gandy.core.jobs import Job, JobTable
from gandy.core.model import AttemptKey, JobSpec, TaskKey
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.tasks import NO_STRIKES
from gandy.core.workers import Worker, WorkerTable
from gandy.ids import TaskNumber

MIN_PACE: Final = 1e-6  # seconds; no task is quicker
LEAD: Final = 2.0  # seconds before its time that a task goes to its worker, which keeps a slot for it

Space = Callable[[Worker, Job], int]


class Dispatcher:
    """Looks at the tables of the reactor, and takes what it gives."""

    def __init__(self, policy: Policy, jobs: JobTable, workers: WorkerTable, owners: Owners) -> None:
        self._policy = policy
        self._jobs = jobs
        self._workers = workers
        self._owners = owners
        self.clock_ahead: float | None = None  # of the shared time before ours, where it is known

    def tell_due(self, job: Job) -> float:
        """When tasks of this job may go to workers, in our own time. `inf`: nobody knows."""
        if job.at is None:
            return -inf
        return inf if self.clock_ahead is None else job.at - self.clock_ahead - LEAD

    def give(self, now: float) -> list[Give]:
        """One task at a time, until nothing fits."""
        ready = [
            job
            for job in self._jobs.in_order()
            if job.may_start and self.tell_due(job) <= now and job.tasks.find_ready(now) is not None
        ]
        given: dict[str, list[Assignment]] = {}
        if ready:
            # Free slots first, everywhere; only then places to wait.
            self._fill(ready, lambda worker, _: worker.free, now, given)
            self._fill(ready, self._tell_room, now, given)
        return [Give(worker, tuple(assignments)) for worker, assignments in given.items()]

    def recall(self) -> list[Recall]:
        """Where a worker is idle while tasks wait on another, have them back; those that have begun go on."""
        idle = sum(worker.free for worker in self._workers.in_turn())
        recalls: list[Recall] = []
        for worker in self._workers if idle else ():
            waiting = worker.used + worker.lent - worker.info.slots - len(worker.recalled)
            if idle <= 0 or waiting <= 0 or not worker.connected:
                continue
            last = [a for a in reversed(worker.held) if self._may_recall(a, worker)]
            wanted = last[: min(idle, waiting)]
            worker.recalled.update(wanted)
            idle -= len(wanted)
            if wanted:
                recalls.append(Recall(worker.info.id, tuple(wanted)))
        return recalls

    def _may_recall(self, attempt: AttemptKey, worker: Worker) -> bool:
        """What has a time stays: perhaps nobody else knows the time."""
        job = self._jobs.find(attempt.job)
        is_timed = job is not None and job.at is not None
        return not is_timed and attempt not in worker.recalled and self._owners.is_current(attempt, worker)

    def _fill(self, ready: list[Job], space: Space, now: float, given: dict[str, list[Assignment]]) -> None:
        """One task to each worker in turn, round and round, as long as something fits."""
        in_turn = self._workers.in_turn()
        while in_turn:
            lucky = []
            for worker in in_turn:
                assignment = self._find_assignment(worker, space, ready, now)
                if assignment is not None:
                    given.setdefault(worker.info.id, []).append(assignment)
                    lucky.append(worker)
            in_turn = lucky

    def _tell_room(self, worker: Worker, job: Job) -> int:
        """Free slots and places to wait. Long tasks do not wait on a worker: there is time to send the next.

        What has a time is the first to begin on its worker, and need not wait here until all others have begun.
        """
        if job.at is not None:
            return worker.room
        pace = self._policy.first_pace if job.pace is None else job.pace
        return worker.tell_room(int(self._policy.look_ahead / max(pace, MIN_PACE)))

    def _find_assignment(self, worker: Worker, space: Space, ready: list[Job], now: float) -> Assignment | None:
        for job in ready:
            has_space = job.spec.slots <= min(space(worker, job), worker.info.slots)
            fits = has_space and worker.info.tags.issuperset(job.spec.tags) and (job.at is None or worker.knows_time)
            if not fits or not job.may_start:
                continue
            task = job.tasks.find_ready(now)
            if task is not None and not _is_haunted(worker, job, task):
                attempt = AttemptKey(job.id, task, job.tasks.start(task))
                worker.ungiven.add(attempt)
                self._owners.take(worker, attempt, job.spec.slots)
                self._workers.use(worker)
                return Assignment(attempt, _tell_spec(job, task))
        return None


def _tell_spec(job: Job, task: TaskNumber) -> JobSpec:
    """With the time as it is now. What is tried again after a failure begins as soon as it may."""
    at = job.at if job.tasks.strikes(task) == NO_STRIKES else None
    return job.spec if at == job.spec.at else replace(job.spec, at=at)


def _is_haunted(worker: Worker, job: Job, task: TaskNumber) -> bool:
    """Whether an older attempt at this task is not over yet on this worker."""
    return job.tasks.attempts(task) > 0 and worker.holds(TaskKey(job.id, task))
