"""Answers about jobs, and changes of them. Rows are those of `gandy job list --output json`."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from gandy.bounds import FollowedJobs, JobName, JobNumbers, Line, Path, Positive, ShellLine, Tags, Word, Words
from gandy.client.options import JobOptions
from gandy.clocks import read_wall
from gandy.core.model import JobState
from gandy.core.requests import JobList, ListJobs
from gandy.core.rows import JobRow
from gandy.core.views import glance_at
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall
from gandy.dashboard.limits import MAX_BODY_BYTES, MAX_ROWS
from gandy.dashboard.rows import JobStateName, describe_progress
from gandy.ids import JobId
from gandy.limits import LAST_INTEGER, MAX_PRIORITY, MAX_RETRIES, MAX_SECONDS, MAX_SLOTS, MAX_TASKS, MAX_VARIABLES
from gandy.terminal.rows import job_to_json
from gandy.viewer.summary import JobSummary, summarise

Limit = Annotated[int, Meta(ge=1, le=MAX_ROWS)]


class JobsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs: the newest first, those below the number `before`, in one of these states."""

    state: tuple[JobStateName, ...] = ()
    limit: Limit = 100
    before: Annotated[int, Meta(ge=1, le=LAST_INTEGER)] | None = None


class TaskQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Only about this task."""

    task: Annotated[int, Meta(ge=1, le=MAX_TASKS)] | None = None


class NewJobBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A job to submit: one string is a line for the shell, several are a program and its arguments."""

    command: ShellLine | Words
    tasks: Annotated[int, Meta(ge=1, le=MAX_TASKS)] = 1
    lines: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=MAX_BODY_BYTES)] | None = None
    name: JobName = ""
    cwd: Path = ""  # empty: the worker's own folder
    env: Annotated[dict[Word, Word], Meta(max_length=MAX_VARIABLES)] = {}
    retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES)] = 0
    timeout: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] | None = None
    memory: Positive | None = None
    priority: Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = 0
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] = 1
    tags: Tags = ()
    limit: Positive | None = None
    held: bool = False
    after: JobNumbers = ()
    after_any: JobNumbers = ()
    after_each: FollowedJobs = ()


class WholeJobBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing: the whole job is meant."""


class SomeTasksBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Only these tasks; without them, the whole job is meant."""

    tasks: Annotated[tuple[Annotated[int, Meta(ge=1, le=MAX_TASKS)], ...], Meta(min_length=1)] | None = None


class JobAnswer(Struct, frozen=True):
    """A job, as `gandy job list --output json` shows it."""

    job: int
    name: str
    state: Literal["waiting", "running", "finished", "failed", "paused", "cancelled", "unreadable"]
    command: str | tuple[str, ...]
    tasks: int
    waiting: int
    assigned: int
    running: int
    finished: int
    failed: int
    cancelled: int
    held: bool
    submitted: float
    changed: float
    cwd: str
    env: dict[str, None]
    retries: int
    timeout: float | None
    priority: int
    slots: int
    tags: tuple[str, ...]
    limit: int | None
    after: tuple[int, ...]
    after_any: tuple[int, ...]
    after_each: tuple[int, ...]
    at: float | None
    problem: str | None


class OneJobAnswer(JobAnswer, frozen=True):
    """The same, and how fast its tasks end."""

    rate: float
    left_seconds: float | None


class JobsAnswer(Struct, frozen=True):
    """`next`: the value of `before` for the next page; null: there is none."""

    jobs: tuple[JobAnswer, ...]
    next: int | None


class JobSubmitted(Struct, frozen=True):
    job: int


class Explanation(Struct, frozen=True):
    """Why tasks wait, or how they ended, in sentences."""

    lines: tuple[str, ...]


async def list_jobs(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    query: JobsQuery = call.query
    states = tuple(JobState[name.upper()] for name in query.state) or None

    async def read(limit: int, before: int | None) -> Sequence[JobRow]:
        below = None if before is None else JobId(before)
        return (await crew.client.connection.ask(ListJobs(states, limit, below), JobList)).rows

    rows = await read(query.limit, query.before)
    has_more = bool(rows) and bool(await read(1, rows[-1].job))
    return {"jobs": list(map(job_to_json, rows)), "next": rows[-1].job if has_more else None}


async def show_job(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    row = await crew.client.job(call.job).status()
    progress = describe_progress(crew.watcher.picture, glance_at(row), float(read_wall()))
    return {**job_to_json(row), "rate": progress.rate, "left_seconds": progress.left_seconds}


async def explain_job(crew: ShownCrew, call: ApiCall) -> Explanation:
    return Explanation(await crew.client.job(call.job).explain(call.query.task))


async def submit_job(crew: ShownCrew, call: ApiCall) -> JobSubmitted:
    job: NewJobBody = call.body
    values = asdict(job)
    del values["command"]
    return JobSubmitted(await crew.client.submitter.submit(job.command, JobOptions(at=None, **values)))


async def cancel_job(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    return job_to_json(await crew.client.job(call.job).cancel(call.body.tasks))


async def retry_job(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    return job_to_json(await crew.client.job(call.job).retry(call.body.tasks))


async def hold_job(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    return job_to_json(await crew.client.job(call.job).hold())


async def release_job(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    return job_to_json(await crew.client.job(call.job).release())


async def summarise_job(crew: ShownCrew, call: ApiCall) -> JobSummary:
    return await summarise(crew.client, JobId(call.job))
