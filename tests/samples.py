"""Short ways to make samples, and a crew whose work is known exactly, for tests of the history."""

from collections.abc import Sequence

from gandy.core.samples import Level, SampleHead, ShardSample, StoredSample, encode_sample


def a_sample(
    number: int,
    at: float,
    level: Level = Level.SAMPLE,
    shard: int = 0,
    run: int = 1,
    base: int | None = None,
    sample: ShardSample | None = None,
    **numbers: int,
) -> StoredSample:
    """A sample with these numbers. A keyframe builds on itself; any other, on number 1."""
    head = SampleHead(**numbers)
    chosen = base or (number if level else 1)
    return StoredSample(shard, number, run, chosen, level, at, encode_sample(sample or ShardSample(head)))


def damaged(sample: StoredSample) -> StoredSample:
    place = (sample.shard, sample.number, sample.run, sample.base, sample.level, sample.at)
    return StoredSample(*place, sample.packed[:-1] + b"\xc1")


def numbers(samples: Sequence[StoredSample]) -> list[int]:
    return [sample.number for sample in samples]
