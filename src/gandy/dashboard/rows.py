"""The crew as one object, for browsers and programs: made of a Picture. Pure. Keys are never renamed or removed.

Times are seconds since 1970, durations seconds, sizes bytes.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from gandy.core.model import FINAL_JOB_STATES, JobState, TaskState
from gandy.core.views import CommandGlance, JobGlance, WorkerGlance
from gandy.dashboard.limits import MAX_CREW_JOBS, MAX_CREW_SPANS, MAX_SPAN_AGE
from gandy.moments import Wall
from gandy.viewer.histograms import find_percentile
from gandy.viewer.lanes import PlacedCall, PlacedSpan
from gandy.viewer.picture import Changes, Picture
from gandy.viewer.progress import ProgressEstimate, estimate_progress
from gandy.viewer.series import Point
from gandy.viewer.trouble import Trouble, list_trouble

JobStateName = Literal["waiting", "running", "finished", "failed", "paused", "cancelled"]
TaskStateName = Literal["waiting", "running", "finished", "failed", "cancelled", "assigned"]


class CrewRates(Struct, frozen=True):
    """How many there are in a second."""

    finished: float  # tasks
    failed: float
    calls: float


class TotalsLine(Struct, frozen=True):
    """What has happened since the dashboard was started."""

    finished: int  # tasks
    failed: int
    cancelled: int
    repeated: int  # attempts after which the task waits again
    lost: int  # attempts that were lost with their worker
    calls: int


class JobLine(Struct, frozen=True):
    """A job at a glance."""

    job: int
    name: str
    state: JobStateName
    held: bool
    is_open: bool
    priority: int
    submitted: float
    tasks: int
    waiting: int
    assigned: int
    running: int
    finished: int
    failed: int
    cancelled: int
    rate: float
    left_seconds: float | None


class WorkerLine(Struct, frozen=True):
    """A worker at a glance."""

    id: str
    name: str
    state: Literal["ready", "draining", "short", "absent"]
    slots: int
    used: int
    running: int
    waiting: int
    calls: int
    silent_seconds: float
    problem: str
    tags: tuple[str, ...]
    version: str
    knows_time: bool
    load: float | None = None  # of its machine: processes that run or wait to run, on average over a minute
    memory_bytes: int | None = None  # in use there
    memory_total_bytes: int | None = None
    cores: int | None = None


class CommandLine(Struct, frozen=True):
    """A command that workers offer, and its calls."""

    name: str
    workers: int
    waiting: int
    ended: int
    failed: int
    rate: float
    p50_us: float | None
    p99_us: float | None


class SpanLine(Struct, frozen=True):
    """An attempt, in the lane of its worker in which it is drawn."""

    worker: str
    lane: int
    job: int
    task: int
    attempt: int
    state: TaskStateName
    began: float
    ended: float | None
    memory_bytes: int


class CallLine(Struct, frozen=True):
    """A call that took a hundredth of a second or more, in the lane of its worker; of many, only some."""

    worker: str
    lane: int
    number: int  # at its worker
    command: str
    state: Literal["running", "finished", "failed"]
    began: float  # when it went to its worker
    ended: float | None


class CrewObject(Struct, frozen=True):
    """The crew; or what has changed, and then lists have only that, and the last three say what is gone."""

    at: float
    problem: str  # why the picture is not current; empty if it is
    foremen: int
    unfinished: int
    waiting: int
    assigned: int
    running: int
    calls_waiting: int
    slots: int
    used: int
    rates: CrewRates
    totals: TotalsLine
    trouble: tuple[Trouble, ...]
    jobs: tuple[JobLine, ...]
    workers: tuple[WorkerLine, ...]
    commands: tuple[CommandLine, ...]
    spans: tuple[SpanLine, ...]
    calls: tuple[CallLine, ...]
    points: tuple[Point, ...]
    forgotten: tuple[int, ...] | UnsetType = UNSET
    left: tuple[str, ...] | UnsetType = UNSET
    gone_commands: tuple[str, ...] | UnsetType = UNSET


class Surroundings(Struct, frozen=True):
    """What the picture does not know."""

    at: float
    problem: str = ""
    foremen: int = 1
    is_complete: bool = True  # every shard has been seen


def make_crew(picture: Picture, about: Surroundings) -> CrewObject:
    """The whole crew, the newest jobs and attempts first to stay if there are too many."""
    newest = sorted(picture.jobs, reverse=True)[:MAX_CREW_JOBS]
    spans = [placed for placed in picture.lanes if _is_recent(placed.span.ended, about.at)]
    calls = [placed for placed in picture.lanes.list_calls() if _is_recent(placed.call.ended, about.at)]
    return _make(
        picture,
        about,
        jobs=[make_job(picture, picture.jobs[job], about.at) for job in newest],
        workers=map(make_worker, picture.list_workers()),
        commands=[make_command(picture, glance, about.at) for glance in picture.list_commands()],
        spans=map(make_span, spans[-MAX_CREW_SPANS:]),
        calls=map(make_call, calls[-MAX_CREW_SPANS:]),
        new_points=picture.series.points,
    )


def make_change(picture: Picture, changes: Changes, about: Surroundings) -> CrewObject:
    """What has changed."""
    jobs = [make_job(picture, picture.jobs[job], about.at) for job in sorted(changes.jobs) if job in picture.jobs]
    workers = {name: picture.find_worker(name) for name in sorted(changes.workers)}
    commands = {name: picture.find_command(name) for name in sorted(changes.commands)}
    return _make(
        picture,
        about,
        jobs=jobs,
        workers=[make_worker(glance) for glance in workers.values() if glance is not None],
        commands=[make_command(picture, glance, about.at) for glance in commands.values() if glance is not None],
        spans=map(make_span, changes.spans[-MAX_CREW_SPANS:]),
        calls=map(make_call, changes.calls[-MAX_CREW_SPANS:]),
        new_points=changes.points,
        forgotten=tuple(sorted(changes.forgotten)),
        left=tuple(name for name, glance in workers.items() if glance is None),
        gone_commands=tuple(name for name, glance in commands.items() if glance is None),
    )


def _make(
    picture: Picture,
    about: Surroundings,
    *,
    jobs: Iterable[JobLine],
    workers: Iterable[WorkerLine],
    commands: Iterable[CommandLine],
    spans: Iterable[SpanLine],
    calls: Iterable[CallLine],
    new_points: Iterable[Point],
    forgotten: tuple[int, ...] | UnsetType = UNSET,
    left: tuple[str, ...] | UnsetType = UNSET,
    gone_commands: tuple[str, ...] | UnsetType = UNSET,
) -> CrewObject:
    all_workers, points = list(picture.list_workers()), picture.series.points
    return CrewObject(
        at=about.at,
        problem=about.problem,
        foremen=about.foremen,
        unfinished=picture.count("unfinished"),
        waiting=picture.count("waiting"),
        assigned=picture.count("assigned"),
        running=picture.count("running"),
        calls_waiting=picture.count("calls_waiting"),
        slots=sum(worker.slots for worker in all_workers if worker.connected),
        used=sum(worker.used for worker in all_workers),
        rates=CrewRates(points[-1].finished, points[-1].failed, points[-1].calls)
        if points
        else CrewRates(0.0, 0.0, 0.0),
        totals=TotalsLine(**asdict(picture.totals)),
        trouble=tuple(list_trouble(picture)),
        jobs=tuple(jobs),
        workers=tuple(workers),
        commands=tuple(commands),
        spans=tuple(spans),
        calls=tuple(calls),
        points=tuple(new_points),
        forgotten=forgotten,
        left=left,
        gone_commands=gone_commands,
    )


def describe_progress(picture: Picture, glance: JobGlance, now: float) -> ProgressEstimate:
    """How many of a job's tasks end in a second, and in how many seconds all will have ended, if that can be said."""
    if glance.state in FINAL_JOB_STATES or glance.state is JobState.PAUSED:
        return ProgressEstimate()
    progress = estimate_progress(glance.counts, float(glance.submitted), now, picture.rates.jobs.get(glance.job))
    return ProgressEstimate(progress.rate) if glance.is_open else progress


def make_job(picture: Picture, glance: JobGlance, now: float) -> JobLine:
    return describe_job(glance, describe_progress(picture, glance, now))


def describe_job(glance: JobGlance, progress: ProgressEstimate) -> JobLine:
    counts = glance.counts
    return JobLine(
        job=glance.job,
        name=glance.title,
        state=glance.state.name.lower(),  # type: ignore[arg-type]
        held=glance.held,
        is_open=glance.is_open,
        priority=glance.priority,
        submitted=float(glance.submitted),
        tasks=counts.total,
        waiting=counts.waiting,
        assigned=counts.assigned,
        running=counts.running,
        finished=counts.finished,
        failed=counts.failed,
        cancelled=counts.cancelled,
        rate=progress.rate,
        left_seconds=progress.left_seconds,
    )


def make_worker(glance: WorkerGlance) -> WorkerLine:
    machine = glance.machine
    return WorkerLine(
        id=glance.id,
        name=glance.name,
        state=name_worker_state(glance),
        slots=glance.slots,
        used=glance.used,
        running=glance.running,
        waiting=glance.waiting,
        calls=glance.calls,
        silent_seconds=glance.silent_seconds,
        problem=glance.problem,
        tags=glance.tags,
        version=glance.version,
        knows_time=glance.knows_time,
        load=None if machine is None else machine.load,
        memory_bytes=None if machine is None else machine.memory_bytes or None,
        memory_total_bytes=None if machine is None else machine.memory_total_bytes or None,
        cores=None if machine is None else machine.cores or None,
    )


def name_worker_state(glance: WorkerGlance) -> Literal["ready", "draining", "short", "absent"]:
    if not glance.connected:
        return "absent"
    if glance.draining:
        return "draining"
    return "short" if glance.problem else "ready"


def make_command(picture: Picture, glance: CommandGlance, now: float) -> CommandLine:
    rate = picture.rates.commands.get(glance.name)
    return CommandLine(
        name=glance.name,
        workers=glance.workers,
        waiting=glance.waiting,
        ended=glance.ended,
        failed=glance.failed,
        rate=0.0 if rate is None else rate.per_second(now),
        p50_us=find_percentile(glance.buckets, 50),
        p99_us=find_percentile(glance.buckets, 99),
    )


def make_span(placed: PlacedSpan) -> SpanLine:
    span = placed.span
    return SpanLine(
        worker=span.worker,
        lane=placed.lane,
        job=span.job,
        task=span.task,
        attempt=span.attempt,
        state=TaskState(span.state).name.lower(),  # type: ignore[arg-type]
        began=float(span.began),
        ended=None if span.ended is None else float(span.ended),
        memory_bytes=span.peak_memory_bytes,
    )


def make_call(placed: PlacedCall) -> CallLine:
    call = placed.call
    ended = None if call.ended is None else float(call.ended)
    state = call.state.name.lower()
    return CallLine(call.worker, placed.lane, call.number, call.command, state, float(call.began), ended)  # type: ignore[arg-type]


def _is_recent(ended: Wall | None, now: float) -> bool:
    return ended is None or float(ended) > now - MAX_SPAN_AGE
