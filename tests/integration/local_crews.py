"""A foreman with a client, and a worker, all in this process and with real sockets."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gandy import AsyncClient, AsyncJob
from gandy.core.policy import Policy
from gandy.foreman.main import ForemanProgram, socket_address
from gandy.functions.tag import PYTHON_TAG
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.service import WorkerService


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


@asynccontextmanager
async def a_foreman_program(home: Path, store: str = "memory:") -> AsyncIterator[ForemanProgram]:
    program = ForemanProgram(str(home), store, Policy(grace=0.2))
    await program.start()
    try:
        yield program
    finally:
        await program.stop()


def a_client(home: Path) -> AsyncClient:
    return AsyncClient(str(socket_address(str(home))))


@asynccontextmanager
async def a_foreman(home: Path, store: str = "memory:") -> AsyncIterator[AsyncClient]:
    """A client of a new foreman."""
    async with a_foreman_program(home, store), a_client(home) as client:
        yield client


@asynccontextmanager
async def a_worker(home: Path, life: int = 1, slots: int = 2, **more: Any) -> AsyncIterator[None]:
    about = About(f"hut-{life}", "hut", slots, (PYTHON_TAG,))
    worker = WorkerService(Reach((socket_address(str(home)),)), about, home / "out", **more)
    working = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.stop()
        await working


async def read(job: AsyncJob, task: int = 1, stream: str = "out") -> bytes:
    return b"".join([piece async for piece in job.output(task, stream)])
