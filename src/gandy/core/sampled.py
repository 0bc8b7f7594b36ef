"""What samples name: the jobs that are not final, and the workers.

A keyframe names all of them, as far as they fit, and other samples those that have changed since.
"""

from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import islice
from typing import Final

from msgspec.structs import astuple, replace

from gandy.core.foreman import Foreman
from gandy.core.jobs import ActiveJob
from gandy.core.model import Counts
from gandy.core.samples import (
    CONNECTED,
    DRAINING,
    GONE,
    HELD,
    LEFT,
    OPEN,
    SHORT,
    SampledJob,
    SampledWorker,
    WorkerChange,
)
from gandy.core.workers import KnownWorker, worker_name
from gandy.ids import JobId
from gandy.limits import MAX_NAME, MAX_SAMPLED

_NONE: Final = Counts()


class SampledJobs:
    """The jobs that are not final: sums over all of them, and the ones that samples name."""

    def __init__(self, foreman: Foreman) -> None:
        self._table = foreman.reactor.jobs
        self._table.changed = {job.id: job for job in self._table}
        self._counts: dict[JobId, Counts] = {}  # when we looked last
        self._busy: dict[JobId, ActiveJob] = {}  # those of which workers have tasks
        self._named: dict[JobId, SampledJob] = {}  # since the keyframe, as they were when we looked last
        self.sums = Counts()

    def __len__(self) -> int:
        return len(self._table)

    def find_changes(self) -> tuple[SampledJob, ...]:
        """The named jobs that are different now. More are named if there is room."""
        changed, self._table.changed = self._table.changed or {}, {}
        for job in changed.values():
            self._count(job)
        return (*self._list_changed(changed.values()), *self._name_more(changed.values()))

    def list_all(self) -> tuple[SampledJob, ...]:
        """The jobs that a keyframe names: those that keep most workers busy, then the oldest."""
        chosen = nlargest(MAX_SAMPLED, self._busy.values(), key=_count_given)
        idle = (job for job in islice(self._table, 2 * MAX_SAMPLED) if job.id not in self._busy)
        chosen += islice(idle, MAX_SAMPLED - len(chosen))
        self._named = {job.id: describe_job(job) for job in chosen}
        return tuple(self._named.values())

    def _count(self, job: ActiveJob) -> None:
        """Count a job anew. One that is not here any more, or is here again, is another object."""
        found = self._table.find(job.id)
        counts = _NONE if found is None else found.tasks.counts
        self.sums = _add(self.sums, counts, self._counts.pop(job.id, _NONE))
        self._busy.pop(job.id, None)
        if found is not None:
            self._counts[job.id] = counts
            if found.tasks.given:
                self._busy[job.id] = found

    def _list_changed(self, changed: Iterable[ActiveJob]) -> Iterator[SampledJob]:
        for job in changed:
            before = self._named.get(job.id)
            if before is None:
                continue
            described = describe_job(job)
            if self._table.find(job.id) is None:
                del self._named[job.id]
                yield replace(described, flags=described.flags | GONE)
            elif described != before:
                self._named[job.id] = described
                yield described

    def _name_more(self, changed: Iterable[ActiveJob]) -> Iterator[SampledJob]:
        new = (job for job in changed if job.id not in self._named and self._table.find(job.id) is not None)
        for job in nlargest(MAX_SAMPLED - len(self._named), new, key=_count_given):
            self._named[job.id] = describe_job(job)
            yield self._named[job.id]


class SampledWorkers:
    """The workers: sums over all of them, and the ones that samples name."""

    def __init__(self, foreman: Foreman) -> None:
        self._table = foreman.reactor.workers
        self._named: dict[str, tuple[int, SampledWorker]] = {}  # since the keyframe: place, and as it was
        self._places = 0

    def sum(self) -> tuple[int, int, int]:
        """How many are connected, their slots, and how many of these are in use."""
        here = [worker for worker in self._table if worker.connected]
        return len(here), sum(worker.all_slots for worker in here), sum(worker.slots.busy for worker in here)

    def find_changes(self) -> tuple[WorkerChange, ...]:
        """The named workers that are different now."""
        return tuple(self._list_changed())

    def name_more(self) -> tuple[SampledWorker, ...]:
        """The workers that were not named before, as far as there is room."""
        new = (worker for worker in self._table if worker.info.id not in self._named)
        return tuple(map(self._name, list(islice(new, MAX_SAMPLED - len(self._named)))))

    def list_all(self) -> tuple[SampledWorker, ...]:
        """The workers that a keyframe names."""
        self.forget()
        return self.name_more()

    def forget(self) -> None:
        self._named.clear()
        self._places = 0

    def _name(self, worker: KnownWorker) -> SampledWorker:
        described = describe_worker(worker)
        self._named[worker.info.id] = self._places, described
        self._places += 1
        return described

    def _list_changed(self) -> Iterator[WorkerChange]:
        for name, (place, before) in list(self._named.items()):
            worker = self._table.find(name)
            if worker is None:
                del self._named[name]
                yield WorkerChange(place, 0, 0, LEFT)
            elif (now := describe_worker(worker)) != before:
                self._named[name] = place, now
                yield WorkerChange(place, now.slots, now.used, now.flags)


def describe_job(job: ActiveJob) -> SampledJob:
    counts = job.tasks.counts
    return SampledJob(
        job.id,
        job.state,
        HELD * job.held | OPEN * job.is_open,
        counts.waiting,
        counts.running,
        counts.finished,
        counts.failed,
        counts.cancelled,
        counts.assigned,
    )


def describe_worker(worker: KnownWorker) -> SampledWorker:
    info = worker.info
    flags = CONNECTED * worker.connected | DRAINING * worker.draining | SHORT * bool(worker.problem)
    name = "" if info.name == worker_name(info.id) else info.name[:MAX_NAME]
    return SampledWorker(info.id[:MAX_NAME], worker.all_slots, worker.slots.busy, flags, name)


def _count_given(job: ActiveJob) -> int:
    return job.tasks.given


def _add(sums: Counts, more: Counts, less: Counts) -> Counts:
    numbers = zip(astuple(sums), astuple(more), astuple(less), strict=True)
    return Counts(*(number + plus - minus for number, plus, minus in numbers))
