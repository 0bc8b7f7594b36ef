"""One answer about the whole crew, from what each shard knows of it.

Every worker has a link to every shard. Its slots are the same everywhere; what it does there is added up.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce

from msgspec.structs import replace

from gandy.core.requests import ForemanStatus, KeyList, WorkerList, WorkerRow
from gandy.limits import MAX_VERSIONS


def merge_workers(here: WorkerList, others: Iterable[WorkerList]) -> WorkerList:
    """The workers that the shard here knows, with what they do for other shards."""
    lists = [{row.id: row for row in each.rows} for each in others]
    return WorkerList(
        tuple(reduce(_merge_rows, (rows[row.id] for rows in lists if row.id in rows), row) for row in here.rows)
    )


def _merge_rows(one: WorkerRow, other: WorkerRow) -> WorkerRow:
    return replace(
        one,
        slots=max(one.slots, other.slots),
        used=one.used + other.used,
        running=one.running + other.running,
        connected=one.connected or other.connected,
        draining=one.draining or other.draining,
        silent_seconds=min(one.silent_seconds, other.silent_seconds),
        calls=one.calls + other.calls,
        problem=one.problem or other.problem,
        load=one.load if one.load is not None else other.load,
        cores=one.cores or other.cores,
        memory_bytes=one.memory_bytes or other.memory_bytes,
        memory_total_bytes=one.memory_total_bytes or other.memory_total_bytes,
    )


def merge_status(here: ForemanStatus, others: Sequence[ForemanStatus]) -> ForemanStatus:
    """The status of the foreman that was asked, with the jobs and tasks of all shards."""
    everyone = [here, *others]
    return replace(
        here,
        slots=max(each.slots for each in everyone),
        used=sum(each.used for each in everyone),
        jobs=sum(each.jobs for each in everyone),
        waiting=sum(each.waiting for each in everyone),
        running=sum(each.running for each in everyone),
        assigned=sum(each.assigned for each in everyone),
        unreadable=sum(each.unreadable for each in everyone),
        versions=list_versions(version for each in everyone for version in each.versions),
    )


def list_versions(found: Iterable[str]) -> tuple[str, ...]:
    """Each version once. A peer that does not say its version has an empty one."""
    return tuple(sorted(filter(None, set(found)))[:MAX_VERSIONS])


def merge_keys(here: KeyList, others: Iterable[KeyList]) -> KeyList:
    """The keys that the shard here knows, with their links to all shards."""
    links = Counter({row.id: row.links for row in here.rows})
    for each in others:
        links.update({row.id: row.links for row in each.rows})
    return KeyList(tuple(replace(row, links=links[row.id]) for row in here.rows))
