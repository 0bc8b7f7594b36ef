"""Foremen that know of each other's machines only what the network shows: all their links are TLS, with keys."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.free_ports import find_port
from tests.integration.local_crews import run
from tests.memory_crew import MemoryCrew
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.config import parse_address
from gandy.core.model import JobState
from gandy.core.policy import Policy
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, NotAllowed
from gandy.foreman import crew_member, main
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram
from gandy.functions.tag import PYTHON_TAG
from gandy.keys.crew import CrewKeys
from gandy.net.join import join
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.service import WorkerService


class Site:
    """A crew of machines, each with a home below one folder."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        self.folder = folder
        self.crew = MemoryCrew()
        self.programs: dict[str, ForemanProgram] = {}
        self.urls: dict[str, str] = {}

    async def start(self, name: str) -> ForemanProgram:
        self.urls[name] = f"tcp://127.0.0.1:{find_port()}"
        program = ForemanProgram(str(self.folder / name), "postgresql:", Policy(grace=20.0))
        await program.start(Doors(listen=(self.urls[name],)))
        self.programs[name] = program
        return program

    async def admit(self, role: CrewRole, name: str, at: str) -> CrewKeys:
        token, _ = await self.programs[at].keys.invite(role, 60.0, 1, (self.urls[at],))
        home = self.folder / name
        home.mkdir(mode=0o700, exist_ok=True)
        return await asyncio.to_thread(join, token, str(home), name)

    async def revoke(self, name: str, at: str) -> None:
        async with AsyncClient(f"unix:{self.folder / at / 'foreman.sock'}") as owner:
            await owner.revoke_key(name)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    machines = count()
    monkeypatch.setattr(main, "make_crew_store", lambda _url: made.crew)
    monkeypatch.setattr(crew_member, "read_boot", lambda: f"machine {next(machines)}")
    return made


@asynccontextmanager
async def two_foremen(site: Site) -> AsyncIterator[None]:
    await site.start("first")
    await site.admit(CrewRole.FOREMAN, "second", at="first")
    await site.start("second")
    try:
        yield
    finally:
        for program in site.programs.values():
            await program.stop()


@asynccontextmanager
async def a_worker(site: Site, name: str, at: str) -> AsyncIterator[None]:
    keys = await site.admit(CrewRole.WORKER, name, at)
    about = About(f"{name}-1", name, 2, (PYTHON_TAG,), ahead=1000)
    worker = WorkerService(Reach((parse_address(site.urls[at]),), keys), about, site.folder / name / "out")
    working = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.stop()
        await working


def connect(site: Site, keys: CrewKeys, at: str, monkeypatch: pytest.MonkeyPatch) -> AsyncClient:
    monkeypatch.setenv("GANDY_HOME", str(keys.folder.parent))
    return AsyncClient(site.urls[at])


def test_work_and_requests_cross_machines(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with two_foremen(site), a_worker(site, "hut", at="first"):
            anna = await site.admit(CrewRole.CLIENT, "anna", at="first")
            async with (
                connect(site, anna, "first", monkeypatch) as one,
                connect(site, anna, "second", monkeypatch) as other,
            ):
                for here, there in ((one, other), (other, one)):
                    job = await here.submit("true", tasks=3)
                    assert (await there.job(job.id).wait(20)).state is JobState.FINISHED
                    held = there.job((await here.submit("true", held=True)).id)
                    assert (await held.cancel()).state is JobState.CANCELLED  # the owner of the job did that

    run(test())


def test_links_of_a_key_are_counted_in_the_whole_crew(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def count_links(at: str) -> dict[str, int]:
        async with AsyncClient(f"unix:{site.folder / at / 'foreman.sock'}") as owner:
            return {row.name: row.links for row in await owner.keys()}

    async def test() -> None:
        async with two_foremen(site), a_worker(site, "hut", at="first"):
            anna = await site.admit(CrewRole.CLIENT, "anna", at="first")
            async with connect(site, anna, "second", monkeypatch) as client:
                await client.status()
                for at in ("first", "second"):
                    while (links := await count_links(at))["hut"] != 2:  # one to each shard
                        await asyncio.sleep(0.01)
                    assert links["anna"] == 1

    run(test())


def test_a_revoked_key_loses_its_links_to_all_foremen(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each other foreman is told at once: no beat comes in this test."""
    monkeypatch.setattr("gandy.foreman.hosting.BEAT_PERIOD", 600.0)

    async def test() -> None:
        async with two_foremen(site):
            anna = await site.admit(CrewRole.CLIENT, "anna", at="first")
            async with connect(site, anna, "second", monkeypatch) as client:
                await client.status()
                server = site.programs["second"].server
                assert server.foreman.links.list_by_key(anna.fingerprint)
                await site.revoke("anna", at="first")
                await until_async(lambda: not server.foreman.links.list_by_key(anna.fingerprint))
                with pytest.raises(NotAllowed, match="revoked"):
                    await client.status()

    run(test())


def test_a_foreman_whose_key_is_revoked_stops(site: Site) -> None:
    async def test() -> None:
        async with two_foremen(site):
            second = site.programs["second"]
            await site.revoke("second", at="first")
            await asyncio.wait_for(second.wait(), 10)
            assert second.has_failed
            await site.programs.pop("second").stop()
            with pytest.raises(ConfigError, match="the key of this foreman was revoked"):
                await site.start("second")

    run(test())
