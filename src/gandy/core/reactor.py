"""The foreman's mind: events and the time come in, effects go out, records before sends.

It holds all that is not final in memory and never waits. A result counts only for the current attempt of its task;
everything else is acknowledged, so that the worker can forget it, and changes nothing. Who gets what is decided when
somebody calls `dispatch`: once for all that has happened since.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from gandy.core.dispatch import Dispatcher
from gandy.core.effects import (
    Acknowledge,
    Dismiss,
    Effect,
    JobChanged,
    Kill,
    Publish,
)
from gandy.core.jobs import FINAL_JOB_STATES, Job, JobTable
from gandy.core.model import AttemptKey, Cause, Ending, Input, JobSpec, JobState, TaskState
from gandy.core.owners import Owners
from gandy.core.policy import POLICY, Policy
from gandy.core.records import Claimed, Ended, JobAdded, JobClosed, JobSet, TasksAdded, TasksSet
from gandy.core.tasks import TaskTable
from gandy.core.workers import Worker, WorkerInfo, WorkerTable
from gandy.ids import JobId, TaskNumber

MAX_RETRY_PAUSE: Final = 300.0  # seconds; a pause doubles until here
FIRST_JOB: Final = JobId(1)


class Reactor:
    """One for each foreman. Every method that changes something gives the effects of the change."""

    def __init__(self, policy: Policy = POLICY, next_job: JobId = FIRST_JOB) -> None:
        self.policy = policy
        self.jobs = JobTable()
        self.workers = WorkerTable()
        self._next_job = next_job
        self._owners = Owners()
        self._dispatcher = Dispatcher(policy, self.jobs, self.workers, self._owners)
        self.is_stirred = False  # something has happened since `dispatch`
        self._dispatched = -inf  # when we looked last for what may start
        self._has_more = True  # perhaps tasks may start now that could not when we looked
        self._next_again = inf  # when the first task may start that waits again, if it waits since we looked

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
        self._owners.take(owner, attempt, job.spec.slots)
        self.workers.use(owner)

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
        self._stir()
        return number, effects + self._settle_job(job, now)

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
        self.jobs.settle(job)
        self._stir()
        return [record]

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
        self._stir()
        return self._cancel_tasks(job, tasks, now) + self._settle_job(job, now)

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
        self._stir()
        return [record, *self._settle_job(job, now)]

    def current_attempt(self, job: JobId, task: TaskNumber) -> AttemptKey:
        """The attempt that runs now, for peers that have no attempts; one that never was where none runs."""
        found = self.jobs.find(job)
        last = found.tell_attempt(task) if found is not None and task in found.tasks else None
        return AttemptKey(job, task, 0) if last is None or self._owners.find(last) is None else last

    def find_absent_owner(self, attempts: Iterable[AttemptKey]) -> str | None:
        """The worker that these attempts belong to, if it is away: whoever has them must be it."""
        for attempt in attempts:
            worker = self._owners.find(attempt)
            if worker is not None and not worker.connected:
                return worker.info.id
        return None

    def list_unbegun(self) -> Iterator[AttemptKey]:
        """What was given to workers, and waits there for a slot."""
        for worker in self.workers:
            if worker.used > worker.busy:  # a thousand workers may have nothing that waits
                yield from (attempt for attempt in worker.list_unbegun() if self._owners.is_current(attempt, worker))

    # Workers

    def on_hello(self, info: WorkerInfo, held: Iterable[AttemptKey], now: float) -> list[Effect]:
        """A worker is here, or here again, and tells what it holds. It keeps what is still its own."""
        worker = self.workers.find(info.id) or self.workers.add(Worker(info))
        worker.info = info
        worker.connected = True
        worker.last_heard = now
        told = set(held)
        forgotten = sorted(set(worker.held) - told - worker.ungiven)  # it never heard of these, or has done with them
        effects = self._return(worker, forgotten, now)
        strange = sorted(attempt for attempt in told if not self._owners.is_current(attempt, worker))
        for attempt in strange:  # until it says that they are over, they hold slots
            worker.take(attempt, 1)
        if strange:
            effects.append(Kill(info.id, tuple(strange)))
        self.workers.settle(worker)
        self._stir()
        return effects

    def on_heard(self, worker: str, now: float) -> None:
        """Any word from a worker says that it is alive."""
        found = self.workers.find(worker)
        if found is not None:
            found.last_heard = now
            if found.refusing:
                found.refusing = False
                self.workers.settle(found)
                self._stir()

    def on_absent(self, worker: str, now: float) -> list[Effect]:
        """A worker's link is gone. It keeps its tasks for the grace period."""
        found = self.workers.find(worker)
        if found is None or not found.connected:
            return []
        found.connected = False
        found.absent_since = now
        self.workers.settle(found)
        return self._forget_worker(found, now) if found.dismissed or not found.held else []

    def on_gone(self, worker: str, now: float) -> list[Effect]:
        """A worker is known to be dead, or has left for good: what it held is lost."""
        found = self.workers.find(worker)
        return [] if found is None else self._forget_worker(found, now)

    def on_given(self, worker: str, attempts: Iterable[AttemptKey], now: float) -> list[AttemptKey]:
        """The time has come to send these to a worker. Gives those that are still its own."""
        found = self.workers.find(worker)
        if found is None:
            return []
        found.last_moved = now
        ungiven = [attempt for attempt in attempts if attempt in found.ungiven]
        current = [attempt for attempt in ungiven if self._owners.is_current(attempt, found)]
        found.ungiven.difference_update(current)
        if len(current) < len(ungiven):  # cancelled meanwhile: nobody would say that they are over
            for attempt in set(ungiven).difference(current):
                found.release(attempt)
            self.workers.settle(found)
        return current

    def on_refused(self, worker: str, attempts: Iterable[AttemptKey], now: float) -> list[Effect]:
        """A worker has not started these attempts. It gets nothing until it says something else."""
        found = self.workers.find(worker)
        if found is None:
            return []
        found.refusing = True
        self._stir()
        return self._return(found, attempts, now)

    def on_claims_lost(self, attempts: Iterable[AttemptKey]) -> None:
        """Another foreman got these first. They wait here, and are not tried again before something else happens."""
        for attempt in attempts:
            worker = self._owners.drop(attempt)
            job = self.jobs.find(attempt.job)
            if worker is not None and job is not None:
                worker.release(attempt)
                self.workers.settle(worker)
                job.tasks.unstart(attempt.task)
                self.jobs.settle(job)
                self._has_more = True

    def on_results(self, worker: str, ended: Sequence[tuple[AttemptKey, Ending]], now: float) -> list[Effect]:
        """Attempts ended, says their worker."""
        thanks = Acknowledge(worker, tuple(attempt for attempt, _ in ended))
        owner = self.workers.find(worker)
        if owner is None:
            return [thanks]
        owner.last_moved = now
        effects: list[Effect] = []
        touched: dict[JobId, Job] = {}
        for attempt, ending in ended:
            if self._owners.is_current(attempt, owner):
                effects.append(self._end(attempt, ending, now))
                touched[attempt.job] = self._get_job(attempt.job)
            if ending.cause is Cause.WORKER_STOPPED:
                owner.draining = True  # it is about to leave
            owner.release(attempt)
        self.workers.settle(owner)
        self.is_stirred = True  # but nobody whose account has not changed can get more
        changes = [effect for job in touched.values() for effect in self._settle_job(job, now)]
        return [*effects, *changes, thanks]

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
        if not self.is_stirred:  # else `dispatch` comes first, and the store may keep it waiting for long
            deadlines += self._list_dues()
        return min(deadlines, default=None)

    def _list_dues(self) -> Iterator[float]:
        """When `dispatch` can do more than the last time. What was due then waits for a slot."""
        dues = [job.tasks.next_due() for job in self.jobs.delayed.values() if job.may_start]
        dues += map(self._dispatcher.tell_due, self.jobs.timed.values())
        yield from (due for due in dues if due is not None and self._dispatched < due < inf)
        if self.is_patient:
            yield self._dispatcher.patient_until

    @property
    def clock_ahead(self) -> float | None:
        """How far the shared time is ahead of ours; None where it is not known."""
        return self._dispatcher.clock_ahead

    def on_clock(self, ahead: float | None) -> None:
        """What is known of the shared time. `on_time` follows, which may start what has a time."""
        self._dispatcher.clock_ahead = ahead
        if ahead is not None:
            for job in self.jobs.timed.values():
                job.on_clock(ahead)

    @property
    def is_patient(self) -> bool:
        """Whether `on_time` should be called within a moment: tasks wait on a worker while another is idle."""
        return self._dispatcher.patient_until < inf

    def on_time(self, now: float) -> list[Effect]:
        """Pauses end, and so does patience with absent workers."""
        effects: list[Effect] = []
        for worker in [w for w in self.workers if not w.connected and w.absent_since + self.policy.grace <= now]:
            effects += self._forget_worker(worker, now)
        self._stir()
        return effects

    def _stir(self) -> None:
        """Any worker might get a task now."""
        self.is_stirred = self._has_more = True

    def dispatch(self, now: float) -> list[Effect]:
        """Give what is ready to whom it is the turn of."""
        self.is_stirred = False
        self._dispatched = now
        gifts = self._dispatcher.give(now, anew=self._has_more or self._next_again <= now)
        self._has_more = self._dispatcher.is_haunted  # whoever takes that task leaves others behind it
        if self._next_again <= now:
            dues = (job.tasks.next_due() for job in self.jobs.delayed.values())
            self._next_again = min((due for due in dues if due is not None), default=inf)
        claims = [Claimed(gift.worker, tuple(a.attempt for a in gift.assignments), now) for gift in gifts]
        started = sorted({attempt.job for claim in claims for attempt in claim.attempts})
        changes = [effect for job in started for effect in self._settle_job(self._get_job(job), now)]
        return [*claims, *changes, *gifts, *self._dispatcher.recall(now)]

    def check(self) -> None:
        """What must hold after every step; for tests."""
        self.jobs.check()
        self.workers.check()
        if not (self.is_stirred or self._has_more):
            self._dispatcher.check(self._dispatched)
        running = sum(job.tasks.running for job in self.jobs)
        assert running == len(self._owners)
        for attempt, worker in self._owners:
            assert self._get_job(attempt.job).tell_attempt(attempt.task) == attempt
            assert attempt in worker.held

    # Inside

    def _get_job(self, number: JobId) -> Job:
        job = self.jobs.find(number)
        assert job is not None
        return job

    def _return(self, worker: Worker, attempts: Iterable[AttemptKey], now: float) -> list[Effect]:
        """These never began there. Their tasks wait again; the numbers of attempts are used up, for the fence."""
        effects: list[Effect] = []
        for attempt in attempts:
            if self._owners.is_current(attempt, worker):
                effects.append(self._end(attempt, Ending(cause=Cause.RETURNED), now))
                effects += self._settle_job(self._get_job(attempt.job), now)
            worker.release(attempt)
        self.workers.settle(worker)
        return effects

    def _end(self, attempt: AttemptKey, ending: Ending, now: float, is_suspect: bool = True) -> Ended:
        """The current attempt of a task ended: decide where the task goes, and record both.

        Its slots stay taken until the worker says that it is over, or is gone itself. What is not suspect is not
        blamed for the end of its worker. The job's own state is another matter.
        """
        job = self._get_job(attempt.job)
        self._owners.drop(attempt)
        had_pace = job.pace is not None
        job.observe(ending)
        state, due = self._decide(job, attempt, ending, now) if is_suspect else (TaskState.WAITING, now)
        if state is TaskState.WAITING:
            job.tasks.wait(attempt.task, due)
            self._next_again = min(self._next_again, due)
        else:
            job.tasks.end(attempt.task, state)
        # Another task may start; or more may wait on each worker now, and not only on the one that told the pace.
        is_paced_now = not had_pace and job.pace is not None and job.tasks.waiting > 0
        self._has_more = self._has_more or job.spec.limit is not None or is_paced_now
        return Ended(attempt, ending, state, now, due, *job.tasks.strikes(attempt.task))

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
        chosen = None if tasks is None else [task for task in dict.fromkeys(tasks) if task in job.tasks]
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
            attempt = job.tell_attempt(task)
            worker = self._owners.find(attempt)
            assert worker is not None, "it runs"
            kills.setdefault(worker.info.id, []).append(attempt)
            effects.append(self._end(attempt, Ending(cause=Cause.CANCELLED, note="cancelled"), now))
        return [*effects, *(Kill(worker, tuple(attempts)) for worker, attempts in kills.items())]

    def _set_held(self, number: JobId, held: bool, now: float) -> list[Effect]:
        job = self.jobs.find(number)
        if job is None or job.held == held:
            return []
        job.held = held
        self.jobs.settle(job)
        job.state = job.tell_state()
        effects: list[Effect] = [JobSet(number, job.state, held, now), Publish(JobChanged(number, job.state))]
        self._stir()
        return effects

    def _settle_job(self, job: Job, now: float) -> list[Effect]:
        """Record and tell a job's new state, if it has one; a final job leaves the memory."""
        state = job.tell_state()
        if self.jobs.find(job.id) is None:
            return []
        self.jobs.settle(job)
        if state is job.state and state not in FINAL_JOB_STATES:
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
            self.jobs.settle(job)
            self._stir()
            return []
        return self._cancel_tasks(job, None, now) + self._settle_job(job, now)

    def _forget_worker(self, worker: Worker, now: float) -> list[Effect]:
        self.workers.remove(worker)
        self._stir()
        ending = Ending(cause=Cause.WORKER_LOST, note=f"worker {worker.info.name} was lost")
        if worker.dismissed:
            ending = Ending(cause=Cause.WORKER_STOPPED, note=f"worker {worker.info.name} was stopped")
        effects: list[Effect] = []
        begun = 0  # slots of what had begun, as far as can be told: it begins in the order in which it was given
        for attempt, slots in worker.held.items():
            is_suspect = begun < max(1, worker.info.slots)
            begun += slots
            if self._owners.is_current(attempt, worker):
                effects.append(self._end(attempt, ending, now, is_suspect))
                effects += self._settle_job(self._get_job(attempt.job), now)
        return effects
