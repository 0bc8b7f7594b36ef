"""Asks the foreman for jobs, tasks and attempts, at a pace that leaves most of its time to others.

A request is made again until it is answered, also while no foreman is there.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, TypeVar

from gandy.cli.trace.choice import TaskChoice
from gandy.client.aio import AsyncClient
from gandy.client.connection import check_progress
from gandy.client.repeats import return_pauses
from gandy.clocks import read_monotonic
from gandy.core.model import FINAL_JOB_STATES, TaskState
from gandy.core.requests import (
    Answer,
    FindTasks,
    JobFound,
    JobList,
    ListAttempts,
    ListJobs,
    ListTasks,
    Request,
    ShowJob,
    TaskList,
)
from gandy.core.rows import JobRow, TaskRow
from gandy.errors import GandyError, JobNotFound
from gandy.ids import JobId, TaskNumber

REST: Final = 4.0  # after each request, times the seconds that it took: a fifth of the foreman's time at most
PAGE: Final = 1_000  # rows in one answer: a few milliseconds of the foreman

_FINAL: Final = tuple(sorted(FINAL_JOB_STATES))

A = TypeVar("A", bound=Answer)


class SlowReader:
    """One request after the other. Raises: JobNotFound, NotAllowed and other errors that do not pass."""

    def __init__(self, client: AsyncClient, rest: float = REST) -> None:
        self._client = client
        self._rest = rest
        self._may_ask_at = read_monotonic()
        self._asking = asyncio.Lock()

    async def ask(self, request: Request, expected: type[A]) -> A:
        pauses = return_pauses()
        async with self._asking:
            while True:
                await asyncio.sleep(self._may_ask_at - read_monotonic())
                began = read_monotonic()
                try:
                    return await self._client.connection.ask(request, expected)
                except GandyError as error:
                    if not error.retryable:
                        raise
                    await asyncio.sleep(next(pauses))
                finally:
                    ended = read_monotonic()
                    self._may_ask_at = ended + self._rest * (ended - began)

    # Jobs

    async def list_ended_jobs(self) -> AsyncGenerator[JobRow, None]:
        """All jobs in a final state, the newest first."""
        before: JobId | None = None
        while rows := (await self.ask(ListJobs(_FINAL, PAGE, before), JobList)).rows:
            check_progress(before is None or rows[0].job < before)
            for row in rows:
                yield row
            before = rows[-1].job

    async def find_jobs(self, jobs: Sequence[JobId]) -> list[JobRow]:
        """Those of the jobs that exist, in the order in which they are named. Most of them are neighbours."""
        if len(jobs) == 1:
            return await self._find_job(jobs[0])
        rows = (await self.ask(ListJobs(None, len(jobs), JobId(max(jobs) + 1)), JobList)).rows
        known = {row.job: row for row in rows}
        lowest = min(known, default=max(jobs) + 1)
        found: list[JobRow] = []
        for job in jobs:
            if job in known:
                found.append(known[job])
            elif job < lowest:
                found += await self._find_job(job)
        return found

    async def _find_job(self, job: JobId) -> list[JobRow]:
        try:
            return [(await self.ask(ShowJob(job), JobFound)).row]
        except JobNotFound:
            return []

    # Attempts

    async def list_attempts(self, job: JobId, choice: TaskChoice) -> AsyncGenerator[TaskRow, None]:
        """All attempts at the tasks that are chosen."""
        tasks = self._list_tasks(job, None) if choice.has_all else self._list_sample(job, choice)
        async for row in tasks:
            if row.attempt > 1:
                async for earlier in self._list_attempts(job, row.task):
                    yield earlier
            elif row.attempt:
                yield row

    async def _list_sample(self, job: JobId, choice: TaskChoice) -> AsyncGenerator[TaskRow, None]:
        async for row in self._find_tasks(job, choice.list_chosen()):
            yield row
        left = choice.failed
        async for row in self._list_tasks(job, (TaskState.FAILED,)):
            if not choice.has(row.task):
                if not left:
                    return
                left -= 1
                yield row

    async def _list_tasks(self, job: JobId, states: tuple[TaskState, ...] | None) -> AsyncGenerator[TaskRow, None]:
        after = TaskNumber(0)
        while rows := (await self.ask(ListTasks(job, states, PAGE, after), TaskList)).rows:
            check_progress(rows[-1].task > after)
            for row in rows:
                yield row
            after = rows[-1].task

    async def _find_tasks(self, job: JobId, chosen: Iterable[TaskNumber]) -> AsyncGenerator[TaskRow, None]:
        rest = iter(chosen)
        wanted: list[TaskNumber] = []
        while True:
            wanted += [task for _, task in zip(range(PAGE - len(wanted)), rest, strict=False)]
            if not wanted:
                return
            rows = (await self.ask(FindTasks(job, tuple(wanted)), TaskList)).rows
            if not rows:
                return
            check_progress(rows[-1].task >= wanted[0])
            for row in rows:
                yield row
            wanted = [task for task in wanted if task > rows[-1].task]

    async def _list_attempts(self, job: JobId, task: TaskNumber) -> AsyncGenerator[TaskRow, None]:
        after = 0
        while rows := (await self.ask(ListAttempts(job, task, after), TaskList)).rows:
            check_progress(rows[0].attempt > after)
            for row in rows:
                yield row
            after = rows[-1].attempt
