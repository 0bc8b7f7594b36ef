"""A real foreman and a real worker: what waits on the worker is assigned, and what has begun runs."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.integration.local_crews import a_client, a_foreman_program, run
from tests.waiting import until_async

from gandy import AsyncClient, AsyncJob
from gandy.core.model import Cause, Counts, TaskState
from gandy.foreman.main import ForemanProgram, socket_address
from gandy.functions.tag import PYTHON_TAG
from gandy.ids import TaskNumber
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.service import WorkerService

SLOTS = 2


class Crew:
    """A foreman, a worker with two slots and places to wait, and a client."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Crew":
        self.program: ForemanProgram = await self._stack.enter_async_context(a_foreman_program(self.home))
        self.client: AsyncClient = await self._stack.enter_async_context(a_client(self.home))
        about = About("id-1", "w", SLOTS, (PYTHON_TAG,), ahead=50)
        self.worker = WorkerService(Reach((socket_address(str(self.home)),)), about, self.home / "out")
        self._working = asyncio.create_task(self.worker.run())
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.worker.stop()
        await self._working
        await self._stack.aclose()

    async def find_counts(self, job: AsyncJob) -> Counts:
        return (await job.status()).counts

    async def cut(self) -> None:
        assert self.worker.conversations.all[0].link.link is not None
        self.worker.conversations.all[0].link.link.abort()


def test_what_waits_on_a_worker_is_assigned_until_it_says_that_it_runs(tmp_path: Path) -> None:
    async def test() -> None:
        gate = tmp_path / "gate"
        async with Crew(tmp_path) as crew:
            line = f"[ $GANDY_TASK -le 20 ] || while [ ! -e {gate} ]; do sleep 0.01; done"
            job = await crew.client.submit(line, tasks=40)
            most = 0
            while (counts := await crew.find_counts(job)).running < SLOTS:
                most = max(most, counts.assigned)
            assert (counts.running, counts.finished) == (SLOTS, 20)
            running = [row.task async for row in job.tasks([TaskState.RUNNING])]
            assert running == [21, 22]
            (worker,) = await crew.client.workers()
            assert worker.running == SLOTS
            status = await crew.client.status()
            assert (status.running, status.assigned) == (SLOTS, counts.assigned)
            gate.touch()
            row = await job.wait()
            assert row.counts == Counts(finished=40)
            assert most > 0

    run(test())


def test_after_a_cut_what_runs_is_reported_again(tmp_path: Path) -> None:
    """Its foreman heard nothing of it, and a new one may not know."""

    async def test() -> None:
        gate = tmp_path / "gate"
        async with Crew(tmp_path) as crew:
            job = await crew.client.submit(f"while [ ! -e {gate} ]; do sleep 0.01; done")
            while not (await crew.find_counts(job)).running:
                await asyncio.sleep(0.01)
            (worker,) = crew.program.server.foreman.reactor.workers
            worker.held.begun.clear()
            await crew.cut()
            await until_async(lambda: bool(worker.held.begun))
            assert await crew.find_counts(job) == Counts(running=1)
            gate.touch()
            await job.wait()

    run(test())


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_a_function_whose_process_never_took_it_is_given_back(tmp_path: Path) -> None:
    """It seemed to run, as its process was ready for it. The worker learns better when that dies."""

    async def test() -> None:
        async with Crew(tmp_path) as crew:
            assert await crew.client.run(nap, 0.0) == 0.0
            (pid,) = crew.worker._tasks.runner.pool.pids
            os.kill(pid, signal.SIGSTOP)
            waiting = asyncio.ensure_future(crew.client.run(nap, 0.001))
            reactor = crew.program.server.foreman.reactor
            await until_async(lambda: any(worker.held.begun for worker in reactor.workers))
            os.kill(pid, signal.SIGKILL)
            assert await waiting == 0.001
            (row, *_) = [row async for row in crew.client.jobs()]
            first, second = await crew.client.job(row.job).attempts(TaskNumber(2))
            assert first.ending is not None
            assert (first.ending.cause, second.attempt) == (Cause.RETURNED, 2)

    run(test())
