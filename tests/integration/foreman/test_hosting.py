"""Several foremen of one crew in this process, with real sockets, a real worker, and a database in memory."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.local_crews import run
from tests.integration.memory_foremen import Foremen, a_crew
from tests.waiting import until_async

from gandy.core.hosting import LEASE_SECONDS
from gandy.core.model import Counts, JobSpec, JobState, TaskState
from gandy.core.requests import DrainForeman, ForemanList, ListForemen, LookAtShards, Submit, Submitted
from gandy.core.shards import ForemanPlace
from gandy.errors import GandyError, Rejected, StoreError
from gandy.foreman import main
from gandy.foreman.clock import read_boot


@pytest.fixture
def foremen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foremen:
    made = Foremen(tmp_path)
    monkeypatch.setattr(main, "make_crew_store", lambda _url: made.crew)
    return made


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


def test_a_job_that_another_foreman_took_first_is_found_and_disturbs_no_other_request(foremen: Foremen) -> None:
    """The client came to a second foreman before the first one's commit could be seen: nothing says "again" there."""

    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            twice = Submit(JobSpec(command="true", held=True), key=77)
            first = await one.connection.ask(twice, Submitted)
            found, beside = await asyncio.gather(
                other.connection.ask(twice, Submitted), other.submit("true", held=True)
            )
            assert (found, beside.id) == (first, 3)
            assert (await other.status()).trouble == ""
            assert await other.connection.ask(twice, Submitted) == first  # now it is known there
            assert [row.job async for row in other.jobs()] == [3, 1]

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


def test_a_signal_that_comes_while_a_foreman_starts_again_stops_it(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen):
            program = foremen.programs[1]
            main.stop_on_signals(program)
            (lease,) = [each.lease for each in foremen.hosting(1).hosted.values()]
            await foremen.crew.seize(foremen.hosting(2).me.id, lease)
            await until_async(lambda: program.must_restart)
            os.kill(os.getpid(), signal.SIGTERM)
            await until_async(lambda: not program.must_restart)
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)

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


@asynccontextmanager
async def a_silent_foreman(foremen: Foremen, name: str, seconds: float) -> AsyncIterator[str]:
    """A foreman whose machine accepts links and says nothing, as one that hangs; it owns a shard. Its id."""
    foremen.folder.joinpath(name).mkdir()
    place = foremen.folder / name / "foreman.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        me = ForemanPlace(f"{name}-1", name, "1", (f"unix:{place}",), read_boot())
        await foremen.crew.beat(me, [await foremen.crew.take_new(me.id)])
        foremen.crew.let_pass(me.id, seconds)
        yield me.id


@pytest.mark.parametrize("seconds", [LEASE_SECONDS - 2.0, 60.0], ids=["just now", "long ago"])
def test_a_foreman_that_died_has_nothing_left_to_hand_over(foremen: Foremen, seconds: float) -> None:
    """The request waits until others have taken over."""

    async def test() -> None:
        async with a_crew(foremen) as (one, _), a_silent_foreman(foremen, "hut", seconds) as dead:
            shard = max(foremen.crew.shards)
            await one.drain_foreman(dead)
            rows = await one.foremen()
            assert [row.shards for row in rows if row.is_gone] == [()]
            assert [row.name for row in rows if row.is_gone] == ["hut"]
            assert any(shard in row.shards for row in rows)
            await one.drain_foreman("hut")
            await until_async(lambda: foremen.programs[1].server.standing.foremen == 2)

    run(test())


def test_a_foreman_that_lives_and_cannot_be_reached_may_be_asked_again(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, _), a_silent_foreman(foremen, "hut", 0.0) as silent:

            async def beat() -> None:
                while True:
                    foremen.crew.let_pass(silent, 0.0)
                    await asyncio.sleep(0.1)

            beating = asyncio.create_task(beat())
            with pytest.raises(GandyError, match="cannot be reached") as caught:
                await one.connection.ask(DrainForeman(silent), object)  # type: ignore[type-var]
            assert caught.value.retryable
            beating.cancel()

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
            after_any = await other.submit("true", after_any=[bad.id])
            assert "waits for job" in " ".join(await after_good.explain())
            await good.release()
            await bad.release()
            assert (await after_good.wait(10)).state is JobState.FINISHED
            assert (await after_bad.wait(10)).state is JobState.CANCELLED
            assert (await after_any.wait(10)).state is JobState.FINISHED


def test_tasks_wait_for_tasks_of_other_foremen(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            source = await one.submit("test {task} != 2", tasks=4, held=True)
            taker = await other.submit("true", tasks=4, after_each=[source.id])
            deeper = await one.submit("true", tasks=4, after_each=[taker.id])
            await source.release()
            assert (await deeper.wait(20)).state is JobState.CANCELLED
            for job in (taker, deeper):
                states = [row.state async for row in job.tasks()]
                assert states == [TaskState.FINISHED, TaskState.CANCELLED, TaskState.FINISHED, TaskState.FINISHED]
            late = await other.submit("true", tasks=4, after_each=[source.id])
            assert (await late.wait(20)).counts.cancelled == 1
            with pytest.raises(Rejected, match=f"retry those of job {source.id} first"):
                await late.retry()

    run(test())


def test_what_tasks_need_of_another_foreman_is_known_again_after_a_takeover(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            source = await one.submit("test {task} != 2", tasks=3, held=True)
            taker = await other.submit("true", tasks=3, after_each=[source.id])
            await foremen.kill(2)
            await source.release()
            assert (await one.job(taker.id).wait(20)).counts == Counts(finished=2, cancelled=1)

    run(test())
