"""What a crew did over time, as points of a curve, out of samples of all its shards. Reads no store and no clock."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import ceil
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from gandy.bounds import Count, Moment, WallMoment
from gandy.core.samples import (
    PERIODS,
    Extent,
    Level,
    SampleHead,
    StoredSample,
    decode_head,
)
from gandy.limits import MAX_POINTS, MAX_READ_SAMPLES
from gandy.moments import Wall

LATE: Final = 1.5  # times its period after the sample before it, a sample still follows on it

Amount = Annotated[float, Meta(ge=0)]


class HistoryPoint(Struct, frozen=True, array_like=True):
    """What the crew did in some seconds, and what it had at their end."""

    at: WallMoment  # when they ended
    seconds: Moment
    finished: Amount  # tasks per second
    failed: Amount
    calls: Amount  # that ended, per second
    used: Amount  # slots, on average
    slots: Count
    waiting: Count  # tasks
    running: Count


class Grid(NamedTuple):
    """The seconds that each point is about, and the level of the samples that are read for it."""

    level: Level
    begin: Wall
    end: Wall
    step: float

    @property
    def size(self) -> int:
        return max(0, ceil((self.end - self.begin) / self.step - 1e-9))

    def find_place(self, at: Wall) -> int:
        """Which point a moment belongs to; below 0 or beyond the last if it belongs to none."""
        return int((at - self.begin) // self.step)


def make_grid(extent: Extent, begin: Wall, end: Wall, most: int) -> Grid:
    """At most `most` points, of samples that are no finer than needed and go back far enough."""
    most = max(1, min(most, MAX_POINTS, MAX_READ_SAMPLES // max(1, extent.shards)))
    step = max(0.0, end - begin) / most
    level = max((level for level in Level if PERIODS[level] <= step), default=Level.SAMPLE)
    while extent.since[level] > begin and level is not Level.HOURLY:
        level = Level(level + 1)
    return Grid(level, begin, end, max(step, PERIODS[level]))


def make_points(grid: Grid, samples: Sequence[StoredSample]) -> tuple[HistoryPoint, ...]:
    """The points from the first sample on. `samples`: as `StoredHistory.list_samples` returns them."""
    sums = _Sums(grid)
    for _, shard in groupby(samples, lambda sample: sample.shard):
        sums.add_shard(shard)
    return sums.make_points()


class _Sums:
    """Sums for each point of a grid, over all shards."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        count = grid.size
        self._finished, self._failed, self._calls, self._used = ([0.0] * count for _ in range(4))
        self._slots, self._waiting, self._running = ([0] * count for _ in range(3))
        self._first = count  # the first point about which anything is known

    def add_shard(self, samples: Iterable[StoredSample]) -> None:
        """Samples in the order of their numbers, whatever their times."""
        heads = [(sample, head) for sample in samples if (head := decode_head(sample.packed)) is not None]
        if not heads:
            return
        last, before = None, SampleHead() if heads[0][0].number == 1 else heads[0][1]
        for sample, head in heads:
            self._add_changes(last, sample, before, head)
            last, before = sample, head
        newest, head = max(heads, key=lambda each: (each[0].at, each[0].number))
        self._spread([(self._used, head.used * (self._grid.end - newest.at))], newest.at, self._grid.end)
        self._add_levels(heads)

    def _add_changes(
        self, last: StoredSample | None, sample: StoredSample, before: SampleHead, head: SampleHead
    ) -> None:
        """What has happened since the last sample. After a pause, it has happened at its end."""
        period = PERIODS[self._grid.level]
        since = sample.at - period if last is None or last.at >= sample.at else last.at
        recently = max(since, sample.at - max(self._grid.step, period * LATE))
        amounts = (
            (self._finished, _count(before.finished, head.finished)),
            (self._failed, _count(before.failed, head.failed)),
            (self._calls, _count(before.calls, head.calls)),
        )
        self._spread(amounts, recently, sample.at)
        self._spread([(self._used, _count(before.used_seconds, head.used_seconds))], since, sample.at)

    def _spread(self, amounts: Sequence[tuple[list[float], float]], begin: Wall, end: Wall) -> None:
        """Distribute amounts evenly over the points between two moments."""
        amounts = [each for each in amounts if each[1]]
        if not amounts or end <= begin:
            return
        grid, seconds = self._grid, end - begin
        first, last = max(0, grid.find_place(begin)), min(grid.size - 1, grid.find_place(end))
        self._first = min(self._first, first)
        for place in range(first, last + 1):
            left = grid.begin + place * grid.step
            overlap = min(end, left + grid.step) - max(begin, left)
            for sums, amount in amounts:
                sums[place] += amount * overlap / seconds

    def _add_levels(self, heads: list[tuple[StoredSample, SampleHead]]) -> None:
        """What the shard had at the end of each point: what the last sample up to then says."""
        count = self._grid.size
        known: list[SampleHead | None] = [None] * count
        level: SampleHead | None = None
        for sample, head in heads:
            place = self._grid.find_place(sample.at)
            if place < 0:
                level = head
            elif place < count:
                known[place] = head
        for place, head_then in enumerate(known):
            before, level = level, head_then or level
            if level is None:
                continue
            self._first = min(self._first, place)
            # With the slots at its beginning: those that were in use are an average.
            self._slots[place] = max(self._slots[place], level.slots, before.slots if before else 0)
            self._waiting[place] += level.waiting
            self._running[place] += level.running

    def make_points(self) -> tuple[HistoryPoint, ...]:
        grid, points = self._grid, []
        for place in range(self._first, grid.size):
            begin = grid.begin + place * grid.step
            end = min(begin + grid.step, grid.end)
            seconds = end - begin
            sums = (self._finished, self._failed, self._calls, self._used)
            finished, failed, calls, used = (round(each[place] / seconds, 6) for each in sums)
            stock = self._slots[place], self._waiting[place], self._running[place]
            points.append(HistoryPoint(end, seconds, finished, failed, calls, used, *stock))
        return tuple(points)


def _count(before: int, now: int) -> int:
    """What was added to a number. One that has fallen began at zero again."""
    return now - before if now >= before else now
