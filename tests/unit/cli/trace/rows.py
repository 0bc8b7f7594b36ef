"""Short ways to make rows of jobs and tasks that have ended."""

from typing import Any

from gandy.core.model import Cause, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.rows import JobRow, TaskRow
from gandy.ids import JobId, TaskNumber

OK = Ending(cause=Cause.EXIT, exit_code=0, started=1_000.0, ended=1_002.0)
BAD = Ending(cause=Cause.EXIT, exit_code=3, started=1_000.0, ended=1_002.0)


def a_row(job: int = 7, state: JobState = JobState.FINISHED, counts: Counts | None = None, **spec: Any) -> JobRow:
    spec = {"command": ("/bin/tar", "x"), "identity": 5, **spec}
    return JobRow(JobId(job), JobSpec(**spec), state, False, 100.0, 200.0, counts or Counts(finished=2))


def a_task(task: int = 1, ending: Ending | None = OK, attempt: int = 1, **changes: Any) -> TaskRow:
    ended = {"state": TaskState.FINISHED, "worker": "hut-1", "claimed": 110.0, "ended": 120.0}
    return TaskRow(task=TaskNumber(task), attempt=attempt, ending=ending, **{**ended, **changes})
