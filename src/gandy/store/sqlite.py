"""A store in one SQLite file, for one foreman. It owns the threads that use the file, and the lock.

Commits go through one connection and listings through another; each belongs to one thread.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from gandy.core.model import AttemptKey, Input, JobState, TaskState
from gandy.core.records import Record
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.core.shards import NO_SHARD
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.store import sqlite_read as read
from gandy.store import sqlite_write as write
from gandy.store.lock import FileLock
from gandy.store.place import PlacedFile
from gandy.store.sqlite_commit import SqliteCommitter
from gandy.store.sqlite_history import SqliteHistory
from gandy.store.sqlite_open import explained, open_reader, open_writer, reading
from gandy.store.sqlite_states import read_states
from gandy.store.submissions import KeyTaken, explain_taken

P = ParamSpec("P")
T = TypeVar("T")


class _Thread:
    """A connection and the only thread that uses it. Work is done in the order in which it is submitted."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"gandy-store-{name}")
        self._db: sqlite3.Connection | None = None

    async def connect(self, connect: Callable[[Path], sqlite3.Connection]) -> None:
        def work() -> None:
            with explained(self._path), reading(self._path):
                self._db = connect(self._path)

        await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def run(self, do: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        def work() -> T:
            assert self._db is not None, "connect first"
            with explained(self._path):
                return do(self._db, *args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def read(self, do: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        def work(db: sqlite3.Connection) -> T:
            with reading(self._path):
                return do(db, *args, **kwargs)

        return await self.run(work)

    async def close(self) -> None:
        if self._db is not None:
            await self.run(sqlite3.Connection.close)
        self._pool.shutdown()


class SqliteStore:
    """Records are durable when `commit` returns. Only one store at a time can have a file open."""

    def __init__(self, path: Path | str) -> None:
        # Resolved, so that all names of a file have one lock.
        self.path = Path(path).resolve()
        self.history = SqliteHistory(self.path.with_name(f"{self.path.name}.history"))
        self._threads: tuple[_Thread, _Thread] | None = None
        self._opened = AsyncExitStack()

    async def open(self) -> Recovered:
        async with AsyncExitStack() as opened:
            opened.callback(FileLock(self.path).release)
            place = PlacedFile(self.path)
            opened.callback(place.release)
            self._committer = await asyncio.to_thread(self._make_committer, place)
            opened.push_async_callback(asyncio.to_thread, self._committer.close)
            writer, reader = _Thread(self.path, "writer"), _Thread(self.path, "reader")
            opened.push_async_callback(writer.close)
            opened.push_async_callback(reader.close)
            await writer.connect(open_writer)
            await reader.connect(open_reader)
            await writer.read(self._committer.open)
            await writer.run(write.drop_uploads)
            jobs, unreadable = await writer.read(read.recover)
            self._threads = writer, reader
            self.history.open()
            opened.push_async_callback(self.history.close)
            self._opened = opened.pop_all()
        return Recovered(tuple(jobs), self._committer.next_job, tuple(unreadable), tuple(self._committer.problems))

    def _make_committer(self, place: PlacedFile) -> SqliteCommitter:
        with explained(self.path):
            return SqliteCommitter(self.path, place)

    async def close(self) -> None:
        self._threads = None
        await self._opened.aclose()

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        try:
            return await self._writer.run(self._committer.commit, records)
        except KeyTaken as taken:
            raise await explain_taken(records, self.find_submission, taken) from None

    async def prepare(self) -> None:
        await self._writer.run(self._committer.prepare)

    async def draw_number(self) -> JobId | None:
        return None

    async def find_submission(self, key: int) -> JobId | None:
        return await self._reader.read(read.find_submission, key)

    async def get_submission(self, job: JobId) -> int:
        return await self._reader.read(read.get_submission, job)

    async def find_shard(self, job: JobId) -> int | None:
        return NO_SHARD if await self.find_states([job]) else None

    async def find_job(self, job: JobId) -> JobRow | None:
        return await self._reader.read(read.find_job, job)

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        return await self._reader.run(read.find_states, jobs)

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        return await self._reader.read(read.load_job, job)

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        return await self._reader.read(read.list_jobs, states, limit, before)

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        return await self._reader.read(read.list_tasks, job, states, limit, after)

    async def find_tasks(self, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        return await self._reader.read(read.find_tasks, job, tasks)

    async def read_states(self, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
        return await self._reader.read(read_states, job, first, most)

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        return await self._reader.read(read.list_results, job, limit, after)

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        return await self._reader.read(read.list_attempts, job, task, after)

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        return await self._reader.read(read.read_lines, job, first, count)

    @property
    def _writer(self) -> _Thread:
        return self._get_threads()[0]

    @property
    def _reader(self) -> _Thread:
        return self._get_threads()[1]

    def _get_threads(self) -> tuple[_Thread, _Thread]:
        if self._threads is None:
            raise StoreError(f"{self.path}: not open")
        return self._threads
