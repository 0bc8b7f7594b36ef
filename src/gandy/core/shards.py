"""Shards: parts of a crew's jobs, for crews with many foremen. Opens nothing and reads no clock.

A shard is a whole foreman that any process can run: it has its own jobs, its own links to all workers, and one owner at
a time, by a lease with an epoch. When a foreman dies, another takes over its shards as if it were that foreman,
started again.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from gandy.bounds import Count, JobNumber, Name, OptionalName, Seconds, Slots, Text
from gandy.ids import JobId
from gandy.limits import MAX_PLACES, MAX_PRIORITY, MAX_SHARDS

NO_SHARD: Final = 0  # of a crew with a single foreman

ShardNumber = Annotated[int, Meta(ge=0, le=MAX_SHARDS)]
Places = Annotated[tuple[Text, ...], Meta(max_length=MAX_PLACES)]  # addresses, the most likely first


class Lease(Struct, frozen=True):
    """Who owns a shard, and for how long. Every commit names the epoch: it grows with each change of the owner."""

    shard: ShardNumber
    epoch: Count
    owner: OptionalName  # the id of a foreman; empty if no foreman owns it
    seconds_left: float = 0.0  # by the clock of the database when it was read; below zero if it has expired


class ForemanPlace(Struct, frozen=True):
    """A foreman of the crew: where it is, and when it was last heard of."""

    id: Name  # new for each start
    name: Name  # of its machine, for people
    version: Text
    places: Places
    machine: OptionalName = ""  # names of sockets mean something on this one only; it changes when it is booted
    is_leaving: bool = False  # it hands over what it owns, and takes nothing
    silent_seconds: Seconds = 0.0  # since it last told the database that it is there


class CrewView(Struct, frozen=True):
    """What the database knows of the foremen of a crew, all at one moment."""

    foremen: tuple[ForemanPlace, ...] = ()
    leases: tuple[Lease, ...] = ()
    ring_version: int = 0  # of the keyring; it grows with each change


class ShardPlace(Struct, frozen=True):
    """Where a shard can be reached. Of two, the one with the higher epoch is true."""

    shard: ShardNumber
    epoch: Count
    places: Places


class Directory(Struct, frozen=True):
    """Where all shards and foremen of the crew are. Sent to workers, again after each change."""

    here: ShardNumber  # the shard at whose link this is sent
    shards: Annotated[tuple[ShardPlace, ...], Meta(max_length=MAX_SHARDS)] = ()
    foremen: Annotated[tuple[Places, ...], Meta(max_length=MAX_SHARDS)] = ()
    # Shards that no foreman can be reached for now. One that is not named at all is retired: its jobs have ended.
    ownerless: Annotated[tuple[ShardNumber, ...], Meta(max_length=MAX_SHARDS)] = ()


class Want(Struct, frozen=True):
    """What a shard wants of a worker: slots for tasks that wait, and the rank of the best of them.

    A worker shares its slots among shards by rank: a higher priority first, then the job that was submitted earlier.
    Numbers of jobs grow over the whole crew.
    """

    slots: Slots = 0  # beside those that its tasks hold there already; 0: none of its tasks waits for this worker
    priority: Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0
    job: JobNumber = JobId(0)
