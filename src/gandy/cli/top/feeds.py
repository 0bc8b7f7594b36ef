"""Asks for what the picture of the crew does not have, only while the user looks at it: one job, and the foremen."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.cli.top.look import TopView
from gandy.cli.top.scene import JobSeen, Scene
from gandy.client.aio import AsyncClient
from gandy.clocks import read_monotonic
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.views import glance_at
from gandy.errors import GandyError
from gandy.ids import JobId
from gandy.viewer.summary import make_summary, read_sample
from gandy.viewer.watcher import watch_tasks

PERIOD: Final = 2.0  # seconds between two looks
REST: Final = 19  # times as long as a look took: a large job is looked at less often


class Feeds:
    """`follow` what the user looks at; what comes is put into the scene."""

    def __init__(self, client: AsyncClient, scene: Scene, on_change: Callable[[], None]) -> None:
        self._client = client
        self._scene = scene
        self._on_change = on_change
        self._tasks: list[asyncio.Task[None]] = []
        self._followed: tuple[TopView, JobId | None] | None = None

    def follow(self, view: TopView, job: JobId | None) -> None:
        wanted = (view, job if view is TopView.JOB else None)
        if wanted == self._followed:
            return
        self._followed = wanted
        self._stop()
        if view is TopView.JOB and job is not None:
            seen = self._scene.job
            if seen is None or seen.job != job:
                seen = self._scene.job = JobSeen(job)
            seen.problem = ""
            self._tasks = [asyncio.create_task(self._follow_states(seen)), asyncio.create_task(self._follow_job(seen))]
        elif view is TopView.FOREMEN:
            self._tasks = [asyncio.create_task(self._follow_foremen())]

    def _stop(self) -> list[asyncio.Task[None]]:
        stopped, self._tasks = self._tasks, []
        for task in stopped:
            task.cancel()
        return stopped

    async def close(self) -> None:
        await asyncio.gather(*self._stop(), return_exceptions=True)

    async def _follow_states(self, seen: JobSeen) -> None:
        while True:
            try:
                async for states in watch_tasks(self._client, seen.job):
                    seen.states = states.packed
                    self._on_change()
            except GandyError as error:
                seen.problem = str(error)
                self._on_change()
            await asyncio.sleep(PERIOD)  # it has ended, or cannot be looked at; tasks may be tried again later

    async def _follow_job(self, seen: JobSeen) -> None:
        """TopLook at the tasks of a job, when something may have changed about them."""
        counted = None
        while True:
            begin = read_monotonic()
            try:
                row = await self._client.job(seen.job).status()
                seen.glance = glance_at(row)
                is_final = row.state in FINAL_JOB_STATES
                seen.explained = () if is_final else await self._client.job(seen.job).explain()
                if row.counts != counted:
                    counted = row.counts
                    seen.summary = make_summary(await read_sample(self._client, seen.job))
                seen.problem = ""
            except GandyError as error:
                seen.problem = str(error)
            self._on_change()
            await asyncio.sleep(max(PERIOD, REST * (read_monotonic() - begin)))

    async def _follow_foremen(self) -> None:
        while True:
            try:
                self._scene.status = await self._client.status()
                self._scene.foremen = await self._client.foremen()
                self._scene.problems.pop(TopView.FOREMEN, None)
            except GandyError as error:
                self._scene.problems[TopView.FOREMEN] = str(error)
            self._on_change()
            await asyncio.sleep(PERIOD)
