"""A store over a primary and a synchronous standby: what the standby does not have is not done."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.postgres_pair import Pair, a_pair
from tests.postgres_stores import make_crew, make_foreman, make_schema
from tests.store.builders import added, claimed
from tests.waiting import until_async

from gandy.core.model import AttemptKey
from gandy.core.records import Record
from gandy.errors import OutcomeUnknown
from gandy.ids import JobId
from gandy.store.postgres.crew import PostgresCrew
from gandy.store.postgres.shard import PostgresStore

KEY = 12_345


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with a_pair() as made:
        yield made


@asynccontextmanager
async def a_crew(pair: Pair) -> AsyncIterator[tuple[PostgresCrew, PostgresStore]]:
    """A crew, and the store of its first shard."""
    crew = make_crew(pair.url(make_schema()))
    await crew.open()
    try:
        yield crew, await open_shard(crew)
    finally:
        await crew.close()


async def open_shard(crew: PostgresCrew) -> PostgresStore:
    shard = crew.open_shard(await crew.take_new(make_foreman().id))
    await shard.open()
    return shard


async def wait_in_vain(pair: Pair, work: "asyncio.Task[Any]", before: set[int]) -> None:
    """Return when another session than those before waits for the standby. Fails if the work is done before."""
    await until_async(lambda: work.done() or bool(pair.list_waiting() - before))
    assert not work.done()


async def end_waits(pair: Pair, work: "asyncio.Task[Any]", function: str) -> None:
    """End the wait of a commit for the standby. The store must wait for it again."""
    await wait_in_vain(pair, work, set())
    before = pair.list_waiting()
    pair.end_waits(function)
    await wait_in_vain(pair, work, before)


async def commit_in_the_end(shard: PostgresStore, *records: Record) -> frozenset[AttemptKey]:
    """As a foreman does."""
    while True:
        try:
            return await shard.commit(records)
        except OutcomeUnknown:
            await asyncio.sleep(0.05)


def test_a_commit_whose_wait_for_the_standby_is_cancelled_is_not_done_yet(pair: Pair) -> None:
    async def test() -> None:
        async with a_crew(pair) as (_, shard):
            await shard.commit([added()])
            pair.standby.kill()
            commit = asyncio.create_task(shard.commit([claimed()]))
            await end_waits(pair, commit, "pg_cancel_backend")
            pair.standby.restart()
            assert await commit == frozenset()
            row = await shard.find_job(JobId(1))
            assert row is not None
            assert row.counts.assigned == 1

    asyncio.run(test())


def test_a_job_that_the_standby_does_not_have_is_not_found_by_its_key(pair: Pair) -> None:
    """Other sessions see it once the session that committed it is gone."""

    async def test() -> None:
        async with a_crew(pair) as (crew, shard):
            other = await open_shard(crew)
            await shard.commit([added(1)])
            pair.standby.kill()
            commit = asyncio.create_task(shard.commit([added(2, key=KEY)]))
            await end_waits(pair, commit, "pg_terminate_backend")
            before = pair.list_waiting()
            finding = asyncio.create_task(other.find_submission(KEY))
            await wait_in_vain(pair, finding, before)
            pair.standby.restart()
            assert await finding == 2
            assert await commit == frozenset()

    asyncio.run(test())


def test_what_only_a_lost_primary_had_is_committed_again_at_the_standby() -> None:
    async def test(pair: Pair) -> None:
        async with a_crew(pair) as (_, shard):
            await shard.commit([added()])
            pair.standby.kill()
            commit = asyncio.create_task(commit_in_the_end(shard, claimed()))
            await wait_in_vain(pair, commit, set())
            pair.fail_over()
            assert await commit == frozenset()
            row = await shard.find_job(JobId(1))
            assert row is not None
            assert row.counts.assigned == 1

    with a_pair() as pair:
        asyncio.run(test(pair))
