"""The jobs that are not final, in the order in which they may start tasks."""

from collections.abc import Container, Iterator
from typing import Final

from msgspec import Struct

from gandy.core.model import AttemptKey, Cause, Counts, Ending, JobSpec, JobState
from gandy.core.queue import JobQueue, Need, Rank
from gandy.core.tasks import TaskTable
from gandy.core.workers import KnownWorker
from gandy.ids import JobId, TaskNumber
from gandy.moments import Monotonic, Shared, Wall

PACE_MEMORY: Final = 8  # tasks; the pace is an average over about so many
RESTART: Final = 10.0  # seconds; a shared clock that moves by more against ours has restarted


class ActiveJob(Struct, eq=False):
    """A job in the foreman's memory."""

    id: JobId
    spec: JobSpec
    tasks: TaskTable
    submitted: Wall
    held: bool
    state: JobState = JobState.WAITING  # as recorded last
    awaited: set[JobId] = set()  # jobs that must end first
    has_takers: bool = False  # tasks of other jobs need some of its tasks
    just_ended: list[TaskNumber] = []  # tasks of which the takers have not heard yet
    is_cancelled: bool = False
    is_open: bool = False  # may get more tasks
    pace: float | None = None  # how many seconds a task takes, lately
    at: Shared | None = None  # the shared time at which tasks begin
    clock_ahead: float = 0.0  # how far the shared clock is ahead of ours, unless it restarts

    def __post_init__(self) -> None:
        self.at = self.spec.at

    def on_clock(self, ahead: float) -> None:
        """Note how far the shared clock is ahead of ours. If it restarted, the job still begins when it would have."""
        if self.at is not None and abs(ahead - self.clock_ahead) > RESTART:
            self.at += ahead - self.clock_ahead
            self.clock_ahead = ahead

    def find_start(self, ahead: float) -> Monotonic:
        """When its tasks begin by the foreman's own clock, if the shared one is so many seconds ahead of that."""
        assert self.at is not None, "the job has a time"
        return Monotonic(float(self.at) - ahead)

    def observe(self, ending: Ending) -> None:
        """Learn the pace from an attempt that ended by itself."""
        if ending.cause is Cause.EXIT and ending.started is not None and ending.ended is not None:
            seconds = max(0.0, ending.ended - ending.started)
            self.pace = seconds if self.pace is None else self.pace + (seconds - self.pace) / PACE_MEMORY

    def last_attempt(self, task: TaskNumber) -> AttemptKey:
        """The last one at this task; number 0 if there was none."""
        return AttemptKey(self.id, task, self.tasks.attempts(task))

    @property
    def rank(self) -> Rank:
        """Higher priority first, then the older job."""
        return -self.spec.priority, self.id

    @property
    def may_start(self) -> bool:
        """True if users, the jobs that it waits for and its own limit let it start tasks."""
        limit = self.spec.limit
        return not self.held and not self.awaited and (limit is None or self.tasks.given < limit)

    def count_startable(self) -> int:
        """How many tasks may start at most, now or when they are due."""
        limit = self.spec.limit
        startable = self.tasks.startable
        return startable if limit is None else min(startable, limit - self.tasks.given)

    def suits(self, worker: KnownWorker) -> bool:
        """True if its tasks could run on this worker while that holds nothing else."""
        spec, info = self.spec, worker.info
        can_hold = info.takes_tasks and spec.slots <= info.slots
        return can_hold and info.tags.issuperset(spec.tags) and self.suits_time(worker)

    def suits_time(self, worker: KnownWorker) -> bool:
        """True unless its tasks begin at a shared time that the worker does not know."""
        return self.at is None or worker.knows_time

    @property
    def need(self) -> Need | None:
        """What it asks of a worker; None while no worker could start any of its tasks."""
        if self.held or self.awaited or not self.tasks.startable:
            return None
        return Need(self.spec.slots, self.spec.tags, self.at is not None)

    def compute_state(self) -> JobState:
        """The state that follows from the tasks and from what users asked for."""
        counts, given = self.tasks.counts, self.tasks.given
        if self.tasks.is_done and not self.is_open:
            return _final_state(counts, self.is_cancelled)
        if self.held and not given:
            return JobState.PAUSED
        has_begun = given or counts.finished or counts.failed
        return JobState.RUNNING if has_begun else JobState.WAITING


def _final_state(counts: Counts, is_cancelled: bool) -> JobState:
    if is_cancelled or (counts.cancelled and not counts.failed):
        return JobState.CANCELLED
    return JobState.FAILED if counts.failed else JobState.FINISHED


class JobTable:
    """Jobs by number, and for the dispatcher: those that might start a task, and those that wait for a time."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, ActiveJob] = {}
        self._queue = JobQueue()
        self._dependents: dict[JobId, set[JobId]] = {}
        self.changed: dict[JobId, ActiveJob] | None = None  # since the history looked; None: there is none
        self.delayed: dict[JobId, ActiveJob] = {}  # with tasks that wait again
        self.timed: dict[JobId, ActiveJob] = {}

    def __iter__(self) -> Iterator[ActiveJob]:
        return iter(self._jobs.values())

    def __len__(self) -> int:
        return len(self._jobs)

    def find(self, job: JobId) -> ActiveJob | None:
        return self._jobs.get(job)

    def get(self, job: JobId) -> ActiveJob:
        """A job that must be here."""
        return self._jobs[job]

    def is_same(self, job: JobId, identity: int) -> bool:
        """False if the job that has this number now is another one than the job with this identity."""
        found = self._jobs.get(job)
        return found is None or 0 in (identity, found.spec.identity) or identity == found.spec.identity

    def add(self, job: ActiveJob) -> None:
        self._jobs[job.id] = job
        if job.at is not None:
            self.timed[job.id] = job
        self.settle(job)
        for awaited in job.awaited:
            self._dependents.setdefault(awaited, set()).add(job.id)

    def remove(self, job: ActiveJob) -> list[ActiveJob]:
        """Remove a final job. Returns the jobs that waited for it."""
        self.note_change(job)
        del self._jobs[job.id]
        self._queue.settle(job.rank, None)
        self.delayed.pop(job.id, None)
        self.timed.pop(job.id, None)
        return self.take_dependents(job.id)

    def settle(self, job: ActiveJob) -> None:
        """The job changed: put it where it belongs now."""
        self.note_change(job)
        self._queue.settle(job.rank, job.need)
        if job.tasks.delayed.next_due() is None:
            self.delayed.pop(job.id, None)
        else:
            self.delayed[job.id] = job

    def note_change(self, job: ActiveJob) -> None:
        """The history looks at this job again."""
        if self.changed is not None:
            self.changed[job.id] = job

    def list_awaited_elsewhere(self) -> list[JobId]:
        """Jobs that are not here, but in another shard, and that jobs here wait for."""
        return [job for job in self._dependents if job not in self._jobs]

    def take_dependents(self, job: JobId) -> list[ActiveJob]:
        """The jobs that waited for this one, which is final now. It may be of another shard."""
        waiting = self._dependents.pop(job, set())
        return [self._jobs[dependent] for dependent in sorted(waiting) if dependent in self._jobs]

    def in_order(self, given_up: Container[Need | None] = ()) -> Iterator[ActiveJob]:
        """Jobs that might start a task, by rank. Those whose need the caller adds to `given_up` are skipped."""
        return map(self._jobs.__getitem__, self._queue.in_order(given_up))

    def check(self) -> None:
        """What must hold after every step; for tests."""
        self._queue.check()
        for job in self._jobs.values():
            tasks = job.tasks
            assert self._queue.find(job.id) == job.need
            assert (job.id in self.delayed) == (tasks.delayed.next_due() is not None)
            tasks.check()
            assert job.spec.limit is None or tasks.given <= job.spec.limit
