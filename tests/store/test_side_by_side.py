"""Random records into two stores at once: whatever is asked afterwards, both give the same answer."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.store.builders import (
    MAKERS,
    Blocking,
    added,
    attempt_key,
    began,
    claimed,
    closed,
    ended,
    forgotten,
    job_set,
    opened,
    tasks_added,
    tasks_set,
)
from tests.store.chance import SETTABLE, next_record

from gandy.core.model import GIVEN_STATES, Counts, JobState, TaskState
from gandy.core.records import Claimed, JobAdded, Record, ResultsDropped
from gandy.core.rows import TaskRow
from gandy.errors import StoreError
from gandy.store.base import Store
from gandy.store.memory import MemoryStore

QUICK_DISK = Path("/dev/shm")  # durability is tested elsewhere; here it would only cost time

# Few of each, so that records often meet.
JOBS = (1, 2, 3)
jobs = st.sampled_from(JOBS)
tasks = st.integers(0, 6)
attempts = st.integers(0, 4)
times = st.integers(0, 100).map(float)
few = st.integers(0, 3)
given = st.sampled_from(sorted(GIVEN_STATES))
settable = st.sampled_from(SETTABLE)
task_filters = st.none() | st.sets(st.sampled_from(TaskState))
job_filters = st.none() | st.sets(st.sampled_from(JobState))
lines = st.lists(st.text(max_size=3), max_size=5).map(tuple)


def set_some(state: TaskState, some: list[int], job: int, at: float) -> Record:
    return tasks_set(state, *some, job=job, at=at)


def add_some(first: int, inputs: list[bytes], job: int, at: float) -> Record:
    return tasks_added(first, *inputs, job=job, at=at)


def claim_range(job: int, first: int, count: int, attempt: int, at: float, state: TaskState) -> Record:
    return Claimed("w", tuple(attempt_key(task, attempt, job) for task in range(first, first + count)), at, state)


additions = st.builds(added, job=jobs, tasks=st.integers(0, 5), at=times, lines=lines)
keys = {"task": tasks, "attempt": attempts, "job": jobs}
openings = st.builds(opened, job=jobs, at=times)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(add_some, st.integers(1, 9), st.lists(st.binary(max_size=3), max_size=3), jobs, times),
    st.builds(closed, job=jobs, at=times),
    st.builds(ended, state=settable, at=times, result=st.binary(max_size=3), before=given, **keys),
    st.builds(ResultsDropped, times),
    st.builds(claimed, worker=st.sampled_from("ab"), at=times, state=given, **keys),
    st.builds(began, worker=st.sampled_from("ab"), at=times, **keys),
    st.builds(ended, state=settable, at=times, due=times, failures=few, crashes=few, before=given, **keys),
    st.builds(set_some, settable, st.lists(tasks, max_size=3), jobs, times),
    st.builds(job_set, state=st.sampled_from(JobState), job=jobs, held=st.booleans(), at=times),
)


class SideBySide(RuleBasedStateMachine):
    make_other: Callable[[Path], Store]

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=QUICK_DISK if QUICK_DISK.is_dir() else None)
        self.memory = Blocking(MemoryStore())
        self.other = Blocking(self.make_other(Path(self.folder.name)))
        assert self.memory.open() == self.other.open()
        self.is_checked = False  # since the last rule that changes something
        self.commit(added(1, tasks=3), added(2, tasks=4), opened(3))

    def teardown(self) -> None:
        for store in (self.memory, self.other):
            store.close()
            store.runner.close()
        self.folder.cleanup()

    def commit(self, *batch: Record) -> None:
        self.is_checked = False
        assert self.memory.commit(*batch) == self.other.commit(*batch)

    @rule(batch=st.lists(records, max_size=6))
    def commit_anything(self, batch: list[Record]) -> None:
        self.commit(*batch)

    @rule(claims=st.lists(st.tuples(jobs, tasks, st.integers(1, 5), attempts, times, given), min_size=2, max_size=6))
    def claim_many(self, claims: list[tuple[int, int, int, int, float, TaskState]]) -> None:
        self.commit(*(claim_range(*claim) for claim in claims))

    @rule(job=jobs, inputs=st.lists(st.binary(max_size=3), min_size=1, max_size=3), at=times)
    def grow(self, job: int, inputs: list[bytes], at: float) -> None:
        row = self.memory.find_job(job)
        if row is not None:
            self.commit(tasks_added(row.spec.tasks + 1, *inputs, job=job, at=at))

    @rule(record=additions | openings, batch=st.lists(records, max_size=3))
    def add_job(self, record: JobAdded, batch: list[Record]) -> None:
        self.try_commit(record, *batch)

    def try_commit(self, *batch: Record) -> None:
        """Both do it, or both refuse it because there is such a job."""
        self.is_checked = False
        results: list[object] = []
        for store in (self.memory, self.other):
            try:
                results.append(store.commit(*batch))
            except StoreError as error:
                results.append(error.retryable)
        assert results[0] == results[1]

    @rule(job=jobs, batch=st.lists(records, max_size=3), again=st.none() | additions)
    def forget(self, job: int, batch: list[Record], again: JobAdded | None) -> None:
        self.try_commit(forgotten(job), *batch, *([again] if again else []))

    @rule(job=jobs, random=st.randoms(use_true_random=True))
    def live(self, job: int, random: Random) -> None:
        """A long walk reaches what single records seldom do."""
        for _ in range(40):
            for row in self.memory.list_tasks(job, limit=1, after=random.randint(0, 2)):
                self.commit(next_record(row, job, random))
            assert self.memory.list_results(job) == self.other.list_results(job)

    @rule()
    def restart(self) -> None:
        self.is_checked = False
        assert self.memory.reopen() == self.other.reopen()

    @rule(job=jobs, states=task_filters, limit=st.integers(0, 7), after=tasks)
    def list_some_tasks(self, job: int, states: set[TaskState] | None, limit: int, after: int) -> None:
        ours, theirs = (store.list_tasks(job, states, limit, after) for store in (self.memory, self.other))
        assert ours == theirs

    @rule(states=job_filters, limit=st.integers(0, 4), before=st.none() | jobs)
    def list_some_jobs(self, states: set[JobState] | None, limit: int, before: int | None) -> None:
        assert self.memory.list_jobs(states, limit, before) == self.other.list_jobs(states, limit, before)

    @rule(job=jobs, limit=st.integers(0, 7), after=tasks)
    def list_some_results(self, job: int, limit: int, after: int) -> None:
        assert self.memory.list_results(job, limit, after) == self.other.list_results(job, limit, after)

    @rule(job=jobs, first=st.integers(1, 6), count=st.integers(0, 6))
    def read_some_lines(self, job: int, first: int, count: int) -> None:
        assert self.memory.read_lines(first, count, job) == self.other.read_lines(first, count, job)

    @invariant()
    def jobs_and_tasks_are_the_same(self) -> None:
        if self.is_checked:
            return
        self.is_checked = True
        assert self.memory.list_jobs() == self.other.list_jobs()
        assert self.memory.find_states(range(20)) == self.other.find_states(range(20))
        for row in self.memory.list_jobs():
            assert self.memory.load_job(row.job) == self.other.load_job(row.job)
            listed = self.memory.list_tasks(row.job)
            assert listed == self.other.list_tasks(row.job)
            assert row.counts == _count(listed)
            for task in listed:
                ours = self.memory.list_attempts(task.task, row.job)
                assert ours == self.other.list_attempts(task.task, row.job)
                assert [attempt.attempt for attempt in ours] == list(range(1, task.attempt + 1))


def _count(rows: list[TaskRow]) -> Counts:
    states = [row.state for row in rows]
    return Counts(*(states.count(state) for state in TaskState))


class SqliteBesideMemory(SideBySide):
    make_other = staticmethod(MAKERS["sqlite"])


class PostgresBesideMemory(SideBySide):
    make_other = staticmethod(MAKERS["postgres"])


TestSqlite = SqliteBesideMemory.TestCase
TestSqlite.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=20)
TestPostgres = PostgresBesideMemory.TestCase
TestPostgres.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=20)
