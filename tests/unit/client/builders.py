"""Jobs and tasks as a foreman would tell them."""

from typing import Any

from gandy.core.model import Cause, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.requests import WorkerRow
from gandy.core.rows import JobRow, TaskRow
from gandy.ids import JobId, TaskNumber

NOW = 1_000_000.0


def a_row(job: int = 7, state: JobState = JobState.RUNNING, counts: Counts | None = None, **spec: Any) -> JobRow:
    spec = {"command": "true", "tasks": 10, **spec}
    counts = counts or Counts(waiting=spec["tasks"])
    return JobRow(JobId(job), JobSpec(**spec), state, False, NOW - 60, NOW - 5, counts)


def a_task_row(task: int = 1, state: TaskState = TaskState.FAILED, **ending: Any) -> TaskRow:
    how = Ending(**{"cause": Cause.EXIT, "exit_code": 1, "started": NOW, "ended": NOW + 90, **ending})
    return TaskRow(TaskNumber(task), state, 1, "hut-1", NOW, NOW + 90, ending=how)


def a_worker_row(name: str = "hut", **changes: Any) -> WorkerRow:
    values = {"slots": 4, "used": 2, "running": 2, "tags": ("gpu",), "connected": True, "draining": False}
    return WorkerRow(id=f"{name}-1", name=name, silent_seconds=0.5, **{**values, **changes})
