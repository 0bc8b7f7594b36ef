"""Stores to test, a blocking face for them, and short ways to make records."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace
from tests.postgres_stores import make_shard_store

from gandy.core.model import AttemptKey, Cause, Counts, Ending, Input, JobSpec, JobState, TaskState
from gandy.core.records import (
    Began,
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    OpenJobClosed,
    Record,
    TasksAdded,
    TasksSet,
)
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_STATES
from gandy.store.base import Store
from gandy.store.memory import MemoryStore
from gandy.store.sqlite import SqliteStore

# Each makes a store for a folder. What was closed can be opened again.
MAKERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "jobs.db"),
    "postgres": lambda folder: make_shard_store(),
}

WELL = Ending(cause=Cause.EXIT, exit_code=0, started=2.5, ended=2.9, peak_memory_bytes=4096)
BADLY = Ending(cause=Cause.SIGNAL, signal=9, tail=b"out of \xff memory", note="by the kernel")


class Blocking:
    """A store without `await`, and with the arguments that most tests leave out."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.runner = asyncio.Runner()

    def open(self) -> Recovered:
        return self.runner.run(self.store.open())

    def close(self) -> None:
        self.runner.run(self.store.close())

    def reopen(self) -> Recovered:
        self.close()
        return self.open()

    def commit(self, *records: Record) -> frozenset[AttemptKey]:
        return self.runner.run(self.store.commit(records))

    def prepare(self) -> None:
        self.runner.run(self.store.prepare())

    def find_job(self, job: int = 1) -> JobRow | None:
        return self.runner.run(self.store.find_job(JobId(job)))

    def find_submission(self, key: int) -> JobId | None:
        return self.runner.run(self.store.find_submission(key))

    def get_submission(self, job: int = 1) -> int:
        return self.runner.run(self.store.get_submission(JobId(job)))

    def find_shard(self, job: int = 1) -> int | None:
        return self.runner.run(self.store.find_shard(JobId(job)))

    def draw_number(self) -> JobId | None:
        return self.runner.run(self.store.draw_number())

    def load_job(self, job: int = 1) -> RecoveredJob | None:
        return self.runner.run(self.store.load_job(JobId(job)))

    def get_job(self, job: int = 1) -> JobRow:
        found = self.find_job(job)
        assert found is not None
        return found

    def get_counts(self, job: int = 1) -> Counts:
        return self.get_job(job).counts

    def find_states(self, jobs: Iterable[int]) -> dict[JobId, JobState]:
        return self.runner.run(self.store.find_states([JobId(job) for job in jobs]))

    def list_jobs(
        self, states: Iterable[JobState] | None = None, limit: int = 100, before: int | None = None
    ) -> list[JobRow]:
        wanted = None if states is None else frozenset(states)
        return self.runner.run(self.store.list_jobs(wanted, limit, None if before is None else JobId(before)))

    def list_tasks(
        self, job: int = 1, states: Iterable[TaskState] | None = None, limit: int = 100, after: int = 0
    ) -> list[TaskRow]:
        wanted = None if states is None else frozenset(states)
        return self.runner.run(self.store.list_tasks(JobId(job), wanted, limit, TaskNumber(after)))

    def list_states(self, job: int = 1) -> list[TaskState]:
        return [row.state for row in self.list_tasks(job)]

    def get_task(self, task: int = 1, job: int = 1) -> TaskRow:
        (row,) = self.list_tasks(job, limit=1, after=task - 1)
        return row

    def find_tasks(self, *tasks: int, job: int = 1) -> list[TaskRow]:
        return self.runner.run(self.store.find_tasks(JobId(job), list(map(TaskNumber, tasks))))

    def read_states(self, job: int = 1, first: int = 1, most: int = MAX_STATES) -> tuple[int, bytes] | None:
        return self.runner.run(self.store.read_states(JobId(job), TaskNumber(first), most))

    def list_attempts(self, task: int = 1, job: int = 1) -> list[TaskRow]:
        return self.runner.run(self.store.list_attempts(JobId(job), TaskNumber(task)))

    def list_results(self, job: int = 1, limit: int = 100, after: int = 0) -> list[TaskRow]:
        return self.runner.run(self.store.list_results(JobId(job), limit, TaskNumber(after)))

    def read_lines(self, first: int, count: int, job: int = 1) -> list[Input]:
        return self.runner.run(self.store.read_lines(JobId(job), TaskNumber(first), count))


@contextmanager
def blocking(store: Store) -> Iterator[Blocking]:
    """The store, open until the end of the block."""
    face = Blocking(store)
    with face.runner:
        face.open()
        try:
            yield face
        finally:
            face.close()


def a_spec(tasks: int = 3, **more: object) -> JobSpec:
    return JobSpec(command="true", tasks=tasks, **more)  # type: ignore[arg-type]  # names are checked when it runs


def added(
    job: int = 1, tasks: int = 3, at: float = 1.0, lines: tuple[str, ...] = (), upload: int = 0, key: int = 0
) -> JobAdded:
    count = len(lines) or tasks
    return JobAdded(JobId(job), a_spec(count, has_lines=bool(lines or upload)), at, lines, upload, key)


def opened(job: int = 1, tasks: int = 0, at: float = 1.0, key: int = 0) -> JobAdded:
    return JobAdded(JobId(job), a_spec(tasks, has_lines=True, is_open=True), at, key=key)


def tasks_added(first: int, *inputs: bytes, job: int = 1, at: float = 1.5) -> TasksAdded:
    return TasksAdded(JobId(job), TaskNumber(first), inputs, at)


def closed(job: int = 1, at: float = 5.0) -> OpenJobClosed:
    return OpenJobClosed(JobId(job), at)


def attempt_key(task: int = 1, attempt: int = 1, job: int = 1) -> AttemptKey:
    return AttemptKey(JobId(job), TaskNumber(task), attempt)


def claimed(
    task: int = 1,
    attempt: int = 1,
    job: int = 1,
    worker: str = "w",
    at: float = 2.0,
    state: TaskState = TaskState.ASSIGNED,
) -> Claimed:
    return Claimed(worker, (attempt_key(task, attempt, job),), at, state)


def began(task: int = 1, attempt: int = 1, job: int = 1, worker: str = "w", at: float = 2.5) -> Began:
    return Began(worker, (attempt_key(task, attempt, job),), at)


def ended(
    state: TaskState = TaskState.FINISHED,
    task: int = 1,
    attempt: int = 1,
    job: int = 1,
    *,
    at: float = 3.0,
    due: float = 0.0,
    failures: int = 0,
    crashes: int = 0,
    result: bytes = b"",
    before: TaskState = TaskState.ASSIGNED,
) -> Ended:
    ending = replace(WELL if state is TaskState.FINISHED else BADLY, result=result)
    return Ended(attempt_key(task, attempt, job), ending, state, at, due, failures, crashes, before)


def tasks_set(state: TaskState, *tasks: int, job: int = 1, at: float = 4.0) -> TasksSet:
    """Without tasks: all that are meant."""
    return TasksSet(JobId(job), state, tuple(map(TaskNumber, tasks)) or None, at)


def job_set(state: JobState, job: int = 1, held: bool = False, at: float = 5.0) -> JobSet:
    return JobSet(JobId(job), state, held, at)


def forgotten(job: int = 1) -> JobForgotten:
    return JobForgotten(JobId(job))


def as_submitted(*tasks: int) -> list[TaskRow]:
    return [TaskRow(TaskNumber(task), TaskState.WAITING, 0) for task in tasks]


def find_recovered(recovered: Recovered, job: int = 1) -> RecoveredJob | None:
    return next((found for found in recovered.jobs if found.row.job == job), None)
