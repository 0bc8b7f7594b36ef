"""The jobs of one shard as viewers know them, and how many tasks of all jobs are in each state.

It has the jobs that the store has, each as it is in memory now, also those that ended since viewers were told last.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import islice

from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.model import FINAL_JOB_STATES, Counts, JobState
from gandy.core.records import JobAdded, JobForgotten, Record, list_jobs
from gandy.core.views import JobGlance, make_title
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId
from gandy.limits import MAX_GLANCES, MAX_PAGE


class JobView:
    """`on_records` after each commit; `take` gives what has changed since the last `take`."""

    def __init__(self, active: JobTable) -> None:
        self._active = active
        self._jobs: dict[JobId, ActiveJob] = {job.id: job for job in active}
        self._short: dict[JobId, JobGlance] = {}  # jobs that ended before the store had them
        self._changed: dict[JobId, None] = {}  # in the order in which they changed
        self._forgotten: dict[JobId, None] = {}
        self._counted: dict[JobId, Counts] = {}  # how the tasks of each job stood when it was looked at
        self.counts = Counts()  # the sum of those
        for job in self._jobs.values():
            self._count(job.id, job.tasks.counts)

    def on_records(self, records: Sequence[Record]) -> None:
        changed = {job for record in records for job in list_jobs(record)}
        for job in changed:
            active = self._active.find(job)
            if active is not None:
                self._jobs[job] = active
        self._changed.update(dict.fromkeys(sorted(changed)))
        for record in records:
            if isinstance(record, JobAdded) and record.job not in self._jobs:
                self._short[record.job] = _describe_short(record)
            elif isinstance(record, JobForgotten):
                self._forgotten[record.job] = None

    def on_withdrawal(self, new: Withdrawal) -> None:
        touched = {attempt.job for attempt in new.claims} | new.grown.keys()
        self._changed.update(dict.fromkeys(sorted(touched - new.jobs)))
        for job in new.jobs & self._jobs.keys():
            del self._jobs[job]
            self._drop_count(job)
            self._forgotten[job] = None

    def list_all(self) -> tuple[JobGlance, ...]:
        """All jobs that are not final, as many as fit: first those that run, then the newest."""
        jobs: Iterable[ActiveJob] = self._jobs.values()
        if len(self._jobs) > MAX_GLANCES:
            jobs = nlargest(MAX_GLANCES, jobs, key=lambda job: (job.tasks.given > 0, job.id))
        return tuple(map(_describe_job, jobs))

    def take(self) -> tuple[tuple[JobGlance, ...], tuple[JobId, ...]]:
        """The jobs that changed, and those that are forgotten, as many as fit; the others come with the next update."""
        changed = [glance for job in list(islice(self._changed, MAX_GLANCES)) for glance in self._take(job)]
        forgotten = tuple(job for job in self._forgotten if job not in self._changed)[:MAX_PAGE]
        for job in forgotten:
            del self._forgotten[job]
        return tuple(changed), forgotten

    def _take(self, job: JobId) -> Iterator[JobGlance]:
        del self._changed[job]
        active, short = self._jobs.get(job), self._short.pop(job, None)
        if active is not None:
            glance = _describe_job(active)
            self._count(job, glance.counts)
            if active.state in FINAL_JOB_STATES:
                del self._jobs[job]
                self._drop_count(job)
            yield glance
        elif short is not None:
            yield short

    def _count(self, job: JobId, now: Counts) -> None:
        """So many tasks of a job are in each state now."""
        before = self._counted.get(job)
        if before is not None:
            self.counts.subtract(before)
        self.counts.add(now)
        self._counted[job] = now

    def _drop_count(self, job: JobId) -> None:
        self._count(job, Counts())
        del self._counted[job]


def _describe_job(job: ActiveJob) -> JobGlance:
    counts, priority = job.tasks.counts, job.spec.priority
    return JobGlance(job.id, make_title(job.spec), job.state, job.held, job.submitted, counts, priority, job.is_open)


def _describe_short(added: JobAdded) -> JobGlance:
    """A job that ended before the store had it: no worker got any task of it, so it was cancelled."""
    spec, counts = added.spec, Counts(cancelled=added.spec.tasks)
    return JobGlance(added.job, make_title(spec), JobState.CANCELLED, spec.held, added.at, counts, spec.priority)
