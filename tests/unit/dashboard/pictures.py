"""Pictures of crews, as updates of a foreman make them."""

from typing import Any

from gandy.core.extensions import MachineLoad
from gandy.core.model import Counts, JobState, TaskState
from gandy.core.views import CrewUpdate, JobGlance, Span, Totals, WorkerGlance
from gandy.ids import JobId, TaskNumber
from gandy.viewer.picture import Picture

NOW = 1_000_000.0


def a_glance(job: int, state: JobState = JobState.RUNNING, counts: Counts | None = None) -> JobGlance:
    return JobGlance(JobId(job), f"job {job}", state, False, NOW, counts or Counts(waiting=10))


def a_worker(
    name: str,
    *,
    connected: bool = True,
    draining: bool = False,
    problem: str = "",
    machine: MachineLoad | None = None,
) -> WorkerGlance:
    return WorkerGlance(name, name, 2, 1, 1, 0, 0, connected, draining, 0.0, problem, machine=machine)


def a_span(task: int, ended: float, *, ends: bool = True) -> Span:
    state = TaskState.FINISHED if ends else TaskState.RUNNING
    return Span("w", JobId(1), TaskNumber(task), 1, state, ended - 1, ended if ends else None)


def an_update(**what: Any) -> CrewUpdate:
    counts = {"waiting": 0, "assigned": 0, "running": 0, "unfinished": 0, "calls_waiting": 0, "totals": Totals()}
    return CrewUpdate(**{"at": NOW, "shard": 0, **counts, **what})


def a_picture(*jobs: JobGlance) -> Picture:
    """After a first whole update."""
    picture = Picture()
    picture.apply(an_update(is_whole=True), NOW)
    for first in range(0, len(jobs), 500):
        picture.apply(an_update(jobs=jobs[first : first + 500]), NOW)
    return picture
