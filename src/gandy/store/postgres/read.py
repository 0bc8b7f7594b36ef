"""Reads jobs and tasks of any shard, and converts them to what a store returns. It writes nothing."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from gandy.core.model import FINAL_JOB_STATES, FINAL_STATES, Input, JobState, TaskState
from gandy.core.rows import JobRow, TaskRow, take_page, weigh_task
from gandy.ids import JobId, TaskNumber
from gandy.limits import LAST_INTEGER, MAX_PAGE, MAX_PAGE_BYTES
from gandy.store.postgres.arrays import pack_int4s, pack_int8s
from gandy.store.postgres.assemble import Assembler, TaskEnd
from gandy.store.postgres.connections import DatabaseConnections, StoreConnection, fetch, fetch_one
from gandy.store.postgres.decide import LONGEST_RUN
from gandy.store.postgres.heads import Head, to_head, to_job
from gandy.store.postgres.load import Loaded, Loader
from gandy.store.postgres.ranges import TaskRange, make_range, pick
from gandy.store.postgres.sql import Statements
from gandy.store.postgres.task_states import TaskFinder
from gandy.store.sqlite_lines import unpack_lines

FIRST_WINDOW: Final = 1_000  # tasks to look at for a list by states; each further window is a few times as large
WINDOW_GROWTH: Final = 4


class Reader:
    """Every method that takes a connection expects a snapshot on it."""

    def __init__(self, connections: DatabaseConnections, sql: Statements) -> None:
        self._connections = connections
        self._sql = sql
        self._loader = Loader(sql)
        self._finder = TaskFinder(sql)

    # Jobs

    async def find_job(self, job: JobId) -> JobRow | None:
        found = await self._connections.read(lambda db: self._find_head(db, job))
        return None if found is None else found.row

    async def find_states(self, jobs: Sequence[JobId]) -> dict[JobId, JobState]:
        values = {"jobs": pack_int8s(jobs)}
        rows = await self._connections.read(lambda db: fetch(db, self._sql["find_states"], values))
        return {job: JobState(state) for job, state in rows}

    async def find_submission(self, key: int) -> JobId | None:
        found = await self._find_number("find_submission", {"submission": key})
        return None if found is None else JobId(found)

    async def get_submission(self, job: JobId) -> int:
        return await self._find_number("get_submission", {"job": job}) or 0

    async def find_shard(self, job: JobId) -> int | None:
        return await self._find_number("find_shard", {"job": job})

    async def _find_number(self, name: str, values: dict[str, int]) -> int | None:
        row = await self._connections.read(lambda db: fetch_one(db, self._sql[name], values))
        return None if row is None else row[0]

    async def list_jobs(self, states: frozenset[JobState] | None, limit: int, before: JobId | None) -> list[JobRow]:
        is_unfinished = states is not None and states.isdisjoint(FINAL_JOB_STATES)
        values = {
            "before": LAST_INTEGER if before is None else before,
            "states": pack_int4s(sorted(JobState if states is None else states)),
            "limit": limit,
            "bytes": MAX_PAGE_BYTES,
        }
        name = "list_unfinished_jobs" if is_unfinished else "list_jobs"
        rows = await self._connections.snapshot(lambda db: fetch(db, self._sql[name], values))
        return [to_job(row) for row in take_page(rows, limit, lambda row: 300 + len(row[1]))]

    async def _find_head(self, db: StoreConnection, job: JobId) -> Head | None:
        row = await fetch_one(db, self._sql["find_job"], {"job": job})
        return None if row is None else to_head(row)

    # Whole jobs

    async def load_job(self, job: JobId) -> Loaded | None:
        async def work(db: StoreConnection) -> list[Loaded]:
            found = await fetch_one(db, self._sql["find_key"], {"job": job})
            return [] if found is None else await self._loader.load(db, found[:1])

        return next(iter(await self._connections.snapshot(work)), None)

    async def load_shard(self, db: StoreConnection, shard: int) -> list[Loaded]:
        return await self._loader.load_shard(db, shard)

    # Tasks

    async def list_tasks(
        self, job: JobId, states: frozenset[TaskState] | None, limit: int, after: TaskNumber
    ) -> list[TaskRow]:
        async def work(db: StoreConnection) -> list[TaskRow]:
            head = await self._find_head(db, job)
            return [] if head is None else await self._list_tasks(db, head, states, limit, after)

        return await self._connections.snapshot(work)

    async def _list_tasks(
        self, db: StoreConnection, head: Head, states: frozenset[TaskState] | None, limit: int, after: int
    ) -> list[TaskRow]:
        wanted = frozenset(TaskState) if states is None else states
        found: list[TaskRow] = []
        size = limit if states is None else max(limit, FIRST_WINDOW)
        while wanted and len(found) < limit and after < head.tasks:
            is_short = TaskState.FINISHED not in wanted
            window = await self._read_range(db, head, after, min(after + size, head.tasks), is_short)
            found += pick(window, head.fresh, wanted, after, limit - len(found))
            after = window.last
            size *= WINDOW_GROWTH if is_short else 1
            if sum(map(weigh_task, found)) > MAX_PAGE_BYTES:
                break
        return take_page(found, limit, weigh_task)

    async def find_tasks(self, job: JobId, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        async def work(db: StoreConnection) -> list[TaskRow]:
            head = await self._find_head(db, job)
            return [] if head is None else await self._finder.find_tasks(db, head, tasks)

        return await self._connections.snapshot(work)

    async def read_states(self, job: JobId, first: TaskNumber, most: int) -> tuple[int, bytes] | None:
        async def work(db: StoreConnection) -> tuple[int, bytes] | None:
            head = await self._find_head(db, job)
            return None if head is None else await self._finder.read_states(db, head, first, most)

        return await self._connections.snapshot(work)

    async def list_results(self, job: JobId, limit: int, after: TaskNumber) -> list[TaskRow]:
        async def work(db: StoreConnection) -> list[TaskRow]:
            head = await self._find_head(db, job)
            rows = [] if head is None else await self._list_tasks(db, head, FINAL_STATES, limit, after)
            return await self._add_results(db, head.key, rows) if head and rows else []

        return take_page(await self._connections.snapshot(work), limit, weigh_task)

    async def _add_results(self, db: StoreConnection, key: int, rows: list[TaskRow]) -> list[TaskRow]:
        """The rows with their results, as many as fit a page."""
        values = {"key": key, "after": rows[0].task - 1, "last": rows[-1].task, "bytes": MAX_PAGE_BYTES}
        results = await fetch(db, self._sql["list_results"], values)
        if results and len(results) < results[0][3]:  # the rest does not fit
            rows = [row for row in rows if row.task <= results[-1][0]]
        values_of = {(task, attempt): value for task, attempt, value, _ in results}
        return [_add_result(row, values_of.get((row.task, row.attempt), b"")) for row in rows]

    async def list_attempts(self, job: JobId, task: TaskNumber, after: int = 0) -> list[TaskRow]:
        async def work(db: StoreConnection) -> list[TaskRow]:
            head = await self._find_head(db, job)
            if head is None:
                return []
            values = {"key": head.key, "after": task - 1, "last": task, "bytes": LAST_INTEGER}
            ends = [TaskEnd(*row[:-1]) for row in await fetch(db, self._sql["list_ends"], values)]
            assembler = await self._read_runs(db, head.key, task - 1, task)
            return list(assembler.make_attempts(task, ends, after))

        return take_page(await self._connections.snapshot(work), MAX_PAGE, weigh_task)

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        async def work(db: StoreConnection) -> list[tuple[Any, ...]]:
            found = await fetch_one(db, self._sql["find_key"], {"job": job})
            if found is None:
                return []
            return await fetch(db, self._sql["read_lines"], {"key": found[0], "first": first, "count": count})

        return unpack_lines(await self._connections.read(work), first, count)

    # Ranges of tasks

    async def _read_range(self, db: StoreConnection, head: Head, after: int, last: int, is_short: bool) -> TaskRange:
        """What is known of a range of tasks. If it is short, plain tasks are in runs; else its end may be nearer."""
        last = min(last, head.tasks)
        values = {"key": head.key, "after": after, "last": last, "bytes": MAX_PAGE_BYTES}
        ends = await fetch(db, self._sql["list_other_ends" if is_short else "list_ends"], values)
        runs = await fetch(db, self._sql["list_plain_runs"], values) if is_short else None
        if is_short:
            ends = await self._add_first_ends(db, head.key, ends)
        elif ends and len(ends) < ends[0][-1]:  # the rest does not fit: the last task may have more rows
            last = max(ends[-1][0] - 1, ends[0][0])
            ends = [row for row in ends if row[0] <= last]
            if ends[-1][0] == ends[0][0]:
                values = {"key": head.key, "after": after, "last": last, "bytes": LAST_INTEGER}
                ends = await fetch(db, self._sql["list_ends"], values)
        assembler = await self._read_runs(db, head.key, after, last)
        return make_range(assembler, [TaskEnd(*row[:-1]) for row in ends], runs, after, last)

    async def _add_first_ends(
        self, db: StoreConnection, key: int, ends: list[tuple[Any, ...]]
    ) -> list[tuple[Any, ...]]:
        """Rows that tasks with other rows have, too: users may change a task before or after it simply finished."""
        changed = sorted({row[0] for row in ends if row[1] < 2})
        if not changed:
            return ends
        values = {"key": key, "tasks": pack_int4s(changed)}
        return sorted([*ends, *await fetch(db, self._sql["list_first_ends"], values)], key=lambda row: row[:3])

    async def _read_runs(self, db: StoreConnection, key: int, after: int, last: int) -> Assembler:
        values = {"key": key, "after": after, "last": last, "longest": LONGEST_RUN}
        claims = await fetch(db, self._sql["list_claims"], values)
        begins = await fetch(db, self._sql["list_begins"], values)
        return Assembler(claims, begins)


def _add_result(row: TaskRow, result: bytes) -> TaskRow:
    if row.ending is None or not result:
        return row
    return replace(row, ending=replace(row.ending, result=bytes(result)))
