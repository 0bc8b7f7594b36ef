"""What a simulated foreman knows of the database. Implements `store.crew.CrewStore` and `store.base.Store`.

A commit without an answer is found out about before anything else: then it was done, or it can never be.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tests.sim.crew_history import ShardHistory
from tests.sim.database import Database, Disconnected
from tests.sim.process_loop import ProcessLoop
from tests.waiting import run_sync

from gandy.core.model import AttemptKey, Input, JobState, TaskState
from gandy.core.records import Record
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.core.shards import CrewView, ForemanPlace, Lease
from gandy.errors import OutcomeUnknown, StoreError
from gandy.ids import JobId, TaskNumber
from gandy.store.crew import StoredRing

T = TypeVar("T")


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

        if self._may_send():
            self.database.ask(self.site, transaction, partial(self.loop.perform, _finish, done))
        return await done


def _finish(done: "asyncio.Future[Any]", value: Any, error: StoreError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)


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
        return await self._connection.do(lambda: self._database.do_seize(seen, me))

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

    async def list_audit(self, limit: int) -> list[str]:
        return []

    async def put_arguments(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        raise NotImplementedError

    async def read_arguments(self, name: str, offset: int, limit: int) -> bytes | None:
        raise NotImplementedError

    async def drop_arguments(self, seconds: float) -> None:
        pass


class _Pending(NamedTuple):
    number: int
    records: tuple[Record, ...]


class ShardStore:
    """The store of one shard, for as long as a foreman owns it."""

    def __init__(self, connection: Connection, mine: Lease) -> None:
        self._connection = connection
        self._database = connection.database
        self._jobs = connection.database.store
        self.history = ShardHistory(connection.do, connection.database, mine)
        self._mine = mine
        self._process = connection.site
        self._number = 0  # of the last commit in this epoch
        self._pending: _Pending | None = None  # a commit without an answer

    async def open(self) -> Recovered:
        return await self._connection.do(lambda: self._database.do_open(self._mine))

    async def close(self) -> None:
        pass

    async def prepare(self) -> None:
        if self._pending is not None:
            raise StoreError("a commit waits to be found out about", retryable=True)
        await self._connection.do(lambda: None)

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """As `store.postgres.shard` does it: an epoch has one process, and each of its commits has a number."""
        if self._pending is not None:
            before = self._pending
            lost = await self._find_out(before)
            self._pending = None
            if lost is not None and before.records == tuple(records):
                return lost
        for _ in range(2):  # the first connection may have been broken long ago
            self._number += 1
            pending = _Pending(self._number, tuple(records))
            try:
                return await self._connection.do(partial(self._commit, pending))
            except Disconnected:
                self._pending = pending
                lost = await self._find_out(pending)
                self._pending = None
                if lost is not None:
                    return lost
        raise StoreError("the connection broke", retryable=True)

    def _commit(self, commit: "_Pending") -> frozenset[AttemptKey]:
        return self._database.do_commit(self._mine, self._process, commit.number, commit.records)

    async def _find_out(self, commit: "_Pending") -> frozenset[AttemptKey] | None:
        """None: the commit was not done, and can never be. Raises: ShardLost, OutcomeUnknown."""
        try:
            return await self._connection.do(lambda: self._database.do_find_out(self._mine, commit.number))
        except Disconnected as error:
            raise OutcomeUnknown(f"it is not known whether the last commit was done: {error}") from None

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

    async def get_submission(self, job: JobId) -> int:
        return await self._connection.do(lambda: run_sync(self._jobs.get_submission(job)))

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

    async def find_tasks(self, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        return await self._read(lambda: self._jobs.find_tasks(job, tasks))  # type: ignore[no-any-return]

    async def read_states(self, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
        return await self._read(lambda: self._jobs.read_states(job, first, most))  # type: ignore[no-any-return]

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        return await self._read(lambda: self._jobs.list_results(job, limit, after))  # type: ignore[no-any-return]

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        return await self._read(lambda: self._jobs.list_attempts(job, task, after))  # type: ignore[no-any-return]
