"""What a report is made of. Values of environment variables are not among it: the foreman does not send them."""

from msgspec import Struct

from gandy.core.requests import ForemanStatus, WorkerRow
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.viewer.summary import JobSample, JobSummary


class ReportedJob(Struct, frozen=True):
    """Everything about one job."""

    sample: JobSample
    summary: JobSummary
    states: bytes  # of all tasks
    repeated: tuple[tuple[TaskRow, ...], ...] = ()  # all attempts at each of the tasks with most of them
    outputs: dict[TaskNumber, bytes] = {}  # the end of standard output of some tasks that failed
    submitter: str = ""  # who submitted it and from where, if the audit can be read


class CrewReport(Struct, frozen=True):
    """Jobs of one crew, as they were when they were looked at."""

    made: float  # seconds since 1970
    address: str  # of the foreman
    status: ForemanStatus
    workers: tuple[WorkerRow, ...]
    jobs: tuple[ReportedJob, ...]
