"""One answer about the crew from what each shard knows."""

from gandy.core.merging import list_versions, merge_keys, merge_status, merge_workers
from gandy.core.requests import ForemanStatus, KeyList, KeyRow, WorkerList, WorkerRow
from gandy.limits import MAX_VERSIONS
from gandy.moments import Wall


def a_worker(name: str, **changes: object) -> WorkerRow:
    fields: dict[str, object] = {
        "id": name,
        "name": name,
        "slots": 4,
        "used": 1,
        "running": 1,
        "tags": (),
        "connected": True,
        "draining": False,
        "silent_seconds": 2.0,
    }
    return WorkerRow(**fields | changes)  # type: ignore[arg-type]


def test_what_a_worker_does_for_all_shards_is_added_up() -> None:
    here = WorkerList((a_worker("a", connected=False), a_worker("b")))
    others = [
        WorkerList((a_worker("a", slots=6, used=2, calls=1, silent_seconds=1.0, problem="files"),)),
        WorkerList(()),
    ]
    merged = merge_workers(here, others)
    assert merged.rows == (
        a_worker("a", slots=6, used=3, running=2, calls=1, silent_seconds=1.0, problem="files"),
        a_worker("b"),
    )


def test_how_busy_a_machine_is_comes_from_a_shard_that_was_told() -> None:
    told = a_worker("a", load=0.0, cores=8, memory_bytes=5, memory_total_bytes=9)
    (row,) = merge_workers(WorkerList((a_worker("a"),)), [WorkerList((told,))]).rows
    assert (row.load, row.cores, row.memory_bytes, row.memory_total_bytes) == (0.0, 8, 5, 9)
    (row,) = merge_workers(WorkerList((told,)), [WorkerList((a_worker("a", load=1.0),))]).rows
    assert (row.load, row.cores) == (0.0, 8)


def a_key(name: str, links: int) -> KeyRow:
    return KeyRow(name, name, "client", "good", Wall(0.0), None, "invitation", links)


def test_the_links_of_a_key_to_all_shards_are_added_up() -> None:
    here = KeyList((a_key("anna", 0), a_key("ben", 1)))
    others = [KeyList((a_key("ben", 2), a_key("anna", 1), a_key("new", 1))), KeyList((a_key("anna", 1),))]
    assert merge_keys(here, others) == KeyList((a_key("anna", 2), a_key("ben", 3)))


def test_the_status_counts_the_jobs_of_all_shards_and_the_workers_once() -> None:
    here = ForemanStatus("1", 5, 9.0, "x", "", (), False, 2, 8, 3, 1, 10, 3, assigned=2, shard=1, versions=("1", "2"))
    other = ForemanStatus(
        "1", 6, 9.0, "x", "", (), False, 2, 8, 1, 2, 20, 1, assigned=1, unreadable=1, shard=2, versions=("1", "3")
    )
    merged = merge_status(here, [other])
    assert (merged.workers, merged.slots, merged.used, merged.jobs) == (2, 8, 4, 3)
    assert (merged.waiting, merged.running, merged.assigned, merged.unreadable) == (30, 4, 3, 1)
    assert (merged.pid, merged.shard) == (5, 1)
    assert merged.versions == ("1", "2", "3")


def test_versions_are_listed_once_and_no_more_than_fit() -> None:
    assert list_versions(("2", "", "1", "2")) == ("1", "2")
    assert len(list_versions(map(str, range(1_000)))) == MAX_VERSIONS
