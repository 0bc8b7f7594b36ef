"""A task that cannot be started keeps neither its slot nor others."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.test_foreman import a_client, a_foreman, run

from gandy.core.model import JobState
from gandy.errors import ConfigError
from gandy.foreman.main import socket_address
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.service import WorkerService


def test_a_folder_that_cannot_be_takes_no_slot_for_good(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_foreman(tmp_path), a_client(tmp_path) as client:
            worker = WorkerService(Reach((socket_address(str(tmp_path)),)), About("id", "w", 1), tmp_path / "out")
            work = asyncio.create_task(worker.run())
            with pytest.raises(ConfigError, match="no folder can be called"):
                await client.submit(("no-such-program",), cwd="/a\0b")
            bad = await client.submit(("no-such-program",), cwd=str(tmp_path / "no such folder"))
            good = await client.submit("true")
            assert (await bad.wait(5)).state is JobState.FAILED
            assert (await good.wait(5)).state is JobState.FINISHED
            await worker.stop()
            await work

    run(test())
