"""Which key of an ensemble those get who join, and what becomes of them where there is none to give."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.free_ports import find_port

from gandy.core.policy import Policy
from gandy.core.roles import CrewRole
from gandy.errors import NotAllowed
from gandy.foreman.doors import Doors
from gandy.foreman.main import ForemanProgram
from gandy.keys.ensemble import open_ensemble_key, open_own_key, save_ensemble_key
from gandy.net.join import join

FOREIGN = b"f" * 32


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


class Site:
    """A foreman that listens, and homes for those who join it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.there = folder / "foreman", folder / "there"
        self.program = ForemanProgram(str(self.home), "memory:", Policy())
        self.address = f"tcp://127.0.0.1:{find_port()}"

    async def __aenter__(self) -> "Site":
        await self.program.start(Doors(listen=(self.address,)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.program.stop()

    async def invite(self, role: CrewRole = CrewRole.WORKER) -> str:
        return (await self.program.keys.invite(role, 60.0, 1, (self.address,)))[0]

    async def join(self, token: str) -> bytes:
        """What the newcomer has for a key."""
        await asyncio.to_thread(join, token, str(self.there))
        return open_ensemble_key(str(self.there)).secret


@pytest.fixture
def site(tmp_path: Path) -> Site:
    tmp_path.chmod(0o700)
    return Site(tmp_path)


def test_who_joins_gets_the_key_of_this_crew_and_not_of_one_that_its_foreman_joined(site: Site) -> None:
    async def test() -> None:
        async with site:
            crew = site.home / "crew"
            crew.mkdir(mode=0o700)
            save_ensemble_key(crew, FOREIGN)
            assert await site.join(await site.invite()) == open_own_key(str(site.home)).secret != FOREIGN
            assert open_ensemble_key(str(site.home)).secret == FOREIGN  # for those who work there

    run(test())


def test_an_observer_gets_no_key(site: Site) -> None:
    async def test() -> None:
        async with site:
            assert await site.join(await site.invite(CrewRole.OBSERVER)) != open_own_key(str(site.home)).secret
            assert not open_own_key(str(site.home)).is_shared

    run(test())


def test_a_key_that_cannot_be_given_costs_no_use(site: Site) -> None:
    async def test() -> None:
        async with site:
            token = await site.invite()
            path = site.home / "keys" / "ensemble.key"
            open_own_key(str(site.home))
            path.chmod(0o644)
            with pytest.raises(NotAllowed, match="cannot save keys now"):
                await site.join(token)
            path.chmod(0o600)
            assert await site.join(token) == open_own_key(str(site.home)).secret

    run(test())
