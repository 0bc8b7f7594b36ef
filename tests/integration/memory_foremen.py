"""Several foremen of one crew in this process, with real sockets, a real worker, and a database in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.memory_crew import MemoryCrew

from gandy import AsyncClient
from gandy.config import parse_address
from gandy.core.policy import Policy
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
