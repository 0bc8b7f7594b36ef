"""Who gets which task next: jobs by rank, workers by turn, free slots before places to wait."""

from collections.abc import Callable
from typing import Final

from gandy.core.effects import Assignment, Give, Recall
from gandy.core.jobs import Job, JobTable
from gandy.core.model import AttemptKey, TaskKey
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.workers import Worker, WorkerTable
from gandy.ids import TaskNumber

MIN_PACE: Final = 1e-6  # seconds; no task is quicker

Space = Callable[[Worker, Job], int]


class Dispatcher:
    """Looks at the tables of the reactor, and takes what it gives."""

    def __init__(self, policy: Policy, jobs: JobTable, workers: WorkerTable, owners: Owners) -> None:
        self._policy = policy
        self._jobs = jobs
        self._workers = workers
        self._owners = owners

    def give(self, now: float) -> list[Give]:
        """One task at a time, until nothing fits."""
        ready = [job for job in self._jobs.in_order() if job.may_start and job.tasks.find_ready(now) is not None]
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
            last = [a for a in reversed(worker.held) if a not in worker.recalled and self._owners.is_current(a, worker)]
            wanted = last[: min(idle, waiting)]
            worker.recalled.update(wanted)
            idle -= len(wanted)
            if wanted:
                recalls.append(Recall(worker.info.id, tuple(wanted)))
        return recalls

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
        """Free slots and places to wait. Long tasks do not wait on a worker: there is time to send the next."""
        pace = self._policy.first_pace if job.pace is None else job.pace
        return worker.tell_room(int(self._policy.look_ahead / max(pace, MIN_PACE)))

    def _find_assignment(self, worker: Worker, space: Space, ready: list[Job], now: float) -> Assignment | None:
        for job in ready:
            has_space = job.spec.slots <= min(space(worker, job), worker.info.slots)
            fits = has_space and worker.info.tags.issuperset(job.spec.tags)
            if not fits or not job.may_start:
                continue
            task = job.tasks.find_ready(now)
            if task is not None and not _is_haunted(worker, job, task):
                attempt = AttemptKey(job.id, task, job.tasks.start(task))
                worker.ungiven.add(attempt)
                self._owners.take(worker, attempt, job.spec.slots)
                self._workers.use(worker)
                return Assignment(attempt, job.spec)
        return None


def _is_haunted(worker: Worker, job: Job, task: TaskNumber) -> bool:
    """Whether an older attempt at this task is not over yet on this worker."""
    return job.tasks.attempts(task) > 0 and worker.holds(TaskKey(job.id, task))
