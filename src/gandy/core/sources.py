"""Reads how the jobs stand that a job is to follow, and that have left the foreman's memory or never were there."""

from collections.abc import Container, Iterable
from typing import Final

from msgspec import Struct

from gandy.core.jobs import JobTable
from gandy.core.linking import SourceJob
from gandy.core.model import FINAL_JOB_STATES, JobSpec, JobState
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow, StoredJobs
from gandy.core.steps import Commit, Look, Steps
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_TASKS

FORGOTTEN: Final = SourceJob(b"", is_final=True)  # it is not known that any of its tasks finished


class Sources(Struct):
    """The states of such jobs, and the tasks of those that are to be followed task by task."""

    states: dict[JobId, JobState]
    by_task: dict[JobId, SourceJob]


def find_sources(spec: JobSpec, jobs: JobTable) -> Steps[Sources]:
    """Find those that are not in memory. No step may follow before the reactor is told. Raises: Refusal."""
    found = Sources({}, {})
    while missing := list_missing(spec.sources, jobs, found.states):
        yield Commit([])  # then the store has what has just left the reactor's memory
        for job in missing:
            found.states[job] = (yield from _get_row(job)).state
            if job in spec.after_each:
                found.by_task[job] = yield from look_at_source(job)
    return found


def list_missing(jobs: Iterable[JobId], here: JobTable, known: Container[JobId]) -> list[JobId]:
    """Those that are neither in memory nor known."""
    return [job for job in jobs if here.find(job) is None and job not in known]


def look_at_source(job: JobId) -> Steps[SourceJob]:
    return (yield Look(lambda store: read_source(store, job)))  # type: ignore[no-any-return]


async def read_source(store: StoredJobs, job: JobId) -> SourceJob:
    """Raises: StoreError."""
    row = await store.find_job(job)  # first: the tasks of a job that is final do not change any more
    states = None if row is None or row.problem else await store.read_states(job, TaskNumber(1), MAX_TASKS)
    if row is None or states is None:
        return FORGOTTEN
    return SourceJob(states[1], row.state in FINAL_JOB_STATES)


def check_counts(spec: JobSpec, jobs: JobTable, found: Sources) -> None:
    """A job that follows others task by task has as many tasks as each of them. Raises: Refusal."""
    for number in spec.after_each:
        here = jobs.find(number)
        if here is not None and here.is_open:
            continue  # it is not known yet how many it will have
        count = len(found.by_task[number].states) if here is None else here.tasks.count
        if count != spec.tasks:
            text = f"job {number} has {count:,} tasks and this one {spec.tasks:,}: jobs that follow others task by task"
            raise Refusal("refused", f"{text} have as many")


def _get_row(job: JobId) -> Steps[JobRow]:
    row: JobRow | None = yield Look(lambda store: store.find_job(job))
    if row is None:
        raise Refusal("not_found", f"there is no job {job}")
    if row.problem:
        raise Refusal("refused", f"job {job} cannot be read, so it is unknown whether it finished")
    return row
