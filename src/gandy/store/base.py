"""The interface of every store, and the only way in which a foreman uses one."""

from collections.abc import Sequence
from typing import Protocol

from gandy.core.model import AttemptKey, Input
from gandy.core.records import Record
from gandy.core.rows import Recovered, StoredJobs
from gandy.ids import JobId, TaskNumber
from gandy.store.history import History


class Store(StoredJobs, Protocol):
    """Every method may raise StoreError; it has changed nothing then, and can be called again."""

    @property
    def history(self) -> History:
        """How the crew stood at many moments. It can be used while the store is open."""

    async def open(self) -> Recovered:
        """Lock the store, bring its schema up to date, and return the jobs that are not final.

        Raises: StoreError: locked by another foreman, damaged, of a newer version, not readable.
        """

    async def close(self) -> None: ...

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """Make these records durable, in order, all or none. Returns the claims that another foreman made first.

        Raises: SubmittedBefore: there are jobs with the keys of new ones.
        """

    async def prepare(self) -> None:
        """After a failed commit: make room for new work.

        Raises: StoreError: there is none yet.
        """

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        """The lines or pickled arguments of `count` tasks, from the task `first` on."""
