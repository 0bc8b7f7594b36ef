"""Decides what becomes of tasks and jobs when an attempt ends, tasks are cancelled, or a job is final.

Every change of a task that a worker has comes through here, and each is recorded.
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Final

from msgspec import Struct

from gandy.core.dispatch import Dispatcher
from gandy.core.effects import Effect, KillAttempts
from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.linking import Changed, Linking, SourceJob
from gandy.core.model import FINAL_JOB_STATES, GIVEN_STATES, AttemptKey, Cause, Ending, JobState, TaskState
from gandy.core.offsets import ClockOffsets
from gandy.core.owners import Owners
from gandy.core.policy import Policy
from gandy.core.records import Ended, JobSet, OpenJobClosed, TasksSet
from gandy.core.strikes import NO_STRIKES
from gandy.core.tasks import BLOCKED
from gandy.core.workers import KnownWorker, WorkerTable
from gandy.ids import JobId, TaskNumber
from gandy.moments import NEVER, Monotonic, Wall

LONGEST_RETRY_PAUSE: Final = 300.0  # seconds; a pause doubles until here


class Ends(Struct):
    """How attempts ended."""

    finished: int = 0
    failed: int = 0  # for good
    cancelled: int = 0
    repeated: int = 0  # their tasks wait again
    lost: int = 0  # with their worker; they are among the others, too

    def note_other(self, state: TaskState, cause: Cause) -> None:
        """Count an attempt after which its task is not finished. One that was given back never began."""
        self.failed += state is TaskState.FAILED
        self.cancelled += state is TaskState.CANCELLED
        self.repeated += state is TaskState.WAITING and cause is not Cause.RETURNED
        self.lost += cause is Cause.WORKER_LOST


class Blame(Enum):
    """What an attempt has to do with the end of its worker."""

    NONE = 0  # it had not begun
    SHARED = 1  # other attempts ran beside it
    ALONE = 2


class JobProgress:
    """Changes the tables of the reactor, and returns the effects of each change."""

    def __init__(
        self,
        policy: Policy,
        jobs: JobTable,
        workers: WorkerTable,
        owners: Owners,
        clocks: ClockOffsets,
        dispatcher: Dispatcher,
        linking: Linking,
    ) -> None:
        self._policy = policy
        self._jobs = jobs
        self._workers = workers
        self._owners = owners
        self._clocks = clocks
        self._dispatcher = dispatcher
        self._linking = linking
        self.ends = Ends()

    # Attempts

    def end(self, attempt: AttemptKey, ending: Ending, now: Monotonic, blame: Blame = Blame.ALONE) -> Ended:
        """End the current attempt of a task, and decide the next state of the task. `settle` does so for the job.

        Its slots stay taken until the worker reports the end, or is gone itself.
        """
        job = self._jobs.get(attempt.job)
        before = job.tasks.state(attempt.task)
        self._owners.pop(attempt, None)
        had_pace = job.pace is not None
        job.observe(ending)
        state, due = self._decide(job, attempt, ending, now, blame)
        due_at = Wall(0.0)
        if state is TaskState.WAITING:
            job.tasks.wait(attempt.task, due)
            self._dispatcher.on_wait(due)
            due_at = self._clocks.stamp(due)
        else:
            job.tasks.move(attempt.task, state)
            if job.has_takers:
                job.just_ended.append(attempt.task)
        if state is TaskState.FINISHED:
            self.ends.finished += 1  # hot
        else:
            self.ends.note_other(state, ending.cause)
        # Another task may start; or more may wait on each worker now, and not only on the one that showed the pace.
        is_paced_now = not had_pace and job.pace is not None and job.tasks.waiting > 0
        if is_paced_now or job.spec.limit is not None:
            self._dispatcher.has_more = True
        strikes = job.tasks.strikes.get(attempt.task, NO_STRIKES)  # hot: not by __missing__
        return Ended(attempt, ending, state, self._clocks.stamp(now), due_at, *strikes, before)

    def _decide(
        self, job: ActiveJob, attempt: AttemptKey, ending: Ending, now: Monotonic, blame: Blame
    ) -> tuple[TaskState, Monotonic]:
        """The state that an ending leads to, and when the task may start again."""
        if ending.is_success:
            return TaskState.FINISHED, NEVER
        if job.is_cancelled or ending.cause is Cause.CANCELLED:
            return TaskState.CANCELLED, NEVER
        if ending.cause in (Cause.WORKER_STOPPED, Cause.RETURNED) or blame is Blame.NONE:
            return TaskState.WAITING, now
        is_crash = ending.cause is Cause.WORKER_LOST
        failures, crashes = job.tasks.strikes.strike(attempt.task, is_crash)
        is_final = failures > job.spec.retries or ending.cause is Cause.NOT_RETRIED
        if is_final or (crashes >= self._policy.crash_limit and blame is Blame.ALONE):
            return TaskState.FAILED, NEVER
        pause = 0.0 if is_crash else min(LONGEST_RETRY_PAUSE, job.spec.retry_pause * 2 ** min(failures - 1, 20))
        return TaskState.WAITING, now + pause

    def give_back(self, worker: KnownWorker, attempts: Iterable[AttemptKey], now: Monotonic) -> list[Effect]:
        """Take back attempts that never began. Their tasks wait again; no attempt gets the same number: the fence."""
        effects: list[Effect] = []
        for attempt in attempts:
            if self._owners.is_current(attempt, worker):
                effects.append(self.end(attempt, Ending(cause=Cause.RETURNED), now))
                effects += self.settle(self._jobs.get(attempt.job), now)
            worker.held.release(attempt)
        self._workers.settle(worker)
        return effects

    def undo_claim(self, attempt: AttemptKey, worker: KnownWorker) -> None:
        """Undo an attempt that was never sent to its worker."""
        worker.held.release(attempt)
        self._workers.settle(worker)
        if self._owners.pop(attempt, None) is not None:  # else its task was cancelled meanwhile
            job = self._jobs.get(attempt.job)
            job.tasks.unstart(attempt.task)
            self._jobs.settle(job)

    # Jobs

    def cancel(self, job: ActiveJob, tasks: Iterable[TaskNumber] | None, now: Monotonic) -> list[Effect]:
        """Waiting tasks are cancelled at once; those that workers have are killed and counted as cancelled.

        None means all tasks; an open job gets no more. `settle` follows.
        """
        effects: list[Effect] = []
        if tasks is None:
            if job.is_open:
                job.is_open = False
                effects.append(OpenJobClosed(job.id, self._clocks.stamp(now)))
            job.is_cancelled = True
            given = list(job.tasks.in_states(*GIVEN_STATES))
            if job.has_takers:
                job.just_ended += job.tasks.in_states(TaskState.WAITING, BLOCKED)
            if job.tasks.cancel_waiting():
                effects.append(TasksSet(job.id, TaskState.CANCELLED, None, self._clocks.stamp(now)))
        else:
            chosen = [task for task in dict.fromkeys(tasks) if task in job.tasks]
            given = [task for task in chosen if job.tasks.state(task) in GIVEN_STATES]
            waiting = tuple(task for task in chosen if job.tasks.state(task) is TaskState.WAITING)
            for task in waiting:
                job.tasks.move(task, TaskState.CANCELLED)
            if job.has_takers:
                job.just_ended += waiting
            if waiting:
                effects.append(TasksSet(job.id, TaskState.CANCELLED, waiting, self._clocks.stamp(now)))
        return effects + self._kill(job, given, now)

    def _kill(self, job: ActiveJob, tasks: list[TaskNumber], now: Monotonic) -> list[Effect]:
        kills: dict[str, list[AttemptKey]] = {}
        effects: list[Effect] = []
        for task in tasks:
            attempt = job.last_attempt(task)
            worker = self._owners.get(attempt)
            assert worker is not None, "it is given"
            kills.setdefault(worker.info.id, []).append(attempt)
            effects.append(self.end(attempt, Ending(cause=Cause.CANCELLED, note="cancelled"), now))
        return [*effects, *(KillAttempts(worker, tuple(attempts)) for worker, attempts in kills.items())]

    def settle(self, job: ActiveJob, now: Monotonic) -> list[Effect]:
        """Record a job's new state, if it has one; a final job leaves the memory. So do jobs that waited for it."""
        return self._settle_all(deque([job]), now)

    def _settle_all(self, touched: deque[ActiveJob], now: Monotonic) -> list[Effect]:
        effects: list[Effect] = []
        while touched:  # not by recursion: a chain of jobs may be long
            effects += self._settle(touched.popleft(), touched, now)
        return effects

    def _settle(self, job: ActiveJob, touched: deque[ActiveJob], now: Monotonic) -> list[Effect]:
        if self._jobs.find(job.id) is None:
            return []
        effects: list[Effect] = []
        if job.just_ended:
            effects += self._on_sources(self._linking.pass_on(job), touched, now)
        self._jobs.settle(job)
        state = job.compute_state()
        if state is job.state and state not in FINAL_JOB_STATES:
            return effects
        job.state = state
        effects.append(JobSet(job.id, state, job.held, self._clocks.stamp(now)))
        if state in FINAL_JOB_STATES:
            for dependent in self._jobs.remove(job):
                effects += self._on_dependency(dependent, job.id, state, touched, now)
            effects += self._on_sources(self._linking.on_final(job), touched, now)
        return effects

    def _on_sources(self, changed: Iterable[Changed], touched: deque[ActiveJob], now: Monotonic) -> list[Effect]:
        """Tasks that these jobs need have ended."""
        effects: list[Effect] = []
        for taker, hopeless in changed:
            if hopeless:
                effects += self.cancel(taker, hopeless, now)
            touched.append(taker)
            self._dispatcher.request()
        return effects

    def on_end_elsewhere(self, job: JobId, state: JobState, now: Monotonic) -> list[Effect]:
        """A job of another shard is final, and jobs here wait for it."""
        touched: deque[ActiveJob] = deque()
        effects: list[Effect] = []
        for dependent in self._jobs.take_dependents(job):
            effects += self._on_dependency(dependent, job, state, touched, now)
        return effects + self._settle_all(touched, now)

    def on_states_elsewhere(self, source: JobId, found: SourceJob, now: Monotonic) -> list[Effect]:
        """How the tasks of a job of another shard stand that tasks here need."""
        touched: deque[ActiveJob] = deque()
        effects = self._on_sources(self._linking.on_states(source, found), touched, now)
        return effects + self._settle_all(touched, now)

    def _on_dependency(
        self, job: ActiveJob, ended: JobId, state: JobState, touched: deque[ActiveJob], now: Monotonic
    ) -> list[Effect]:
        """A job that this one waited for has ended."""
        job.awaited.discard(ended)
        self._dispatcher.request()
        if state is JobState.FINISHED or ended not in job.spec.after:
            self._jobs.settle(job)
            return []
        touched.append(job)
        return self.cancel(job, None, now)
