"""What a simulated foreman knows of the database. Implements `store.crew.CrewStore` and `store.base.Store`.

A commit without an answer is found out about before anything else: then it was done, or it can never be.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from tests.sim.database import AlreadyDone, Database
from tests.sim.process_loop import ProcessLoop
from tests.waiting import run_sync

from gandy.core.model import AttemptKey, Input, JobState, TaskState
from gandy.core.records import Record
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.core.shards import CrewView, ForemanPlace, Lease
from gandy.errors import ShardLost, StoreError
from gandy.ids import JobId, TaskNumber
from gandy.store.crew import StoredRing

T = TypeVar("T")

RETRY_PAUSE: Final = 0.3  # seconds between two tries to find out about a commit


class Connection:
    """Of one life of a process."""

    def __init__(self, database: Database, loop: ProcessLoop, site: str, may_send: Callable[[], bool]) -> None:
        self.database = database
        self.loop = loop
        self.site = site
        self._may_send = may_send  # False: the process dies in this very step

    async def do(self, transaction: Callable[[], T]) -> T:
        """Raises: StoreError: it is not known whether it was done, unless the error says so."""
        done: asyncio.Future[T] = self.loop.create_future()

        def finish(value: Any, error: StoreError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        if self._may_send():
            self.database.ask(
                self.site, transaction, lambda value, error: self.loop.perform(lambda: finish(value, error))
            )
        return await done


class SimCrewStore:
    """All foremen of the crew share it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._database = connection.database

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def beat(self, me: ForemanPlace, _leases: Sequence[Lease]) -> CrewView:
        return await self._connection.do(lambda: self._database.do_beat(me))

    async def leave(self, me: str) -> None:
        await self._connection.do(lambda: self._database.do_leave(me))

    async def take_new(self, me: str) -> Lease:
        return await self._connection.do(lambda: self._database.do_take_new(me))

    async def seize(self, me: str, seen: Lease) -> Lease | None:
        return await self._connection.do(lambda: self._database.do_change_owner(seen, me))

    async def hand_over(self, mine: Lease, heir: str) -> bool:
        return await self._connection.do(lambda: self._database.do_change_owner(mine, heir)) is not None

    async def retire(self, mine: Lease) -> bool:
        return await self._connection.do(lambda: self._database.do_retire(mine))

    def open_shard(self, mine: Lease) -> "ShardStore":
        return ShardStore(self._connection, mine)

    async def load_ring(self) -> StoredRing:
        return StoredRing(0, b"")

    async def save_ring(self, _ring: StoredRing) -> bool:
        return True

    async def note_audit(self, lines: Sequence[str]) -> None:
        pass

    async def put_arguments(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        raise NotImplementedError

    async def read_arguments(self, name: str, offset: int, limit: int) -> bytes | None:
        raise NotImplementedError

    async def drop_arguments(self, seconds: float) -> None:
        pass


class ShardStore:
    """The store of one shard, for as long as a foreman owns it."""

    def __init__(self, connection: Connection, mine: Lease) -> None:
        self._connection = connection
        self._database = connection.database
        self._jobs = connection.database.store
        self._mine = mine
        self._number = 0  # of the last commit in this epoch

    async def open(self) -> Recovered:
        return await self._connection.do(lambda: self._database.do_open(self._mine))

    async def close(self) -> None:
        pass

    async def prepare(self) -> None:
        await self._connection.do(lambda: None)

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """An epoch has one process, and each of its commits a number of its own."""
        self._number += 1
        number, kept = self._number, tuple(records)
        try:
            return await self._connection.do(
                lambda: self._database.do_commit(self._mine, self._connection.site, number, kept)
            )
        except ShardLost:
            raise
        except StoreError as error:
            lost = await self._find_out(number)
            if lost is None:
                raise StoreError(str(error), retryable=True) from None
            return lost

    async def _find_out(self, number: int) -> frozenset[AttemptKey] | None:
        """None: the commit was not done, and can never be. Raises: ShardLost."""
        while True:
            try:
                return await self._connection.do(lambda: self._database.do_find_out(self._mine, number))
            except ShardLost:
                raise
            except AlreadyDone:
                raise AssertionError("nothing but a commit says so") from None
            except StoreError:
                await asyncio.sleep(RETRY_PAUSE)

    # Reading

    def _read(self, read: Callable[[], Any]) -> Awaitable[Any]:
        return self._connection.do(lambda: run_sync(read()))

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        return await self._read(lambda: self._jobs.read_lines(job, first, count))  # type: ignore[no-any-return]

    async def find_job(self, job: JobId) -> JobRow | None:
        return await self._read(lambda: self._jobs.find_job(job))  # type: ignore[no-any-return]

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        return await self._read(lambda: self._jobs.find_states(jobs))  # type: ignore[no-any-return]

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        return await self._read(lambda: self._jobs.load_job(job))  # type: ignore[no-any-return]

    async def find_submission(self, key: int) -> JobId | None:
        return await self._connection.do(lambda: self._jobs.keys.get(key))

    async def draw_number(self) -> JobId | None:
        return await self._connection.do(self._database.do_draw_number)

    async def find_shard(self, job: JobId) -> int | None:
        return await self._connection.do(lambda: self._database.do_find_shard(job))

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        return await self._read(lambda: self._jobs.list_jobs(states, limit, before))  # type: ignore[no-any-return]

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        return await self._read(lambda: self._jobs.list_tasks(job, states, limit, after))  # type: ignore[no-any-return]

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        return await self._read(lambda: self._jobs.list_results(job, limit, after))  # type: ignore[no-any-return]

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        return await self._read(lambda: self._jobs.list_attempts(job, task, after))  # type: ignore[no-any-return]
