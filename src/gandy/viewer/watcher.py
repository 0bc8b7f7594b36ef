"""Watches a crew over its own wire: a picture that stays current, whichever foremen come and go."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final

from gandy.client.aio import AsyncClient
from gandy.client.repeats import refusal_pauses, return_pauses
from gandy.clocks import read_wall
from gandy.core.requests import FindTasks, JobList, ListJobs, ReadStates, TaskList, WatchCrew, WatchTasks
from gandy.core.rows import TaskRow
from gandy.core.shards import NO_SHARD
from gandy.core.views import CrewUpdate, TaskUpdate, glance_at
from gandy.errors import GandyError, JobMoved, JobNotFound
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_STATES
from gandy.viewer.picture import Picture
from gandy.viewer.series import PERIOD
from gandy.viewer.states import TaskStates

log = logging.getLogger("gandy.viewer")

RECENT_JOBS: Final = 200  # that have ended, and are shown all the same
UNSURE_JOBS: Final = 20  # that are looked up each second
QUIET_TRIES: Final = 5  # that may fail before users are told: a shard moves within a second or two


class CrewWatcher:
    """`run` keeps `picture` current. `problem` says why it is not, if a part of the crew cannot be reached."""

    def __init__(self, client: AsyncClient, on_change: Callable[[], None] = lambda: None) -> None:
        self.picture = Picture()
        self._client = client
        self._on_change = on_change
        self._watches: dict[int, asyncio.Task[None]] = {}  # by shard; that of NO_SHARD finds the others
        self._named: dict[int, tuple[int, ...]] = {}  # by shard: the shards that it named last
        self._problems: dict[int, str] = {}  # by shard
        self._has_listed = False  # the jobs that ended before we looked

    @property
    def problem(self) -> str:
        """Why the picture is not current; empty if it is."""
        return next(iter(self._problems.values()), "")

    @property
    def foremen(self) -> int:
        """Of the crew."""
        return max((update.foremen for update in self.picture.shards.values()), default=1)

    @property
    def is_complete(self) -> bool:
        """True once every shard has sent all that there is to see, and jobs that had ended before are listed."""
        return self._has_listed and bool(self.picture.shards) and self._watches.keys() <= self.picture.shards.keys()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_up_jobs())
            self._watches[NO_SHARD] = group.create_task(self._watch(NO_SHARD, group))
            while True:
                await asyncio.sleep(PERIOD)
                self.picture.tick(float(read_wall()))
                self._on_change()

    # Shards

    async def _watch(self, shard: int, group: asyncio.TaskGroup) -> None:
        tries, pauses, moved_pauses = 0, return_pauses(), refusal_pauses()
        while True:
            try:
                async with aclosing(self._client.connection.view(WatchCrew(shard), CrewUpdate)) as updates:
                    async for update in updates:
                        tries, pauses, moved_pauses = 0, return_pauses(), refusal_pauses()
                        self._problems.pop(shard, None)
                        self._take(shard, update, group)
            except GandyError as error:
                self._named.pop(shard, None)
                tries += 1
                if tries > QUIET_TRIES or not isinstance(error, JobMoved):
                    self._note_problem(shard, str(error))
                await asyncio.sleep(next(moved_pauses if isinstance(error, JobMoved) else pauses))

    def _take(self, shard: int, update: CrewUpdate, group: asyncio.TaskGroup) -> None:
        self._named[shard] = update.shards
        if update.shard == shard:
            self.picture.apply(update, float(read_wall()))
        self._follow({each for named in self._named.values() for each in named}, group)
        self._on_change()

    def _follow(self, shards: set[int], group: asyncio.TaskGroup) -> None:
        """Watch these shards, and no others. None: the crew has only one, without a number."""
        wanted = shards or {NO_SHARD}
        for shard in self._watches.keys() - wanted:
            self._watches.pop(shard).cancel()
            self._named.pop(shard, None)
            self._problems.pop(shard, None)
            self.picture.on_lost((shard,))
        for shard in wanted - self._watches.keys():
            self._watches[shard] = group.create_task(self._watch(shard, group))

    def _note_problem(self, shard: int, problem: str) -> None:
        if problem != self._problems.get(shard):
            log.warning("the crew cannot be watched: %s", problem)
        self._problems[shard] = problem
        self._on_change()

    # Jobs that no update tells of

    async def _look_up_jobs(self) -> None:
        """First those that ended before we looked; then those that may have ended while their foreman was away."""
        while True:
            with suppress(GandyError):
                if not self._has_listed:
                    await self._list_recent_jobs()
                    self._has_listed = True
                for job in sorted(self.picture.unsure, reverse=True)[:UNSURE_JOBS]:
                    await self._look_up(job)
            await asyncio.sleep(PERIOD)

    async def _list_recent_jobs(self) -> None:
        found = await self._client.connection.ask(ListJobs(limit=RECENT_JOBS), JobList)
        for row in reversed(found.rows):
            if row.job not in self.picture.jobs:
                self.picture.note_job(glance_at(row), float(read_wall()))
        self._on_change()

    async def _look_up(self, job: JobId) -> None:
        try:
            row = await self._client.job(job).status()
        except JobNotFound:
            self.picture.on_forgotten(job)
        else:
            if job in self.picture.unsure:  # else an update came meanwhile, which is newer
                self.picture.note_job(glance_at(row), float(read_wall()))
        self._on_change()


async def watch_tasks(client: AsyncClient, job: JobId) -> AsyncGenerator[TaskStates, None]:
    """Iterate over the states of a job's tasks, after each change, until it has ended; also if a foreman is away.

    It is the same object each time. Raises: JobNotFound, Rejected.
    """
    states = TaskStates()
    pauses, moved_pauses = return_pauses(), refusal_pauses()
    while not states.is_final:
        try:
            async with aclosing(client.connection.view(WatchTasks(job), TaskUpdate)) as updates:
                async for update in updates:
                    pauses, moved_pauses = return_pauses(), refusal_pauses()
                    states.apply(update)
                    if update.is_whole:
                        await _read_rest(client, job, states)
                    yield states
                    if states.is_final:
                        return
        except GandyError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(next(moved_pauses if isinstance(error, JobMoved) else pauses))


async def _read_rest(client: AsyncClient, job: JobId, states: TaskStates) -> None:
    """The states of tasks that did not fit the first update of a large job."""
    for first in range(MAX_STATES + 1, len(states) + 1, MAX_STATES):
        states.apply(await client.connection.ask(ReadStates(job, TaskNumber(first)), TaskUpdate))


async def find_tasks(client: AsyncClient, job: JobId, tasks: tuple[TaskNumber, ...]) -> tuple[TaskRow, ...]:
    """The rows of these tasks, as many as fit one answer. Raises: JobNotFound."""
    return (await client.connection.ask(FindTasks(job, tasks), TaskList)).rows
