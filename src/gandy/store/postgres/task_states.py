"""Reads the states of all tasks of a job, and the rows of some: with few statements, whose answers are bounded.

Python's part of the work is done on a thread, so that a large answer does not hold up the foreman.
"""

import asyncio
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple

from gandy.core.model import GIVEN_STATES, TaskState
from gandy.core.rows import TaskRow, take_page, weigh_task
from gandy.ids import TaskNumber
from gandy.limits import MAX_PAGE_BYTES
from gandy.store.postgres.arrays import pack_int4s
from gandy.store.postgres.assemble import Assembler, TaskEnd
from gandy.store.postgres.connections import StoreConnection, fetch, fetch_one
from gandy.store.postgres.decide import LONGEST_RUN
from gandy.store.postgres.heads import Head
from gandy.store.postgres.sql import Statements
from gandy.store.task_states import BLOCK, StateRange, find_only_state

Found = list[tuple[Sequence[int], TaskState]]  # tasks, and the state that they are in; later ones replace earlier ones


class TaskFinder:
    """Every method expects a snapshot on its connection."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    # States

    async def read_states(self, db: StoreConnection, head: Head, first: int, most: int) -> tuple[int, bytes]:
        counts = astuple(head.row.counts)
        last = min(head.tasks, first + most - 1)
        only = find_only_state(counts)
        if only is not None or last < first:
            return head.tasks, StateRange(first, last, only or head.fresh).to_bytes()
        found: Found = []
        values = {"key": head.key, "first": first, "last": last, "block": BLOCK, "longest": LONGEST_RUN}
        # Of the tasks that did not simply finish there are mostly few, and an index has them alone.
        rest = head.fresh if counts[head.fresh] else TaskState.FINISHED
        if rest is not TaskState.FINISHED and counts[TaskState.FINISHED]:
            found += await self._find_ended(db, values)
        found += _to_tasks(await fetch(db, self._sql["list_other_states"], values))
        if any(counts[state] for state in GIVEN_STATES):
            found += _to_tasks(await fetch(db, self._sql["list_given_states"], values))
        return head.tasks, await asyncio.to_thread(_paint, StateRange(first, last, rest), found)

    async def _find_ended(self, db: StoreConnection, values: dict[str, int]) -> Found:
        """The tasks that have ended a first attempt."""
        found: Found = []
        parts: list[int] = []
        for start, count in await fetch(db, self._sql["count_first_ends"], values):
            end = min(start + BLOCK - 1, values["last"])
            if count == end - start + 1:
                found.append((range(start, end + 1), TaskState.FINISHED))
            elif count:
                parts.append(start)
        if parts:
            row = await fetch_one(db, self._sql["list_first_tasks"], {**values, "firsts": pack_int4s(parts)})
            assert row is not None
            found.append((_unpack(row[0]), TaskState.FINISHED))
        return found

    # Rows

    async def find_tasks(self, db: StoreConnection, head: Head, tasks: Sequence[TaskNumber]) -> list[TaskRow]:
        wanted = [task for task in tasks if 1 <= task <= head.tasks]
        values = {"key": head.key, "longest": LONGEST_RUN}
        bounds = {"tasks": pack_int4s(wanted), "bytes": MAX_PAGE_BYTES}
        rows = await fetch(db, self._sql["find_ends"], {**values, **bounds})
        if rows and len(rows) < rows[0][-1]:  # the rest does not fit
            wanted = [task for task in wanted if task <= rows[-1][0]]
        ends = [TaskEnd(*row[:-1]) for row in rows]
        last = {end.task: end for end in ends}
        ended = [(end.task, end.attempt) for end in last.values() if end.attempt]
        # Attempts that a worker may have now: those after the last end.
        next_ones = [
            (task, last[task].attempt + 1 if task in last else 1) for task in wanted if _may_go_on(last.get(task))
        ]
        counts = astuple(head.row.counts)
        given = next_ones if any(counts[state] for state in GIVEN_STATES) else []
        claims = await fetch(db, self._sql["find_claims"], {**values, **_pack([*ended, *given])})
        begins = await fetch(db, self._sql["find_begins"], {**values, **_pack(given)}) if given else []
        return await asyncio.to_thread(_make_rows, Assembler(claims, begins), ends, wanted, head.fresh)


def _may_go_on(end: TaskEnd | None) -> bool:
    """True if a worker may have been given the task after this end."""
    return end is None or end.state == TaskState.WAITING


def _pack(attempts: Sequence[tuple[int, int]]) -> dict[str, object]:
    return {
        "tasks": pack_int4s([task for task, _ in attempts]),
        "attempts": pack_int4s([attempt for _, attempt in attempts]),
    }


def _make_rows(
    assembler: Assembler, ends: Sequence[TaskEnd], wanted: Sequence[TaskNumber], fresh: TaskState
) -> list[TaskRow]:
    rows = {row.task: row for row, _ in assembler.make_rows(ends)}
    for task in wanted:
        if task not in rows:
            claim = assembler.claims.find_last(task)
            rows[task] = TaskRow(task, fresh, 0) if claim is None else assembler.make_given(task, claim, None)
    return take_page((rows[task] for task in wanted), len(wanted), weigh_task)


def _to_tasks(rows: list[tuple[Any, ...]]) -> Found:
    return [(_unpack(tasks), TaskState(state)) for state, tasks in rows]


def _unpack(packed: bytes) -> Sequence[int]:
    numbers = array("i", packed)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _paint(states: StateRange, found: Found) -> bytes:
    for tasks, state in found:
        states.set_tasks(tasks, state)
    return states.to_bytes()
