"""How many strangers a foreman has at its door. Time cuts nobody here, so that only the number can."""

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.halls import find_port

from gandy.core.policy import Policy
from gandy.foreman import porter
from gandy.foreman.main import Doors, ForemanProgram
from gandy.keys.crew import make_client_context
from gandy.net import tls
from gandy.wire.joining import ALPN_JOIN

MOST, COUNT = 20, 60


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(porter, "MAX_STRANGERS", MOST)
    monkeypatch.setattr(porter, "JOIN_SECONDS", 600.0)
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 600.0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


@asynccontextmanager
async def a_door(home: Path) -> AsyncIterator[int]:
    home.chmod(0o700)
    program, port = ForemanProgram(str(home), "memory:", Policy()), find_port()
    await program.start(Doors(listen=(f"tcp://127.0.0.1:{port}",)))
    try:
        yield port
    finally:
        await program.stop()


async def hear_end(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await reader.read()


async def until_cut(links: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]], count: int) -> None:
    """Until so many were cut. The oldest, and those alone."""
    await asyncio.gather(*(hear_end(reader) for reader, _ in links[:count]))
    assert not any(reader.at_eof() for reader, _ in links[count:])
    for _, writer in links:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_of_a_burst_only_the_newest_stay(tmp_path: Path) -> None:
    """All of them are there before the foreman takes the first."""

    async def test() -> None:
        async with a_door(tmp_path) as port:
            links = [socket.create_connection(("127.0.0.1", port)) for _ in range(COUNT)]
            await until_cut([await asyncio.open_connection(sock=link) for link in links], COUNT - MOST)

    run(test())


def test_of_those_who_join_and_ask_nothing_only_the_newest_stay(tmp_path: Path) -> None:
    async def test() -> None:
        context = make_client_context()
        context.set_alpn_protocols([ALPN_JOIN])
        async with a_door(tmp_path) as port:
            links = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(COUNT)]
            await until_cut(links, COUNT - MOST)

    run(test())
