"""The law that every store obeys: which records are valid, and which tasks "all" means. It has no state."""

from collections.abc import Mapping, Sequence
from typing import Final

from gandy.core.model import GIVEN_STATES, JobSpec, JobState, TaskState
from gandy.core.records import Ended, Record, TasksSet
from gandy.errors import StoreError

# The tasks that users mean when they set "all" to a state: waiting ones can be ended, and those that failed or were
# cancelled can wait again.
MEANT_BY_ALL: Final[Mapping[TaskState, tuple[TaskState, ...]]] = {
    TaskState.WAITING: (TaskState.FAILED, TaskState.CANCELLED),
    TaskState.FINISHED: (TaskState.WAITING,),
    TaskState.FAILED: (TaskState.WAITING,),
    TaskState.CANCELLED: (TaskState.WAITING,),
}


def check(records: Sequence[Record]) -> None:
    """Raises: StoreError: a record gives a task to a worker without a claim, or ends an attempt that no worker has."""
    for record in records:
        if isinstance(record, Ended | TasksSet) and record.state in GIVEN_STATES:
            job = record.job if isinstance(record, TasksSet) else record.attempt.job
            raise StoreError(f"job {job}: only a claim lets a task run")
        if isinstance(record, Ended) and record.before not in GIVEN_STATES:
            raise StoreError(f"job {record.attempt.job}: only an attempt that a worker has can end")


def first_state(spec: JobSpec) -> JobState:
    """The state of a job that is added."""
    return JobState.PAUSED if spec.held else JobState.WAITING
