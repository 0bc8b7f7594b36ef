"""The states of jobs' tasks as events. A job is watched once, however many browsers look, and only while one does."""

import asyncio
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Final

from gandy.client.aio import AsyncClient
from gandy.core.views import TaskRun
from gandy.dashboard.audience import EventAudience
from gandy.dashboard.limits import MAX_WATCHED_JOBS
from gandy.dashboard.messages import HttpRefusal
from gandy.dashboard.stream import Stream, make_event
from gandy.errors import GandyError
from gandy.ids import JobId
from gandy.limits import MAX_RUNS
from gandy.viewer.states import TaskStates
from gandy.viewer.watcher import watch_tasks

LEVEL: Final = 1  # of zlib


class StateFeed:
    """The states of one job's tasks, from the first browser that looks to the last."""

    def __init__(self, client: AsyncClient, job: JobId) -> None:
        self._client = client
        self._job = job
        self._states: TaskStates | None = None  # until they are known
        self._runs: list[TaskRun] | None = []  # since the last event; None: everything may have changed
        self._told = 0  # how many tasks browsers know of
        self._whole = b""  # the event with everything, if it is still true
        self._problem = ""
        self._audience = EventAudience()
        self._ended = asyncio.Event()
        self._work = asyncio.get_running_loop().create_task(self._run())
        self.users = 0

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    async def close(self) -> None:
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)

    async def stream(self, stream: Stream) -> None:
        """Send events until the job has ended or the browser is gone."""
        self._audience.join(stream)
        try:
            await self._ended.wait()
            if self._states is not None and self._audience.needs_all(stream):
                stream.write(self._make_whole())
            stream.write(make_event("end", {"problem": self._problem}))
        finally:
            self._audience.leave(stream)

    async def _run(self) -> None:
        sending = asyncio.create_task(self._send_events())
        try:
            async with aclosing(watch_tasks(self._client, self._job)) as changes:
                async for states in changes:
                    self._note(states)
        except GandyError as error:
            self._problem = str(error)
        finally:
            sending.cancel()
        self._send()
        self._ended.set()

    def _note(self, states: TaskStates) -> None:
        self._states, self._whole = states, b""
        if states.runs is None or self._runs is None or len(self._runs) + len(states.runs) > MAX_RUNS:
            self._runs = None
        else:
            self._runs += states.runs
        self._audience.wake.set()

    async def _send_events(self) -> None:
        while True:
            await self._audience.wait()
            self._send()

    def _send(self) -> None:
        if self._states is None:
            return
        runs, self._runs = self._runs, []
        told, self._told = self._told, len(self._states)
        if runs is None:
            change = None
        elif runs or told != self._told:
            change = make_event("runs", {"tasks": self._told, "runs": runs})
        else:
            change = b""
        self._audience.publish(change, self._make_whole)

    def _make_whole(self) -> bytes:
        assert self._states is not None
        if not self._whole:
            packed = b64encode(zlib.compress(self._states.packed, LEVEL)).decode("ascii")
            self._whole = make_event("states", {"tasks": len(self._states), "packed": packed})
        return self._whole


class StateFeeds:
    """The feeds of all jobs that are watched now."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._feeds: dict[JobId, StateFeed] = {}

    def __len__(self) -> int:
        return len(self._feeds)

    def check_room(self, job: JobId) -> None:
        """Raises: HttpRefusal."""
        if job not in self._feeds and len(self._feeds) >= MAX_WATCHED_JOBS:
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too_many", "the tasks of too many jobs are watched now")

    @asynccontextmanager
    async def follow(self, job: JobId) -> AsyncIterator[StateFeed]:
        feed = self._feeds.get(job)
        if feed is None or feed.has_ended:
            feed = self._feeds[job] = StateFeed(self._client, job)
        feed.users += 1
        try:
            yield feed
        finally:
            feed.users -= 1
            if not feed.users:
                if self._feeds.get(job) is feed:
                    del self._feeds[job]
                await feed.close()

    async def stream(self, job: JobId, stream: Stream) -> None:
        """Send the events of a job to one browser."""
        async with self.follow(job) as feed:
            await feed.stream(stream)
