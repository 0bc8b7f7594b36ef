"""Clients that know several places: a dead one costs little, and the places of other foremen are learned."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from tests.integration.client.pretend import PretendForeman, always, in_turn
from tests.unit.client.builders import a_row
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.client import learning
from gandy.config import Address, parse_address
from gandy.core.requests import Answer, ForemanRow, JobFound, Request, RequestFailure, ShowJob
from gandy.core.roles import CrewRole
from gandy.errors import ConfigError, LinkError
from gandy.ids import JobId
from gandy.keys.crew import CrewKeys, Membership
from gandy.reach import LEARN_SECONDS, Reach, find_reach

PIN = "0" * 64
JOB = JobId(7)
RUNNING = JobFound(a_row())
NOW = 1.8e9


@asynccontextmanager
async def a_silent_peer(path: Path) -> AsyncIterator[list[bytes]]:
    """It accepts links, and never says a word, like a foreman that is stopped. Yields what each link sent."""
    heard: list[bytes] = []
    tasks: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        heard.append(await reader.read())
        writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield heard
    finally:
        server.close()
        await asyncio.gather(*filter(None, tasks))


def test_a_foreman_that_does_not_answer_is_left_for_another(tmp_path: Path) -> None:
    async def run() -> None:
        silent = tmp_path / "silent.sock"
        async with a_silent_peer(silent) as heard, PretendForeman(tmp_path / "f.sock", always(RUNNING)) as foreman:
            async with AsyncClient([f"unix:{silent}", foreman.url]) as client:
                assert str(client.address) == foreman.url
                assert await client.job(7).status() == RUNNING.row
            await until_async(lambda: len(heard) == 1)  # its link was closed

    asyncio.run(run())


def test_places_are_tried_in_order(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            PretendForeman(tmp_path / "1.sock", always(RUNNING)) as first,
            PretendForeman(tmp_path / "2.sock", always(RUNNING)) as second,
        ):
            async with AsyncClient(f"unix:{tmp_path}/none,{first.url},{second.url}") as client:
                assert str(client.address) == first.url
            assert not second.links

    asyncio.run(run())


def test_all_places_are_told_if_none_answers(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(LinkError, match=r"no foreman is running at unix:.*/a or unix:.*/b; start one"):
            await AsyncClient([f"unix:{tmp_path}/a", f"unix:{tmp_path}/b"]).connect()
        with pytest.raises(ConfigError, match="there is no key"):  # this one does not pass
            await Reach((Address("unix", f"{tmp_path}/a"), Address("tcp", "127.0.0.1", 1))).dial(lambda _: Ear())

    asyncio.run(run())


class Ear(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)


def test_a_worker_greets_one_foreman_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second HELLO, even over a link that is closed at once, would cost the first link."""
    monkeypatch.setattr("gandy.reach.STAGGER_SECONDS", 0.0)
    made: list[Address] = []

    def make(place: Address) -> Ear:
        made.append(place)
        return Ear()

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as plain:
            async with a_silent_peer(tmp_path / "1.sock"), a_silent_peer(tmp_path / "2.sock"):
                places = (
                    Address("unix", f"{tmp_path}/1.sock"),
                    Address("unix", f"{tmp_path}/2.sock"),
                    Address("plain", *plain.getsockname()),
                )
                won = await Reach(places).dial(make)
                await asyncio.sleep(0.05)  # for others, if there were any
                won.transport.abort()

    asyncio.run(run())
    assert len(made) == 1


# Learning


def a_foreman(number: int, *places: str, is_here: bool = False) -> ForemanRow:
    return ForemanRow(f"f{number}", "hut", "1", places, (number,), 0, 5.0, 0.0, False, is_here)


def test_a_client_that_stays_learns_of_others_and_goes_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "FIRST_PAUSE", 0.0)

    async def run() -> None:
        async with PretendForeman(tmp_path / "2.sock", always(RUNNING)) as second:
            async with PretendForeman(tmp_path / "1.sock", always(RUNNING)) as first:
                first.foremen = (a_foreman(1, first.url, is_here=True), a_foreman(2, second.url))
                client = AsyncClient(first.url)
                await client.connect()
                await until_async(lambda: first.times_listed == 1)
                await client.job(7).status()
            assert await client.job(7).status() == RUNNING.row
            assert str(client.address) == second.url
            await until_async(lambda: second.times_listed == 1)  # at once: who was there has changed
            await client.close()

    asyncio.run(run())


def test_a_short_command_asks_nothing_else(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            PretendForeman(tmp_path / "f.sock", always(RUNNING)) as foreman,
            AsyncClient(foreman.url) as client,
        ):
            await client.job(7).status()
        assert foreman.times_listed == 0

    asyncio.run(run())


def test_a_request_that_kills_foremen_is_not_sent_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.client.repeats.REQUEST_PATIENCE", 0.2)

    async def run() -> list[Request]:
        async with (
            PretendForeman(tmp_path / "f.sock", lambda _request: None) as foreman,
            AsyncClient(foreman.url) as client,
        ):
            with pytest.raises(LinkError, match="broke"):
                await client.job(7).status()
        return foreman.asked

    asked = asyncio.run(run())
    assert asked[0] == ShowJob(JOB)
    assert 2 <= len(asked) <= 5
    assert set(asked[1:]) == {ShowJob(JOB, again=True)}


def test_a_job_that_moves_is_asked_for_until_it_has_an_owner(tmp_path: Path) -> None:
    moved: list[Answer] = [RequestFailure("moved", "its owner is changing", retryable=True)]

    async def run() -> list[Request]:
        async with (
            PretendForeman(tmp_path / "f.sock", in_turn(moved, moved, [RUNNING])) as foreman,
            AsyncClient(foreman.url) as client,
        ):
            assert await client.job(7).status() == RUNNING.row
        return foreman.asked

    assert asyncio.run(run()) == [ShowJob(JOB), ShowJob(JOB, again=True), ShowJob(JOB, again=True)]


def a_joined_home(folder: Path, *addresses: str) -> CrewKeys:
    crew = folder / "crew"
    crew.mkdir(mode=0o700)
    return CrewKeys.save(crew, Membership(PIN, "hut", CrewRole.CLIENT, addresses), b"secret", b"certificate")


def find_saved(folder: Path) -> CrewKeys:
    found = CrewKeys.find(folder / "crew")
    assert found is not None
    return found


TCP = Address("tcp", "a", 1)


def test_places_of_foremen_are_saved_for_the_next_command(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    a_joined_home(tmp_path, "tcp://a:1", "tcp://old:1")
    reach = find_reach(None, {"GANDY_HOME": str(tmp_path)}, "linux")
    assert reach.needs_to_learn(NOW)
    reach.learn(map(parse_address, ("tcp://b:1", "unix:/x", "plain://c:1")), TCP, NOW)
    assert find_saved(tmp_path).about.addresses == ("tcp://a:1", "tcp://b:1", "tcp://old:1")
    again = find_reach(None, {"GANDY_HOME": str(tmp_path)}, "linux")
    assert [str(place) for place in again.places] == ["tcp://a:1", "tcp://b:1", "tcp://old:1"]
    assert not again.needs_to_learn(NOW + LEARN_SECONDS - 1)
    assert again.needs_to_learn(NOW + LEARN_SECONDS)
    assert again.needs_to_learn(NOW - 1)  # the clock was stepped


def test_the_foreman_of_another_crew_changes_nothing_that_is_saved(tmp_path: Path) -> None:
    """A link over a unix socket proves the user, not the crew."""
    tmp_path.chmod(0o700)
    a_joined_home(tmp_path, "tcp://a:1")
    reach = find_reach(["unix:/other"], {"GANDY_HOME": str(tmp_path)}, "linux")
    reach.learn(map(parse_address, ("tcp://b:1", "unix:/x")), Address("unix", "/other"), NOW)
    assert find_saved(tmp_path).about.addresses == ("tcp://a:1",)
    assert [str(place) for place in reach.places] == ["unix:/other", "tcp://b:1", "unix:/x"]


def test_without_keys_only_unix_sockets_are_learned() -> None:
    reach = Reach((Address("unix", "/a"), Address("ensemble", "band")))
    reach.learn(map(parse_address, ("tcp://b:1", "unix:/b", "plain://c:1")), Address("unix", "/a"), NOW)
    assert [str(place) for place in reach.places] == ["unix:/a", "unix:/b", "ensemble:band"]
    reach.learn((), Address("unix", "/a"), NOW)
    assert [str(place) for place in reach.places] == ["unix:/a", "ensemble:band"]
