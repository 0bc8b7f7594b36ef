"""A client and a worker that only want to be left alone while others send hostile values to their foreman."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.hostile.peers import PATIENCE, a_foreman, a_worker

from gandy import AsyncClient
from gandy.core.model import JobState
from gandy.foreman.main import ForemanProgram, socket_address
from gandy.store.sqlite import SqliteStore
from gandy.worker.commands import Commands

# The promise, which a machine that does other things as well cannot keep.
PROMISE = 1.0 if os.environ.get("GANDY_QUIET_MACHINE") else PATIENCE


RUNNING_JOB = 2


class Bystanders:
    """Job 1 has ended and left output. Job 2 holds every slot until the end, and a call waits beside it."""

    def __init__(self, program: ForemanProgram, client: AsyncClient) -> None:
        self.program = program
        self.client = client
        self.slowest = 0.0  # seconds until an answer

    async def ask(self) -> None:
        """Whether the foreman still has time for us."""
        asked = time.monotonic()
        async with asyncio.timeout(PATIENCE):
            status = await self.client.status()
        assert status.trouble == ""
        self.slowest = max(self.slowest, time.monotonic() - asked)


@asynccontextmanager
async def undisturbed(home: Path) -> AsyncIterator[Bystanders]:
    """In the end no link of theirs was touched, all rows can be read, and a new foreman starts with them."""
    gate, commands, opened = home / "gate", Commands(), asyncio.Event()
    os.mkfifo(gate)

    async def wait() -> str:
        await opened.wait()
        return "well"

    commands.add(wait)
    async with (
        a_foreman(home) as program,
        AsyncClient(str(socket_address(str(home)))) as client,
        a_worker(home, "bystander", commands, reserved=1) as worker,
    ):
        await (await client.submit("echo hello")).wait()
        task = await client.submit(f"cat {gate}", slots=2)
        assert task.id == RUNNING_JOB
        call = client.call("wait")
        while (await task.status()).counts.running == 0:
            await asyncio.sleep(0)
        links = worker.conversations.all[0].link.link, await client.connection.get_link()
        bystanders = Bystanders(program, client)
        yield bystanders
        await bystanders.ask()
        assert (worker.conversations.all[0].link.link, await client.connection.get_link()) == links
        opened.set()
        assert await asyncio.wait_for(call, PATIENCE) == "well"
        async with asyncio.timeout(PATIENCE):  # it may just have begun, and must not be dead
            while not try_to_write(gate):
                await asyncio.sleep(0)
        assert (await task.wait(PATIENCE)).state is JobState.FINISHED
        (attempt,) = await task.attempts()
        assert attempt.attempt == 1
        assert not program.has_failed
        assert bystanders.slowest < PROMISE
    await read_everything(home)


def try_to_write(gate: Path) -> bool:
    """True if the peer read it."""
    try:
        descriptor = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(descriptor, "w") as file:
        file.write("done\n")
    return True


async def read_everything(home: Path) -> None:
    store = SqliteStore(home / "jobs.sqlite")
    recovered = await store.open()
    assert recovered.unreadable == ()
    before = None
    while rows := await store.list_jobs(None, 10_000, before):
        assert not any(row.problem for row in rows)
        before = rows[-1].job
    await store.close()
    async with a_foreman(home) as program:
        assert program.server.standing.trouble == ""
