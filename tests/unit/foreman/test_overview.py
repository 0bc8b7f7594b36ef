"""What people are shown of jobs whose tasks wait on a worker."""

import asyncio
from random import Random

from msgspec.structs import astuple

from gandy.core.effects import Effect, Give
from gandy.core.foreman import Batch
from gandy.core.model import Cause, Counts, Ending, JobSpec, TaskState
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.workers import WorkerInfo
from gandy.foreman.overview import Overview
from gandy.ids import JobId, TaskNumber
from gandy.store.memory import MemoryStore

JOB = JobId(1)
SLOTS = 2
QUICK = Ending(cause=Cause.EXIT, exit_code=0, started=1.0, ended=1.001)
RUNNING, WAITING, FINISHED = TaskState.RUNNING, TaskState.WAITING, TaskState.FINISHED


class Shop:
    """A job of seven tasks and a worker with two slots, which has six of them: one is done, five it holds."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.reactor = Reactor(Policy(look_ahead=1.0, first_pace=0.0))
        self.overview = Overview(self.store, self.reactor)

    async def open(self) -> None:
        await self.store.open()
        await self.do(self.reactor.on_hello(WorkerInfo("w", "w", SLOTS, ahead=3), [], 0.0))
        await self.do(self.reactor.submit(JobSpec(command="true", tasks=7), 0.0)[1])
        first = next(iter(self.reactor.workers)).held
        await self.do(self.reactor.on_results("w", [(next(iter(first)), QUICK)], 2.0))

    async def do(self, effects: list[Effect]) -> None:
        batch = Batch()
        batch.add(effects + self.reactor.dispatch(2.0))
        await self.store.commit(batch.records)
        for send in batch.sends:
            if isinstance(send, Give):
                self.reactor.on_given(send.worker, [given.attempt for given in send.assignments], 2.0)

    async def list_tasks(self, *states: TaskState, limit: int = 100, after: int = 0) -> list[tuple[int, TaskState]]:
        rows = await self.overview.list_tasks(JOB, frozenset(states) or None, limit, TaskNumber(after))
        return [(row.task, row.state) for row in rows]


def test_what_waits_on_a_worker_is_not_shown_as_running() -> None:
    async def go() -> None:
        shop = Shop()
        await shop.open()
        stored = await shop.store.find_job(JOB)
        assert stored is not None
        assert stored.counts == Counts(finished=1, running=5, waiting=1)
        shown = await shop.overview.find_job(JOB)
        assert shown is not None
        assert shown.counts == Counts(finished=1, running=2, waiting=4)
        assert await shop.overview.list_jobs(None, 10, None) == [shown]
        assert await shop.overview.find_job(JobId(9)) is None
        states = [FINISHED, RUNNING, RUNNING, WAITING, WAITING, WAITING, WAITING]
        assert await shop.list_tasks() == list(enumerate(states, 1))
        (attempt,) = await shop.overview.list_attempts(JOB, TaskNumber(5))
        assert (attempt.state, attempt.worker) == (WAITING, "w")

    asyncio.run(go())


def test_tasks_are_listed_by_the_states_that_are_shown() -> None:
    async def go() -> None:
        shop = Shop()
        await shop.open()
        assert await shop.list_tasks(RUNNING) == [(2, RUNNING), (3, RUNNING)]
        assert await shop.list_tasks(WAITING) == [(task, WAITING) for task in (4, 5, 6, 7)]
        assert await shop.list_tasks(WAITING, limit=2) == [(4, WAITING), (5, WAITING)]
        assert await shop.list_tasks(WAITING, limit=2, after=5) == [(6, WAITING), (7, WAITING)]
        assert await shop.list_tasks(RUNNING, WAITING, limit=3) == [(2, RUNNING), (3, RUNNING), (4, WAITING)]
        assert await shop.list_tasks(FINISHED) == [(1, FINISHED)]
        rows = await shop.overview.list_tasks(JobId(9), frozenset({RUNNING}), 10, TaskNumber(0))
        assert rows == []

    asyncio.run(go())


def test_never_more_run_than_there_are_slots_however_far_the_store_is_behind() -> None:
    """The reactor decides while the store still writes what was decided before."""

    async def go(seed: int) -> None:
        shop, chance = Shop(), Random(seed)
        await shop.open()
        await shop.do(shop.reactor.submit(JobSpec(command="true", tasks=40), 0.0)[1])
        behind: list[Effect] = []
        while shop.reactor.jobs:
            held = list(next(iter(shop.reactor.workers)).held)
            over = held[: chance.randint(1, 5)]
            behind += shop.reactor.on_results("w", [(attempt, QUICK) for attempt in over], 2.0)
            behind += shop.reactor.dispatch(2.0)
            if chance.random() < 0.3:
                await shop.do(behind)
                behind = []
            jobs = await shop.overview.list_jobs(None, 10, None)
            tasks = [row for job in jobs for row in await shop.overview.list_tasks(job.job, None, 100, TaskNumber(0))]
            assert sum(job.counts.running for job in jobs) <= SLOTS
            assert sum(row.state is RUNNING for row in tasks) <= SLOTS
            assert [sum(astuple(job.counts)) for job in jobs] == [40, 7]

    for seed in range(20):
        asyncio.run(go(seed))
