"""The interface of the history in a store, and what its implementations share. It is apart from the jobs: a sample that
cannot be written is lost, and nothing else is.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from gandy.core.samples import LastSample, Level, StoredHistory, StoredSample
from gandy.moments import Wall

# Samples that build on one keyframe, at most: they are ten seconds apart, and it is valid for five minutes.
LONGEST_CHAIN: Final = 100

# Seconds. If a run of a shard ended so shortly before a moment, and another has samples there too, the wall clock was
# stepped back, and the later run is meant.
NEAR: Final = 600.0


class History(StoredHistory, Protocol):
    """Every method may raise StoreError. Old samples are dropped as new ones come."""

    async def add_samples(self, samples: Sequence[StoredSample]) -> None: ...

    async def note_dropped(self, level: Level) -> None:
        """Say of a level without samples that it had some which were dropped, so that `get_extent` says so later."""

    async def find_last(self, shard: int) -> LastSample | None:
        """Where the history of a shard ends; None: it has none."""


def choose_samples(
    samples: Sequence[StoredSample], before: Sequence[StoredSample], begin: Wall, step: float
) -> list[StoredSample]:
    """What `list_samples` returns, of samples from `begin` on in any order, and of some from before it."""
    last: dict[tuple[int, int, int], StoredSample] = {}
    for sample in samples:
        key = (sample.shard, sample.run, int((sample.at - begin) // step))
        last[key] = max(last.get(key, sample), sample, key=get_age)
    for sample in before:
        key = (sample.shard, 0, -1)
        last[key] = max(last.get(key, sample), sample, key=get_age)
    return sorted(last.values(), key=get_number)


def choose_last(samples: Sequence[StoredSample]) -> StoredSample:
    """The last of a shard's samples up to a moment. `samples`: at least those of the `NEAR` seconds before it."""
    newest = max(samples, key=get_age)
    return max((sample for sample in samples if sample.at >= newest.at - NEAR), key=get_number)


def find_first(last: StoredSample) -> int:
    """The number of the first sample that is needed to understand this one."""
    return max(last.base, last.number - LONGEST_CHAIN)


def get_age(sample: StoredSample) -> tuple[Wall, int, int]:
    return sample.at, sample.shard, sample.number


def get_number(sample: StoredSample) -> tuple[int, int]:
    return sample.shard, sample.number
