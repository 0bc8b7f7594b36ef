"""A store that does not answer, as one that waits for a standby: users hear of it, and no new work is taken."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.integration.local_crews import a_client, a_foreman_program, run
from tests.integration.memory_foremen import Foremen, a_crew
from tests.memory_crew import MemoryCrew
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.core.model import AttemptKey, JobState
from gandy.core.records import Record
from gandy.core.shards import CrewView, ForemanPlace, Lease
from gandy.errors import StoreError
from gandy.foreman import committer, crew_member, main
from gandy.foreman import hosting as hosting_module
from gandy.store.base import Store

SILENT = "it has not answered for"


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (committer, hosting_module):
        monkeypatch.setattr(module, "STORE_PATIENCE", 0.1)
    monkeypatch.setattr(committer, "STORE_RETRY", 0.01)
    monkeypatch.setattr(hosting_module, "BEAT_PERIOD", 0.05)


class StallingStore:
    """Commits nothing until it may."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.answers = asyncio.Event()
        self.is_asked = False

    async def commit(self, records: Sequence[Record]) -> frozenset[AttemptKey]:
        self.is_asked = True
        await self.answers.wait()
        return await self._store.commit(records)

    async def prepare(self) -> None:
        await self.answers.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class StallingCrew(MemoryCrew):
    """A database that takes note of no foreman until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()
        self.jobs.prepare = self._prepare  # type: ignore[method-assign]

    async def _prepare(self) -> None:
        await self.answers.wait()

    async def beat(self, me: ForemanPlace, leases: Sequence[Lease]) -> CrewView:
        await self.answers.wait()
        return await super().beat(me, leases)

    async def leave(self, me: str) -> None:
        await self.answers.wait()
        await super().leave(me)


@pytest.fixture
def foremen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foremen:
    made = Foremen(tmp_path)
    monkeypatch.setattr(main, "make_crew_store", lambda _url: made.crew)
    return made


async def wait_for_trouble(client: AsyncClient, text: str) -> None:
    async with asyncio.timeout(20):
        while text not in (await client.status()).trouble:
            await asyncio.sleep(0.01)


async def wait_for_no_trouble(client: AsyncClient) -> None:
    async with asyncio.timeout(20):
        while (await client.status()).trouble:
            await asyncio.sleep(0.01)


def test_a_commit_that_is_not_answered_refuses_the_work_behind_it_and_is_acknowledged_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman_program(tmp_path) as program, a_client(tmp_path) as client:
            held = await client.submit("true", held=True)
            other = await client.submit("true", held=True)
            store = StallingStore(program.server.committer.store)
            program.server.committer.store = cast("Store", store)
            first = asyncio.create_task(client.submit("echo first", held=True))
            await until_async(lambda: store.is_asked)
            second = asyncio.create_task(client.submit("echo second", held=True))
            cancel = asyncio.create_task(held.cancel())
            with pytest.raises(StoreError, match=f"nothing was accepted: {SILENT}"):
                await second
            with pytest.raises(StoreError, match=f"it is done when the store works again: {SILENT}"):
                await cancel
            with pytest.raises(StoreError, match=f"no new work is accepted: {SILENT}"):
                await client.submit("echo third", held=True)
            with pytest.raises(StoreError, match=f"nothing can be changed now: {SILENT}"):
                await other.cancel()
            assert SILENT in (await client.status()).trouble
            assert SILENT in " ".join(await other.explain())
            assert not first.done()
            store.answers.set()
            job = await first
            await wait_for_no_trouble(client)
            rows = {row.job: (row.spec.command, row.state) async for row in client.jobs()}
            assert rows.pop(held.id) == ("true", JobState.CANCELLED)
            assert rows.pop(other.id) == ("true", JobState.PAUSED)
            assert rows == {job.id: ("echo first", JobState.PAUSED)}
            assert (await client.submit("echo later", held=True)).id > job.id

    run(test())


def test_a_foreman_with_nothing_to_do_says_that_the_database_does_not_answer(foremen: Foremen) -> None:
    async def test() -> None:
        crew = foremen.crew = StallingCrew()
        async with a_crew(foremen) as (one, other):
            crew.answers.clear()
            await wait_for_trouble(one, SILENT)
            with pytest.raises(StoreError, match=f"no new work is accepted: {SILENT}"):
                await one.submit("true")
            with pytest.raises(StoreError, match=SILENT):
                await one.foremen()
            crew.answers.set()
            for client in (one, other):
                await wait_for_no_trouble(client)
                assert (await (await client.submit("true")).wait(20)).state is JobState.FINISHED
            assert len(await one.foremen()) == 2

    run(test())


def test_a_foreman_with_nothing_to_do_says_that_the_database_is_away(foremen: Foremen) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, _):
            foremen.crew.trouble = "the database is away"
            await wait_for_trouble(one, "the database is away")
            foremen.crew.trouble = ""
            await wait_for_no_trouble(one)

    run(test())


def test_a_foreman_stops_although_the_database_does_not_answer(
    foremen: Foremen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew_member, "HAND_OVER_SECONDS", 0.1)
    monkeypatch.setattr(hosting_module, "LEAVE_SECONDS", 0.1)

    async def test() -> None:
        crew = foremen.crew = StallingCrew()
        async with a_crew(foremen):
            crew.answers.clear()
            async with asyncio.timeout(20):
                await foremen.programs.pop(1).stop()
            crew.answers.set()

    run(test())
