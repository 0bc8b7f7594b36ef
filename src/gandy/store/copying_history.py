"""Copies the history of one store to another: its samples as they are, and then how the crew stands after the move.

The jobs of all shards go to one shard. So each other shard gets a last sample, which has none, and that one shard gets
one that has them all.
"""

from collections.abc import AsyncIterator, Mapping
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from gandy.core.past_crew import ShardThen, rebuild
from gandy.core.samples import ALWAYS, Level, SampleHead, ShardSample, StoredSample, encode_sample
from gandy.errors import StoreError
from gandy.limits import MAX_HISTORY_BYTES, MAX_SAMPLED
from gandy.moments import Wall
from gandy.store.history import History

PAGE: Final = 1_000  # samples that are read and added at once

# Numbers of a sample that are about its moment: of jobs and calls, and of workers.
LEVELS: Final = ("unfinished", "waiting", "assigned", "running", "calls_waiting")
WORKER_LEVELS: Final = ("workers", "slots", "used")

_Key = tuple[Wall, int, int]  # of a sample: time, shard and number


async def copy_history(source: History, target: History, shard: int, now: Wall) -> int:
    """Copy what the target lacks, the newest 32 MB of each level at most. `shard`: the one that has the jobs now.

    Returns the number of samples. Raises: StoreError: the target has a history of its own.
    """
    count = 0
    # A sample builds on keyframes, so these come first.
    for level in sorted(Level, reverse=True):
        count += await _copy_level(source, target, level)
    if count:
        await target.add_samples(await _make_ends(target, shard, now))
    return count


async def _copy_level(source: History, target: History, level: Level) -> int:
    sizes = {_get_key(sample): len(sample.packed) async for sample in _read_all(source, level)}
    there = {_get_key(sample) async for sample in _read_all(target, level)}
    if there - sizes.keys():
        raise StoreError("the target has a history of its own")
    kept = _choose_newest(sizes)
    wanted = kept - there
    has_dropped = len(kept) < len(sizes) or (await source.get_extent()).since[level] != ALWAYS
    if wanted and not there and has_dropped:
        await target.note_dropped(level)
    batch: list[StoredSample] = []
    async for sample in _read_all(source, level):
        if _get_key(sample) in wanted:
            batch.append(sample)
        if len(batch) == PAGE:
            await target.add_samples(batch)
            batch = []
    if batch:
        await target.add_samples(batch)
    return len(wanted)


async def _read_all(history: History, level: Level) -> AsyncIterator[StoredSample]:
    """All samples of a level, by time."""
    last: StoredSample | None = None
    while page := await history.read_samples(level, last, PAGE):
        for sample in page:
            yield sample
        last = page[-1]


def _get_key(sample: StoredSample) -> _Key:
    return sample.at, sample.shard, sample.number


def _choose_newest(sizes: dict[_Key, int]) -> set[_Key]:
    """As many of the newest samples as a store keeps."""
    chosen: set[_Key] = set()
    total = 0
    for key, size in reversed(sizes.items()):
        total += size
        if total > MAX_HISTORY_BYTES:
            break
        chosen.add(key)
    return chosen


async def _make_ends(history: History, shard: int, now: Wall) -> list[StoredSample]:
    """What is added so that jobs are counted once from now on. Nothing, if only that one shard has a history."""
    found = [(number, list(chain)) for number, chain in groupby(await history.find_samples(now), _get_shard)]
    shards = {number: then for number, chain in found for then in rebuild(chain)}
    ends: list[StoredSample] = []
    for number, then in shards.items():
        if number != shard and then != _without_jobs(then):
            ends.append(await _make_next(history, number, now, _without_jobs(then)))
    if ends:
        whole = _add_up(shards, shards.get(shard, ShardThen(now, SampleHead())))
        ends.append(await _make_next(history, shard, now, whole))
    return ends


def _get_shard(sample: StoredSample) -> int:
    return sample.shard


def _without_jobs(then: ShardThen) -> ShardThen:
    levels = dict.fromkeys(LEVELS, 0)
    return ShardThen(then.at, replace(then.head, **levels, **dict.fromkeys(WORKER_LEVELS, 0)), is_last=True)


def _add_up(shards: Mapping[int, ShardThen], own: ShardThen) -> ShardThen:
    """A shard with the jobs of all. Its other numbers are its own. No foreman runs, so there are no workers."""
    sums = {name: sum(getattr(then.head, name) for then in shards.values()) for name in LEVELS}
    jobs = sorted((job for then in shards.values() for job in then.jobs), key=lambda job: (-job.running, job.job))
    head = replace(own.head, **sums, **dict.fromkeys(WORKER_LEVELS, 0))
    return ShardThen(own.at, head, tuple(jobs[:MAX_SAMPLED]), is_last=True)


async def _make_next(history: History, shard: int, now: Wall, then: ShardThen) -> StoredSample:
    """A sample that needs no other one, behind the last one of a shard."""
    last = await history.find_last(shard)
    number = 1 if last is None else last.sample.number + 1
    packed = encode_sample(ShardSample(then.head, then.jobs, is_last=True))
    return StoredSample(shard, number, number, number, Level.HOURLY, now, packed)
