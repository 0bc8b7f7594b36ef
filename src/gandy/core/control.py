"""What clients do to jobs: submit, extend, close, hold, cancel, retry and retract them."""

from collections.abc import Iterable, Mapping

from gandy.core.dispatch import Dispatcher
from gandy.core.effects import Effect
from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.linking import NO_SOURCES, Linking, SourceJob
from gandy.core.model import FINAL_JOB_STATES, AttemptKey, Input, JobSpec, JobState, TaskState
from gandy.core.offsets import ClockOffsets
from gandy.core.owners import Owners
from gandy.core.progress import JobProgress
from gandy.core.records import JobAdded, JobSet, OpenJobClosed, TasksAdded, TasksSet
from gandy.core.tasks import TaskTable
from gandy.core.withdrawal import Withdrawal
from gandy.core.workers import WorkerTable
from gandy.ids import JobId, TaskNumber
from gandy.moments import Monotonic


class JobControl:
    """Numbers jobs. Every method that changes something returns the effects of the change."""

    def __init__(
        self,
        jobs: JobTable,
        workers: WorkerTable,
        owners: Owners,
        clocks: ClockOffsets,
        dispatcher: Dispatcher,
        progress: JobProgress,
        linking: Linking,
        next_job: JobId,
    ) -> None:
        self._jobs = jobs
        self._workers = workers
        self._owners = owners
        self._clocks = clocks
        self._dispatcher = dispatcher
        self._progress = progress
        self._linking = linking
        self._next_job = next_job

    def restore(self, job: ActiveJob) -> None:
        """Take up a job that the store had when the foreman started. `relink` follows when all jobs are here."""
        self._add(job)
        self._next_job = JobId(max(self._next_job, job.id + 1))

    def relink(self, sources: Mapping[JobId, SourceJob], now: Monotonic) -> list[Effect]:
        """Have the tasks of restored jobs wait for those that they need. `sources`: see `Linking.link`."""
        linked = [job for job in self._jobs if job.spec.after_each]
        hopeless = [(job, self._linking.link(job, None, sources)) for job in linked]
        effects: list[Effect] = []
        for job, tasks in hopeless:
            effects += self._progress.cancel(job, tasks, now)
            effects += self._progress.settle(job, now)
        return effects

    def _add(self, job: ActiveJob) -> None:
        """Add a job. If the shared clock has restarted since the job came, our own clock says when the job begins."""
        job.clock_ahead = self._clocks.find_ahead_at_submission(job.spec)
        self._jobs.add(job)

    def submit(
        self,
        spec: JobSpec,
        now: Monotonic,
        lines: tuple[str, ...] = (),
        past: Mapping[JobId, JobState] | None = None,
        sources: Mapping[JobId, SourceJob] = NO_SOURCES,
        upload: int = 0,
        key: int = 0,
        number: JobId | None = None,
    ) -> tuple[JobId, list[Effect]]:
        """Take a job. `past` has the states of jobs that it is to run after and that are not here: final, or of another
        shard. `sources`: the same of those that it is to follow task by task.

        `number`: from a store that foremen share; else the job gets the next one.
        """
        number = self._next_job if number is None else number
        self._next_job = JobId(number + 1)
        states = past or {}
        ended = {job: state for job, state in states.items() if state in FINAL_JOB_STATES}
        elsewhere = states.keys() - ended.keys()
        before = (*spec.after, *spec.after_any)
        awaited = {each for each in before if each in elsewhere or self._jobs.find(each) is not None}
        at = self._clocks.stamp(now)
        job = ActiveJob(number, spec, TaskTable(spec.tasks), at, spec.held, awaited=awaited, is_open=spec.is_open)
        self._add(job)
        effects: list[Effect] = [JobAdded(number, spec, at, lines, upload, key)]
        hopeless = self._linking.link(job, None, sources)
        if any(ended.get(each, JobState.FINISHED) is not JobState.FINISHED for each in spec.after):
            effects += self._progress.cancel(job, None, now)
        elif hopeless:
            effects += self._progress.cancel(job, hopeless, now)
        self._dispatcher.request()
        return number, effects + self._progress.settle(job, now)

    def on_end_elsewhere(self, job: JobId, state: JobState, now: Monotonic) -> list[Effect]:
        """A job of another shard is final, and jobs here wait for it."""
        return self._progress.on_end_elsewhere(job, state, now)

    def on_states_elsewhere(self, source: JobId, found: SourceJob, now: Monotonic) -> list[Effect]:
        """How the tasks of a job of another shard stand that tasks here need."""
        return self._progress.on_states_elsewhere(source, found, now)

    def add_tasks(self, number: JobId, first: TaskNumber, inputs: tuple[Input, ...], now: Monotonic) -> list[Effect]:
        """Give an open job more tasks, numbered from `first`. Those that it has already came twice, and are skipped."""
        job = self._jobs.find(number)
        if job is None or not job.is_open or first > job.tasks.count + 1:
            return []
        new = inputs[job.tasks.count + 1 - first :]
        if not new:
            return []
        record = TasksAdded(number, TaskNumber(job.tasks.count + 1), new, self._clocks.stamp(now))
        job.tasks.grow(len(new))
        self._jobs.settle(job)
        self._dispatcher.request()
        return [record]

    def close(self, number: JobId, now: Monotonic) -> list[Effect]:
        """Close an open job: it gets no more tasks, and ends with its last one."""
        job = self._jobs.find(number)
        if job is None or not job.is_open:
            return []
        job.is_open = False
        return [OpenJobClosed(number, self._clocks.stamp(now)), *self._progress.settle(job, now)]

    def hold(self, number: JobId, now: Monotonic) -> list[Effect]:
        """Start no more tasks of this job; what runs goes on."""
        return self._set_held(number, True, now)

    def release(self, number: JobId, now: Monotonic) -> list[Effect]:
        return self._set_held(number, False, now)

    def _set_held(self, number: JobId, held: bool, now: Monotonic) -> list[Effect]:
        job = self._jobs.find(number)
        if job is None or job.held == held:
            return []
        job.held = held
        job.state = job.compute_state()
        self._jobs.settle(job)
        self._dispatcher.request()
        return [JobSet(number, job.state, held, self._clocks.stamp(now))]

    def cancel(self, number: JobId, tasks: Iterable[TaskNumber] | None, now: Monotonic) -> list[Effect]:
        """End a whole job, or some of its tasks."""
        job = self._jobs.find(number)
        if job is None:
            return []
        self._dispatcher.request()
        return self._progress.cancel(job, tasks, now) + self._progress.settle(job, now)

    def retry(
        self,
        number: JobId,
        tasks: Iterable[TaskNumber] | None,
        now: Monotonic,
        sources: Mapping[JobId, SourceJob] = NO_SOURCES,
    ) -> list[Effect]:
        """Let tasks that failed or were cancelled wait again, unless a task that they need has not finished and will
        not. No effects: nothing is to be retried. `sources`: as for `submit`."""
        job = self._jobs.find(number)
        return [] if job is None else self.revive(job, tasks, now, sources)

    def revive(
        self,
        job: ActiveJob,
        tasks: Iterable[TaskNumber] | None,
        now: Monotonic,
        sources: Mapping[JobId, SourceJob] = NO_SOURCES,
    ) -> list[Effect]:
        """Do the same for a job from the store, which may be final. It enters the memory only if a task is retried."""
        retryable = (TaskState.FAILED, TaskState.CANCELLED)
        wanted = list(job.tasks.in_states(*retryable)) if tasks is None else tasks
        ended = [t for t in dict.fromkeys(wanted) if t in job.tasks and job.tasks.state(t) in retryable]
        chosen = tuple(self._linking.drop_hopeless(job, ended, sources))
        if not chosen:
            return []
        for task in chosen:
            job.tasks.strikes.pop(task, None)
            job.tasks.wait(task, now)
        job.is_cancelled = False
        if self._jobs.find(job.id) is None:
            self._add(job)
        self._linking.link(job, chosen, sources)
        are_all = tasks is None and len(chosen) == len(ended)
        record = TasksSet(job.id, TaskState.WAITING, None if are_all else chosen, self._clocks.stamp(now))
        self._dispatcher.request()
        return [record, *self._progress.settle(job, now)]

    def retract(
        self, number: JobId, tasks: Iterable[TaskNumber], now: Monotonic
    ) -> tuple[tuple[TaskNumber, ...], list[Effect]]:
        """Cancel those of the tasks that no worker has. Returns them, and the effects."""
        job = self._jobs.find(number)
        if job is None:
            return (), []
        chosen = tuple(t for t in dict.fromkeys(tasks) if t in job.tasks and self._has_no_worker(job, t))
        return chosen, self.cancel(number, chosen, now) if chosen else []

    def _has_no_worker(self, job: ActiveJob, task: TaskNumber) -> bool:
        """True if the task waits, or its attempt has not been sent to a worker yet."""
        attempt = job.last_attempt(task)
        worker = self._owners.get(attempt)
        return job.tasks.state(task) is TaskState.WAITING if worker is None else attempt in worker.held.unsent

    def list_given(self, number: JobId, tasks: Iterable[TaskNumber]) -> dict[str, list[AttemptKey]]:
        """The attempts at these tasks that workers have, and have not reported as begun, by worker."""
        given: dict[str, list[AttemptKey]] = {}
        job = self._jobs.find(number)
        known = [] if job is None else [job.last_attempt(task) for task in dict.fromkeys(tasks) if task in job.tasks]
        for attempt in known:
            worker = self._owners.get(attempt)
            if worker is not None and attempt not in worker.held.unsent and attempt not in worker.held.begun:
                given.setdefault(worker.info.id, []).append(attempt)
        return given

    def withdraw(self, new: Withdrawal, now: Monotonic) -> list[Effect]:
        """Undo work that the store could not keep and no peer knows of. Numbers of its jobs are not used again."""
        for attempt, name in new.claims.items():
            worker = self._owners.get(attempt) or self._workers.find(name)
            if worker is not None:
                self._progress.undo_claim(attempt, worker)
        touched = {attempt.job for attempt in new.claims} | set(new.grown)
        for job in filter(None, map(self._jobs.find, new.jobs)):
            self._jobs.remove(job)  # jobs that were to run after it are new too, and are withdrawn as well
            self._linking.drop(job)
        for number, first in new.grown.items():
            grown = self._jobs.find(number)
            if grown is not None:
                grown.tasks.shrink(first - 1)
        self._dispatcher.request()
        left = filter(None, map(self._jobs.find, sorted(touched)))
        return [effect for job in left for effect in self._progress.settle(job, now)]
