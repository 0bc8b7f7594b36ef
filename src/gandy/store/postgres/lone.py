"""A database of a crew whose foremen are all stopped, as one store: for commands that read or write it as a whole."""

import asyncio
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from gandy.core.model import AttemptKey, Input, JobState, TaskState
from gandy.core.records import Record
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.core.shards import ForemanPlace, Lease
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.store.history import History
from gandy.store.postgres.crew import PostgresCrew
from gandy.store.postgres.shard import PostgresStore

BEAT_SECONDS: Final = 2.0  # from one beat to the next, so that no foreman that starts takes our shard


class LoneStore:
    """It has a shard of its own while it is open. The next foreman that starts takes over what is left in it."""

    def __init__(self, crew: PostgresCrew) -> None:
        self._crew = crew
        self._me = ForemanPlace(f"command-{secrets.token_hex(8)}", f"a command, process {os.getpid()}", "", ())
        self._lease: Lease | None = None
        self._store: PostgresStore | None = None
        self._beats: asyncio.Task[None] | None = None

    async def open(self) -> Recovered:
        """Raises: StoreError: a foreman is running."""
        await self._crew.open()
        try:
            await self._crew.beat(self._me, ())
            running = await self._crew.list_running(self._me.id)
            if running:
                raise StoreError(f"{self._crew.url}: a foreman runs on {running[0]}: stop all foremen first")
            self._lease = await self._crew.take_new(self._me.id)
            self._store = self._crew.open_shard(self._lease)
            recovered = await self._store.open()
        except BaseException:
            await self._leave()
            raise
        self._beats = asyncio.create_task(self._beat())
        return recovered

    async def close(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
            with suppress(asyncio.CancelledError):
                await self._beats
        await self._leave()

    async def _leave(self) -> None:
        try:
            if self._lease is not None:
                await self._crew.retire(self._lease)
            await self._crew.leave(self._me.id)
        finally:
            await self._crew.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with suppress(StoreError):
                await self._crew.beat(self._me, ())

    @property
    def _opened(self) -> PostgresStore:
        if self._store is None:
            raise StoreError(f"{self._crew.url}: not open")
        return self._store

    @property
    def history(self) -> History:
        return self._opened.history

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        return await self._opened.commit(records)

    async def prepare(self) -> None:
        await self._opened.prepare()

    async def draw_number(self) -> JobId | None:
        return await self._opened.draw_number()

    async def find_job(self, job: JobId) -> JobRow | None:
        return await self._opened.find_job(job)

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        return await self._opened.find_states(jobs)

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        return await self._opened.load_job(job)

    async def find_submission(self, key: int) -> JobId | None:
        return await self._opened.find_submission(key)

    async def get_submission(self, job: JobId) -> int:
        return await self._opened.get_submission(job)

    async def find_shard(self, job: JobId) -> int | None:
        return await self._opened.find_shard(job)

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        return await self._opened.list_jobs(states, limit, before)

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        return await self._opened.list_tasks(job, states, limit, after)

    async def find_tasks(self, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        return await self._opened.find_tasks(job, tasks)

    async def read_states(self, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
        return await self._opened.read_states(job, first, most)

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        return await self._opened.list_results(job, limit, after)

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        return await self._opened.list_attempts(job, task, after)

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        return await self._opened.read_lines(job, first, count)
