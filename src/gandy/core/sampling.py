"""Makes the samples of one shard: looks at what has changed since the last one. It keeps none, and reads no clock.

The program around calls `take` every ten seconds, and writes what it returns. If a sample could not be written, the
next one is a keyframe. While nothing changes, there is none.
"""

from typing import Final, NamedTuple

from msgspec.structs import replace

from gandy.core.foreman import Foreman
from gandy.core.sampled import SampledJobs, SampledWorkers
from gandy.core.samples import (
    PERIODS,
    LastSample,
    Level,
    SampledJob,
    SampledWorker,
    SampleHead,
    ShardSample,
    StoredSample,
    WorkerChange,
    decode_head,
    encode_sample,
)
from gandy.moments import LONG_AGO, Monotonic

STEP: Final = 1.0  # seconds; a smaller change of the wall clock is drift, not a step


class _Changes(NamedTuple):
    """What a sample that is no keyframe has besides its numbers."""

    jobs: tuple[SampledJob, ...]
    new: tuple[SampledWorker, ...]
    changed: tuple[WorkerChange, ...]


class Sampler:
    """`resume` the history of the shard, then `take` a sample every ten seconds, and one with `take_last`."""

    def __init__(self, foreman: Foreman, now: Monotonic) -> None:
        self._foreman = foreman
        self._clocks = foreman.reactor.clocks
        self._jobs = SampledJobs(foreman)
        self._workers = SampledWorkers(foreman)
        self._looked = now
        self._used_seconds = 0.0
        self._before = SampleHead()  # what had happened before the foreman started
        self._head = SampleHead()  # of the last look
        self._unsaved = dict.fromkeys(Level, False)  # something has changed since the last sample of this level
        self._due = dict.fromkeys(Level, LONG_AGO)  # when there may be another one
        self._due_before = self._due  # when the last one was made
        self._ahead = 0.0  # how far the wall clock was ahead when the last one was made
        self._number = 0  # of the last sample
        self._run = 0
        self._base = 0
        self._is_cut = True  # the next one must be a keyframe
        self._is_over = False  # that was the last one

    def resume(self, last: LastSample | None, now: Monotonic) -> None:
        """Go on after the last sample of the shard, if there is one."""
        if last is None:
            return
        self._number = last.sample.number
        self._before = decode_head(last.sample.packed) or SampleHead()
        self._used_seconds += self._before.used_seconds
        self._unsaved = dict.fromkeys(Level, True)
        age = 0.0 if last.hourly is None else self._clocks.stamp(now) - last.hourly
        if last.hourly is not None and 0 <= age < PERIODS[Level.HOURLY]:
            self._due[Level.HOURLY] = now + (PERIODS[Level.HOURLY] - age)

    def look(self, now: Monotonic) -> _Changes:
        """Note what has changed, without a sample."""
        changes = _Changes(self._jobs.find_changes(), self._workers.name_more(), self._workers.find_changes())
        head = self._make_head(now)
        if any(changes) or head != replace(self._head, used_seconds=head.used_seconds):
            self._unsaved = dict.fromkeys(Level, True)
        self._head = head
        if abs(self._clocks.wall_ahead - self._ahead) > STEP:
            self._is_cut = True
        return changes

    def take(self, now: Monotonic) -> StoredSample | None:
        """The next sample; None if nothing has changed."""
        changes = self.look(now)
        level = self._find_level(now)
        if level is None:
            return None
        if level is Level.SAMPLE:
            return self._store(ShardSample(self._head, *changes), level, now)
        return self._store(ShardSample(self._head, self._jobs.list_all(), self._workers.list_all()), level, now)

    def take_last(self, now: Monotonic) -> StoredSample | None:
        """The last sample, because the foreman stops: a keyframe without workers. None: nothing has changed since the
        last one, or there was nothing.
        """
        self.look(now)
        if not self._unsaved[Level.SAMPLE] and (self._is_over or not self._number):
            return None
        head = replace(self._head, workers=0, slots=0, used=0)
        sample = ShardSample(head, self._jobs.list_all(), is_last=True)
        level = self._find_level(now)
        stored = self._store(sample, Level.HOURLY if level is Level.HOURLY else Level.KEYFRAME, now)
        self._is_over = self._is_cut = True  # should it go on all the same, a keyframe comes first
        return stored

    def on_lost(self) -> None:
        """The last sample could not be written."""
        self._due = self._due_before
        self._is_cut = True
        self._unsaved = dict.fromkeys(Level, True)

    def _make_head(self, now: Monotonic) -> SampleHead:
        workers, slots, used = self._workers.sum()
        self._used_seconds += used * max(0.0, now - self._looked)
        self._looked = now
        ends, before, sums = self._foreman.reactor.ends, self._before, self._jobs.sums
        return SampleHead(
            finished=before.finished + ends.finished,
            failed=before.failed + ends.failed,
            cancelled=before.cancelled + ends.cancelled,
            repeated=before.repeated + ends.repeated,
            lost=before.lost + ends.lost,
            calls=before.calls + self._foreman.switchboard.output.ended,
            used_seconds=int(self._used_seconds),
            unfinished=len(self._jobs),
            waiting=sums.waiting,
            assigned=sums.assigned,
            running=sums.running,
            calls_waiting=self._foreman.switchboard.waiting.count,
            workers=workers,
            slots=slots,
            used=used,
        )

    def _find_level(self, now: Monotonic) -> Level | None:
        """The highest level of which a sample may be made now."""
        if self._unsaved[Level.HOURLY] and now >= self._due[Level.HOURLY]:
            return Level.HOURLY
        if self._unsaved[Level.KEYFRAME] and now >= self._due[Level.KEYFRAME]:
            return Level.KEYFRAME
        if not self._unsaved[Level.SAMPLE]:
            return None
        return Level.KEYFRAME if self._is_cut else Level.SAMPLE

    def _store(self, sample: ShardSample, level: Level, now: Monotonic) -> StoredSample:
        self._number += 1
        if self._is_cut:
            self._run = self._number
        if level is not Level.SAMPLE:
            self._base = self._number
        made = [each for each in Level if each <= level]
        self._due_before, self._due = self._due, self._due | {each: now + PERIODS[each] for each in made}
        self._unsaved |= dict.fromkeys(made, False)
        self._is_cut = self._is_over = False
        self._ahead = self._clocks.wall_ahead
        at, shard = self._clocks.stamp(now), self._foreman.shard
        return StoredSample(shard, self._number, self._run, self._base, level, at, encode_sample(sample))
