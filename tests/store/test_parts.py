"""Tables in parts: they are made in time, dropped whole, and a transaction that was left open costs nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.postgres_stores import make_foreman
from tests.store.builders import added, claimed, ended, forgotten, job_set
from tests.store.parted import GAPS, Parted, open_parted

from gandy.core.model import Counts, JobState
from gandy.core.records import LinesAdded, ResultsDropped
from gandy.ids import TaskNumber
from gandy.store.postgres import parts as parts_module
from gandy.store.postgres.schema import FAMILIES

PARENTS = {table for tables in FAMILIES.values() for table in tables}


@pytest.fixture
def parted() -> Iterator[Parted]:
    with open_parted() as made:
        yield made


def finish(job: int) -> list[Any]:
    """A job of one task from its beginning to its end, with a result."""
    return [added(job, tasks=1), claimed(job=job), ended(job=job, result=b"x"), job_set(JobState.FINISHED, job)]


def test_a_new_store_has_one_part_of_each(parted: Parted) -> None:
    parted.keep()
    assert [parted.list_parts(family) for family in FAMILIES] == [[1]] * len(FAMILIES)


def test_an_old_part_gets_a_successor_and_an_empty_one_does_not(parted: Parted) -> None:
    parted.age()
    parted.keep()
    assert parted.list_parts("jobs") == [1]
    parted.face.commit(*finish(1))
    parted.keep()
    assert (parted.list_parts("jobs"), parted.list_parts("audit")) == ([1, 2], [1])
    parted.face.commit(*finish(2))
    keys = [key >> 40 for (key,) in parted.query("SELECT key FROM {schema}.jobs ORDER BY job")]
    assert keys == [1, 2]
    parted.face.reopen()
    assert [row.counts for row in parted.face.list_jobs()] == [Counts(finished=1)] * 2


def test_a_part_that_is_too_large_gets_a_successor(parted: Parted, monkeypatch: pytest.MonkeyPatch) -> None:
    parted.face.commit(*finish(1))
    monkeypatch.setitem(parts_module.RULES, "jobs", parts_module._Rule(1, 1e9))
    parted.keep()
    assert parted.list_parts("jobs") == [1, 2]


def test_foremen_that_find_a_part_full_make_one_successor(parted: Parted) -> None:
    schema = parted.store.crew._schema
    parted.face.runner.run(schema.make_part("jobs", 1))
    parted.face.runner.run(schema.make_part("jobs", 1))
    assert parted.list_parts("jobs") == [1, 2]


def test_a_foreman_learns_of_a_new_part_with_its_next_beat(parted: Parted) -> None:
    crew = parted.store.crew
    parted.face.runner.run(crew._schema.make_part("results", 1))
    assert crew.parts.get("results") == 1
    parted.face.runner.run(crew.beat(make_foreman(), ()))
    assert crew.parts.get("results") == 2


def test_a_part_is_dropped_when_all_its_jobs_are_forgotten(parted: Parted) -> None:
    parted.face.commit(*finish(1), *finish(2))
    parted.age()
    parted.keep()
    parted.face.commit(*finish(3), forgotten(1))
    parted.age()
    parted.keep()
    assert parted.list_parts("jobs") == [1, 2, 3]
    parted.face.commit(forgotten(2))
    parted.age()
    parted.keep()
    assert parted.list_parts("jobs") == [2, 3]
    assert [row.job for row in parted.face.list_jobs()] == [3]


def test_a_part_with_lines_of_a_job_that_is_to_come_is_kept(parted: Parted) -> None:
    parted.face.commit(LinesAdded(1, TaskNumber(1), ("a",)))
    for _ in range(2):
        parted.age()
        parted.keep()
    parted.face.commit(added(tasks=1, upload=1))
    assert parted.face.read_lines(1, 1) == ["a"]


def test_parts_of_results_are_dropped_when_none_is_kept(parted: Parted) -> None:
    parted.face.commit(*finish(1))
    parted.age()
    parted.keep()
    parted.face.commit(*finish(2), ResultsDropped(3.0))
    parted.age()
    parted.keep()
    assert parted.list_parts("results") == [1, 2, 3]  # they ended at 3.0
    parted.face.commit(ResultsDropped(4.0))
    parted.age()
    parted.keep()
    assert parted.list_parts("results") == [3]
    assert parted.face.get_task(1, job=1).state.name == "FINISHED"


def test_only_the_last_of_the_times_before_which_results_are_dropped_is_kept(parted: Parted) -> None:
    for before in (5.0, 9.0, 7.0, 8.0):
        parted.face.commit(ResultsDropped(before))
    parted.keep()
    assert parted.query("SELECT number, before FROM {schema}.drops ORDER BY 1") == [(2, 9.0), (4, 8.0)]
    parted.face.commit(ResultsDropped(10.0), *finish(1))
    parted.keep()
    assert parted.query("SELECT number, before FROM {schema}.drops") == [(5, 10.0)]
    assert [row.ending and row.ending.result for row in parted.face.list_results()] == [b"x"]  # it came later


def test_old_commits_are_dropped(parted: Parted) -> None:
    for job in range(1, 5):
        parted.face.commit(*finish(job))
        parted.age()
        parted.keep()
    assert parted.list_parts("commits") == [3, 4, 5]


def test_a_part_that_a_transaction_reads_is_dropped_later(parted: Parted) -> None:
    parted.face.commit(*finish(1))
    parted.age()
    parted.keep()
    parted.face.commit(forgotten())
    parted.age()
    with parted.connect() as db, db.transaction():
        db.execute(f"SELECT FROM {parted.schema}.ends")
        parted.keep()
        assert parted.list_parts("jobs") == [1, 2]
        parted.face.commit(*finish(2))  # nothing waits
    parted.keep()
    assert 1 not in parted.list_parts("jobs")


def test_what_a_forgotten_job_left_is_swept(parted: Parted) -> None:
    parted.face.commit(added(1, lines=("a",)), claimed(), ended(result=b"x"), added(2))
    parted.face.commit(forgotten(1))
    parted.keep()
    tables = ("changes", "claims", "ends", "lines", "results", "forgotten")
    left = {table: parted.query(f"SELECT count(*) FROM {{schema}}.{table}")[0][0] for table in tables}
    assert left == {"changes": 1, "claims": 0, "ends": 0, "lines": 0, "results": 0, "forgotten": 0}


def test_a_transaction_that_was_left_open_leaves_no_bloat(parted: Parted) -> None:
    """Nothing is updated or deleted for a task or a commit, so there is nothing that vacuum could not remove."""
    tasks = 400
    parted.face.commit(added(tasks=tasks))
    with parted.connect() as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.execute(f"SELECT count(*) FROM {parted.schema}.jobs")
        for task in range(1, tasks, 2):
            parted.face.commit(claimed(task), claimed(task + 1))
            parted.face.commit(ended(task=task, result=b"x"), ended(task=task + 1))
        parted.face.commit(job_set(JobState.FINISHED))
        holder.execute("COMMIT")
    tables = parted.query(
        "SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'"
    )
    gaps = {table: parted.query(GAPS.replace("{table}", table))[0][0] for (table,) in tables}
    assert {table for table, count in gaps.items() if count} <= {"foremen", "shards"}
    assert parted.query("SELECT count(*) FROM {schema}.ends_1") == [(tasks,)]
