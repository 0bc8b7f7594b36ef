"""Samples: how a shard of the crew stood at a moment, in a few bytes. Decides nothing.

A keyframe has everything. Each sample after it has what has changed since the one before: see `core.sampling`, which
makes them, and `core.history`, which reads them. All of them count what has happened since the history began.
"""

from collections.abc import Mapping
from enum import IntEnum
from math import inf
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec
from msgspec import Meta, Struct

from gandy.bounds import BROKEN, Count, JobNumber, WallMoment
from gandy.core.model import Counts, JobState
from gandy.core.shards import ShardNumber
from gandy.limits import MAX_HOURLY, MAX_KEYFRAMES, MAX_NAME, MAX_SAMPLED, MAX_SAMPLES
from gandy.moments import Wall


class Level(IntEnum):
    """How long a sample is kept. One of a higher level is also one of the lower levels."""

    SAMPLE = 0
    KEYFRAME = 1
    HOURLY = 2


# Seconds from one sample of each level to the next, while anything changes; and how many a store keeps.
PERIODS: Final[Mapping[Level, float]] = MappingProxyType(
    {Level.SAMPLE: 10.0, Level.KEYFRAME: 300.0, Level.HOURLY: 3_600.0}
)
KEPT: Final[Mapping[Level, int]] = MappingProxyType(
    {Level.SAMPLE: MAX_SAMPLES, Level.KEYFRAME: MAX_KEYFRAMES, Level.HOURLY: MAX_HOURLY}
)

# Bits of the flags of a job, and of those of a worker.
HELD, OPEN, GONE = 1, 2, 4
CONNECTED, DRAINING, SHORT, LEFT = 1, 2, 4, 8

_Flags = Annotated[int, Meta(ge=0, le=15)]
ALWAYS: Final = Wall(-inf)  # none was ever dropped

_MOST_NAMED: Final = 2 * MAX_SAMPLED  # as many leave and come between two samples


class SampledJob(Struct, frozen=True, array_like=True):
    """A job that is not final, or has left the memory since the last sample."""

    job: JobNumber
    state: JobState
    flags: _Flags
    waiting: Count
    running: Count
    finished: Count
    failed: Count
    cancelled: Count
    assigned: Count

    @property
    def counts(self) -> Counts:
        return Counts(self.waiting, self.running, self.finished, self.failed, self.cancelled, self.assigned)


class SampledWorker(Struct, frozen=True, array_like=True):
    """A worker. `used` slots are those of tasks and calls of this shard."""

    id: Annotated[str, Meta(max_length=MAX_NAME)]
    slots: Count
    used: Count
    flags: _Flags
    name: Annotated[str, Meta(max_length=MAX_NAME)] = ""  # empty: the one that its id has


class WorkerChange(Struct, frozen=True, array_like=True):
    """What is different about a worker: the one at this place among all that were named since the keyframe."""

    place: Count
    slots: Count
    used: Count
    flags: _Flags


class SampleHead(Struct, frozen=True, array_like=True):
    """The numbers of a sample."""

    # Since the history of the shard began. If a number falls, it began anew.
    finished: Count = 0  # tasks
    failed: Count = 0
    cancelled: Count = 0  # while a worker had them
    repeated: Count = 0  # attempts after which the task waited again
    lost: Count = 0  # attempts that were lost with their worker
    calls: Count = 0  # that have ended
    used_seconds: Count = 0  # slots in use, times seconds
    # At this moment.
    unfinished: Count = 0  # jobs
    waiting: Count = 0  # tasks
    assigned: Count = 0
    running: Count = 0
    calls_waiting: Count = 0
    workers: Count = 0  # that are connected
    slots: Count = 0
    used: Count = 0


class _Numbers(Struct, frozen=True, array_like=True, tag=1):
    """A sample, of which only the numbers are read. A change of the fields of samples needs another tag."""

    head: SampleHead


class ShardSample(_Numbers, frozen=True, array_like=True, tag=1):
    """A sample. A keyframe names all jobs and workers, as far as they fit; any other, those that have changed."""

    jobs: Annotated[tuple[SampledJob, ...], Meta(max_length=_MOST_NAMED)] = ()
    new: Annotated[tuple[SampledWorker, ...], Meta(max_length=_MOST_NAMED)] = ()
    changed: Annotated[tuple[WorkerChange, ...], Meta(max_length=_MOST_NAMED)] = ()
    is_last: bool = False  # the foreman stopped


class StoredSample(Struct, frozen=True):
    """A sample, and where it belongs. Numbers grow within a shard, whatever the clock does."""

    shard: ShardNumber
    number: Count
    run: Count  # the number of the first sample since the foreman started, or the wall clock was stepped
    base: Count  # the number of the keyframe that it builds on; its own, if it is one
    level: Level
    at: WallMoment
    packed: bytes


class LastSample(Struct, frozen=True):
    """Where the history of a shard ends."""

    sample: StoredSample
    hourly: WallMoment | None = None  # when its last hourly sample was made


class Extent(NamedTuple):
    """What history there is: since when all samples of each level are kept, and of how many shards."""

    since: tuple[Wall, Wall, Wall] = (ALWAYS, ALWAYS, ALWAYS)
    shards: int = 1


class StoredHistory(Protocol):
    """What can be read of the history in a store: of all shards. Every method may raise StoreError."""

    async def get_extent(self) -> Extent: ...

    async def list_samples(self, level: Level, begin: Wall, end: Wall, step: float) -> list[StoredSample]:
        """Samples of a level and those above it, by shard and number: the last of each run of a shard in each `step`
        seconds from `begin` to `end`, and before these the last of each shard before `begin`."""

    async def find_samples(self, at: Wall) -> list[StoredSample]:
        """The last sample of each shard up to a time, behind all that it builds on; by shard and number."""

    async def read_samples(self, level: Level, after: StoredSample | None, limit: int) -> list[StoredSample]:
        """Samples of this level alone, by time, shard and number; `after` continues behind one."""


encode_sample: Final = msgspec.msgpack.Encoder().encode
_decode_numbers: Final = msgspec.msgpack.Decoder(_Numbers).decode
_decode_sample: Final = msgspec.msgpack.Decoder(ShardSample).decode


def decode_head(packed: bytes) -> SampleHead | None:
    """None: it is damaged, or of a newer gandy."""
    try:
        return _decode_numbers(packed).head
    except BROKEN:
        return None


def decode_sample(packed: bytes) -> ShardSample | None:
    """None: it is damaged, or of a newer gandy."""
    try:
        return _decode_sample(packed)
    except BROKEN:
        return None
