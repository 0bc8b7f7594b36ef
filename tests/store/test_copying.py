"""A copy of a store answers everything as the original does."""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.postgres_stores import make_schema, shared_postgres
from tests.store.builders import (
    Blocking,
    a_spec,
    added,
    began,
    blocking,
    claimed,
    closed,
    ended,
    forgotten,
    job_set,
    opened,
    tasks_added,
    tasks_set,
)
from tests.store.chance import next_record

from gandy.core.model import JobState, PythonSpec, TaskState
from gandy.core.records import JobAdded
from gandy.errors import StoreError
from gandy.ids import JobId
from gandy.store import make_lone_store
from gandy.store.base import Store
from gandy.store.copying import Progress, copy_store

WAITING, RUNNING, FINISHED, FAILED, CANCELLED, ASSIGNED = TaskState

KINDS: dict[str, Callable[[Path, int], str]] = {
    "sqlite": lambda folder, number: f"sqlite:{folder}/jobs-{number}.db",
    "postgres": lambda folder, number: shared_postgres().url(make_schema()),
}


def copy(source: Store, target: Store) -> tuple[Progress, list[Progress]]:
    told: list[Progress] = []
    return asyncio.run(copy_store(source, target, told.append)), told


def fill(store: Blocking) -> None:
    """Some of everything that can happen to a job."""
    store.commit(
        added(1, lines=("a", "b\n", "ä")), claimed(1), ended(WAITING, failures=1, due=9.0), claimed(2), began(2)
    )
    store.commit(added(2, tasks=5), claimed(1, job=2), ended(FAILED, job=2, failures=2), tasks_set(CANCELLED, job=2))
    store.commit(tasks_set(WAITING, 1, job=2), claimed(1, 2, job=2), tasks_set(FINISHED, 2, job=2))
    python = a_spec(0, has_lines=True, is_open=True, python=PythonSpec(shared=b"f"))
    store.commit(JobAdded(JobId(3), python, 1.0), tasks_added(1, b"x", b"\0", b"z", job=3))
    store.commit(*(claimed(task, job=3) for task in (1, 2)), ended(job=3, result=b"one"), ended(WAITING, 2, job=3))
    store.commit(opened(4), tasks_added(1, b"x", job=4), closed(4), claimed(job=4), ended(job=4))
    store.commit(job_set(JobState.FINISHED, 4), added(5, tasks=0), JobAdded(JobId(6), a_spec(held=True), 2.0))
    store.commit(added(8, tasks=300), *(claimed(task, job=8) for task in range(1, 251)))
    store.commit(
        *(ended(task=task, job=8) for task in range(1, 240)), tasks_set(CANCELLED, 3, 260, job=8), forgotten(8)
    )
    store.commit(added(9, tasks=300), *(claimed(task, job=9) for task in range(1, 251)))
    store.commit(*(ended(task=task, job=9) for task in range(1, 240)), tasks_set(CANCELLED, 3, 245, 260, job=9))
    store.commit(added(10), forgotten(10))


def fill_by_chance(store: Blocking, seed: int) -> None:
    random = Random(seed)
    store.commit(
        added(1, tasks=4), added(2, tasks=3, lines=("a", "b", "c")), opened(3), tasks_added(1, b"x", b"y", job=3)
    )
    for _ in range(120):
        job = random.randint(1, 3)
        for row in store.list_tasks(job, limit=1, after=random.randint(0, 3)):
            store.commit(next_record(row, job, random))


def read_all(store: Blocking) -> list[object]:
    found: list[object] = [store.reopen().next_job, store.list_jobs()]
    for row in store.list_jobs():
        job = row.job
        found += [store.load_job(job), store.list_tasks(job, limit=1_000), store.read_lines(1, 1_000, job)]
        found += [store.list_attempts(task.task, job) for task in store.list_tasks(job, limit=1_000)]
        if row.spec.python is not None:
            found.append(store.list_results(job))
    return found


@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
def test_a_copy_is_like_the_original(tmp_path: Path, first: str, second: str) -> None:
    urls = KINDS[first](tmp_path, 1), KINDS[second](tmp_path, 2)
    with blocking(make_lone_store(urls[0])) as store:
        fill(store)
    done, told = copy(*map(make_lone_store, urls))
    assert (done.jobs, done.tasks, done.unreadable) == (7, 3 + 5 + 3 + 1 + 0 + 3 + 300, ())
    assert told[-1] == done
    with blocking(make_lone_store(urls[0])) as store, blocking(make_lone_store(urls[1])) as copied:
        for ours, theirs in zip(read_all(store), read_all(copied), strict=True):
            assert ours == theirs


@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
def test_a_submission_that_comes_again_after_the_move_is_known(tmp_path: Path, first: str, second: str) -> None:
    urls = KINDS[first](tmp_path, 1), KINDS[second](tmp_path, 2)
    with blocking(make_lone_store(urls[0])) as store:
        store.commit(added(1, key=77), added(2), opened(3, key=2**62), tasks_added(1, b"x", job=3))
    copy(*map(make_lone_store, urls))
    with blocking(make_lone_store(urls[1])) as copied:
        assert [copied.find_submission(key) for key in (77, 2**62, 78)] == [1, 3, None]


@pytest.mark.parametrize("seed", range(8))
def test_a_copy_of_anything_is_like_the_original(tmp_path: Path, seed: int) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["postgres"](tmp_path, 2)
    with blocking(make_lone_store(urls[0])) as store:
        fill_by_chance(store, seed)
    copy(*map(make_lone_store, urls))
    with blocking(make_lone_store(urls[0])) as store, blocking(make_lone_store(urls[1])) as copied:
        for row in store.list_jobs():
            assert copied.list_tasks(row.job) == store.list_tasks(row.job)
            for task in store.list_tasks(row.job):
                assert copied.list_attempts(task.task, row.job) == store.list_attempts(task.task, row.job)
        assert copied.list_jobs() == store.list_jobs()


def test_a_target_with_jobs_is_refused(tmp_path: Path) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["postgres"](tmp_path, 2)
    for url in urls:
        with blocking(make_lone_store(url)) as store:
            store.commit(added())
    with pytest.raises(StoreError, match="has jobs already"):
        copy(*map(make_lone_store, urls))


def test_a_crew_with_a_foreman_is_refused(tmp_path: Path) -> None:
    url = KINDS["postgres"](tmp_path, 1)
    with blocking(make_lone_store(url)), pytest.raises(StoreError, match="stop all foremen first"):
        copy(make_lone_store(KINDS["sqlite"](tmp_path, 2)), make_lone_store(url))


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["postgres"](tmp_path, 2)
    with blocking(make_lone_store(urls[0])) as store:
        fill(store)

    def interrupt(progress: Progress) -> None:
        if progress.jobs == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(copy_store(make_lone_store(urls[0]), make_lone_store(urls[1]), interrupt))
    with blocking(make_lone_store(urls[1])) as copied:
        assert copied.list_jobs() == []
    assert copy(*map(make_lone_store, urls))[0].jobs == 7


def test_the_command_prints_what_it_copied(tmp_path: Path) -> None:
    urls = KINDS["sqlite"](tmp_path, 1), KINDS["postgres"](tmp_path, 2)
    with blocking(make_lone_store(urls[0])) as store:
        fill(store)
    command = [sys.executable, "-m", "gandy", "store", "copy", *urls, "--output", "json"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)
    assert (told["jobs"], told["tasks"], told["unreadable"]) == (7, 315, [])
    assert told["from"] == urls[0]
    again = subprocess.run(command, capture_output=True, check=False)
    assert again.returncode == 1
    assert b"has jobs already" in again.stderr
