"""The law that every store obeys: what a record may say, and which tasks it means. It keeps nothing itself."""

from collections.abc import Mapping, Sequence
from typing import Final

from gandy.core.model import GIVEN_STATES, JobSpec, JobState, TaskState
from gandy.core.records import Ended, Record, TasksSet
from gandy.errors import StoreError

# The tasks that people mean when they set "all" to a state: those that wait can be ended, and those that ended badly
# can wait again.
MEANT_BY_ALL: Final[Mapping[TaskState, tuple[TaskState, ...]]] = {
    TaskState.WAITING: (TaskState.FAILED, TaskState.CANCELLED),
    TaskState.FINISHED: (TaskState.WAITING,),
    TaskState.FAILED: (TaskState.WAITING,),
    TaskState.CANCELLED: (TaskState.WAITING,),
}


def check(records: Sequence[Record]) -> None:
    """Raises: StoreError: a record gives a task to a worker without a claim, or ends what no worker has."""
    for record in records:
        if isinstance(record, Ended | TasksSet) and record.state in GIVEN_STATES:
            job = record.job if isinstance(record, TasksSet) else record.attempt.job
            raise StoreError(f"job {job}: only a claim lets a task run")
        if isinstance(record, Ended) and record.before not in GIVEN_STATES:
            raise StoreError(f"job {record.attempt.job}: only what a worker has can end")


def first_state(spec: JobSpec) -> JobState:
    """What a job is when it is added."""
    return JobState.PAUSED if spec.held else JobState.WAITING
