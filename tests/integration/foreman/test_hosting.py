"""Several foremen of one crew in this process, with real sockets, a real worker, and a database in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.local_crews import run
from tests.memory_crew import MemoryCrew
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.config import parse_address
from gandy.core.model import JobState
from gandy.core.policy import Policy
from gandy.core.requests import DrainForeman, ForemanList, ListForemen, LookAtShards
from gandy.errors import Rejected, StoreError
from gandy.foreman import main
from gandy.foreman.hosting import Hosting
from gandy.foreman.main import ForemanProgram
from gandy.functions.tag import PYTHON_TAG
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.service import WorkerService


class Foremen:
    """Foremen of one crew, by number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.crew = MemoryCrew()
        self.programs: dict[int, ForemanProgram] = {}

    def address(self, number: int) -> str:
        return f"unix:{self.folder}/f{number}/foreman.sock"

    def client(self, number: int) -> AsyncClient:
        return AsyncClient(self.address(number))

    async def start(self, number: int) -> ForemanProgram:
        program = self.programs[number] = ForemanProgram(str(self.folder / f"f{number}"), "crew:", Policy(grace=20.0))
        await program.start()
        return program

    def hosting(self, number: int) -> Hosting:
        found = self.programs[number].member
        assert found is not None
        return found.hosting

    async def kill(self, number: int) -> None:
        """End it without a word: nothing is handed over, and its sockets refuse connections."""
        member = self.programs.pop(number).member
        assert member is not None
        await member.halt()
        for each in member.hosting.hosted.values():
            await each.server.stop()

    async def stop(self) -> None:
        for program in self.programs.values():
            await program.stop()


@pytest.fixture
def foremen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foremen:
    made = Foremen(tmp_path)
    monkeypatch.setattr(main, "make_crew_store", lambda _url: made.crew)
    return made


@asynccontextmanager
async def a_crew(foremen: Foremen, count: int = 2, slots: int = 2) -> AsyncIterator[list[AsyncClient]]:
    """Clients of as many foremen, which all have a link to one worker."""
    for number in range(1, count + 1):
        await foremen.start(number)
    places = tuple(parse_address(foremen.address(number)) for number in range(1, count + 1))
    about = About("hut-1", "hut", slots, (PYTHON_TAG,), ahead=1000)
    worker = WorkerService(Reach(places), about, foremen.folder / "out")
    working = asyncio.create_task(worker.run())
    clients = [foremen.client(number) for number in range(1, count + 1)]
    try:
        for client in clients:
            await client.connect()
            while not await client.workers():
                await asyncio.sleep(0.01)
        yield clients
    finally:
        for client in clients:
            await client.close()
        await worker.stop()
        await working
        await foremen.stop()


def test_each_foreman_has_a_shard_and_all_see_all_jobs(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            mine, yours = await one.submit("echo a", tasks=3), await other.submit("echo b", tasks=3)
            assert (mine.id, yours.id) == (1, 2)
            assert foremen.crew.shard_of == {1: 1, 2: 2}
            for client in (one, other):
                for job in (mine, yours):
                    assert (await client.job(job.id).wait(10)).state is JobState.FINISHED
                assert [row.job async for row in client.jobs()] == [2, 1]

    run(test())


def test_a_request_about_a_job_of_another_foreman_is_answered_by_that_one(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            job = other.job((await one.submit("sleep 60", held=True)).id)
            assert "held" in " ".join(await job.explain())
            assert (await job.release()).held is False
            assert (await job.cancel()).state is JobState.CANCELLED
            assert (await job.wait(10)).state is JobState.CANCELLED

    run(test())


def test_what_a_killed_foreman_ran_goes_on_at_another_one(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            job = await one.submit("sleep 0.5", tasks=2)
            rest = await one.submit("true", tasks=5)
            while (await job.status()).counts.running < 2:
                await asyncio.sleep(0.01)
            await foremen.kill(1)
            for each in (job, rest):
                seen = other.job(each.id)
                assert (await seen.wait(20)).state is JobState.FINISHED
                assert {row.attempt async for row in seen.tasks()} == {1}
            assert len(foremen.crew.commits) > 1

    run(test())


def test_a_foreman_that_lost_its_shard_commits_nothing_and_starts_again(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            job = await one.submit("true", held=True)
            hosting = foremen.hosting(1)
            (lease,) = [each.lease for each in hosting.hosted.values()]
            taken = await foremen.crew.seize(foremen.hosting(2).me.id, lease)
            commits = foremen.crew.commits.count(lease)
            with pytest.raises(Exception, match=r".*"):
                await asyncio.wait_for(job.release(), 5)
            await until_async(lambda: foremen.programs[1].must_restart)
            assert foremen.crew.commits.count(lease) == commits
            foremen.hosting(2).nudge()
            assert (await other.job(job.id).status()).held
            await until_async(lambda: taken is not None and taken.shard in foremen.hosting(2).hosted)
            assert not (await other.job(job.id).release()).held
            assert (await other.job(job.id).wait(10)).state is JobState.FINISHED

    run(test())


def test_a_drained_foreman_hands_over_all_and_then_stops(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            job = await one.submit("sleep 0.3", tasks=4)
            await one.connection.ask(DrainForeman(), object)  # type: ignore[type-var]
            await asyncio.wait_for(foremen.programs[1].wait(), 10)
            await foremen.programs.pop(1).stop()
            assert (await other.job(job.id).wait(10)).state is JobState.FINISHED
            assert {row.attempt async for row in other.job(job.id).tasks()} == {1}
            found = await other.connection.ask(ListForemen(), ForemanList)
            assert [row.is_here for row in found.rows] == [True]

    run(test())


def test_another_foreman_can_be_drained_by_its_name_and_the_last_one_cannot(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            await one.connection.ask(DrainForeman(foremen.hosting(2).me.id), object)  # type: ignore[type-var]
            await asyncio.wait_for(foremen.programs[2].wait(), 10)
            await foremen.programs.pop(2).stop()
            await one.connection.ask(LookAtShards(), object)  # type: ignore[type-var]
            with pytest.raises(Rejected, match="no other foreman"):
                await one.connection.ask(DrainForeman(), object)  # type: ignore[type-var]
            with pytest.raises(Rejected, match="no foreman is called"):
                await one.connection.ask(DrainForeman("elsewhere"), object)  # type: ignore[type-var]
            del other

    run(test())


def test_nothing_is_acknowledged_while_the_database_is_away_and_then_all_goes_on(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, _):
            job = await one.submit("sleep 0.2", tasks=2)
            foremen.crew.trouble = "the database is away"
            with pytest.raises(StoreError):
                await one.submit("true")
            await asyncio.sleep(0.5)
            foremen.crew.trouble = ""
            assert (await job.wait(20)).state is JobState.FINISHED
            assert {row.attempt async for row in job.tasks()} == {1}

    run(test())


def test_jobs_wait_for_jobs_of_other_foremen(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            good, bad = await one.submit("true", held=True), await one.submit("exit 1", held=True)
            after_good = await other.submit("true", after=[good.id])
            after_bad = await other.submit("true", after=[bad.id])
            assert "waits for job" in " ".join(await after_good.explain())
            await good.release()
            await bad.release()
            assert (await after_good.wait(10)).state is JobState.FINISHED
            assert (await after_bad.wait(10)).state is JobState.CANCELLED

    run(test())
