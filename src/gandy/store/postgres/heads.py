"""Converts rows of jobs to what a store returns."""

from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from gandy.bounds import BROKEN, describe
from gandy.core.model import Counts, JobState, TaskState
from gandy.core.rows import JobRow
from gandy.store.specs import read_spec, unreadable_spec

JOB_COLUMNS: Final = 14  # of a row that makes a JobRow


class Head(NamedTuple):
    """A job, and what is not shown of it."""

    row: JobRow
    key: int
    number: int
    fresh: TaskState
    shard: int
    was_done: bool  # it was final once

    @property
    def tasks(self) -> int:
        return self.row.spec.tasks


def to_head(row: tuple[Any, ...]) -> Head:
    key, number, fresh, shard, was_done = row[JOB_COLUMNS:]
    return Head(to_job(row), key, number, TaskState(fresh), shard, was_done)


def to_job(row: tuple[Any, ...]) -> JobRow:
    job, text, submitted, state, held, tasks, is_open, changed, *counts = row[:JOB_COLUMNS]
    problem = ""
    try:
        spec = read_spec(text)
    except BROKEN as error:
        spec, problem = unreadable_spec(tasks), describe(error)
    if spec.is_open:
        spec = replace(spec, tasks=tasks, is_open=is_open)
    return JobRow(job, spec, JobState(state), held, submitted, changed, Counts(*counts), problem)
