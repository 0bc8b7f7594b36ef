"""The foreman's mind: events and the time come in, effects go out, records before sends.

It holds all that is not final in memory and never waits. A result counts only for the current attempt of its task;
everything else is acknowledged, so that the worker can forget it, and changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gandy.core.effects import (
    Acknowledge,
    Assignment,
    Dismiss,
    Effect,
    Give,
    JobChanged,
    Kill,
    Publish,
    Recall,
)
from gandy.core.jobs import FINAL_JOB_STATES, Job, JobTable
from gandy.core.model import AttemptKey, Cause, Ending, Input, JobSpec, JobState, TaskKey, TaskState
from gandy.core.records import Claimed, Ended, JobAdded, JobClosed, JobSet, TasksAdded, TasksSet
from gandy.core.tasks import TaskTable
from gandy.core.workers import Worker, WorkerInfo, WorkerTable
from gandy.ids import JobId, TaskNumber

MAX_RETRY_PAUSE: Final = 300.0  # seconds; a pause doubles until here
MIN_PACE: Final = 1e-6  # seconds; no task is quicker


class Policy(Struct, frozen=True):
    """What a foreman was told when it started. Times are in seconds."""

    grace: float = 15.0  # how long an absent worker keeps its tasks: longer than it pauses between two tries
    crash_limit: int = 5  # a task that was lost with so many workers is not tried again
    look_ahead: float = 0.5  # work that waits on a worker for each slot, so that none is idle while we hear of its end
    first_pace: float = 1.0  # how long a task of a job is thought to take as long as none has ended


POLICY: Final = Policy()
FIRST_JOB: Final = JobId(1)


class Reactor:
    """One for each foreman. Every method that changes something gives the effects of the change."""

    def __init__(self, policy: Policy = POLICY, next_job: JobId = FIRST_JOB) -> None:
        self.policy = policy
        self.jobs = JobTable()
        self.workers = WorkerTable()
        self._next_job = next_job
        self._owners: dict[TaskKey, tuple[AttemptKey, Worker]] = {}  # of every task that runs

    # Beginning again

    def restore_job(self, job: Job) -> None:
        """A job that the store knew when the foreman started."""
        self.jobs.add(job)
        self._next_job = JobId(max(self._next_job, job.id + 1))

    def restore_attempt(self, attempt: AttemptKey, worker: str, now: float) -> None:
        """An attempt that ran when the foreman stopped: its worker has the grace period to come back with it."""
        job = self.jobs.find(attempt.job)
        assert job is not None
        owner = self.workers.find(worker)
        if owner is None:
            owner = self.workers.add(Worker(WorkerInfo(worker, worker, 0), absent_since=now))
        self._take(owner, attempt, job.spec.slots)

    # Clients

    def submit(
        self,
        spec: JobSpec,
        now: float,
        lines: tuple[str, ...] = (),
        past: Mapping[JobId, JobState] | None = None,
        upload: int = 0,
    ) -> tuple[JobId, list[Effect]]:
        """Take a job. `past` tells the states of jobs in `spec.after` that are final already."""
        number = self._next_job
        self._next_job = JobId(number + 1)
        states = past or {}
        awaited = {before for before in spec.after if self.jobs.find(before) is not None}
        job = Job(number, spec, TaskTable(spec.tasks), now, spec.held, awaited=awaited, is_open=spec.is_open)
        self.jobs.add(job)
        effects: list[Effect] = [JobAdded(number, spec, now, lines, upload)]
        if any(states.get(before, JobState.FINISHED) is not JobState.FINISHED for before in spec.after):
            effects += self._cancel_tasks(job, None, now)
        return number, effects + self._settle_job(job, now) + self.dispatch(now)

    def add_tasks(self, number: JobId, first: TaskNumber, inputs: tuple[Input, ...], now: float) -> list[Effect]:
        """Give an open job more tasks, numbered from `first`. Those that it has already came twice, and are skipped."""
        job = self.jobs.find(number)
        if job is None or not job.is_open or first > job.tasks.count + 1:
            return []
        new = inputs[job.tasks.count + 1 - first :]
        if not new:
            return []
        record = TasksAdded(number, TaskNumber(job.tasks.count + 1), new, now)
        job.tasks.grow(len(new))
        return [record, *self.dispatch(now)]

    def close(self, number: JobId, now: float) -> list[Effect]:
        """An open job gets no more tasks, and ends with its last one."""
        job = self.jobs.find(number)
        if job is None or not job.is_open:
            return []
        job.is_open = False
        return [JobClosed(number, now), *self._settle_job(job, now)]

    def hold(self, number: JobId, now: float) -> list[Effect]:
        """Start no more tasks of this job; what runs goes on."""
        return self._set_held(number, True, now)

    def release(self, number: JobId, now: float) -> list[Effect]:
        return self._set_held(number, False, now)

    def cancel(self, number: JobId, tasks: Iterable[TaskNumber] | None, now: float) -> list[Effect]:
        """End a whole job, or some of its tasks."""
        job = self.jobs.find(number)
        if job is None:
            return []
        effects = self._cancel_tasks(job, tasks, now)
        return effects + self._settle_job(job, now) + self.dispatch(now)

    def retry(self, number: JobId, tasks: Iterable[TaskNumber] | None, now: float) -> list[Effect]:
        """Let tasks that failed or were cancelled wait again. A final job has to be restored first."""
        job = self.jobs.find(number)
        if job is None:
            return []
        unlucky = (TaskState.FAILED, TaskState.CANCELLED)
        wanted = list(job.tasks.in_states(*unlucky)) if tasks is None else tasks
        chosen = tuple(task for task in wanted if task in job.tasks and job.tasks.state(task) in unlucky)
        for task in chosen:
            job.tasks.forgive(task)
            job.tasks.wait(task, now)
        if not chosen:
            return []
        job.is_cancelled = False
        record = TasksSet(number, TaskState.WAITING, None if tasks is None else chosen, now)
        return [record, *self._settle_job(job, now), *self.dispatch(now)]

    def current_attempt(self, job: JobId, task: TaskNumber) -> AttemptKey:
        """The attempt that runs now, for peers that have no attempts; one that never was where none runs."""
        owned, _ = self._owners.get(TaskKey(job, task), (None, None))
        return owned or AttemptKey(job, task, 0)

    def find_absent_owner(self, attempts: Iterable[AttemptKey]) -> str | None:
        """The worker that these attempts belong to, if it is away: whoever has them must be it."""
        for attempt in attempts:
            owned, worker = self._owners.get(attempt.task_key, (None, None))
            if owned == attempt and worker is not None and not worker.connected:
                return worker.info.id
        return None

    # Workers

    def on_hello(self, info: WorkerInfo, held: Iterable[AttemptKey], now: float) -> list[Effect]:
        """A worker is here, or here again, and tells what it holds. It keeps what is still its own."""
        worker = self.workers.find(info.id) or self.workers.add(Worker(info))
        worker.info = info
        worker.connected = True
        worker.last_heard = now
        told = set(held)
        effects: list[Effect] = []
        for attempt in sorted(
            set(worker.held) - told - worker.ungiven
        ):  # it never heard of these, or has done with them
            effects += self._return(attempt, now)
            worker.release(attempt)
        strange = sorted(attempt for attempt in told if not self._is_current(attempt, worker))
        for attempt in strange:  # until it says that they are over, they hold slots
            worker.take(attempt, 1)
        if strange:
            effects.append(Kill(info.id, tuple(strange)))
        self.workers.settle(worker)
        return effects + self.dispatch(now)

    def on_heard(self, worker: str, now: float) -> None:
        """Any word from a worker says that it is alive."""
        found = self.workers.find(worker)
        if found is not None:
            found.last_heard = now
            found.refusing = False
            self.workers.settle(found)

    def on_absent(self, worker: str, now: float) -> list[Effect]:
        """A worker's link is gone. It keeps its tasks for the grace period."""
        found = self.workers.find(worker)
        if found is None or not found.connected:
            return []
        found.connected = False
        found.absent_since = now
        self.workers.settle(found)
        is_over = found.dismissed or not found.held
        return self._forget_worker(found, now) + self.dispatch(now) if is_over else []

    def on_gone(self, worker: str, now: float) -> list[Effect]:
        """A worker is known to be dead, or has left for good: what it held is lost."""
        found = self.workers.find(worker)
        return [] if found is None else self._forget_worker(found, now) + self.dispatch(now)

    def on_given(self, worker: str, attempts: Iterable[AttemptKey]) -> list[AttemptKey]:
        """The time has come to send these to a worker. Gives those that are still its own."""
        found = self.workers.find(worker)
        if found is None:
            return []
        current = [attempt for attempt in attempts if self._is_current(attempt, found) and attempt in found.ungiven]
        found.ungiven.difference_update(current)
        return current

    def on_refused(self, attempts: Iterable[AttemptKey], now: float) -> list[Effect]:
        """A worker has not started these attempts. It gets nothing until it says something else."""
        effects: list[Effect] = []
        for attempt in attempts:
            _, worker = self._owners.get(attempt.task_key, (None, None))
            if worker is not None:
                worker.refusing = True
            effects += self._return(attempt, now)
        return effects + self.dispatch(now)

    def on_claims_lost(self, attempts: Iterable[AttemptKey]) -> None:
        """Another foreman got these first: here they neither run nor wait."""
        for attempt in attempts:
            worker = self._disown(attempt)
            job = self.jobs.find(attempt.job)
            if worker is not None and job is not None:
                worker.release(attempt)
                self.workers.settle(worker)
                job.tasks.unstart(attempt.task)

    def on_results(self, worker: str, ended: Sequence[tuple[AttemptKey, Ending]], now: float) -> list[Effect]:
        """Attempts ended, says their worker."""
        thanks = Acknowledge(worker, tuple(attempt for attempt, _ in ended))
        owner = self.workers.find(worker)
        if owner is None:
            return [thanks]
        effects: list[Effect] = []
        for attempt, ending in ended:
            if self._is_current(attempt, owner):
                effects += self._end(attempt, ending, now)
            if ending.cause is Cause.WORKER_STOPPED:
                owner.draining = True  # it is about to leave
            owner.release(attempt)
        self.workers.settle(owner)
        return [*effects, thanks, *self.dispatch(now)]

    def drain(self, worker: str, immediate: bool = False) -> list[Effect]:
        """Give a worker nothing new, and let it go when it has done what it holds, or now."""
        found = self.workers.find(worker)
        if found is None:
            return []
        found.draining = True
        found.dismissed = found.dismissed or immediate
        self.workers.settle(found)
        return [Dismiss(worker, immediate)]

    # Time

    def next_deadline(self) -> float | None:
        """When `on_time` should be called next, if nothing else happens."""
        deadlines = [worker.absent_since + self.policy.grace for worker in self.workers if not worker.connected]
        for job in self.jobs:
            due = job.tasks.next_due()
            if due is not None and job.may_start:
                deadlines.append(due)
        return min(deadlines, default=None)

    def on_time(self, now: float) -> list[Effect]:
        """Pauses end, and so does patience with absent workers."""
        effects: list[Effect] = []
        for worker in [w for w in self.workers if not w.connected and w.absent_since + self.policy.grace <= now]:
            effects += self._forget_worker(worker, now)
        return effects + self.dispatch(now)

    def dispatch(self, now: float) -> list[Effect]:
        """Give what is ready to whom it is the turn of, one task at a time, until nothing fits."""
        given: dict[str, list[Assignment]] = {}
        claims: list[Effect] = []
        ready = [job for job in self.jobs.in_order() if job.may_start and job.tasks.find_ready(now) is not None]
        if ready:
            # Free slots first, everywhere; only then places to wait.
            self._fill(ready, lambda worker, _: worker.free, now, given)
            self._fill(ready, self._tell_room, now, given)
            claims = [Claimed(a.attempt, worker, now) for worker, some in given.items() for a in some]
        effects = claims + self._tell_started(claims, now)
        gifts = [Give(worker, tuple(assignments)) for worker, assignments in given.items()]
        return [*effects, *gifts, *self._recall()]

    def _fill(
        self, ready: list[Job], space: Callable[[Worker, Job], int], now: float, given: dict[str, list[Assignment]]
    ) -> None:
        """One task to each worker in turn, round and round, as long as something fits."""
        in_turn = self.workers.in_turn()
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
        pace = self.policy.first_pace if job.pace is None else job.pace
        return worker.tell_room(int(self.policy.look_ahead / max(pace, MIN_PACE)))

    def _recall(self) -> list[Effect]:
        """Where a worker is idle while tasks wait on another, have them back; those that have begun go on."""
        idle = sum(worker.free for worker in self.workers.in_turn())
        if not idle:
            return []
        effects: list[Effect] = []
        for worker in self.workers:
            waiting = worker.used - worker.info.slots - len(worker.recalled)
            if idle <= 0 or waiting <= 0 or not worker.connected:
                continue
            last = [a for a in reversed(worker.held) if a not in worker.recalled and self._is_current(a, worker)]
            wanted = last[: min(idle, waiting)]
            worker.recalled.update(wanted)
            idle -= len(wanted)
            if wanted:
                effects.append(Recall(worker.info.id, tuple(wanted)))
        return effects

    def check(self) -> None:
        """What must hold after every step; for tests."""
        self.jobs.check()
        self.workers.check()
        running = sum(job.tasks.running for job in self.jobs)
        assert running == len(self._owners)
        for task, (attempt, worker) in self._owners.items():
            job = self.jobs.find(task.job)
            assert job is not None
            assert job.tasks.attempts(task.task) == attempt.attempt
            assert attempt in worker.held

    # Inside

    def _find_assignment(
        self, worker: Worker, space: Callable[[Worker, Job], int], ready: list[Job], now: float
    ) -> Assignment | None:
        for job in ready:
            has_space = job.spec.slots <= min(space(worker, job), worker.info.slots)
            fits = has_space and worker.info.tags.issuperset(job.spec.tags)
            if not fits or not job.may_start:
                continue
            task = job.tasks.find_ready(now)
            if task is not None and not self._is_haunted(worker, job, task):
                attempt = AttemptKey(job.id, task, job.tasks.start(task))
                worker.ungiven.add(attempt)
                self._take(worker, attempt, job.spec.slots)
                return Assignment(attempt, job.spec)
        return None

    def _is_haunted(self, worker: Worker, job: Job, task: TaskNumber) -> bool:
        """Whether an older attempt at this task is not over yet on this worker."""
        return job.tasks.attempts(task) > 0 and worker.holds(TaskKey(job.id, task))

    def _tell_started(self, claims: list[Effect], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for number in sorted({claim.attempt.job for claim in claims if isinstance(claim, Claimed)}):
            job = self.jobs.find(number)
            assert job is not None
            effects += self._settle_job(job, now)
        return effects

    def _take(self, worker: Worker, attempt: AttemptKey, slots: int) -> None:
        worker.take(attempt, slots)
        self._owners[attempt.task_key] = (attempt, worker)
        self.workers.use(worker)

    def _disown(self, attempt: AttemptKey) -> Worker | None:
        """The attempt is no longer current. Gives its worker, or None where it was not."""
        owned, worker = self._owners.get(attempt.task_key, (None, None))
        if owned != attempt:
            return None
        del self._owners[attempt.task_key]
        return worker

    def _is_current(self, attempt: AttemptKey, worker: Worker) -> bool:
        return self._owners.get(attempt.task_key) == (attempt, worker)

    def _return(self, attempt: AttemptKey, now: float) -> list[Effect]:
        """The attempt never began. The task waits again; the number of the attempt is used up, for the fence."""
        _, worker = self._owners.get(attempt.task_key, (None, None))
        if worker is None or not self._is_current(attempt, worker):
            return []
        effects = self._end(attempt, Ending(cause=Cause.RETURNED), now)
        worker.release(attempt)
        self.workers.settle(worker)
        return effects

    def _end(self, attempt: AttemptKey, ending: Ending, now: float, is_suspect: bool = True) -> list[Effect]:
        """The current attempt of a task ended: decide where the task goes, and record both.

        Its slots stay taken until the worker says that it is over, or is gone itself. What is not suspect is not
        blamed for the end of its worker.
        """
        job = self.jobs.find(attempt.job)
        assert job is not None
        self._disown(attempt)
        job.observe(ending)
        state, due = self._decide(job, attempt, ending, now) if is_suspect else (TaskState.WAITING, now)
        if state is TaskState.WAITING:
            job.tasks.wait(attempt.task, due)
        else:
            job.tasks.end(attempt.task, state)
        record = Ended(attempt, ending, state, now, due, *job.tasks.strikes(attempt.task))
        return [record, *self._settle_job(job, now)]

    def _decide(self, job: Job, attempt: AttemptKey, ending: Ending, now: float) -> tuple[TaskState, float]:
        """The state that an ending leads to, and when the task may start again."""
        if ending.is_success:
            return TaskState.FINISHED, 0.0
        if job.is_cancelled or ending.cause is Cause.CANCELLED:
            return TaskState.CANCELLED, 0.0
        if ending.cause in (Cause.WORKER_STOPPED, Cause.RETURNED):
            return TaskState.WAITING, now
        is_crash = ending.cause is Cause.WORKER_LOST
        failures, crashes = job.tasks.strike(attempt.task, is_crash)
        if failures > job.spec.retries or crashes >= self.policy.crash_limit:
            return TaskState.FAILED, 0.0
        pause = 0.0 if is_crash else min(MAX_RETRY_PAUSE, job.spec.retry_pause * 2 ** min(failures - 1, 20))
        return TaskState.WAITING, now + pause

    def _cancel_tasks(self, job: Job, tasks: Iterable[TaskNumber] | None, now: float) -> list[Effect]:
        """Waiting tasks are cancelled at once, running ones are killed and counted as cancelled."""
        chosen = None if tasks is None else [task for task in tasks if task in job.tasks]
        effects: list[Effect] = []
        if chosen is None:
            if job.is_open:
                job.is_open = False
                effects.append(JobClosed(job.id, now))
            job.is_cancelled = True
            running = list(job.tasks.in_states(TaskState.RUNNING))
            if job.tasks.cancel_waiting():
                effects.append(TasksSet(job.id, TaskState.CANCELLED, None, now))
        else:
            running = [task for task in chosen if job.tasks.state(task) is TaskState.RUNNING]
            waiting = tuple(task for task in chosen if job.tasks.state(task) is TaskState.WAITING)
            for task in waiting:
                job.tasks.end(task, TaskState.CANCELLED)
            if waiting:
                effects.append(TasksSet(job.id, TaskState.CANCELLED, waiting, now))
        return effects + self._kill(job, running, now)

    def _kill(self, job: Job, tasks: list[TaskNumber], now: float) -> list[Effect]:
        kills: dict[str, list[AttemptKey]] = {}
        effects: list[Effect] = []
        for task in tasks:
            attempt, worker = self._owners[TaskKey(job.id, task)]
            kills.setdefault(worker.info.id, []).append(attempt)
            effects += self._end(attempt, Ending(cause=Cause.CANCELLED, note="cancelled"), now)
        return [*effects, *(Kill(worker, tuple(attempts)) for worker, attempts in kills.items())]

    def _set_held(self, number: JobId, held: bool, now: float) -> list[Effect]:
        job = self.jobs.find(number)
        if job is None or job.held == held:
            return []
        job.held = held
        job.state = job.tell_state()
        effects: list[Effect] = [JobSet(number, job.state, held, now), Publish(JobChanged(number, job.state))]
        return effects + self.dispatch(now)

    def _settle_job(self, job: Job, now: float) -> list[Effect]:
        """Record and tell a job's new state, if it has one; a final job leaves the memory."""
        state = job.tell_state()
        if self.jobs.find(job.id) is None or (state is job.state and state not in FINAL_JOB_STATES):
            return []
        job.state = state
        effects: list[Effect] = [JobSet(job.id, state, job.held, now), Publish(JobChanged(job.id, state))]
        if state in FINAL_JOB_STATES:
            for dependent in self.jobs.remove(job):
                effects += self._on_dependency(dependent, job, now)
        return effects

    def _on_dependency(self, job: Job, finished: Job, now: float) -> list[Effect]:
        job.awaited.discard(finished.id)
        if finished.state is JobState.FINISHED:
            return []
        return self._cancel_tasks(job, None, now) + self._settle_job(job, now)

    def _forget_worker(self, worker: Worker, now: float) -> list[Effect]:
        self.workers.remove(worker)
        ending = Ending(cause=Cause.WORKER_LOST, note=f"worker {worker.info.name} was lost")
        if worker.dismissed:
            ending = Ending(cause=Cause.WORKER_STOPPED, note=f"worker {worker.info.name} was stopped")
        effects: list[Effect] = []
        begun = 0  # slots of what had begun, as far as can be told: it begins in the order in which it was given
        for attempt, slots in worker.held.items():
            is_suspect = begun < max(1, worker.info.slots)
            begun += slots
            if self._is_current(attempt, worker):
                effects += self._end(attempt, ending, now, is_suspect)
        return effects
