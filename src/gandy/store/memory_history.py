"""A history in memory: bounded lists of samples."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

from gandy.core.samples import ALWAYS, KEPT, Extent, LastSample, Level, StoredSample
from gandy.limits import MAX_HISTORY_BYTES
from gandy.moments import Wall
from gandy.store.history import choose_last, choose_samples, find_first, get_age, get_number


class _LevelSamples:
    """The samples of one level, in the order in which they came."""

    def __init__(self, level: Level) -> None:
        self.samples: deque[StoredSample] = deque()
        self.has_dropped = False
        self._level = level
        self._bytes = 0

    def add(self, sample: StoredSample) -> None:
        self.samples.append(sample)
        self._bytes += len(sample.packed)
        while len(self.samples) > KEPT[self._level] or self._bytes > MAX_HISTORY_BYTES:
            self._bytes -= len(self.samples.popleft().packed)
            self.has_dropped = True

    @property
    def since(self) -> Wall:
        return self.samples[0].at if self.has_dropped and self.samples else ALWAYS


class MemoryHistory:
    """Implements `store.history.History`."""

    def __init__(self) -> None:
        self._kept = {level: _LevelSamples(level) for level in Level}
        self._last: dict[int, LastSample] = {}

    async def add_samples(self, samples: Sequence[StoredSample]) -> None:
        for sample in samples:
            self._kept[sample.level].add(sample)
            before = self._last.get(sample.shard)
            hourly = None if before is None else before.hourly
            if sample.level is Level.HOURLY:
                hourly = sample.at
            self._last[sample.shard] = LastSample(sample, hourly)

    async def note_dropped(self, level: Level) -> None:
        self._kept[level].has_dropped = True

    async def find_last(self, shard: int) -> LastSample | None:
        return self._last.get(shard)

    async def get_extent(self) -> Extent:
        first, second, third = (self._kept[level].since for level in Level)
        return Extent((first, second, third), len(self._last))

    async def list_samples(self, level: Level, begin: Wall, end: Wall, step: float) -> list[StoredSample]:
        samples = [sample for sample in self._list(level) if begin <= sample.at <= end]
        return choose_samples(samples, self._find_before(begin), begin, step)

    async def find_samples(self, at: Wall) -> list[StoredSample]:
        found: list[StoredSample] = []
        for shard in sorted(self._last):
            samples = [sample for sample in self._list() if sample.shard == shard]
            past = [sample for sample in samples if sample.at <= at]
            if past:
                last = choose_last(past)
                found += sorted(
                    (each for each in samples if find_first(last) <= each.number <= last.number), key=get_number
                )
        return found

    async def read_samples(self, level: Level, after: StoredSample | None, limit: int) -> list[StoredSample]:
        samples = sorted(self._kept[level].samples, key=get_age)
        return [sample for sample in samples if after is None or get_age(sample) > get_age(after)][:limit]

    def _list(self, level: Level = Level.SAMPLE) -> Iterator[StoredSample]:
        """All samples of a level and those above it."""
        return chain.from_iterable(self._kept[each].samples for each in Level if each >= level)

    def _find_before(self, begin: Wall) -> list[StoredSample]:
        """The last sample of each shard before a moment."""
        last: dict[int, StoredSample] = {}
        for sample in self._list():
            if sample.at < begin:
                last[sample.shard] = max(last.get(sample.shard, sample), sample, key=get_age)
        return list(last.values())
