"""How the whole crew stood at a moment, out of samples of all its shards. What is damaged is left out."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from gandy.bounds import Count, WallMoment
from gandy.core.rows import JobRow
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
    SampleHead,
    ShardSample,
    StoredSample,
    decode_head,
    decode_sample,
)
from gandy.core.views import JobGlance, WorkerGlance, make_title
from gandy.core.workers import worker_name
from gandy.ids import JobId
from gandy.limits import MAX_GLANCES
from gandy.moments import Wall


class CrewThen(Struct, frozen=True, tag=True):
    """How the crew stood when its last samples up to a moment were made."""

    at: WallMoment  # of the newest of them
    unfinished: Count  # jobs; those that are not listed are among these, and in the numbers of tasks
    waiting: Count  # tasks
    assigned: Count
    running: Count
    calls_waiting: Count
    connected: Count  # workers
    slots: Count
    used: Count
    jobs: Annotated[tuple[JobGlance, ...], Meta(max_length=MAX_GLANCES)] = ()  # that had not ended, the newest first
    workers: Annotated[tuple[WorkerGlance, ...], Meta(max_length=MAX_GLANCES)] = ()  # by name
    is_stopped: bool = False  # no foreman ran


class ShardThen(NamedTuple):
    """One shard as it was when a sample was made."""

    at: Wall
    head: SampleHead
    jobs: tuple[SampledJob, ...] = ()
    workers: tuple[SampledWorker, ...] = ()
    is_last: bool = False


def rebuild(samples: Iterable[StoredSample]) -> list[ShardThen]:
    """The shards of the crew, from what `StoredHistory.find_samples` returns."""
    chains = (list(chain) for _, chain in groupby(samples, lambda sample: sample.shard))
    return [then for chain in chains if (then := _rebuild_shard(chain)) is not None]


def _rebuild_shard(chain: list[StoredSample]) -> ShardThen | None:
    """Apply changes to their keyframe. Behind a sample that is damaged or missing, only the numbers are known."""
    newest, then = chain[-1], ShardSample(SampleHead())
    jobs: dict[int, SampledJob] = {}
    workers: list[SampledWorker | None] = []
    for number, stored in enumerate(chain, newest.base):
        sample = decode_sample(stored.packed)
        if sample is None or stored.number != number:
            head = decode_head(newest.packed)
            return None if head is None else ShardThen(newest.at, head)
        _apply(sample, jobs, workers)
        then = sample
    present = tuple(worker for worker in workers if worker is not None)
    return ShardThen(newest.at, then.head, tuple(jobs.values()), present, then.is_last)


def _apply(sample: ShardSample, jobs: dict[int, SampledJob], workers: list[SampledWorker | None]) -> None:
    for job in sample.jobs:
        if job.flags & GONE:
            jobs.pop(job.job, None)
        else:
            jobs[job.job] = job
    workers += sample.new
    for change in sample.changed:
        worker = workers[change.place] if change.place < len(workers) else None
        if worker is not None:
            now = replace(worker, slots=change.slots, used=change.used, flags=change.flags)
            workers[change.place] = None if change.flags & LEFT else now


def merge_shards(shards: Sequence[ShardThen], rows: Mapping[JobId, JobRow]) -> CrewThen:
    """The whole crew. `rows`: jobs as they are now, for their names; those that were forgotten since have none."""
    heads = [shard.head for shard in shards]
    jobs = sorted((job for shard in shards for job in shard.jobs), key=lambda job: -job.job)
    workers: dict[str, SampledWorker] = {}
    for worker in (worker for shard in shards for worker in shard.workers):
        workers[worker.id] = _merge_workers(workers[worker.id], worker) if worker.id in workers else worker
    glances = sorted(map(_glance_at_worker, workers.values()), key=lambda glance: (glance.name, glance.id))
    return CrewThen(
        at=max(shard.at for shard in shards),
        unfinished=sum(head.unfinished for head in heads),
        waiting=sum(head.waiting for head in heads),
        assigned=sum(head.assigned for head in heads),
        running=sum(head.running for head in heads),
        calls_waiting=sum(head.calls_waiting for head in heads),
        connected=max(head.workers for head in heads),  # every worker has a link to every shard
        slots=max(head.slots for head in heads),
        used=sum(head.used for head in heads),
        jobs=tuple(_glance_at_job(job, rows.get(job.job)) for job in jobs[:MAX_GLANCES]),
        workers=tuple(glances[:MAX_GLANCES]),
        is_stopped=all(shard.is_last for shard in shards),
    )


def _glance_at_job(job: SampledJob, row: JobRow | None) -> JobGlance:
    is_held, is_open = bool(job.flags & HELD), bool(job.flags & OPEN)
    if row is None:
        return JobGlance(job.job, "", job.state, is_held, Wall(0.0), job.counts, is_open=is_open)
    title, priority = make_title(row.spec), row.spec.priority
    return JobGlance(job.job, title, job.state, is_held, row.submitted, job.counts, priority, is_open)


def _merge_workers(one: SampledWorker, other: SampledWorker) -> SampledWorker:
    """A worker as two shards knew it. Its slots are the same."""
    slots, used = max(one.slots, other.slots), one.used + other.used
    return replace(one, slots=slots, used=used, flags=one.flags | other.flags)


def _glance_at_worker(worker: SampledWorker) -> WorkerGlance:
    flags = worker.flags
    return WorkerGlance(
        worker.id,
        worker.name or worker_name(worker.id),
        worker.slots,
        worker.used,
        running=0,
        waiting=0,
        calls=0,
        connected=bool(flags & CONNECTED),
        draining=bool(flags & DRAINING),
        silent_seconds=0.0,
        problem="short of something" if flags & SHORT else "",
    )
