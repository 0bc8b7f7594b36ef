"""One picture of the whole crew, from the updates of all its shards. Pure: the program around tells the time.

`changes` collects what has changed since it was last taken, so that a program can pass that on to its own viewers.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator
from functools import reduce
from typing import Final

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from gandy.core.model import FINAL_JOB_STATES
from gandy.core.views import CallSpan, CommandGlance, CrewUpdate, JobGlance, Span, Totals, WorkerGlance
from gandy.ids import JobId
from gandy.viewer.histograms import add_buckets
from gandy.viewer.lanes import Lanes, PlacedCall, PlacedSpan
from gandy.viewer.series import RATE_SECONDS, Point, Rate, Series

KEPT_JOBS: Final = 2_000  # as many final ones stay in the picture; the list of jobs has all
KEPT_CHANGES: Final = 20_000  # spans that a program has not taken; if there are more, it must look at everything anew


class Changes(Struct):
    """What is different in the picture, by number or name."""

    jobs: set[JobId] = field(default_factory=set)
    forgotten: set[JobId] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    spans: list[PlacedSpan] = field(default_factory=list)
    calls: list[PlacedCall] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    is_new: bool = False  # so much has changed that everything must be looked at anew


class Rates:
    """How fast things happen, in the whole crew."""

    def __init__(self) -> None:
        self.finished = Rate()
        self.failed = Rate()
        self.calls = Rate()
        self.jobs: dict[JobId, Rate] = {}  # tasks that end
        self.commands: dict[str, Rate] = {}  # calls

    def note(self, totals: Totals, now: float) -> None:
        self.finished.note(now, totals.finished)
        self.failed.note(now, totals.failed)
        self.calls.note(now, totals.calls)


class Picture:
    """`apply` each update of each shard; `tick` once a second."""

    def __init__(self) -> None:
        self.shards: dict[int, CrewUpdate] = {}  # the last update of each
        self.jobs: OrderedDict[JobId, JobGlance] = OrderedDict()  # the one that changed last comes last
        self.lanes = Lanes()
        self.series = Series()
        self.rates = Rates()
        self.totals = Totals()  # since this picture began; they never fall
        self.unsure: set[JobId] = set()  # jobs that may have ended while a foreman was away: look them up
        self._shard_of: dict[JobId, int] = {}
        self.skipped = 0  # attempts that ended and are in no lane
        self._workers: dict[int, dict[str, WorkerGlance]] = {}  # by shard
        self._commands: dict[int, dict[str, CommandGlance]] = {}
        self._changes = Changes()

    # What changes

    def apply(self, update: CrewUpdate, now: float) -> None:
        before = self.shards.get(update.shard)
        if not self.shards:
            self.rates.note(self.totals, now)
        self._count(None if before is None else before.totals, update.totals)
        self.shards[update.shard] = update
        if update.is_whole:
            self._begin_anew(update)
        self._apply_jobs(update, now)
        self._apply_workers(update)
        self._apply_commands(update, now)
        self._apply_spans(update)

    def _begin_anew(self, update: CrewUpdate) -> None:
        """What a shard knew before, and does not know now, is gone."""
        here = {glance.id for glance in update.workers}
        self._drop_workers(update.shard, self._workers.get(update.shard, {}).keys() - here)
        self._drop_commands(update.shard, [*self._commands.get(update.shard, ())])
        self._changes.is_new = True
        self._doubt_jobs(update.shard, {glance.job for glance in update.jobs})
        self.lanes.restart(update.shard, update.spans, update.calls)

    def _doubt_jobs(self, shard: int, current: Container[JobId] = ()) -> None:
        """Jobs of a shard that are not among its current ones have ended, or are about to be another shard's."""
        for job, glance in self.jobs.items():
            is_here = self._shard_of.get(job, shard) == shard
            if is_here and job not in current and glance.state not in FINAL_JOB_STATES:
                self.unsure.add(job)

    def _apply_workers(self, update: CrewUpdate) -> None:
        self._workers.setdefault(update.shard, {}).update((glance.id, glance) for glance in update.workers)
        self._changes.workers.update(glance.id for glance in update.workers)
        self._drop_workers(update.shard, update.left)

    def _drop_workers(self, shard: int, names: Iterable[str]) -> None:
        for name in names:
            self._workers[shard].pop(name, None)
            self._changes.workers.add(name)
            if not any(name in workers for workers in self._workers.values()):
                self.lanes.drop_worker(name)

    def _apply_commands(self, update: CrewUpdate, now: float) -> None:
        self._commands.setdefault(update.shard, {}).update((glance.name, glance) for glance in update.commands)
        for glance in update.commands:
            self.rates.commands.setdefault(glance.name, Rate()).note(now, self._merge_command(glance.name).ended)
        self._changes.commands.update(glance.name for glance in update.commands)
        self._drop_commands(update.shard, update.gone)

    def _drop_commands(self, shard: int, names: Iterable[str]) -> None:
        for name in names:
            self._commands[shard].pop(name, None)
            self._changes.commands.add(name)
            if not any(name in commands for commands in self._commands.values()):
                self.rates.commands.pop(name, None)

    def _apply_spans(self, update: CrewUpdate) -> None:
        """In the order in which they began: so they need the fewest lanes."""
        found: list[Span | CallSpan] = [*update.spans, *update.calls]
        for span in sorted(found, key=lambda span: span.began):
            if isinstance(span, Span):
                self._changes.spans.append(self.lanes.place(span, update.shard))
            else:
                self._changes.calls.append(self.lanes.place_call(span, update.shard))
        if len(self._changes.spans) + len(self._changes.calls) > KEPT_CHANGES:
            self._changes.spans.clear()
            self._changes.calls.clear()
            self._changes.is_new = True
        self.skipped += update.skipped

    def _apply_jobs(self, update: CrewUpdate, now: float) -> None:
        for glance in update.jobs:
            self._shard_of[glance.job] = update.shard
            age = max(0.0, float(update.at) - float(glance.submitted))
            if glance.job not in self.rates.jobs and age < RATE_SECONDS:  # it began at zero, a moment ago
                self.rates.jobs[glance.job] = Rate()
                self.rates.jobs[glance.job].note(now - age, 0)
            self.note_job(glance, now)
        for job in update.forgotten:
            self.on_forgotten(job)
        self._drop_old_jobs()

    def note_job(self, glance: JobGlance, now: float) -> None:
        """A job is like this now. The program around looks up those that no update tells of."""
        self.jobs[glance.job] = glance
        self.jobs.move_to_end(glance.job)
        self.rates.jobs.setdefault(glance.job, Rate()).note(now, glance.counts.finished + glance.counts.failed)
        self.unsure.discard(glance.job)
        self._changes.jobs.add(glance.job)

    def on_forgotten(self, job: JobId) -> None:
        """There is no such job any more."""
        self._drop_job(job)
        self._changes.forgotten.add(job)

    def _drop_old_jobs(self) -> None:
        if len(self.jobs) <= 2 * KEPT_JOBS:
            return
        final = [glance.job for glance in self.jobs.values() if glance.state in FINAL_JOB_STATES]
        for job in final[: max(0, len(final) - KEPT_JOBS)]:
            self._drop_job(job)

    def _drop_job(self, job: JobId) -> None:
        self.jobs.pop(job, None)
        self.unsure.discard(job)
        self._shard_of.pop(job, None)
        self.rates.jobs.pop(job, None)

    def _count(self, before: Totals | None, now: Totals) -> None:
        """Add what has happened since the last update. A foreman that counts anew has begun at zero."""
        old = Totals() if before is None or any(map(_has_fallen, astuple(before), astuple(now))) else before
        sums = zip(astuple(self.totals), astuple(now), astuple(old), strict=True)
        if before is not None:  # what came before this picture does not count
            self.totals = Totals(*(total + new - last for total, new, last in sums))

    def on_lost(self, shards: Iterable[int]) -> None:
        """These shards do not exist any more."""
        for shard in shards:
            self._doubt_jobs(shard)
            self._drop_workers(shard, [*self._workers.get(shard, ())])
            self._drop_commands(shard, [*self._commands.get(shard, ())])
            self.lanes.restart(shard, ())
            for table in (self.shards, self._workers, self._commands):
                table.pop(shard, None)
            self._changes.is_new = True

    def tick(self, now: float) -> None:
        """Note how the crew stands, if it is time for that."""
        if self.series.follow(now):
            self._changes.is_new = True
        self.rates.note(self.totals, now)
        self._note_pace(now)
        rates, workers = self.rates, list(self.list_workers())
        point = Point(
            now,
            rates.finished.per_second(now),
            rates.failed.per_second(now),
            rates.calls.per_second(now),
            sum(worker.used for worker in workers),
            sum(worker.slots for worker in workers if worker.connected),
            self.count("waiting"),
            self.count("running"),
        )
        if self.series.note(point):
            self._changes.points.append(point)

    def _note_pace(self, now: float) -> None:
        """The rate of a job whose tasks have stopped ending falls to zero: no update says so."""
        for job, rate in self.rates.jobs.items():
            if rate.per_second(now) > 0 and (glance := self.jobs.get(job)) is not None:
                before = rate.per_second(now)
                rate.note(now, glance.counts.finished + glance.counts.failed)
                if rate.per_second(now) != before:
                    self._changes.jobs.add(job)

    def take_changes(self) -> Changes:
        changes, self._changes = self._changes, Changes()
        return changes

    # What is there

    def count(self, what: str) -> int:
        """The sum of a number over all shards."""
        return sum(getattr(update, what) for update in self.shards.values())

    @property
    def troubles(self) -> dict[int, str]:
        """What stores complain about, by shard."""
        return {shard: update.trouble for shard, update in self.shards.items() if update.trouble}

    def list_workers(self) -> Iterator[WorkerGlance]:
        """The workers of the crew, by name, each with what it does for all shards."""
        names = {name for workers in self._workers.values() for name in workers}
        found = (self.find_worker(name) for name in names)
        workers = [worker for worker in found if worker is not None]
        yield from sorted(workers, key=lambda worker: (worker.name, worker.id))

    def find_worker(self, name: str) -> WorkerGlance | None:
        rows = [workers[name] for workers in self._workers.values() if name in workers]
        return reduce(_merge_workers, rows) if rows else None

    def list_commands(self) -> list[CommandGlance]:
        names = {name for commands in self._commands.values() for name in commands}
        return [self._merge_command(name) for name in sorted(names)]

    def find_command(self, name: str) -> CommandGlance | None:
        return self._merge_command(name) if any(name in commands for commands in self._commands.values()) else None

    def _merge_command(self, name: str) -> CommandGlance:
        rows = [commands[name] for commands in self._commands.values() if name in commands]
        return CommandGlance(
            name,
            max(row.workers for row in rows),  # every worker has a link to every shard
            sum(row.waiting for row in rows),
            sum(row.ended for row in rows),
            sum(row.failed for row in rows),
            add_buckets(row.buckets for row in rows),
        )


def _merge_workers(one: WorkerGlance, other: WorkerGlance) -> WorkerGlance:
    """What a worker does for two shards. It has a link to each, and its slots are the same."""
    return replace(
        one,
        slots=max(one.slots, other.slots),
        used=one.used + other.used,
        running=one.running + other.running,
        waiting=one.waiting + other.waiting,
        calls=one.calls + other.calls,
        connected=one.connected or other.connected,
        draining=one.draining or other.draining,
        silent_seconds=min(one.silent_seconds, other.silent_seconds),
        problem=one.problem or other.problem,
        machine=one.machine or other.machine,
    )


def _has_fallen(before: int, now: int) -> bool:
    return now < before
