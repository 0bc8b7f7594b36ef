"""Requests about workers and foremen, and what a foreman answers."""

from typing import Annotated

from msgspec import Meta, Struct

from gandy.bounds import Count, Integer, Moment, OptionalName, Seconds, SharedMoment, Text
from gandy.core.requests.base import BaseAnswer, BaseRequest, Places
from gandy.core.shards import ShardNumber
from gandy.limits import MAX_COMMANDS, MAX_LOAD, MAX_PAGE, MAX_SHARDS, MAX_TAGS, MAX_VERSIONS

Versions = Annotated[tuple[OptionalName, ...], Meta(max_length=MAX_VERSIONS)]


class ListWorkers(BaseRequest, frozen=True):
    """Answered with `WorkerList`, in the order of ids. `after` continues behind one."""

    after: Text = ""
    is_local: bool = False  # only what the shard that is asked knows; from a foreman to another


class StopWorker(BaseRequest, frozen=True):
    """Answered with `Done`. By name or id; without `immediate`, its tasks end first."""

    worker: Text
    immediate: bool = False


class GetStatus(BaseRequest, frozen=True):
    """Answered with `Status`."""

    is_local: bool = False  # only what the shard that is asked knows; from a foreman to another


class GetTime(BaseRequest, frozen=True):
    """Answered with `Time`, if the foreman knows the shared time."""


class StopForeman(BaseRequest, frozen=True):
    """Answered with `Done`, then the foreman stops. With `drain`, workers finish their tasks and leave too."""

    drain: bool = False


class ListForemen(BaseRequest, frozen=True):
    """Answered with `ForemanList`: all foremen of the crew."""


class DrainForeman(BaseRequest, frozen=True):
    """Answered with `Done`, when the foreman has handed over all that it owns. Then it stops."""

    foreman: OptionalName = ""  # its id or name; empty: the one that is asked


class LookAtShards(BaseRequest, frozen=True):
    """Answered with `Done`. From a foreman to another: what you own has changed, so look now."""


class WorkerRow(Struct, frozen=True):
    """A worker as it is listed."""

    id: Text
    name: Text
    slots: Count
    used: Count
    running: Integer
    tags: Annotated[tuple[Text, ...], Meta(max_length=MAX_TAGS)]
    connected: bool
    draining: bool
    silent_seconds: Seconds  # since its last message
    calls: Count = 0  # of commands, in progress
    commands: Annotated[tuple[Text, ...], Meta(max_length=MAX_COMMANDS)] = ()  # that it offers
    knows_time: bool = False  # the shared one, and so it can begin things at a time
    problem: str = ""  # what it is short of, and so uses fewer slots than it has
    version: Text = ""  # of gandy; empty if the worker does not say, as a plain one
    # Of its machine; None if the worker is away or does not say.
    load: Annotated[float, Meta(ge=0, le=MAX_LOAD)] | None = None  # processes that run or wait to run, over a minute
    cores: Count | None = None
    memory_bytes: Count | None = None  # in use
    memory_total_bytes: Count | None = None


class WorkerList(BaseAnswer, frozen=True):
    rows: Annotated[tuple[WorkerRow, ...], Meta(max_length=MAX_PAGE)]


class ForemanStatus(BaseAnswer, frozen=True, tag="Status"):
    version: Text
    pid: Count
    uptime_seconds: Seconds
    store: Text
    trouble: Text  # what the store complains about, or nothing
    listening: Places
    insecure: bool
    workers: Count
    slots: Count
    used: Count
    jobs: Count  # that are not final
    waiting: Integer  # tasks
    running: Integer
    insecure_doors: Places = ()  # of those in `listening`, the ones without keys
    unreadable: Count = 0  # jobs that cannot be read and were set aside
    assigned: Integer = 0  # tasks that workers have, and have not begun
    foremen: Count = 1  # of the crew
    shard: Count = 0  # of the crew's jobs, that the foreman was asked at; 0: it has a store of its own
    foreman: OptionalName = ""  # its id, new for each start
    versions: Versions = ()  # of gandy, of the foreman and of workers that are connected and say theirs


class ForemanRow(Struct, frozen=True):
    """A foreman as it is listed."""

    id: Text
    name: Text
    version: Text
    places: Places
    shards: Annotated[tuple[ShardNumber, ...], Meta(max_length=MAX_SHARDS)]  # that it owns
    jobs: Count  # of these shards, that are not final
    lease_seconds: Moment  # until the first of its leases expires; below zero: one has
    silent_seconds: Seconds  # since it last told the database that it is there
    is_leaving: bool = False
    is_here: bool = False  # it is the one that was asked
    is_gone: bool = False  # it is silent, and other foremen have taken over what it owned


class ForemanList(BaseAnswer, frozen=True):
    rows: Annotated[tuple[ForemanRow, ...], Meta(max_length=MAX_SHARDS)]


class Time(BaseAnswer, frozen=True):
    """What the shared time was when the foreman answered."""

    shared: SharedMoment
