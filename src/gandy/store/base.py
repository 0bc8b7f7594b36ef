"""What every store can do. A foreman talks to a store only through this."""

from collections.abc import Sequence
from typing import Protocol

from gandy.core.model import AttemptKey, Input, JobState, TaskState
from gandy.core.records import Record
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.ids import JobId, TaskNumber

__all__ = ["JobRow", "Recovered", "RecoveredJob", "Store", "TaskRow"]


class Store(Protocol):
    """Every method may raise StoreError; nothing is half done then, and the same call may be made again."""

    async def open(self) -> Recovered:
        """Take hold of the store, bring its schema up to date, and tell what is not final.

        Raises: StoreError: locked by another foreman, damaged, of a newer version, not readable.
        """

    async def close(self) -> None: ...

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """Make these records durable, in order, all or none. Gives the claims that another foreman got first."""

    async def prepare(self) -> None:
        """After a commit that failed: see to it that new work can be kept again.

        Raises: StoreError: it cannot yet.
        """

    async def find_job(self, job: JobId) -> JobRow | None: ...

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        """Of those of the jobs that there are."""

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        """A job with all its tasks, final or not."""

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        """The newest first; `before` continues below a job's number. A page that gets too large ends early: see
        `core.rows.take_page`. So do those of the next three."""

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        """Tasks above `after` in the order of their numbers, those without a row of their own included."""

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        """Tasks above `after` that have ended for good, with their results, which all other lists leave out."""

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        """Attempts at a task above a number, the first one first; each with the state its end led to."""

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        """The lines or pickled arguments of so many tasks, beginning with this one."""
