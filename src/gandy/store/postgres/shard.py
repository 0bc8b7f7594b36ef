"""The store of one shard: its owner decides in memory, and appends that in one statement, fenced by the epoch.

A commit whose answer was lost is found out about before anything else is committed.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gandy.core.model import AttemptKey, Input, JobState, TaskState
from gandy.core.records import JobAdded, LinesAdded, Record
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow
from gandy.core.shards import Lease
from gandy.errors import OutcomeUnknown, ShardLost, StoreError
from gandy.ids import JobId, TaskNumber
from gandy.store.law import check
from gandy.store.postgres.arrays import PackedArray, pack_byteas, pack_float8s, pack_int4s, pack_int8s
from gandy.store.postgres.connections import DatabaseConnections, StoreConnection, execute, fetch, fetch_one
from gandy.store.postgres.decide import Decided, Rows, Shard, list_meant
from gandy.store.postgres.explain import Disconnected
from gandy.store.postgres.history import PostgresHistory
from gandy.store.postgres.load import Loaded
from gandy.store.postgres.parts import Parts
from gandy.store.postgres.read import Reader
from gandy.store.postgres.schema import make_key
from gandy.store.postgres.sql import Statements
from gandy.store.submissions import KeyTaken, explain_taken

Pack = Callable[[Any], PackedArray]

# The types of the columns of what a commit appends, in order. Statements run in this order, too.
COLUMNS: Final[Mapping[str, tuple[Pack, ...]]] = {
    "jobs": (pack_int8s, pack_int8s, pack_int8s, pack_float8s, pack_byteas),
    "changes": (pack_int8s, *[pack_int4s] * 5, pack_float8s, *[pack_int4s] * 6),
    "claims": (pack_int8s, pack_int4s, pack_int4s, pack_int4s, pack_int4s, pack_float8s, pack_byteas),
    "begins": (pack_int8s, pack_int4s, pack_int4s, pack_int4s),
    "ends": (pack_int8s, pack_int4s, pack_int4s, pack_int4s, pack_float8s, pack_byteas),
    "steps": (pack_int8s, *[pack_int4s] * 4, pack_float8s, pack_float8s, pack_int4s, pack_int4s, pack_byteas),
    "results": (pack_int8s, pack_int4s, pack_int4s, pack_float8s, pack_byteas, pack_int4s),
    "lines": (pack_int8s, pack_int4s, pack_byteas),
    "uploads": (pack_int8s,),
    "uploaded": (pack_int8s,),
    "unlined": (pack_int8s,),
    "done": (pack_int8s,),
    "done_again": (pack_int8s,),
    "reopened": (pack_int8s,),
    "drops": (pack_float8s,),
    "forgotten": (pack_int8s,),
}

# What else belongs to a part of a commit.
BESIDES: Final = {"forgotten": ("commit_forgotten_done", "commit_forgotten_reopened", "commit_forgotten_keys")}

DRAW_SECONDS: Final = 5.0  # that a number may take, which is the first thing that a new job needs
SERIALS: Final = 100  # drawn at once: each new job needs one


class _Pending(NamedTuple):
    """A commit whose outcome is not known."""

    number: int
    records: Sequence[Record]
    lost: frozenset[AttemptKey]


class PostgresStore:
    """All methods may be called while others run, but for `commit`, of which there is one at a time."""

    def __init__(self, connections: DatabaseConnections, sql: Statements, parts: Parts, lease: Lease) -> None:
        self._connections = connections
        self._sql = sql
        self._parts = parts
        self._reader = Reader(connections, sql)
        self.history = PostgresHistory(connections, sql, parts, self._make_fence)
        self._mine = {"shard": lease.shard, "epoch": lease.epoch, "owner": lease.owner}
        self._generation = (
            0  # of our statements: a lost one of an earlier generation writes nothing, however late it comes
        )
        self._shard = Shard()
        self._number = 0  # of the last commit in this epoch
        self._pending: _Pending | None = None
        self._serials: list[int] = []
        self._drops = 0
        self._last_drawn = 0

    def _make_fence(self) -> dict[str, object]:
        return {**self._mine, "generation": self._generation}

    # Opening

    async def open(self) -> Recovered:
        await self._drop_uploads()
        loaded, next_job = await self._connections.snapshot(self._load)
        readable = [one for one in loaded if not one.recovered.row.problem]
        self._shard = Shard()
        self._shard.jobs = {one.recovered.row.job: one.job for one in readable}
        unreadable = tuple(one.recovered.row.job for one in loaded if one.recovered.row.problem)
        return Recovered(tuple(one.recovered for one in readable), next_job, unreadable)

    async def _drop_uploads(self) -> None:
        found = await self._connections.write(lambda db: fetch_one(db, self._sql["drop_uploads"], self._mine))
        if found == (0,):
            raise self._make_lost()

    async def _load(self, db: StoreConnection) -> tuple[list[Loaded], JobId]:
        found = await fetch_one(db, self._sql["get_next_job"])
        assert found is not None
        next_job, self._drops = found
        return await self._reader.load_shard(db, self._mine["shard"]), next_job  # type: ignore[arg-type]

    async def close(self) -> None:
        """The connections belong to the crew."""

    # Writing

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        check(records)
        if self._pending is not None:
            done = await self._resolve()
            if done is not None and list(done.records) == list(records):
                return done.lost
        await self._load_meant(records)
        await self._draw_serials(sum(isinstance(record, JobAdded | LinesAdded) for record in records))
        decided = self._shard.decide(records, self._make_key)
        self._number += 1
        try:
            await self._append(decided, records)
        except KeyTaken as taken:
            self._shard.roll_back()
            raise await explain_taken(records, self.find_submission, taken) from None
        except BaseException:
            if self._pending is None:
                self._shard.roll_back()
            raise
        self._shard.accept()
        self._drops += len(decided.rows.get("drops", ()))
        return decided.lost

    async def _append(self, decided: Decided, records: Sequence[Record]) -> None:
        """Raises: ShardLost; OutcomeUnknown; KeyTaken; StoreError."""
        values = self._make_values(decided)
        for _ in range(2):  # the first connection may have been broken long ago
            try:
                await self._send(decided, {**values, **self._make_fence()})
            except Disconnected:
                self._pending = _Pending(self._number, records, decided.lost)
                is_done = await self._is_done()
                self._pending = None
                if is_done:
                    return
            except asyncio.CancelledError:
                self._pending = _Pending(self._number, records, decided.lost)
                raise
            else:
                return
        raise StoreError(f"{self._connections.url}: the connection broke", retryable=True)

    async def _send(self, decided: Decided, values: dict[str, object]) -> None:
        if decided.has_forgotten_first:

            async def work(db: StoreConnection) -> int:
                # The commit's number is in the second one only.
                first = {name: rows for name, rows in decided.rows.items() if name == "forgotten"}
                await fetch(db, self._compose(first, "")[0], values)
                rest = {name: rows for name, rows in decided.rows.items() if name != "forgotten"}
                ((fenced, *_),) = await fetch(db, self._compose(rest, "commit_numbers")[0], values)
                return int(fenced)

            fenced = await self._connections.transact(work)
        else:
            numbers = "commit_numbers" if decided.last_job > self._last_drawn else ""
            statement, _ = self._compose(decided.rows, numbers)
            ((fenced, *_),) = await self._connections.write(lambda db: fetch(db, statement, values))
        if not fenced:
            raise self._make_lost()

    def _compose(self, rows: Rows, numbers: str) -> tuple[Any, tuple[str, ...]]:
        names = ["commit_number"] if numbers or "forgotten" not in rows or len(rows) > 1 else []
        for name in COLUMNS:
            if name in rows:
                names += [f"commit_{name}", *BESIDES.get(name, ())]
        parts = (*names, numbers) if numbers else tuple(names)
        singles = {f"commit_{name}" for name, found in rows.items() if len(found) == 1}
        return self._sql.compose_commit(parts, singles), parts

    def _make_values(self, decided: Decided) -> dict[str, object]:
        values: dict[str, object] = {**self._mine, "number": self._number, "last_job": decided.last_job}
        values["commit_part"], values["result_part"] = self._parts.get("commits"), self._parts.get("results")
        values["drops"] = self._drops
        for name, rows in decided.rows.items():
            columns = zip(*rows, strict=True)
            for place, (pack, column) in enumerate(zip(COLUMNS[name], columns, strict=True)):
                values[f"{name}_{place}"] = pack(column)
        return values

    async def _resolve(self) -> _Pending | None:
        """Find out about the last commit. Returns it if it was done; else it is taken back."""
        pending = self._pending
        assert pending is not None
        is_done = await self._is_done()
        self._pending = None
        if not is_done:
            self._shard.roll_back()
            return None
        self._shard.accept()
        return pending

    async def _is_done(self) -> bool:
        """False: the last commit was not done, and cannot be any more. Raises: OutcomeUnknown; ShardLost."""

        async def work(db: StoreConnection) -> tuple[int | None, bool]:
            mine = await fetch_one(db, self._sql["find_commit"], self._mine)
            found = await fetch_one(db, self._sql["has_commit"], {**self._mine, "number": self._number})
            assert found is not None
            return (None if mine is None else mine[0]), found[0]

        try:
            generation, is_done = await self._connections.transact(work)
        except StoreError as error:
            raise OutcomeUnknown(f"it is not known whether the last commit was done: {error}") from None
        if generation is None:
            raise self._make_lost()
        self._generation = generation
        return is_done

    async def prepare(self) -> None:
        if self._pending is not None:
            raise StoreError(f"{self._connections.url}: a commit waits to be found out about", retryable=True)
        is_standby, count = await self._connections.transact(self._check_room)
        if is_standby:
            raise StoreError(f"{self._connections.url}: it is a standby: name the primary", retryable=True)
        if not count:
            raise self._make_lost()

    async def _check_room(self, db: StoreConnection) -> tuple[bool, int]:
        """Whether this is a standby, and how many shards are ours: one or none."""
        await db.execute("SET LOCAL work_mem = '64kB'")  # what is larger goes to a file
        await fetch(db, self._sql["check_room"])
        found = await fetch_one(db, self._sql["check_writable"], self._mine)
        assert found is not None
        return bool(found[0]), int(found[1])

    async def draw_number(self) -> JobId | None:
        try:
            async with asyncio.timeout(DRAW_SECONDS):
                found = await self._connections.write(lambda db: fetch_one(db, self._sql["draw_number"]))
        except TimeoutError:
            text = f"{self._connections.url}: the database has not answered for {DRAW_SECONDS:g} s"
            raise StoreError(text, retryable=True) from None
        assert found is not None
        self._last_drawn = max(self._last_drawn, found[0])
        return JobId(found[0])

    async def _load_meant(self, records: Sequence[Record]) -> None:
        """Load jobs that are final, of which users changed something."""
        for job in sorted(list_meant(records) - self._shard.jobs.keys()):
            found = await self._reader.load_job(job)
            if found is not None and await self._own(job):
                self._shard.jobs[job] = found.job

    async def _own(self, job: JobId) -> bool:
        """True if a job is ours, or becomes ours because its own shard is retired."""
        if await self._reader.find_shard(job) == self._mine["shard"]:
            return True
        return bool(
            await self._connections.write(lambda db: execute(db, self._sql["adopt"], {**self._mine, "job": job}))
        )

    async def _draw_serials(self, count: int) -> None:
        if len(self._serials) < count:
            values = {"count": count + SERIALS}
            rows = await self._connections.write(lambda db: fetch(db, self._sql["draw_serials"], values))
            self._serials += [serial for (serial,) in rows]

    def _make_key(self) -> int:
        return make_key(self._parts.get("jobs"), self._serials.pop(0))

    def _make_lost(self) -> ShardLost:
        return ShardLost(f"{self._connections.url}: another foreman owns shard {self._mine['shard']} now")

    # Reading

    async def find_job(self, job: JobId) -> JobRow | None:
        return await self._reader.find_job(job)

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        return await self._reader.find_states(jobs)

    async def load_job(self, job: JobId) -> RecoveredJob | None:
        found = await self._reader.load_job(job)
        return None if found is None else found.recovered

    async def find_submission(self, key: int) -> JobId | None:
        found = await self._reader.find_submission(key)
        if found is not None:
            await self._confirm()
        return found

    async def _confirm(self) -> None:
        """Wait until a synchronous standby has all that was just read: a commit that has not been answered yet can be
        seen if its session is gone. Raises: StoreError."""
        found = await self._connections.write(lambda db: fetch_one(db, self._sql["check_writable"], self._mine))
        if found is None or not found[1]:  # then nothing was locked, and there was nothing to wait for
            raise StoreError(str(self._make_lost()), retryable=True)

    async def get_submission(self, job: JobId) -> int:
        return await self._reader.get_submission(job)

    async def find_shard(self, job: JobId) -> int | None:
        return await self._reader.find_shard(job)

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        return await self._reader.list_jobs(states, limit, before)

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        return await self._reader.list_tasks(job, states, limit, after)

    async def find_tasks(self, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        return await self._reader.find_tasks(job, tasks)

    async def read_states(self, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
        return await self._reader.read_states(job, first, most)

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        return await self._reader.list_results(job, limit, after)

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        return await self._reader.list_attempts(job, task, after)

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        return await self._reader.read_lines(job, first, count)
