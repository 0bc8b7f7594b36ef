"""Formats the crew as it was: as JSON that scripts may rely on, and as text. Times are seconds since 1970."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import asdict

from gandy.core.past_crew import CrewThen
from gandy.core.views import JobGlance, WorkerGlance
from gandy.moments import Wall
from gandy.terminal.people import format_count, format_seconds

JOB_HEADERS: Final = (">job", "state", ">tasks", ">waiting", ">running", ">finished", ">failed", ">age", "name")
WORKER_HEADERS: Final = ("worker", "state", ">slots", ">used")
FORGOTTEN: Final = "(forgotten since)"


def format_moment(at: Wall) -> str:
    """A moment by the local clock."""
    return datetime.fromtimestamp(float(at)).isoformat(" ", "seconds")


def past_to_json(then: CrewThen, asked: Wall) -> dict[str, Any]:
    return {
        "asked": asked,
        "recorded": then.at,
        "is_stopped": then.is_stopped,
        "workers": then.connected,
        "slots": then.slots,
        "used": then.used,
        "jobs": then.unfinished,
        "waiting": then.waiting,
        "assigned": then.assigned,
        "running": then.running,
        "calls_waiting": then.calls_waiting,
        "job_rows": [_job_to_json(job) for job in then.jobs],
        "worker_rows": [_worker_to_json(worker) for worker in then.workers],
    }


def _job_to_json(job: JobGlance) -> dict[str, Any]:
    return {
        "job": job.job,
        "name": job.title,
        "state": job.state.name.lower(),
        "held": job.held,
        "tasks": job.counts.total,
        **asdict(job.counts),
        "submitted": job.submitted or None,
    }


def _worker_to_json(worker: WorkerGlance) -> dict[str, Any]:
    return {
        "id": worker.id,
        "name": worker.name,
        "state": _name_state(worker),
        "slots": worker.slots,
        "used": worker.used,
    }


def past_to_fields(then: CrewThen, asked: Wall) -> list[tuple[str, str]]:
    tasks = [(then.running, "running"), (then.assigned, "assigned"), (then.waiting, "waiting")]
    return [
        ("at", format_moment(asked)),
        ("recorded", format_moment(then.at)),
        ("foreman", "none ran" if then.is_stopped else ""),
        ("workers", format_count(then.connected)),
        ("slots", f"{format_count(then.used)} of {format_count(then.slots)} in use"),
        ("jobs", f"{format_count(then.unfinished)} not ended"),
        ("tasks", ", ".join(f"{format_count(n)} {state}" for n, state in tasks if n or state != "assigned")),
        ("calls", f"{format_count(then.calls_waiting)} waiting" if then.calls_waiting else ""),
    ]


def past_job_to_cells(job: JobGlance, then: CrewThen) -> Sequence[str]:
    counts = job.counts
    numbers = map(format_count, (counts.total, counts.waiting, counts.running, counts.finished, counts.failed))
    # Of a job that was forgotten, nothing is known but its samples.
    age, title = (format_seconds(then.at - job.submitted), job.title) if job.submitted else ("", FORGOTTEN)
    return str(job.job), job.state.name.lower(), *numbers, age, title


def past_worker_to_cells(worker: WorkerGlance) -> Sequence[str]:
    return worker.name, _name_state(worker), format_count(worker.slots), format_count(worker.used)


def _name_state(worker: WorkerGlance) -> str:
    """As in `gandy worker list`."""
    if not worker.connected:
        return "absent"
    return "draining" if worker.draining else "short" if worker.problem else "ready"
