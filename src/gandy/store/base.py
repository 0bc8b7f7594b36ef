"""What every store can do. A foreman talks to a store only through this."""

from collections.abc import Sequence
from typing import Protocol

from gandy.core.model import AttemptKey, Input
from gandy.core.records import Record
from gandy.core.rows import Recovered, StoredJobs
from gandy.ids import JobId, TaskNumber


class Store(StoredJobs, Protocol):
    """Every method may raise StoreError; nothing is half done then, and the same call may be made again."""

    async def open(self) -> Recovered:
        """Take hold of the store, bring its schema up to date, and give what is not final.

        Raises: StoreError: locked by another foreman, damaged, of a newer version, not readable.
        """

    async def close(self) -> None: ...

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """Make these records durable, in order, all or none. Gives the claims that another foreman got first."""

    async def prepare(self) -> None:
        """After a commit that failed: see to it that new work can be kept again.

        Raises: StoreError: it cannot yet.
        """

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        """The lines or pickled arguments of so many tasks, beginning with this one."""
