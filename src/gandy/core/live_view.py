"""What viewers see of one shard: jobs, workers, commands and attempts. It exists while a viewer looks.

An update is made once for all viewers, whatever their number. It shows what the foreman has decided, which may be a few
milliseconds before the store has it; after a crash every viewer gets everything anew.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from gandy.core.call_meter import CallMeter
from gandy.core.foreman import Foreman
from gandy.core.jobs import ActiveJob
from gandy.core.model import FINAL_JOB_STATES, Counts
from gandy.core.records import JobAdded, JobForgotten, Record, list_jobs
from gandy.core.spans import Spans
from gandy.core.standing import Standing
from gandy.core.views import CommandGlance, CrewUpdate, JobGlance, Totals, WorkerGlance, make_title
from gandy.core.workers import KnownWorker
from gandy.ids import JobId
from gandy.limits import MAX_GLANCES, MAX_PAGE, MAX_TEXT
from gandy.moments import LONG_AGO, Monotonic

QUIET_SECONDS: Final = 5.0  # of silence that are usual for a worker: it sends a heartbeat more often
MANY: Final = 200  # workers or jobs; looking at each of more, in every update, would take a part of the foreman's time
LOOK_PERIOD: Final = 1.0  # seconds between two looks at so many


class LiveView:
    """`on_records` after each commit; `take` gives what has changed since the last `take`."""

    def __init__(self, foreman: Foreman, standing: Standing) -> None:
        self._foreman = foreman
        self._standing = standing
        self._jobs: dict[JobId, ActiveJob] = {job.id: job for job in foreman.reactor.jobs}
        self._changed: dict[JobId, None] = {}  # in the order in which they changed
        self._forgotten: list[JobId] = []
        self._workers: dict[str, WorkerGlance] = {}
        self._commands: dict[str, CommandGlance] = {}
        self._looked_at = LONG_AGO  # at the workers
        self._counted_at = LONG_AGO  # the tasks
        self._counts = Counts()
        self._meter = foreman.switchboard.meter = CallMeter()
        self._spans = Spans(foreman.reactor.workers, foreman.reactor.clocks.wall_ahead)
        self._totals = Totals()
        self._trouble = ""

    def close(self) -> None:
        self._foreman.switchboard.meter = None

    def on_records(self, records: Sequence[Record]) -> None:
        """These have been committed."""
        self._spans.on_records(records, self._totals)
        for record in records:
            if isinstance(record, JobAdded):
                self._add(record.job)
            elif isinstance(record, JobForgotten):
                self._forgotten.append(record.job)
            self._changed.update(dict.fromkeys(list_jobs(record)))

    def _add(self, job: JobId) -> None:
        active = self._foreman.reactor.jobs.find(job)
        if active is not None:  # else it has ended already
            self._jobs[job] = active

    # Updates

    def make_whole(self, now: Monotonic, shared_ahead: float | None) -> CrewUpdate:
        """All that there is to see, for a viewer that has just come."""
        jobs = islice(self._jobs.values(), MAX_GLANCES)
        update = self._make(now, shared_ahead)
        return replace(
            update,
            is_whole=True,
            jobs=tuple(map(_describe_job, jobs)),
            workers=tuple(_describe_worker(worker, now) for worker in islice(self._foreman.reactor.workers, MAX_PAGE)),
            commands=tuple(self._list_commands()),
            spans=self._spans.list_running(),
        )

    def take(self, now: Monotonic, shared_ahead: float | None) -> CrewUpdate | None:
        """What has changed since the last time; None if nothing has."""
        jobs = tuple(self._take_jobs())
        forgotten, self._forgotten = self._forgotten[:MAX_PAGE], self._forgotten[MAX_PAGE:]
        workers, left = self._take_workers(now)
        commands = self._take_commands()
        spans, skipped = self._spans.take(self._foreman.reactor.clocks.wall_ahead)
        trouble, self._trouble = self._trouble, self._standing.trouble
        if not (jobs or forgotten or workers or left or commands or spans or skipped or trouble != self._trouble):
            return None
        return replace(
            self._make(now, shared_ahead),
            jobs=jobs,
            forgotten=tuple(forgotten),
            workers=workers,
            left=left,
            commands=commands,
            spans=spans,
            skipped=skipped,
        )

    def _make(self, now: Monotonic, shared_ahead: float | None) -> CrewUpdate:
        counts = self._count_tasks(now)
        self._totals.calls = self._meter.ended
        return CrewUpdate(
            at=self._foreman.reactor.clocks.stamp(now),
            shard=self._foreman.shard,
            waiting=counts.waiting,
            assigned=counts.assigned,
            running=counts.running,
            unfinished=len(self._foreman.reactor.jobs),
            calls_waiting=self._foreman.switchboard.waiting.count,
            totals=replace(self._totals),
            trouble=self._standing.trouble[:MAX_TEXT],
            shared_ahead=shared_ahead,
        )

    def _count_tasks(self, now: Monotonic) -> Counts:
        """The tasks of all jobs. If there are many jobs, the numbers may be a second old."""
        jobs = self._foreman.reactor.jobs
        if len(jobs) <= MANY or now - self._counted_at >= LOOK_PERIOD:
            self._counted_at = now
            self._counts = Counts()
            for job in jobs:
                self._counts.add(job.tasks.counts)
        return self._counts

    # Jobs

    def _take_jobs(self) -> Iterator[JobGlance]:
        """The jobs that changed, as many as fit; the others come with the next update."""
        for job in list(islice(self._changed, MAX_GLANCES)):
            del self._changed[job]
            active = self._jobs.get(job)
            if active is not None:
                yield _describe_job(active)
                if active.state in FINAL_JOB_STATES:
                    del self._jobs[job]

    # Workers

    def _take_workers(self, now: Monotonic) -> tuple[tuple[WorkerGlance, ...], tuple[str, ...]]:
        """The workers that changed, and the ids of those that are not listed any more."""
        table = self._foreman.reactor.workers
        if len(table) > MANY and now - self._looked_at < LOOK_PERIOD:
            return (), ()
        self._looked_at = now
        before = self._workers
        self._workers = {worker.info.id: _describe_worker(worker, now) for worker in islice(table, MAX_PAGE)}
        changed = tuple(glance for name, glance in self._workers.items() if glance != before.get(name))
        return changed, tuple(before.keys() - self._workers.keys())

    # Commands

    def _take_commands(self) -> tuple[CommandGlance, ...]:
        before = self._commands
        self._commands = {glance.name: glance for glance in self._list_commands()}
        return tuple(glance for name, glance in self._commands.items() if glance != before.get(name))

    def _list_commands(self) -> Iterator[CommandGlance]:
        offers = self._foreman.switchboard.dispatcher.offers.commands
        self._meter.forget(self._meter.commands.keys() - offers.keys())
        for name, command in islice(offers.items(), MAX_GLANCES):
            metered = self._meter.commands.get(name)
            glance = CommandGlance(name.decode(errors="replace"), len(command.offers), len(command.queue))
            if metered is not None:
                glance = replace(glance, ended=metered.ended, failed=metered.failed, buckets=metered.list_buckets())
            yield glance


def _describe_job(job: ActiveJob) -> JobGlance:
    counts, priority = job.tasks.counts, job.spec.priority
    return JobGlance(job.id, make_title(job.spec), job.state, job.held, job.submitted, counts, priority, job.is_open)


def _describe_worker(worker: KnownWorker, now: Monotonic) -> WorkerGlance:
    info, silence = worker.info, now - worker.last_heard
    return WorkerGlance(
        info.id,
        info.name,
        worker.all_slots,
        worker.slots.busy,
        len(worker.held.begun),
        len(worker.held) - len(worker.held.begun),
        len(worker.serves),
        worker.connected,
        worker.draining,
        float(int(silence)) if silence > QUIET_SECONDS else 0.0,
        worker.problem,
        tuple(sorted(info.tags)),
        info.version,
        worker.knows_time,
    )
