"""A real worker that several real foremen share: rank and calls go across foremen."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.local_crews import run
from tests.integration.memory_foremen import Foremen, a_crew

from gandy.core.model import JobState
from gandy.foreman import main


@pytest.fixture
def foremen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foremen:
    made = Foremen(tmp_path)
    monkeypatch.setattr(main, "make_crew_store", lambda _url: made.crew)
    return made


@pytest.mark.parametrize("seconds", [0.01, 0.6], ids=["with look-ahead", "without"])
def test_a_job_of_high_priority_goes_before_jobs_of_another_foreman(foremen: Foremen, seconds: float) -> None:
    async def test() -> None:
        async with a_crew(foremen, slots=2) as (one, other):
            many = int(12 / seconds)
            low = await one.submit(f"sleep {seconds}", tasks=many)
            while not (await low.status()).counts.finished:
                await asyncio.sleep(0.01)
            high = await other.submit("true", tasks=4, priority=1)
            assert (await high.wait(10)).state is JobState.FINISHED
            before = (await low.status()).counts.finished
            assert before < many / 2
            later = await other.submit("true", tasks=1)
            await asyncio.sleep(2 * seconds)
            assert (await later.status()).counts.finished == 0
            await low.cancel()
            assert (await later.wait(10)).state is JobState.FINISHED

    run(test())


def nap(number: int) -> int:
    time.sleep(0.002)
    return -number


def test_functions_of_two_foremen_wait_in_no_slot_that_is_not_theirs(foremen: Foremen) -> None:
    """The functions of one foreman wait in slot processes behind others. A better one of the other goes before them."""

    async def test() -> None:
        async with a_crew(foremen, slots=2) as (one, other):
            low = asyncio.ensure_future(_collect(one.map(nap, range(1500))))
            await asyncio.sleep(0.3)
            for number in range(20):
                assert await other.functions(priority=1).run(nap, number) == -number
                assert not low.done()
            assert await low == [-number for number in range(1500)]

    run(test())


async def _collect(values: AsyncIterator[int]) -> list[int]:
    return [value async for value in values]


def test_a_large_task_of_another_foreman_gets_the_whole_worker(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen, slots=2) as (one, other):
            low = await one.submit("sleep 0.05", tasks=1000)
            while not (await low.status()).counts.finished:
                await asyncio.sleep(0.01)
            large = await other.submit("true", slots=2, priority=1)
            assert (await large.wait(10)).state is JobState.FINISHED
            assert (await low.status()).counts.finished < 900
            await low.cancel()

    run(test())


def test_calls_by_one_foreman_reach_a_worker_full_of_tasks_of_another(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen, slots=2) as (one, other):
            low = await one.submit("sleep 0.1", tasks=1000)
            while not (await low.status()).counts.finished:
                await asyncio.sleep(0.01)
            for client in (one, other):
                pieces = [piece async for piece in client.stream("stream", 10)]
                assert b"".join(pieces) == b"\1" * 10
            await low.cancel()

    run(test())


def test_tasks_of_two_foremen_never_use_more_slots_than_there_are(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen, slots=2) as clients:
            folder = foremen.folder
            mark = f"{folder}/run-$GANDY_JOB-$GANDY_TASK"
            line = f"mkdir {mark}; ls -d {folder}/run-* | wc -l; rmdir {mark}"
            jobs = [await client.submit(line, tasks=60) for client in clients]
            most = 0
            for job in jobs:
                assert (await job.wait(20)).state is JobState.FINISHED
                for task in range(1, 61):
                    text = b"".join([piece async for piece in job.output(task)])
                    most = max(most, int(text))
            assert most <= 2

    run(test())
