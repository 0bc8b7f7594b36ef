"""Watches a crew over its own wire: a picture that stays current, whichever foremen come and go."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from gandy.client.aio import AsyncClient
from gandy.client.repeats import refusal_pauses, return_pauses
from gandy.clocks import read_wall
from gandy.core.requests import FindTasks, JobList, ListJobs, ReadStates, TaskList, WatchCrew, WatchTasks
from gandy.core.rows import TaskRow
from gandy.core.views import CrewUpdate, TaskUpdate, glance_at
from gandy.errors import GandyError, JobMoved, JobNotFound, LinkError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_STATES
from gandy.viewer.picture import Picture
from gandy.viewer.series import PERIOD
from gandy.viewer.states import TaskStates

log = logging.getLogger("gandy.viewer")

LOOK_PERIOD: Final = 2.0  # seconds between two looks at which shards there are
RECENT_JOBS: Final = 200  # that have ended, and are shown all the same
LOOKING: Final = -1  # the number under which the look for shards notes its problem
UNSURE_JOBS: Final = 20  # that are looked up each second


class CrewWatcher:
    """`run` keeps `picture` current. `problem` says why it is not, if the crew cannot be reached."""

    def __init__(self, client: AsyncClient, on_change: Callable[[], None] = lambda: None) -> None:
        self.picture = Picture()
        self._problems: dict[int, str] = {}  # by shard, and of the look for shards
        self.foremen = 1  # of the crew
        self._client = client
        self._on_change = on_change
        self._shards: dict[int, asyncio.Task[None]] = {}

    @property
    def is_complete(self) -> bool:
        """True if all shards have sent what they have."""
        return bool(self._shards) and self._shards.keys() <= self.picture.shards.keys()

    @property
    def problem(self) -> str:
        """Why the picture is not current; empty if it is."""
        return next(iter(self._problems.values()), "")

    async def run(self) -> None:
        """Until it is cancelled."""
        looking = asyncio.create_task(self._look_for_shards())
        try:
            while True:
                await asyncio.sleep(PERIOD)
                await self._look_up_jobs()
                self.picture.tick(float(read_wall()))
                self._on_change()
        finally:
            for task in (looking, *self._shards.values()):
                task.cancel()
            await asyncio.gather(looking, *self._shards.values(), return_exceptions=True)

    async def _look_for_shards(self) -> None:
        while True:
            try:
                if not self._shards:
                    await self._list_recent_jobs()
                rows = await self._client.foremen()
            except GandyError as error:
                if not self._shards:  # else these note it themselves
                    self._note_problem(LOOKING, str(error))
            else:
                self._problems.pop(LOOKING, None)
                self.foremen = len(rows)
                self._follow({shard for row in rows for shard in row.shards} or {0})
            await asyncio.sleep(LOOK_PERIOD)

    async def _list_recent_jobs(self) -> None:
        """Those that ended before we looked."""
        found = await self._client.connection.ask(ListJobs(limit=RECENT_JOBS), JobList)
        for row in reversed(found.rows):
            if row.job not in self.picture.jobs:
                self.picture.note_job(glance_at(row), float(read_wall()))

    async def _look_up_jobs(self) -> None:
        """Those that may have ended while their foreman was away, a few at a time."""
        for job in sorted(self.picture.unsure, reverse=True)[:UNSURE_JOBS]:
            try:
                self.picture.note_job(glance_at(await self._client.job(job).status()), float(read_wall()))
            except JobNotFound:
                self.picture.on_forgotten(job)
            except GandyError:
                return

    def _follow(self, shards: set[int]) -> None:
        for shard in shards - self._shards.keys():
            self._shards[shard] = asyncio.create_task(self._watch(shard))
        gone = self._shards.keys() - shards
        for shard in gone:
            self._shards.pop(shard).cancel()
            self._problems.pop(shard, None)
        self.picture.on_lost(gone)

    async def _watch(self, shard: int) -> None:
        pauses, moved_pauses = return_pauses(), refusal_pauses()
        while True:
            try:
                async with aclosing(
                    self._client.connection.watch(WatchCrew(shard), CrewUpdate, latest_only=False)
                ) as updates:
                    async for update in updates:
                        pauses, moved_pauses = return_pauses(), refusal_pauses()
                        self._problems.pop(shard, None)
                        self.picture.apply(update, float(read_wall()))
                        self._on_change()
            except JobMoved:
                await asyncio.sleep(next(moved_pauses))
            except GandyError as error:
                self._note_problem(shard, str(error))
                await asyncio.sleep(next(pauses))

    def _note_problem(self, shard: int, problem: str) -> None:
        if problem not in self._problems.values():
            log.warning("the crew cannot be watched: %s", problem)
        self._problems[shard] = problem
        self._on_change()


async def watch_tasks(client: AsyncClient, job: JobId) -> AsyncGenerator[TaskStates, None]:
    """Iterate over the states of a job's tasks, after each change, until it has ended; also if a foreman is away.

    It is the same object each time. Raises: JobNotFound, Rejected.
    """
    states = TaskStates()
    pauses, moved_pauses = return_pauses(), refusal_pauses()
    while not states.is_final:
        try:
            async with aclosing(client.connection.watch(WatchTasks(job), TaskUpdate, latest_only=False)) as updates:
                async for update in updates:
                    pauses, moved_pauses = return_pauses(), refusal_pauses()
                    states.apply(update)
                    if update.is_whole:
                        await _read_rest(client, job, states)
                    yield states
                    if states.is_final:
                        return
        except LinkError:
            await asyncio.sleep(next(pauses))
        except JobMoved:
            await asyncio.sleep(next(moved_pauses))


async def _read_rest(client: AsyncClient, job: JobId, states: TaskStates) -> None:
    """The states of tasks that did not fit the first update of a large job."""
    for first in range(MAX_STATES + 1, len(states) + 1, MAX_STATES):
        states.apply(await client.connection.ask(ReadStates(job, TaskNumber(first)), TaskUpdate))


async def find_tasks(client: AsyncClient, job: JobId, tasks: tuple[TaskNumber, ...]) -> tuple[TaskRow, ...]:
    """The rows of these tasks, as many as fit one answer. Raises: JobNotFound."""
    return (await client.connection.ask(FindTasks(job, tasks), TaskList)).rows
